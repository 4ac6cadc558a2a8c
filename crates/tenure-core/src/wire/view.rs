//! The public view of a lease.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::DurationMs;
use crate::lease::{LeaseDuration, LeaseId, Record, State, TermEnd, WithoutStore};
use crate::time::millis;
#[cfg(feature = "schema")]
use crate::{CandidateId, Epoch, Name};
use crate::{Instant, UnixMillis};

/// One lease, as the store reports it. Fields that do not apply to its state are null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeaseView {
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
    /// The holder's epoch: the fencing token.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Epoch>"))]
    pub epoch: Option<u64>,
    /// The duration without a renewal.
    pub duration_ms: Option<DurationMs>,
    /// The time until the lease expires; null also for an infinite lease.
    pub remaining_ms: Option<u64>,
    /// The beginning of the holder's term (RFC 3339), for display.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub granted_at: Option<String>,
    /// The periods in which the holder's term was led without the store; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_store: Option<Box<WithoutStoreView>>,
    /// The metadata of the holder.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The rest of the lock delay in which nobody is granted the lease; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay_remaining_ms: Option<u64>,
    /// The only candidate that may be granted the lease, because it was handed over to it; absent if
    /// the lease is not reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<CandidateId>"))]
    pub reserved_for: Option<String>,
    /// The time until the reservation ends; absent if the lease is not reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_remaining_ms: Option<u64>,
    /// The number of acquires that wait for the lease.
    pub waiters: u64,
    /// The store's revision at the last change. Renewals do not count as changes.
    pub revision: u64,
    /// The lease id, only in responses to the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<LeaseId>"))]
    pub lease_id: Option<String>,
}

impl LeaseView {
    /// Creates the view of a lease in this state. All other fields are null or zero.
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
            without_store: None,
            metadata: None,
            lock_delay_remaining_ms: None,
            reserved_for: None,
            reserved_remaining_ms: None,
            waiters: 0,
            revision: 0,
            lease_id: None,
        }
    }

    /// Returns the view of `record` at `now`. The caller sets `granted_at` and `without_store`,
    /// which need a calendar.
    #[must_use]
    pub fn of(namespace: &str, lease: &str, record: &Record, now: Instant) -> Self {
        let (held, remaining) = (record.held(now), record.remaining(now));
        let (lock_delay, reserved) = (record.lock_delay_until(now), record.reserved(now));
        Self {
            holder: held.map(|grant| grant.holder.as_str().into()),
            owner: held.and_then(|grant| Some(grant.owner.as_ref()?.as_str().into())),
            epoch: held.map(|grant| grant.epoch.get()),
            duration_ms: held.map(|grant| grant.duration.into()),
            remaining_ms: remaining.and_then(LeaseDuration::fixed).map(millis),
            metadata: held.map(|_| record.metadata(now).cloned().unwrap_or_default()),
            lock_delay_remaining_ms: lock_delay.map(|until| millis(until.since(now))),
            reserved_for: reserved.map(|reserved| reserved.to.as_str().into()),
            reserved_remaining_ms: reserved.map(|reserved| millis(reserved.until().since(now))),
            ..Self::new(namespace, lease, record.state(now))
        }
    }

    /// Adds the lease id, for the response to its owner.
    #[must_use]
    pub fn with_lease_id(self, lease_id: LeaseId) -> Self {
        Self {
            lease_id: Some(lease_id.to_wire().to_string()),
            ..self
        }
    }
}

/// A part of the leases of a namespace, ordered by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseList {
    /// The leases.
    pub leases: Vec<LeaseView>,
    /// The value of `after` that requests the following leases; null if there are none.
    pub next: Option<String>,
}

/// The terms of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct History {
    /// The terms, newest first.
    pub terms: Vec<TermView>,
    /// The value of `before` that requests the following terms; null if there are none.
    #[serde(default)]
    pub next: Option<u64>,
}

/// One term of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TermView {
    /// The term's number.
    #[cfg_attr(feature = "schema", schemars(with = "Epoch"))]
    pub epoch: u64,
    /// The holder of the lease.
    #[cfg_attr(feature = "schema", schemars(with = "CandidateId"))]
    pub holder: String,
    /// The principal that acquired the lease; absent if the store had no access control at that
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The beginning of the term (RFC 3339); null if it is outside the range of the calendar.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub began_at: Option<String>,
    /// The end of the term (RFC 3339); null if it has not ended.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// The way in which the term ended; null if it has not ended.
    pub end: Option<TermEnd>,
    /// The reason for the end, if a client gave one.
    pub reason: Option<String>,
    /// The periods in which the term was led without the store; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_store: Option<Box<WithoutStoreView>>,
}

/// The periods in which a term was led without the store. There may be several: this is a summary of
/// them. `total_ms` is less than the time from `from` to `to` if the store was reached in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WithoutStoreView {
    /// The number of periods.
    pub periods: u32,
    /// The beginning of the first period (RFC 3339). It is before the beginning of the term in the
    /// store if the term began without the store.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub from: Option<String>,
    /// The end of the last period (RFC 3339): the time at which the holder took the lease again.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub to: Option<String>,
    /// The total time of all periods.
    pub total_ms: u64,
}

impl WithoutStoreView {
    /// Creates the view of these periods. `rfc3339` formats a wall-clock time.
    #[must_use]
    pub fn of(periods: &WithoutStore, rfc3339: impl Fn(UnixMillis) -> Option<String>) -> Self {
        Self {
            periods: periods.periods,
            from: rfc3339(periods.from),
            to: rfc3339(periods.to),
            total_ms: millis(periods.total),
        }
    }
}

impl TermView {
    /// Creates the view of a term that has not ended. Its beginning and its owner are null.
    #[must_use]
    pub fn new(epoch: u64, holder: impl Into<String>) -> Self {
        Self {
            epoch,
            holder: holder.into(),
            owner: None,
            began_at: None,
            ended_at: None,
            end: None,
            reason: None,
            without_store: None,
        }
    }
}
