//! The ways to a grant.

/// The way in which a candidate was granted a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantPath {
    /// The lease was free.
    AtOnce,
    /// The candidate had waited.
    Waited,
    /// The lease was handed over to the candidate.
    HandedOver,
}
