mod model;
mod peace;
mod traces;

use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::Instant;

/// The ownership duration of the tests: a beat, a margin and an attempt last 2 s, a poll 1 s, and a
/// follower settles in 4 s.
const T: u64 = 12;

const ENGINE: HomeId = HomeId(7);
const ME: OwnerId = OwnerId(1);
const OTHER: OwnerId = OwnerId(2);

fn at(secs: u64) -> Instant {
    at_millis(secs * 1_000)
}

fn at_millis(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn timings(secs: u64) -> OwnershipTimings {
    OwnershipTimings::new(Duration::from_secs(secs)).unwrap()
}

/// Returns a tail that another server owns.
fn tail(generation: u64, sequence: u64) -> Tail {
    Tail {
        home: ENGINE,
        generation,
        sequence,
        undone: 0,
        state: TailState::Owned,
        owner: OTHER,
        ownership: Duration::from_secs(T),
    }
}

fn in_state(state: TailState, tail: Tail) -> Tail {
    Tail { state, ..tail }
}

/// Returns a tail of this server.
fn mine(generation: u64, sequence: u64) -> Tail {
    Tail {
        owner: ME,
        ..tail(generation, sequence)
    }
}

fn observation(found: Found) -> Observation {
    Observation {
        home: ENGINE,
        found,
    }
}

fn look(tail: Tail) -> Look {
    Look::Found(observation(Found::Tail(tail)))
}

fn refused(tail: Tail) -> AppendOutcome {
    AppendOutcome::Superseded(observation(Found::Tail(tail)))
}

const EMPTY: Look = Look::Found(Observation {
    home: ENGINE,
    found: Found::Empty,
});

fn outputs(machine: &mut Ownership) -> Vec<OwnershipOutput> {
    core::iter::from_fn(|| machine.poll_output()).collect()
}

/// Returns a machine that starts at 0 s and has asked for its first read.
fn started() -> Ownership {
    let mut machine = Ownership::new(timings(T), ME, at(0));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Look]);
    machine
}

/// Lets time pass until `now`, second by second, and answers all reads at once. Returns the other
/// outputs.
fn follow(machine: &mut Ownership, from: u64, now: u64, answer: Look) -> Vec<OwnershipOutput> {
    let mut others = Vec::new();
    for second in from..=now {
        machine.handle_timeout(at(second));
        while let Some(output) = machine.poll_output() {
            match output {
                OwnershipOutput::Look => machine.handle_tail(at(second), answer),
                other => others.push(other),
            }
        }
    }
    others
}

/// Returns a machine that owns the log under generation 1 since an append that was sent at 0 s, and
/// accepts requests.
fn active() -> Ownership {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 1))]);
    assert_eq!(
        machine.handle_appended(at(0), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(
        outputs(&mut machine),
        [OwnershipOutput::Took { generation: 1 }]
    );
    machine.handle_loaded(at(0), 1);
    assert_eq!(machine.role(at(0)), OwnershipRole::Active);
    machine
}
