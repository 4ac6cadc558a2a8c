//! Random bits for lease ids that the store makes.

use tenure_core::Random;

/// The operating system's source of secrets.
pub(crate) struct OsRandom;

impl Random for OsRandom {
    // A store that can't make secrets must not make guessable ones; the request that asked for one
    // is answered with 500 by the net around all handlers.
    fn next_u64(&mut self) -> u64 {
        getrandom::u64().unwrap_or_else(|error| panic!("no random bits: {error}"))
    }
}
