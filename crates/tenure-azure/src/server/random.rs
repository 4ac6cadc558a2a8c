//! Random bits for lease ids and boundaries.

/// Returns 128 random bits from the operating system.
///
/// # Panics
///
/// If there are no random bits, because a store must not create secrets that can be guessed. The
/// request fails with status 500.
pub(super) fn bits() -> (u64, u64) {
    let bits = || getrandom::u64().unwrap_or_else(|error| panic!("no random bits: {error}"));
    (bits(), bits())
}
