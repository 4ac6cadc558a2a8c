//! Random bits for lease ids and boundaries.

/// 128 bits of the operating system's source, which nobody can guess.
///
/// # Panics
///
/// If there are none: a store that cannot make secrets must not make guessable ones. The request
/// fails with status 500.
pub(super) fn bits() -> (u64, u64) {
    let bits = || getrandom::u64().unwrap_or_else(|error| panic!("no random bits: {error}"));
    (bits(), bits())
}
