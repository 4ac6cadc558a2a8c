//! Random bits for lease ids that the store makes.

use tenure_core::Random;

/// The operating system's source of secrets.
pub(crate) struct OsRandom;

impl Random for OsRandom {
    // Without random bits the store must not create lease ids, which an attacker could guess. The
    // panic ends this request with status 500.
    fn next_u64(&mut self) -> u64 {
        getrandom::u64().unwrap_or_else(|error| panic!("no random bits: {error}"))
    }
}
