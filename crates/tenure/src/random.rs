//! Random bits from the operating system.

use tenure_core::Random;

/// The operating system's random source; lease ids are secrets.
#[derive(Debug)]
pub(crate) struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&mut self) -> u64 {
        // It was asked once when the candidate connected; a system that refuses later is broken,
        // and the driver's end ends the term.
        getrandom::u64().expect("the operating system gives random bits")
    }
}
