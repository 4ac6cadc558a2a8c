//! Model checking of the production code: every order of events within small bounds.
//!
//! Time is abstract. If a safety argument does not depend on time, every timer is always due, and
//! the model decides when it fires. Otherwise the clock has a few ticks, and advances by one tick
//! at a time.

extern crate std;

mod explore;
mod member;
mod peer;
mod peers;
mod quorum;

mod repaired;

use alloc::string::String;
use core::fmt;

use super::*;

/// Returns a constant: the model explores every case anyway.
struct Constant;

impl Random for Constant {
    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// Formats a trace as text with one line for each step.
fn in_words<A: fmt::Display>(steps: impl IntoIterator<Item = A>) -> String {
    let mut words = String::new();
    for (number, step) in steps.into_iter().enumerate() {
        words += &alloc::format!("{:>3}. {step}\n", number + 1);
    }
    words
}
