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
    for name in [SECOND_TERM, STORE_LOST, STORE_FOUND, TAKEN, TAKEN_AGAIN] {
        let is_found = checker.discovery(name).is_some();
        println!(
            "    {}: {name}",
            if is_found { "found" } else { "not found" }
        );
        assert!(is_found || !sometimes.contains(&name), "not found: {name}");
    }
    Ok(states)
}

pub(super) const NONE: Left = Left {
    votes: 0,
    campaigns: 0,
    rounds: 0,
    requests: 0,
    losses: 0,
    crashes: 0,
    store_restarts: 0,
    disconnections: 0,
    resignations: 0,
};

/// Three members, of which one is enough beside the store.
pub(super) const THREE_1: Bounds = Bounds {
    members: 3,
    quorums: (1, 3),
    ticks: 2,
    lease: 1,
    promise: 1,
    events: NONE,
    without: None,
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
    ..THREE_1
};

fn all(bounds: &[(Bounds, &[&str])]) {
    for &(bounds, sometimes) in bounds {
        if let Err(broken) = check(bounds, sometimes) {
            panic!("{bounds:?}: {broken}");
        }
    }
}

#[test]
fn two_candidates_at_the_store() {
    all(&[
        (
            Bounds {
                events: Left {
                    campaigns: 2,
                    ..NONE
                },
                ..THREE_1
            },
            &[SECOND_TERM],
        ),
        (
            Bounds {
                events: Left {
                    campaigns: 2,
                    ..NONE
                },
                ..THREE_2
            },
            &[SECOND_TERM],
        ),
        (
            Bounds {
                events: Left {
                    campaigns: 1,
                    votes: 1,
                    ..NONE
                },
                ..THREE_1
            },
            &[SECOND_TERM],
        ),
        (
            Bounds {
                events: Left {
                    campaigns: 1,
                    votes: 1,
                    ..NONE
                },
                ..THREE_2
            },
            &[SECOND_TERM],
        ),
    ]);
}

#[test]
#[ignore]
fn adhoc() {
    let Ok(text) = std::env::var("FB") else {
        return;
    };
    for line in text.split(';') {
        let words: std::vec::Vec<&str> = line.split_whitespace().collect();
        let mut bounds = match words[0] {
            "31" => THREE_1,
            "32" => THREE_2,
            "42" => FOUR,
            "41" => Bounds {
                quorums: (1, 4),
                ..FOUR
            },
            "33" => Bounds {
                quorums: (3, 1),
                ..THREE_1
            },
            "43" => Bounds {
                quorums: (3, 2),
                ..FOUR
            },
            _ => panic!(),
        };
        for word in &words[1..] {
            let (key, value) = word.split_once('=').unwrap();
            if key == "w" {
                use crate::bully::DisabledRule::*;
                use crate::lease::DisabledLeaseRule as L;
                bounds.without = [
                    Intersection,
                    MembersBesideStore,
                    CountFromStoreRequest,
                    ClaimUnbound,
                    ClaimAbovePromise,
                    StorePromiseEnds,
                    DurablePromise,
                    Quarantine,
                    Promise,
                    Majority,
                    CountFromRequest,
                    CountFromRound,
                    ReleaseOwn,
                ]
                .into_iter()
                .find(|it| alloc::format!("{it:?}") == value);
                bounds.without_in_store = [L::EpochPassed, L::ReleaseIsFinal]
                    .into_iter()
                    .find(|it| alloc::format!("{it:?}") == value);
                assert!(bounds.without.is_some() || bounds.without_in_store.is_some());
                continue;
            }
            let value: u8 = value.parse().unwrap();
            let e = &mut bounds.events;
            match key {
                "t" => bounds.ticks = value,
                "l" => {
                    bounds.lease = value;
                    bounds.promise = value
                }
                "p" => bounds.promise = value,
                "v" => e.votes = value,
                "c" => e.campaigns = value,
                "r" => e.rounds = value,
                "q" => e.requests = value,
                "x" => e.losses = value,
                "C" => e.crashes = value,
                "S" => e.store_restarts = value,
                "d" => e.disconnections = value,
                "R" => e.resignations = value,
                _ => panic!(),
            }
        }
        match check(bounds, &[]) {
            Ok(_) => {}
            Err(why) => println!("{why}"),
        }
    }
}
