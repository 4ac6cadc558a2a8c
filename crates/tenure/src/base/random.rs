//! Random bits from the operating system.

use tenure_core::Random;

/// The operating system's random source. Lease ids are secrets.
#[derive(Debug)]
pub(crate) struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&mut self) -> u64 {
        // The random source worked when the candidate started. If it fails later, the system is
        // defective: the thread ends, and with it the term.
        getrandom::u64().expect("the operating system gives random bits")
    }
}
