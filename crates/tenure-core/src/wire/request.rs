//! The bodies of requests, and their checks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Code, DurationMs, LeaseView, Number, Problem, object};
use crate::lease::{Acquire, LeaseDuration, Metadata, Operation, Priority, Resume, Rules};
use crate::time::millis;
#[cfg(feature = "schema")]
use crate::{CandidateId, lease::LeaseId};
use crate::{Epoch, Random, UnixMillis};

/// The priority of an acquire without one. It is in the middle, so that others can go before and
/// after it.
pub const DEFAULT_PRIORITY: Priority = 100;

/// The longest time that a request may wait in the store. Proxies often end longer requests.
pub const MAX_WAIT: Duration = Duration::from_secs(5 * 60);

/// The largest size of all keys and values of a lease's metadata, in bytes: enough for addresses
/// and a version. The store keeps the metadata of every lease in memory.
pub const MAX_METADATA_BYTES: usize = 4 * 1024;

/// The largest size of a reason, in bytes: a sentence for the log.
pub const MAX_REASON_BYTES: usize = 512;

/// The body of `acquire`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// The candidate id.
    #[cfg_attr(feature = "schema", schemars(with = "CandidateId"))]
    pub holder: String,
    /// The time until the lease expires without a renewal.
    pub duration_ms: DurationMs,
    /// The lease id of the new holder. Without it the store chooses an id, and a retry is not safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<LeaseId>"))]
    pub lease_id: Option<String>,
    /// The longest time to wait if the lease cannot be granted at once; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = millis(MAX_WAIT))))]
    pub wait_ms: Option<Number>,
    /// The priority among the waiters. Lower numbers go first; default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = Priority::MAX), extend("default" = DEFAULT_PRIORITY)))]
    pub priority: Option<Number>,
    /// The metadata of the holder.
    #[serde(
        default,
        skip_serializing_if = "Metadata::is_empty",
        deserialize_with = "object::texts_or_null"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<BTreeMap<String, String>>", extend("x-max-bytes" = MAX_METADATA_BYTES)))]
    pub metadata: BTreeMap<String, String>,
    /// The lock delay: the time after this term's expiry or break in which the store grants the
    /// lease to nobody; default 0. The store has a limit for it: 10 minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = millis(Rules::NATIVE.max_duration))))]
    pub lock_delay_ms: Option<Number>,
    /// The least epoch of the grant. If it is set, the store ignores its clock. One that is more than
    /// 30 days above both that clock and the last epoch of the lease needs an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = Epoch::MAX.get())))]
    pub min_epoch: Option<Number>,
    /// The term that has run without the store, if the request is to hold the lease again under the
    /// epoch of that term. It needs a lease id and never waits.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::object_or_null"
    )]
    pub resume: Option<ResumeRequest>,
}

/// The longest time without the store that a request may report: the greatest whole number that
/// every JSON reader reads exactly.
const MAX_WITHOUT_STORE: Duration = Duration::from_millis(Epoch::MAX.get());

/// The term for which a request holds the lease again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The epoch of the term. The lease is held under this epoch or not at all.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = Epoch::MAX.get())))]
    pub epoch: Number,
    /// For how long the term has been led without the store, for the history.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = millis(MAX_WITHOUT_STORE))))]
    pub without_store_ms: Number,
}

impl ResumeRequest {
    /// Checks the values, and that the acquire has the fields that a resume needs.
    fn check(&self, acquire: &AcquireRequest) -> Result<Resume, Problem> {
        let refused = |detail: &str| Err(Problem::new(Code::OutOfRange, detail));
        if acquire.lease_id.is_none() {
            return refused("lease_id is missing and must be that of the term to resume");
        }
        if acquire.min_epoch.is_some() {
            return refused("min_epoch must be absent: resume.epoch is the exact epoch");
        }
        let wait = check_wait(acquire.wait_ms)?;
        if !wait.is_zero() {
            let wait = millis(wait);
            let detail = format!("wait_ms is {wait} and must be 0: a resume never waits");
            return Err(Problem::new(Code::OutOfRange, detail));
        }
        let field = "resume.without_store_ms";
        Ok(Resume {
            epoch: check_epoch("resume.epoch", self.epoch)?,
            without_store: self
                .without_store_ms
                .millis_up_to(field, MAX_WITHOUT_STORE)?,
        })
    }
}

/// A checked `acquire`, with its wait and priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The acquire.
    pub request: Acquire,
    /// The term for which the lease is held again, if the request names one. Then it never waits.
    pub resume: Option<Resume>,
    /// The longest time to wait for the lease.
    pub wait: Duration,
    /// The priority among the waiters.
    pub priority: Priority,
}

impl Queued {
    /// Returns the operation of the request at this wall-clock time.
    #[must_use]
    pub fn operation(&self, wall: UnixMillis) -> Operation {
        let request = self.request.clone();
        match self.resume {
            Some(of_term) => Operation::Resume(request, of_term, wall),
            None => Operation::Acquire(request, wall),
        }
    }
}

impl AcquireRequest {
    /// Checks the request and returns valid values. `random` creates a lease id if there is none.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(self, rules: &Rules, random: &mut dyn Random) -> Result<Queued, Problem> {
        check_metadata(&self.metadata, MAX_METADATA_BYTES)?;
        let min_epoch = |epoch| check_epoch("min_epoch", epoch);
        let priority = |number: Number| number.within("priority", 0, Priority::MAX.into());
        let resume = self.resume.as_ref().map(|resume| resume.check(&self));
        Ok(Queued {
            resume: resume.transpose()?,
            request: Acquire {
                lease_id: match &self.lease_id {
                    Some(text) => check_name("lease_id", text)?,
                    None => random.lease_id(),
                },
                holder: check_name("holder", &self.holder)?,
                duration: check_duration(self.duration_ms, rules)?,
                lock_delay: check_millis("lock_delay_ms", self.lock_delay_ms, rules.max_duration)?,
                metadata: self.metadata,
                min_epoch: self.min_epoch.map(min_epoch).transpose()?,
                by_operator: false,
            },
            wait: check_wait(self.wait_ms)?,
            priority: match self.priority {
                Some(number) => priority(number)? as Priority,
                None => DEFAULT_PRIORITY,
            },
        })
    }
}

/// The body of `renew`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The lease id that holds the lease.
    #[cfg_attr(feature = "schema", schemars(with = "LeaseId"))]
    pub lease_id: String,
    /// A new duration. Without it the duration stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<DurationMs>,
}

impl RenewRequest {
    /// Checks the request and returns the operation.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(&self, rules: &Rules) -> Result<Operation, Problem> {
        let duration = self.duration_ms.map(|it| check_duration(it, rules));
        let duration = duration.transpose()?;
        let lease_id = check_name("lease_id", &self.lease_id)?;
        Ok(Operation::Renew(lease_id, duration))
    }
}

/// The largest number of renewals in one request.
pub const MAX_RENEWALS: usize = 1_000;

/// The body of a namespace's `renew`, which contains renewals of several leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewManyRequest {
    /// The renewals.
    #[serde(deserialize_with = "object::objects")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_RENEWALS)))]
    pub leases: Vec<RenewOne>,
}

/// One of several renewals. The duration stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewOne {
    /// The lease's name. A wrong one is refused in the result of this renewal.
    pub lease: String,
    /// The lease id that holds the lease. A wrong one is refused in the result of this renewal.
    pub lease_id: String,
}

/// The response to [`RenewManyRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewManyReply {
    /// The results, in the order of the request.
    pub results: Vec<RenewResult>,
}

/// The result of one of several renewals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RenewResult {
    /// The lease was renewed.
    View(Box<LeaseView>),
    /// The renewal was refused.
    Problem(Box<Problem>),
}

/// The body of `change`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// The lease id that holds the lease.
    #[cfg_attr(feature = "schema", schemars(with = "LeaseId"))]
    pub lease_id: String,
    /// The lease id that holds the lease afterwards.
    #[cfg_attr(feature = "schema", schemars(with = "LeaseId"))]
    pub proposed_lease_id: String,
}

impl ChangeRequest {
    /// Checks the request and returns the operation.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(&self) -> Result<Operation, Problem> {
        Ok(Operation::Change {
            lease_id: check_name("lease_id", &self.lease_id)?,
            proposed: check_name("proposed_lease_id", &self.proposed_lease_id)?,
        })
    }
}

/// The body of `release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The lease id that holds the lease.
    #[cfg_attr(feature = "schema", schemars(with = "LeaseId"))]
    pub lease_id: String,
    /// The reason, for the store's log and the lease's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_REASON_BYTES), extend("x-max-bytes" = MAX_REASON_BYTES)))]
    pub reason: Option<String>,
}

impl ReleaseRequest {
    /// Checks the request, and returns the operation and the reason.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(self) -> Result<(Operation, Option<String>), Problem> {
        let lease_id = check_name("lease_id", &self.lease_id)?;
        Ok((Operation::Release(lease_id), check_reason(self.reason)?))
    }
}

/// The body of `break`, which may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakRequest {
    /// The longest time that the lease lasts from now. Without it, a fixed lease lasts until its
    /// expiry. If the break shortens the lease, the holder may still be active when the store
    /// grants the lease to another candidate. 0 for a lease that nobody holds ends its lock delay
    /// and its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = millis(Rules::NATIVE.max_break_period))))]
    pub break_period_ms: Option<Number>,
    /// The reason, for the store's log and the lease's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_REASON_BYTES), extend("x-max-bytes" = MAX_REASON_BYTES)))]
    pub reason: Option<String>,
}

impl BreakRequest {
    /// Checks the request, and returns the operation and the reason.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(self, rules: &Rules) -> Result<(Operation, Option<String>), Problem> {
        let most = rules.max_break_period;
        let period = |period: Number| period.millis_up_to("break_period_ms", most);
        let period = self.break_period_ms.map(period).transpose()?;
        Ok((Operation::Break(period), check_reason(self.reason)?))
    }
}

/// The body of `handover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HandOverRequest {
    /// The lease id that holds the lease. Without it, this is the request of an operator: the
    /// holder notices it as a break, and has `within_ms` to stop. Without `within_ms`, the holder
    /// has the rest of its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<LeaseId>"))]
    pub lease_id: Option<String>,
    /// The only candidate that may be granted the lease. It must wait for the lease.
    #[cfg_attr(feature = "schema", schemars(with = "CandidateId"))]
    pub to: String,
    /// The time in which only this candidate may acquire the lease, from the end of the lock delay
    /// on. The store has a limit for it: 10 minutes by default. Required with a `lease_id`; an
    /// operator's default is the duration of the lease, but at most a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = millis(Rules::NATIVE.max_break_period))))]
    pub within_ms: Option<Number>,
    /// Whether the candidate need not wait for the lease; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// The reason, for the store's log, the lease's history and the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_REASON_BYTES), extend("x-max-bytes" = MAX_REASON_BYTES)))]
    pub reason: Option<String>,
}

impl HandOverRequest {
    /// Checks the request, and returns the operation and the reason.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(self, rules: &Rules) -> Result<(Operation, Option<String>), Problem> {
        let (to, most) = (check_name("to", &self.to)?, rules.max_break_period);
        let within = self.within_ms.map(|it| it.millis_up_to("within_ms", most));
        let within = within.transpose()?;
        let forced = self.force.unwrap_or(false);
        let operation = match &self.lease_id {
            Some(lease_id) => Operation::HandOver {
                lease_id: check_name("lease_id", lease_id)?,
                to,
                within: within.ok_or_else(|| {
                    let detail = "within_ms is missing and must be the time of the reservation";
                    Problem::new(Code::OutOfRange, detail)
                })?,
                forced,
            },
            None => Operation::SwitchOver { to, within, forced },
        };
        Ok((operation, check_reason(self.reason)?))
    }
}

/// The body of `PUT metadata`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MetadataRequest {
    /// The lease id that holds the lease.
    #[cfg_attr(feature = "schema", schemars(with = "LeaseId"))]
    pub lease_id: String,
    /// The new metadata of the holder, which replaces the old metadata.
    #[serde(deserialize_with = "object::texts")]
    #[cfg_attr(feature = "schema", schemars(extend("x-max-bytes" = MAX_METADATA_BYTES)))]
    pub metadata: BTreeMap<String, String>,
}

impl MetadataRequest {
    /// Checks the request and returns the operation.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(self) -> Result<Operation, Problem> {
        let lease_id = check_name("lease_id", &self.lease_id)?;
        check_metadata(&self.metadata, MAX_METADATA_BYTES)?;
        Ok(Operation::SetMetadata(lease_id, self.metadata))
    }
}

/// The body of `verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The epoch to verify.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = Epoch::MAX.get())))]
    pub epoch: Number,
}

impl VerifyRequest {
    /// Checks the request and returns the operation.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that names the field and the allowed values.
    pub fn check(&self) -> Result<Operation, Problem> {
        check_epoch("epoch", self.epoch).map(Operation::Verify)
    }
}

/// The response to `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyReply {
    /// Whether the epoch holds the lease now.
    pub current: bool,
    /// The epoch that holds the lease now, if it is held.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Epoch>"))]
    pub epoch: Option<u64>,
}

/// Checks `wait_ms` and returns how long the request may wait.
///
/// # Errors
///
/// [`Code::OutOfRange`] above [`MAX_WAIT`].
pub fn check_wait(wait_ms: Option<Number>) -> Result<Duration, Problem> {
    check_millis("wait_ms", wait_ms, MAX_WAIT)
}

fn check_millis(field: &str, value: Option<Number>, most: Duration) -> Result<Duration, Problem> {
    value.map_or(Ok(Duration::ZERO), |value| value.millis_up_to(field, most))
}

fn check_epoch(field: &str, epoch: Number) -> Result<Epoch, Problem> {
    let number = epoch.within(field, 0, Epoch::MAX.get())?;
    Ok(Epoch::new(number).unwrap_or(Epoch::MAX))
}

fn check_duration(duration: DurationMs, rules: &Rules) -> Result<LeaseDuration, Problem> {
    let DurationMs::Fixed(number) = duration else {
        return Ok(LeaseDuration::Infinite);
    };
    let (least, most) = (millis(rules.min_duration), millis(rules.max_duration));
    let fixed = number
        .within("duration_ms", least, most)
        .map_err(|problem| Problem {
            detail: format!("{}, or \"infinite\"", problem.detail),
            ..problem
        })?;
    Ok(LeaseDuration::Fixed(Duration::from_millis(fixed)))
}

/// Parses a name or an id.
fn check_name<T: FromStr<Err: fmt::Display>>(field: &str, text: &str) -> Result<T, Problem> {
    text.parse()
        .map_err(|error| Problem::new(Code::InvalidName, format!("{field}: {error}")))
}

/// Checks that the keys and values of the metadata have at most `most` bytes in total.
///
/// # Errors
///
/// [`Code::TooLarge`].
pub fn check_metadata(metadata: &Metadata, most: usize) -> Result<(), Problem> {
    let lengths = metadata.iter().map(|(key, value)| key.len() + value.len());
    let bytes: usize = lengths.sum();
    if bytes > most {
        let detail =
            format!("metadata has {bytes} bytes of keys and values, at most {most} are allowed");
        return Err(Problem::new(Code::TooLarge, detail));
    }
    Ok(())
}

fn check_reason(mut reason: Option<String>) -> Result<Option<String>, Problem> {
    if let Some(text) = &mut reason {
        let len = text.len();
        if len > MAX_REASON_BYTES {
            let detail = format!("reason has {len} bytes, at most {MAX_REASON_BYTES} are allowed");
            return Err(Problem::new(Code::TooLarge, detail));
        }
        // Logs show the reason, so a client must not add line breaks or control sequences to them.
        text.retain(|c| !c.is_control());
    }
    Ok(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_reason_cannot_forge_log_lines() {
        let reason = check_reason(Some("tired\n2026 ERROR".to_string()))
            .unwrap()
            .unwrap();
        assert_eq!(reason, "tired2026 ERROR");
    }
}
