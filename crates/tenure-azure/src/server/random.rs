//! Random bits for lease ids and boundaries.

/// 128 random bits of the operating system, which cannot be guessed.
///
/// # Panics
///
/// If there are none: a store that cannot make secrets must not make guessable ones. The request
/// fails with status 500.
pub(super) fn bits() -> (u64, u64) {
    let bits = || getrandom::u64().unwrap_or_else(|error| panic!("no random bits: {error}"));
    (bits(), bits())
}
