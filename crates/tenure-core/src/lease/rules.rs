//! In what the native leases and Azure Blob leases differ.

use core::time::Duration;

use super::LeaseDuration;

/// The differences between the protocols of a store; [`apply`](super::apply) takes one of these.
///
/// A lease may be used through both protocols at once, so rules belong to an operation, not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Shortest fixed lease duration.
    pub min_duration: Duration,
    /// Longest fixed lease duration.
    pub max_duration: Duration,
    /// Longest break period and hand-over reservation.
    pub max_break_period: Duration,
    /// Whether the holder of an expired lease may renew it while nobody else was granted. Azure
    /// allows it; natively a new term begins with a new acquire, so that an epoch is one
    /// *uninterrupted* reign.
    pub renew_after_expiry: bool,
    /// Whether an acquire by the id that holds sets the duration that it names, also a shorter one.
    /// Azure does; natively it never shortens what the holder has: it may be a late duplicate, and the
    /// holder counts on what it was told since.
    pub acquire_again_may_shorten: bool,
    /// Whether an acquire with the id of an ended term is refused. Azure grants it again; natively
    /// it may be a late duplicate of a request whose sender has gone, and would grant to nobody.
    pub refuse_retired_ids: bool,
}

impl Rules {
    /// tenure's own API: 1 s to 24 h, or infinite.
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

    /// Whether a lease of this duration may be asked for.
    #[must_use]
    pub fn allows(&self, duration: LeaseDuration) -> bool {
        match duration {
            LeaseDuration::Infinite => true,
            LeaseDuration::Fixed(fixed) => (self.min_duration..=self.max_duration).contains(&fixed),
        }
    }
}
