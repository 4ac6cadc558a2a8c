//! The differences between native leases and Azure Blob leases.

use core::time::Duration;

use super::LeaseDuration;

/// The differences between the two protocols of a store; an argument of [`apply`](super::apply).
///
/// Clients may use one lease through both protocols at once, so the rules belong to an operation, not to a
/// record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Shortest fixed lease duration.
    pub min_duration: Duration,
    /// Longest fixed lease duration.
    pub max_duration: Duration,
    /// Longest break period and hand-over reservation.
    pub max_break_period: Duration,
    /// Whether the holder of an expired lease may renew it until it is granted again. Azure allows
    /// that. Natively a new term needs a new acquire, so that each epoch stands for one
    /// *uninterrupted* term.
    pub renew_after_expiry: bool,
    /// Whether an acquire by the lease id that holds may shorten the duration. Azure does that.
    /// Natively it never does: the request may be a delayed duplicate, and the holder relies on a
    /// later answer.
    pub acquire_again_may_shorten: bool,
    /// Whether an acquire with the id of an ended term is refused. Azure grants it. Natively it is
    /// refused: it may be a delayed duplicate of a request whose sender no longer exists.
    pub refuse_retired_ids: bool,
}

impl Rules {
    /// The native API: durations of 1 s to 24 h, or infinite.
    pub const NATIVE: Self = Self {
        min_duration: Duration::from_secs(1),
        max_duration: Duration::from_secs(24 * 60 * 60),
        max_break_period: Duration::from_secs(24 * 60 * 60),
        renew_after_expiry: false,
        acquire_again_may_shorten: false,
        refuse_retired_ids: true,
    };

    /// Azure Blob leases, as "Lease Blob" and "Lease Container" of the Blob service REST API
    /// document them: 15 s to 60 s, or infinite; break periods up to 60 s.
    pub const AZURE: Self = Self {
        min_duration: Duration::from_secs(15),
        max_duration: Duration::from_secs(60),
        max_break_period: Duration::from_secs(60),
        renew_after_expiry: true,
        acquire_again_may_shorten: true,
        refuse_retired_ids: false,
    };

    /// Whether a client may request this duration.
    #[must_use]
    pub fn allows(&self, duration: LeaseDuration) -> bool {
        match duration {
            LeaseDuration::Infinite => true,
            LeaseDuration::Fixed(fixed) => (self.min_duration..=self.max_duration).contains(&fixed),
        }
    }
}
