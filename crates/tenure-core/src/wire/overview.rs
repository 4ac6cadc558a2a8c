//! What a store shows of many leases at once: the overview, the namespaces, and the waiters of a
//! lease.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::DurationMs;
use crate::lease::State;
#[cfg(feature = "schema")]
use crate::{CandidateId, Epoch, Name};

/// The leases of a store that the caller may read, with those that need a look first.
///
/// The numbers cover all leases that the caller may read. In a store with very many leases they
/// cover one namespace, which the request must name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Overview {
    /// The wall clock of the store at the answer (RFC 3339); null if it is outside the range of the
    /// calendar.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub at: Option<String>,
    /// The age of the rows at the answer. Remaining times and waiting times are as of then.
    pub age_ms: u64,
    /// The number of leases.
    pub leases: u64,
    /// The number of leases that match the filters. At most `limit` of them are among the rows.
    pub matching: u64,
    /// The number of leases that need a look.
    pub needs_look: u64,
    /// The number of leases in each state.
    pub states: StateCounts,
    /// The rows: leases that need a look first, and then by namespace and name.
    pub elections: Vec<OverviewRow>,
    /// Whether there are too many leases for one overview. Then there are no rows, and the request
    /// must name a namespace.
    pub too_many: bool,
}

/// The number of leases in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StateCounts {
    /// Leases that are free, because they were never granted or were released.
    pub available: u64,
    /// Leases with a holder.
    pub leased: u64,
    /// Leases with a holder and with a break in progress.
    pub breaking: u64,
    /// Leases whose term a break has ended.
    pub broken: u64,
    /// Leases whose holder did not renew in time.
    pub expired: u64,
}

impl StateCounts {
    /// Counts one more lease in this state.
    pub const fn add(&mut self, state: State) {
        let count = match state {
            State::Available => &mut self.available,
            State::Leased => &mut self.leased,
            State::Breaking => &mut self.breaking,
            State::Broken => &mut self.broken,
            State::Expired => &mut self.expired,
        };
        *count += 1;
    }
}

/// One lease in an overview. Fields that do not apply to its state are null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OverviewRow {
    /// The namespace of the lease.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub namespace: String,
    /// The name of the lease in its namespace.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub lease: String,
    /// The state of the lease.
    pub state: State,
    /// The holder.
    #[cfg_attr(feature = "schema", schemars(with = "Option<CandidateId>"))]
    pub holder: Option<String>,
    /// The principal that acquired the lease; absent if the store had no access control at that
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The epoch of the current term, or of the last one; null if the lease was never granted.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Epoch>"))]
    pub epoch: Option<u64>,
    /// The duration without a renewal.
    pub duration_ms: Option<DurationMs>,
    /// The time until the lease expires; null also for an infinite lease.
    pub remaining_ms: Option<u64>,
    /// The beginning of the holder's term (RFC 3339), for display.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub granted_at: Option<String>,
    /// The end of the last term (RFC 3339), if the lease has no holder; null also if the term ended
    /// before the start of the store.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// The number of acquires that wait for the lease.
    pub waiters: u64,
    /// The number of terms that began in this interval of ten minutes and in the one before it.
    pub recent_terms: u64,
    /// The reasons why the lease needs a look.
    pub look: Vec<LookReason>,
}

impl OverviewRow {
    /// Creates the row of a lease in this state. All other fields are null, empty or zero.
    #[must_use]
    pub fn new(namespace: impl Into<String>, lease: impl Into<String>, state: State) -> Self {
        Self {
            namespace: namespace.into(),
            lease: lease.into(),
            state,
            holder: None,
            owner: None,
            epoch: None,
            duration_ms: None,
            remaining_ms: None,
            granted_at: None,
            ended_at: None,
            waiters: 0,
            recent_terms: 0,
            look: Vec::new(),
        }
    }
}

/// A reason why a person should look at a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LookReason {
    /// For longer than the lease's duration, nobody has held the lease although a candidate waits
    /// for it.
    NobodyLeads,
    /// Nobody holds the lease, and the settings of the store name it among the elections that must
    /// always have a leader.
    Expected,
    /// At least three terms began in this interval of ten minutes and in the one before it.
    Flapping,
    /// The last renewal is longer ago than two thirds of the lease's duration.
    RenewalLate,
    /// A break is in progress.
    Breaking,
}

/// The namespaces in which the caller may read leases, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NamespaceList {
    /// The namespaces.
    pub namespaces: Vec<NamespaceView>,
    /// The value of `after` that requests the following namespaces; null if there are none.
    #[serde(default)]
    pub next: Option<String>,
}

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NamespaceView {
    /// The name of the namespace.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub namespace: String,
    /// The number of its leases that the caller may read.
    pub leases: u64,
}

impl NamespaceView {
    /// Creates the view of a namespace with this number of leases.
    #[must_use]
    pub fn new(namespace: impl Into<String>, leases: u64) -> Self {
        Self {
            namespace: namespace.into(),
            leases,
        }
    }
}

/// The acquires that wait for a lease, in the order in which the lease is granted to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaiterList {
    /// The first waiters. The view of the lease has the number of all waiters.
    pub waiters: Vec<WaiterView>,
}

impl WaiterList {
    /// Creates the list of these waiters.
    #[must_use]
    pub const fn new(waiters: Vec<WaiterView>) -> Self {
        Self { waiters }
    }
}

/// A candidate that waits for a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaiterView {
    /// The position in the waiting queue; the first waiter has 1.
    pub position: u64,
    /// The candidate.
    #[cfg_attr(feature = "schema", schemars(with = "CandidateId"))]
    pub holder: String,
    /// The principal that sent the acquire; absent if the store has no access control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The priority. Lower numbers go first.
    pub priority: u32,
    /// The time since which the candidate has waited without a longer pause between its requests
    /// (RFC 3339).
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub waiting_since: Option<String>,
    /// The time for which the candidate has waited.
    pub waiting_ms: u64,
}

impl WaiterView {
    /// Creates the view of a candidate that waits at this position. Its owner and its times are
    /// null or zero.
    #[must_use]
    pub fn new(position: u64, holder: impl Into<String>, priority: u32) -> Self {
        Self {
            position,
            holder: holder.into(),
            owner: None,
            priority,
            waiting_since: None,
            waiting_ms: 0,
        }
    }
}
