//! The differences between native leases and Azure Blob leases.

use core::time::Duration;

use super::LeaseDuration;

/// The differences between the two protocols of a store; an argument of [`apply`](super::apply).
///
/// The rules belong to an operation, not to a record, because clients may use one lease through
/// both protocols at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The shortest fixed lease duration.
    pub min_duration: Duration,
    /// The longest fixed lease duration.
    pub max_duration: Duration,
    /// The longest break period and hand-over reservation.
    pub max_break_period: Duration,
    /// Whether the holder of an expired lease may renew it while no other candidate has acquired
    /// it. Azure allows this. The native rules require an acquire, which begins a new term, so that
    /// each epoch identifies one *uninterrupted* term.
    pub renew_after_expiry: bool,
    /// Whether an acquire by the current lease id may shorten the duration. Azure allows this. The
    /// native rules do not: the request may be a delayed duplicate, and the holder relies on a
    /// later answer.
    pub acquire_again_may_shorten: bool,
    /// Whether an acquire with the id of an ended term is refused. Azure grants it. The native
    /// rules refuse it: it may be a delayed duplicate of a request whose sender no longer exists.
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

    /// Returns whether a client may request this duration.
    #[must_use]
    pub fn allows(&self, duration: LeaseDuration) -> bool {
        match duration {
            LeaseDuration::Infinite => true,
            LeaseDuration::Fixed(fixed) => (self.min_duration..=self.max_duration).contains(&fixed),
        }
    }
}
