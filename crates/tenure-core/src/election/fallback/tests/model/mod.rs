//! A group with a store, in every order of events within small bounds.
//!
//! The model omits the pre-vote, the priorities and the failure detector: any member asks for votes
//! or asks the store whenever its own promises allow it, so the model contains more elections than
//! a real group has, and members disagree about the store in every way. Messages between members
//! stay deliverable for ever, which covers loss, delay, reordering and repetition. A request to the
//! store and its answer are two messages: each of them is lost, or arrives at any time. A candidate
//! gives up waiting for an answer at any time within the bounds, and does not wait for the answer
//! to a release, which may reach the store at any time and any number of times, also after the next
//! request. Members crash and start again with their record on disk. The store stops and
//! starts again with its own.
//!
//! The model also omits refused votes, the answer of the store to an acquire that has waited for
//! too long, hand-overs, lock delays, and operators that break or delete the lease.
//!
//! All clocks are one clock. The drift between two clocks is a part of the margin between the renew
//! deadline and the lease duration, which are equal here.

extern crate std;

mod bounds;
mod checks;
mod planted;
mod shared;
mod state;
mod store;

use core::time::Duration;

use crate::Instant;

fn tick(number: u8) -> Instant {
    // Ticks are so short that the wall clock, which is the source of epochs, does not advance.
    Instant::from_nanos(u64::from(number))
}

const fn ticks(number: u8) -> Duration {
    Duration::from_nanos(number as u64)
}

/// A time that is longer than every run of the model.
const LONG: Duration = Duration::from_nanos(1_000);
