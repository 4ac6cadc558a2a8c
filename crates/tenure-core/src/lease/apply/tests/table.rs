//! The complete table of operations and states.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

/// The effect of each operation in each state, by the rules of Azure Blob leases.
///
/// For an accepted operation a cell shows the change, the lease id that holds the lease afterwards,
/// and the remaining time. A rejection, which leaves the lease as it is, has an exclamation mark.
/// "a" is the lease id that holds or held the lease; "b" and "c" are others. [`reach`] produces the
/// states: in "fixed" and "infinite", "a" has held the lease for 20 s; the fixed lease has 40 s
/// left and the breaking one 20 s. The epoch of "a" is 1000.
const AZURE: &str = "
               | new           | released      | fixed         | infinite      | breaking      | broken        | expired
acquire a 30 s | granted a 30s | granted a 30s | renewed a 30s | renewed a 30s | !Breaking     | granted a 30s | granted a 30s
acquire a inf  | granted a inf | granted a inf | renewed a inf | renewed a inf | !Breaking     | granted a inf | granted a inf
acquire b 30 s | granted b 30s | granted b 30s | !Held         | !Held         | !Held         | granted b 30s | granted b 30s
break          | !NotHeld      | !NotHeld      | breaking a 40s| broken        | breaking a 20s| broken        | broken
break 0 s      | !NotHeld      | !NotHeld      | broken        | broken        | broken        | broken        | broken
break 5 s      | !NotHeld      | !NotHeld      | breaking a 5s | breaking a 5s | breaking a 5s | broken        | broken
break 50 s     | !NotHeld      | !NotHeld      | breaking a 40s| breaking a 50s| breaking a 20s| broken        | broken
change a to b  | !NotHeld      | !NotHeld      | changed b 40s | changed b inf | !Breaking     | !NotHeld      | !NotHeld
change b to a  | !NotHeld      | !NotHeld      | changed a 40s | changed a inf | !IdMismatch   | !NotHeld      | !NotHeld
change b to c  | !NotHeld      | !NotHeld      | !IdMismatch   | !IdMismatch   | !IdMismatch   | !NotHeld      | !NotHeld
renew a        | !IdMismatch   | !IdMismatch   | renewed a 60s | renewed a inf | !Broken       | !Broken       | renewed a 60s
renew b        | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch
release a      | !IdMismatch   | !IdMismatch   | released      | released      | released      | released      | released
release b      | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch
hand a to b    | !IdMismatch   | !IdMismatch   | handed over   | handed over   | !Breaking     | !Broken       | !Expired
hand b to b    | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch
describe a     | !IdMismatch   | !IdMismatch   | described     | described     | !Breaking     | !Broken       | !Expired
describe b     | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch   | !IdMismatch
resume a 900   | granted a 30s | !EpochPassed  | !EpochPassed  | !EpochPassed  | !Breaking     | !Broken       | !EpochPassed
resume a 1000  | granted a 30s | !IdRetired    | resumed a 60s | resumed a inf | !Breaking     | !Broken       | resumed a 60s
resume a 2000  | granted a 30s | granted a 30s | !Held         | !Held         | !Breaking     | !Broken       | granted a 30s
resume b 900   | granted b 30s | !EpochPassed  | !Held         | !Held         | !Held         | !EpochPassed  | !EpochPassed
resume b 1000  | granted b 30s | !EpochPassed  | !Held         | !Held         | !Held         | !EpochPassed  | !EpochPassed
resume b 2000  | granted b 30s | granted b 30s | !Held         | !Held         | !Held         | granted b 30s | granted b 30s
";

/// The cells in which the native rules differ. There are no others.
const NATIVE_DIFFERS: [(&str, &str, &str); 11] = [
    ("acquire a 30 s", "fixed", "renewed a 60s"),
    ("acquire a 30 s", "infinite", "renewed a inf"),
    ("acquire a 30 s", "released", "!IdRetired"),
    ("acquire a 30 s", "broken", "!IdRetired"),
    ("acquire a 30 s", "expired", "!IdRetired"),
    ("acquire a inf", "released", "!IdRetired"),
    ("acquire a inf", "broken", "!IdRetired"),
    ("acquire a inf", "expired", "!IdRetired"),
    ("renew a", "expired", "!Expired"),
    ("resume a 2000", "released", "!IdRetired"),
    ("resume a 2000", "expired", "!IdRetired"),
];

#[test]
fn azure_rules_match_the_documented_table() {
    for (operation, state, expected) in cells() {
        let cell = format!("{operation} in state {state}");
        assert_eq!(outcome(Rules::AZURE, state, operation), expected, "{cell}");
    }
}

#[test]
fn native_rules_differ_in_these_cells_and_in_no_others() {
    let mut differing = 0;
    for (operation, state, of_azure) in cells() {
        let differs = NATIVE_DIFFERS
            .iter()
            .find(|&&(o, s, _)| (o, s) == (operation, state));
        differing += usize::from(differs.is_some());
        let expected = differs.map_or(of_azure, |&(_, _, expected)| expected);
        let cell = format!("{operation} in state {state}");
        assert_eq!(outcome(Rules::NATIVE, state, operation), expected, "{cell}");
    }
    assert_eq!(differing, NATIVE_DIFFERS.len());
}

/// Returns the table as (operation, state, cell).
fn cells() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut rows = AZURE.trim_matches('\n').lines().map(|line| {
        let mut cells = line.split('|').map(str::trim);
        (cells.next().unwrap(), cells.collect::<Vec<_>>())
    });
    let (_, states) = rows.next().unwrap();
    rows.flat_map(|(operation, cells)| {
        assert_eq!(cells.len(), states.len(), "{operation}");
        let states = states.clone();
        states
            .into_iter()
            .zip(cells)
            .map(move |(state, cell)| (operation, state, cell))
    })
    .collect()
}

/// Creates a lease in this state by real operations. The last acquire was at least 20 s ago.
fn reach(rules: Rules, state: &str) -> Lease {
    let mut lease = Lease::with(rules);
    if state == "new" {
        return lease;
    }
    let infinite = state == "infinite";
    let duration = if infinite {
        LeaseDuration::Infinite
    } else {
        fixed(60)
    };
    lease.accept(&acquire('a', duration));
    lease.go_to(20);
    let expected = match state {
        "fixed" | "infinite" => State::Leased,
        "released" => {
            lease.accept(&release('a'));
            State::Available
        }
        "breaking" => {
            lease.accept(&break_within(30));
            lease.go_to(30);
            State::Breaking
        }
        "broken" => {
            lease.accept(&break_within(30));
            lease.go_to(50);
            State::Broken
        }
        "expired" => {
            lease.go_to(60);
            State::Expired
        }
        other => panic!("no such state: {other}"),
    };
    assert_eq!(lease.state(), expected);
    lease
}

/// Applies `operation` in `state`, and describes the result in the words of the table.
fn outcome(rules: Rules, state: &str, operation: &str) -> String {
    let mut lease = reach(rules, state);
    let before = (lease.state(), lease.record.last_epoch());
    match lease.apply(&parse(operation)) {
        Err(rejection) => {
            assert_eq!((lease.state(), lease.record.last_epoch()), before);
            let name = format!("{rejection:?}");
            let end = name.find([' ', '{']).unwrap_or(name.len());
            format!("!{}", &name[..end])
        }
        Ok(applied) => {
            let (word, state) = match applied.change {
                Change::Granted(epoch) => {
                    assert!(Some(epoch) > before.1 && lease.record.last_epoch() == Some(epoch));
                    ("granted", State::Leased)
                }
                Change::Renewed(epoch) => {
                    assert_eq!(
                        (Some(epoch), lease.record.last_epoch()),
                        (before.1, before.1)
                    );
                    ("renewed", State::Leased)
                }
                Change::Resumed(epoch) => {
                    assert_eq!(
                        (Some(epoch), lease.record.last_epoch()),
                        (before.1, before.1)
                    );
                    ("resumed", State::Leased)
                }
                Change::Changed => ("changed", State::Leased),
                Change::Released => ("released", State::Available),
                Change::HandedOver => ("handed over", State::Available),
                Change::Breaking(left) => {
                    assert_eq!(left, lease.left());
                    ("breaking", State::Breaking)
                }
                Change::Broken => ("broken", State::Broken),
                Change::MetadataSet => {
                    let shown = lease.record.metadata(lease.now);
                    assert_eq!(shown, Some(&metadata("new")));
                    return "described".to_string();
                }
                Change::Verified { .. } => panic!("the table has no such operation"),
            };
            assert_eq!(lease.state(), state, "after {word}");
            describe(word, &lease)
        }
    }
}

/// Formats the change, the lease id that holds the lease, and the remaining time.
fn describe(word: &str, lease: &Lease) -> String {
    let Some(grant) = lease.record.held(lease.now) else {
        return word.to_string();
    };
    let name = ['a', 'b', 'c']
        .into_iter()
        .find(|&n| id(n) == grant.lease_id);
    let name = name.unwrap();
    match lease.record.remaining(lease.now).unwrap() {
        LeaseDuration::Infinite => format!("{word} {name} inf"),
        LeaseDuration::Fixed(left) => format!("{word} {name} {left:?}"),
    }
}

fn parse(operation: &str) -> Operation {
    match operation {
        "acquire a 30 s" => acquire('a', fixed(30)),
        "acquire a inf" => acquire('a', LeaseDuration::Infinite),
        "acquire b 30 s" => acquire('b', fixed(30)),
        "break" => Operation::Break(None),
        "break 0 s" => break_within(0),
        "break 5 s" => break_within(5),
        "break 50 s" => break_within(50),
        "change a to b" => change('a', 'b'),
        "change b to a" => change('b', 'a'),
        "change b to c" => change('b', 'c'),
        "resume a 900" => resume('a', 900),
        "resume a 1000" => resume('a', 1_000),
        "resume a 2000" => resume('a', 2_000),
        "resume b 900" => resume('b', 900),
        "resume b 1000" => resume('b', 1_000),
        "resume b 2000" => resume('b', 2_000),
        "renew a" => renew('a'),
        "renew b" => renew('b'),
        "release a" => release('a'),
        "release b" => release('b'),
        "hand a to b" => hand_over('a', 'b', 10),
        "hand b to b" => hand_over('b', 'b', 10),
        "describe a" => Operation::SetMetadata(id('a'), metadata("new")),
        "describe b" => Operation::SetMetadata(id('b'), metadata("new")),
        other => panic!("no such operation: {other}"),
    }
}
