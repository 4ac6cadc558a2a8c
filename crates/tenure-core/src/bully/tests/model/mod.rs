//! Model checking of this very code: every order of events that there is, within small bounds.
//!
//! Time is abstract. Where a safety argument does not rest on time, every timer is always due, and
//! the model says when it fires; where it does, the clock has a handful of ticks, and one tick is all
//! that passes between any two things.

extern crate std;

mod explore;
mod peer;
mod peers;
mod quorum;

mod repaired;

use alloc::string::String;
use core::fmt;

use super::*;

/// No chance: the model has every case anyway.
struct Constant;

impl Random for Constant {
    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// A trace in words: one line for each step.
fn in_words<A: fmt::Display>(steps: impl IntoIterator<Item = A>) -> String {
    let mut words = String::new();
    for (number, step) in steps.into_iter().enumerate() {
        words += &alloc::format!("{:>3}. {step}\n", number + 1);
    }
    words
}
