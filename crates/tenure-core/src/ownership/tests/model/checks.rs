//! Searches through all states.

use super::std::{self, println};
use alloc::format;
use alloc::string::String;

use stateright::{Checker, HasDiscoveries, Model as _};

use super::events::*;
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
    for name in [ONE, CONTENT, KEPT, RULES] {
        if let Some(path) = checker.discovery(name) {
            let mut words = format!("broken: {name}\n");
            for (number, step) in path.into_actions().into_iter().enumerate() {
                words += &format!("{:>3}. {step:?}\n", number + 1);
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

/// No event but calls and the passage of time.
pub(super) const NONE: Left = Left {
    losses: 0,
    failures: 0,
    batches: 0,
    restarts: 0,
    hand_overs: 0,
    lost_ticks: 0,
};

/// Two servers with an ownership duration of three ticks.
pub(super) const TWO: Bounds = Bounds {
    ownership: &[3, 3],
    ticks: 3,
    events: NONE,
    lost_ticks_each: 1,
    compares: true,
};

pub(super) const fn with(events: Left, ticks: u8, bounds: Bounds) -> Bounds {
    Bounds {
        events,
        ticks,
        ..bounds
    }
}

/// Three servers.
const THREE: Bounds = Bounds {
    ownership: &[3, 3, 3],
    ..TWO
};

/// Two servers that were configured differently.
const UNEQUAL: Bounds = Bounds {
    ownership: &[4, 2],
    ..TWO
};

const LOSS: Left = Left { losses: 1, ..NONE };

const LOST_ANSWER: Left = Left {
    losses: 1,
    batches: 1,
    ..NONE
};

const LOST_TICK: Left = Left {
    lost_ticks: 1,
    ..NONE
};

const FAILURE: Left = Left {
    losses: 1,
    failures: 1,
    batches: 2,
    ..NONE
};

const RESTART: Left = Left {
    restarts: 1,
    ..NONE
};

const HAND_OVER: Left = Left {
    hand_overs: 1,
    batches: 1,
    ..NONE
};

/// Bounds with all kinds of events, and what each of them must contain.
const SOME: &[(Bounds, &[&str])] = &[
    (with(NONE, 3, TWO), &[BY_TIME, DEPOSED, RESUMED]),
    (with(LOST_TICK, 3, TWO), &[BY_TIME]),
    (UNEQUAL, &[]),
    (with(LOSS, 3, TWO), &[BY_TIME]),
    (with(LOST_ANSWER, 1, TWO), &[FOUND]),
    (with(HAND_OVER, 1, TWO), &[VACANT]),
    (with(FAILURE, 1, TWO), &[UNDONE]),
    (with(RESTART, 0, TWO), &[]),
    (with(NONE, 0, THREE), &[]),
];

/// Large bounds that take minutes. `cargo nextest run --release -p tenure-core --run-ignored only
/// ownership --no-capture` prints the number of states.
const MANY: &[(Bounds, &[&str])] = &[
    (with(LOST_TICK, 4, TWO), &[BY_TIME, DEPOSED]),
    (with(LOST_ANSWER, 3, TWO), &[BY_TIME, FOUND, LOST, DEPOSED]),
    (with(HAND_OVER, 2, TWO), &[VACANT]),
    (with(RESTART, 3, TWO), &[BY_TIME, DEPOSED]),
    (with(NONE, 4, UNEQUAL), &[BY_TIME]),
    (with(HAND_OVER, 0, THREE), &[VACANT]),
];

pub(super) const ALL: &[&str] = &[BY_TIME, VACANT, FOUND, RESUMED, DEPOSED, LOST, UNDONE];

fn all(bounds: &[(Bounds, &[&str])]) {
    for &(bounds, sometimes) in bounds {
        if let Err(broken) = check(bounds, sometimes) {
            panic!("{bounds:?}: {broken}");
        }
    }
}

#[test]
fn servers_keep_their_promises_in_every_order_of_events() {
    all(SOME);
}

#[test]
#[ignore = "takes minutes and some gigabytes"]
fn servers_keep_their_promises_in_many_more_orders() {
    all(MANY);
}
