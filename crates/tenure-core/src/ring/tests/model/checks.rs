//! Searches through all states, and random walks.

use super::std::println;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use stateright::{Checker, HasDiscoveries, Model as _};

use super::events::Action::*;
use super::events::*;
use super::state::Left;
use crate::Random as _;
use crate::random::SplitMix64;

/// No event but reads, calls and timers.
const NONE: Left = Left {
    ticks: 0,
    changes: 0,
    bases: 0,
    losses: 0,
    failures: 0,
    crashes: 0,
    go_backs: 0,
};

/// Two servers that start with an empty log.
const TWO: Bounds = Bounds {
    servers: 2,
    slots: 2,
    entries: 4,
    ownership: 2,
    left: NONE,
    begin: &[],
    deletes_slots: false,
};

/// The first server owns the log with entry 1. The second one follows.
const OWN: &[Action] = &[Read(0), Read(0), Load(0), Answer(0)];
const FOLLOW: &[Action] = &[Read(1), Read(1), Load(1)];
const OWNED: Bounds = Bounds {
    begin: &[OWN, FOLLOW],
    ..TWO
};

const BASE: &[Action] = &[BeginBase(0), Chunk(0, 0), Chunk(0, 1)];
const OTHER_BASE: &[Action] = &[BeginBase(1), Chunk(1, 0), Chunk(1, 1)];
const CHANGE: &[Action] = &[Commit(0, 0), Answer(0)];

/// Both servers have written a base of entry 1, the second server first.
const TWO_BASES: Bounds = Bounds {
    begin: &[OWN, FOLLOW, OTHER_BASE, BASE, &[Commit(0, 0)]],
    ..TWO
};

/// The owner has written a round and a half since then, and has the base of entry 2.
const BEHIND: Bounds = Bounds {
    begin: &[OWN, FOLLOW, CHANGE, BASE, CHANGE, CHANGE],
    ..TWO
};

/// The second server has read three of four slots when there was entry 1.
const READING: Bounds = Bounds {
    slots: 4,
    begin: &[&[Read(0), Read(0)], OWN, &[Read(1), Read(1), Read(1)]],
    ..TWO
};

/// The first server owns a log of four slots, and the home loses entries that it wrote.
const WENT_BACK: Bounds = Bounds {
    slots: 4,
    begin: &[&[Read(0), Read(0)], OWN, &[Read(1), Read(1)], FOLLOW],
    ..TWO
};

const fn with(left: Left, entries: u64, bounds: Bounds) -> Bounds {
    Bounds {
        left,
        entries,
        ..bounds
    }
}

const ONE_SLOT: Bounds = Bounds { slots: 1, ..TWO };

const THREE: Bounds = Bounds { servers: 3, ..TWO };

const fn left(ticks: u8, changes: u8, bases: u8) -> Left {
    Left {
        ticks,
        changes,
        bases,
        ..NONE
    }
}

const LOSS: Left = Left {
    losses: 1,
    failures: 1,
    ..left(2, 2, 0)
};

const FAILURE: Left = Left {
    failures: 1,
    ..left(1, 1, 1)
};

const GO_BACK: Left = Left {
    go_backs: 1,
    ..left(2, 2, 0)
};

const CRASH: Left = Left {
    crashes: 1,
    ..left(2, 1, 1)
};

/// Bounds of about a second each.
const SOME: &[Bounds] = &[
    with(CRASH, 3, ONE_SLOT),
    with(left(2, 1, 1), 4, TWO),
    with(left(2, 1, 1), 4, OWNED),
    with(left(3, 0, 0), 4, TWO_BASES),
    with(LOSS, 4, OWNED),
    with(FAILURE, 4, OWNED),
    with(CRASH, 4, OWNED),
    with(left(3, 1, 1), 6, BEHIND),
    with(left(3, 2, 0), 4, READING),
    with(left(1, 1, 0), 3, THREE),
    with(GO_BACK, 4, WENT_BACK),
];

/// Bounds that take minutes. `cargo nextest run --release -p tenure-core --run-ignored only ring
/// --no-capture` prints the number of states.
const MANY: &[Bounds] = &[
    with(Left { ticks: 3, ..CRASH }, 3, ONE_SLOT),
    with(left(3, 1, 1), 4, TWO),
    with(left(3, 2, 2), 5, OWNED),
    with(Left { bases: 1, ..LOSS }, 5, OWNED),
    with(Left { ticks: 3, ..CRASH }, 4, OWNED),
    with(left(4, 1, 2), 8, BEHIND),
    with(left(3, 2, 1), 5, READING),
    with(left(2, 1, 0), 3, THREE),
    with(
        Left {
            ticks: 3,
            ..GO_BACK
        },
        4,
        WENT_BACK,
    ),
];

/// Sizes for random walks.
const WALKED: &[Bounds] = &[
    LARGE,
    Bounds {
        servers: 2,
        slots: 2,
        ..LARGE
    },
    with(
        Left {
            ticks: 8,
            ..GO_BACK
        },
        4,
        WENT_BACK,
    ),
];

const LARGE: Bounds = Bounds {
    servers: 3,
    slots: 4,
    entries: 24,
    ownership: 3,
    left: Left {
        ticks: 40,
        changes: 16,
        bases: 8,
        losses: 4,
        failures: 3,
        crashes: 4,
        go_backs: 0,
    },
    ..TWO
};

/// The names of the events that a search or a walk has found, or a violation and the path to it.
type Found = Result<BTreeSet<&'static str>, String>;

/// Checks all states within the bounds.
fn check(bounds: &Bounds) -> Found {
    let search = bounds.checker().threads(2);
    let search = search.finish_when(HasDiscoveries::AnyFailures);
    let checker = search.spawn_bfs().join();
    println!("{} states: {bounds:?}", checker.unique_state_count());
    if let Some(path) = checker.discovery(RIGHT) {
        let broken = path.last_state().broken;
        return Err(violation(broken, &path.into_actions()));
    }
    let names = EVENTS.iter().map(|(name, _)| *name);
    Ok(names.filter(|it| checker.discovery(it).is_some()).collect())
}

/// Walks this number of steps, from the beginning again after 400 of them.
fn walk(bounds: &Bounds, steps: usize, seed: u64) -> Found {
    let mut random = SplitMix64::new(seed);
    let mut found = BTreeSet::new();
    let (mut state, mut path) = (bounds.init_states().remove(0), Vec::new());
    for _ in 0..steps {
        let mut actions = Vec::new();
        bounds.actions(&state, &mut actions);
        let count = actions.len() as u64;
        if count > 0 && path.len() < 400 && bounds.within_boundary(&state) {
            let action = actions[(random.next_u64() % count) as usize];
            path.push(action);
            state = bounds.next_state(&state, action).unwrap_or(state);
            if state.broken.is_some() {
                return Err(violation(state.broken, &path));
            }
            let seen = EVENTS.iter().filter(|(_, has)| has(bounds, &state));
            found.extend(seen.map(|(name, _)| *name));
        } else {
            (state, path) = (bounds.init_states().remove(0), Vec::new());
        }
    }
    println!("seed {seed}, {steps} steps: {bounds:?}");
    Ok(found)
}

fn violation(broken: Option<&str>, path: &[Action]) -> String {
    let mut words = format!("broken: {}\n", broken.unwrap_or_default());
    for (number, step) in path.iter().enumerate() {
        words += &format!("{:>3}. {step:?}\n", number + 1);
    }
    words
}

/// Checks that there is no violation, and that together all events happen: a rule that is idle shows
/// nothing.
fn all(found: impl Iterator<Item = Found>) {
    let mut events = BTreeSet::new();
    for found in found {
        match found {
            Ok(found) => events.extend(found),
            Err(broken) => panic!("{broken}"),
        }
    }
    for (name, _) in EVENTS {
        assert!(events.contains(name), "not found: {name}");
    }
}

#[test]
fn the_log_keeps_its_promises_in_every_order_of_events() {
    all(SOME.iter().map(check));
}

#[test]
#[ignore = "takes minutes and some gigabytes"]
fn the_log_keeps_its_promises_in_many_more_orders() {
    all(MANY.iter().map(check));
}

#[test]
fn the_log_keeps_its_promises_in_random_walks() {
    all(WALKED.iter().map(|bounds| walk(bounds, 200_000, 1)));
}

#[test]
#[ignore = "takes minutes"]
fn the_log_keeps_its_promises_in_long_random_walks() {
    all(WALKED
        .iter()
        .flat_map(|bounds| (2..10).map(|seed| walk(bounds, 4_000_000, seed))));
}

/// With more slots than entries, each entry is created, and the owner deletes those that the base
/// has: this is a log of names that are used once.
#[test]
fn a_log_that_creates_and_deletes_names_is_found_out() {
    let bounds = Bounds {
        begin: &[
            &[Read(0), Read(0)],
            OWN,
            &[Read(1), Read(1)],
            FOLLOW,
            &[Commit(0, 0)],
        ],
        deletes_slots: true,
        ..with(left(2, 0, 1), 3, READING)
    };
    let broken = check(&bounds).expect_err("a violation");
    assert!(broken.contains("the chain forks"), "{broken}");
}
