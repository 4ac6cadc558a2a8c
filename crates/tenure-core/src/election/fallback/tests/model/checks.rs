//! Searches through all states.

use super::std::{self, println};
use alloc::string::String;

use stateright::{Checker, HasDiscoveries, Model as _};

use super::bounds::*;
use super::state::Left;

/// Checks all states within the bounds. Returns the number of states, or a violation and the path
/// to it as text.
pub(super) fn check(bounds: Bounds, sometimes: &[&str]) -> Result<usize, String> {
    let began = std::time::Instant::now();
    let search = bounds.checker().threads(2);
    let search = search.finish_when(HasDiscoveries::AnyFailures);
    let checker = search.spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states in {:.1?}: {bounds:?}", began.elapsed());
    for name in [ONE_LEADER, OWN_EPOCH, INCREASE, FINAL] {
        if let Some(path) = checker.discovery(name) {
            let mut words = alloc::format!("broken: {name}\n");
            for (number, step) in path.into_actions().into_iter().enumerate() {
                words += &alloc::format!("{:>3}. {step}\n", number + 1);
            }
            return Err(words);
        }
    }
    for name in ALL {
        let is_found = checker.discovery(name).is_some();
        println!(
            "    {}: {name}",
            if is_found { "found" } else { "not found" }
        );
        assert!(is_found || !sometimes.contains(name), "not found: {name}");
    }
    Ok(states)
}

/// No event but the arrival of messages and the passage of time.
const NONE: Left = Left {
    votes: 0,
    campaigns: 0,
    rounds: 0,
    requests: 0,
    losses: 0,
    crashes: 0,
    store_restarts: 0,
    disconnections: 0,
    task_ends: 0,
};

/// Two candidates at the store.
pub(super) const STORE: Left = Left {
    campaigns: 2,
    ..NONE
};

/// One candidate at the store and one among the members, which may be the same one.
pub(super) const EACH: Left = Left {
    votes: 1,
    campaigns: 1,
    ..NONE
};

/// Candidates among the members alone.
pub(super) const VOTES: Left = Left { votes: 2, ..NONE };

/// Three members, of which one is enough beside the store.
pub(super) const THREE_1: Bounds = Bounds {
    members: 3,
    quorums: (1, 3),
    ticks: 2,
    lease: 1,
    promise: 1,
    events: EACH,
    without: &[],
    without_in_store: None,
};

/// Three members, of which two are necessary beside the store.
pub(super) const THREE_2: Bounds = Bounds {
    quorums: (2, 2),
    ..THREE_1
};

/// Four members, of which two are necessary beside the store.
pub(super) const FOUR: Bounds = Bounds {
    members: 4,
    quorums: (2, 3),
    ticks: 1,
    ..THREE_1
};

/// Returns the same bounds with leases of two ticks.
pub(super) const fn long(bounds: Bounds, ticks: u8) -> Bounds {
    Bounds {
        ticks,
        lease: 2,
        promise: 2,
        ..bounds
    }
}

/// Bounds with this number of ticks, and with these events beside those of [`EACH`].
macro_rules! bounds {
    ($of:expr, $ticks:expr $(, $event:ident: $count:expr)*) => {
        Bounds {
            ticks: $ticks,
            events: Left { $($event: $count,)* ..EACH },
            ..$of
        }
    };
}

/// Returns the same bounds with these events.
pub(super) const fn with(bounds: Bounds, events: Left) -> Bounds {
    Bounds { events, ..bounds }
}

/// A leader that no longer hears of the store, and hears of it again.
const STORE_AWAY: Left = Left {
    requests: 1,
    losses: 1,
    ..EACH
};

/// Bounds with all kinds of events, and what each of them must contain.
#[rustfmt::skip]
const SOME: &[(Bounds, &[&str])] = &[
    (with(THREE_1, STORE), &[SECOND_TERM]),
    (THREE_1, &[SECOND_TERM, TAKEN]),
    (THREE_2, &[SECOND_TERM, TAKEN, TAKEN_AGAIN]),
    (FOUR, &[SECOND_TERM, TAKEN]),
    (long(with(THREE_1, STORE_AWAY), 2), ALL),
    (bounds!(THREE_1, 1, crashes: 1), &[SECOND_TERM]),
    (bounds!(THREE_2, 0, crashes: 1), &[TAKEN]),
    (bounds!(THREE_1, 2, store_restarts: 1), &[SECOND_TERM, TAKEN_AGAIN]),
    (
        bounds!(THREE_1, 2, votes: 0, campaigns: 2, requests: 1, losses: 1, disconnections: 1),
        &[SECOND_TERM],
    ),
    (bounds!(THREE_1, 2, task_ends: 1), &[SECOND_TERM, TAKEN]),
];

const ALL: &[&str] = &[SECOND_TERM, STORE_LOST, STORE_FOUND, TAKEN, TAKEN_AGAIN];

/// Large bounds that take minutes. `cargo nextest run --release -p tenure-core --run-ignored
/// only fallback --no-capture` prints the number of states.
#[rustfmt::skip]
const MANY: &[(Bounds, &[&str])] = &[
    (bounds!(THREE_1, 1, campaigns: 3), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 2, campaigns: 2), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 2, votes: 2), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 1, campaigns: 2, task_ends: 1), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 2, crashes: 1), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 1, crashes: 1, store_restarts: 1), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_1, 1, requests: 1, losses: 1, crashes: 1), &[SECOND_TERM, TAKEN]),
    (
        bounds!(THREE_1, 1, rounds: 1, requests: 1, losses: 1, disconnections: 1, task_ends: 1),
        &[SECOND_TERM, TAKEN],
    ),
    (long(with(THREE_1, STORE_AWAY), 3), ALL),
    (long(bounds!(THREE_1, 2, requests: 1, losses: 1, store_restarts: 1), 2), ALL),
    (long(bounds!(THREE_1, 2, requests: 1, losses: 1, crashes: 1), 2), ALL),
    (bounds!(THREE_2, 1, crashes: 1), &[SECOND_TERM, TAKEN]),
    (bounds!(THREE_2, 1, campaigns: 2), &[SECOND_TERM, TAKEN]),
    (long(THREE_2, 3), &[SECOND_TERM, TAKEN]),
    (long(with(THREE_2, STORE_AWAY), 2), &[SECOND_TERM, TAKEN]),
    (bounds!(FOUR, 2), &[SECOND_TERM, TAKEN]),
    (bounds!(FOUR, 1, votes: 2), &[SECOND_TERM, TAKEN]),
    (bounds!(FOUR, 1, store_restarts: 1), &[SECOND_TERM, TAKEN]),
    (bounds!(FOUR, 0, crashes: 1), &[TAKEN]),
];

fn all(bounds: &[(Bounds, &[&str])]) {
    for &(bounds, sometimes) in bounds {
        if let Err(broken) = check(bounds, sometimes) {
            panic!("{bounds:?}: {broken}");
        }
    }
}

#[test]
fn a_group_with_a_store_keeps_its_promises_in_every_order_of_events() {
    all(SOME);
}

#[test]
#[ignore = "takes minutes and some gigabytes"]
fn a_group_with_a_store_keeps_its_promises_in_many_more_orders() {
    all(MANY);
}
