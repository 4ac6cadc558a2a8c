//! The rows of one walk over the leases.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::lease::{LeaseDuration, Owner, Record, State};
use tenure_core::time::millis;
use tenure_core::wire::OverviewRow;
use tenure_core::{CandidateId, Epoch, Instant, UnixMillis};

use super::super::{Entry, Inner};
use super::look::{Facts, Reasons, reasons};
use crate::clock;
use crate::model::LeaseKey;
use crate::table::Place;

/// The number of leases that are read before the lock of their shard is released: some 30 us.
const PAGE: usize = 128;

/// The time for which a walk works before it rests. A request that needs a processor meanwhile waits
/// no longer than it may wait for another request.
const WORK: Duration = Duration::from_millis(1);

/// All leases of a namespace, or of all namespaces, at one moment.
#[derive(Debug)]
pub(in crate::store) struct Snapshot {
    /// Leases that need a look first, and then by namespace and name.
    pub(super) rows: Vec<ElectionStatus>,
    /// The beginning of the walk: all rows are at least as new as this.
    pub(super) taken: Instant,
    /// The time that the walk worked, without its rests.
    pub(super) cost: Duration,
}

/// One lease.
#[derive(Debug)]
pub(super) struct ElectionStatus {
    key: LeaseKey,
    pub(super) state: State,
    /// The holder, its owner, and the beginning of its term.
    held: Option<(CandidateId, Option<Owner>, UnixMillis)>,
    epoch: Option<Epoch>,
    duration: Option<LeaseDuration>,
    remaining: Option<Duration>,
    ended_at: Option<UnixMillis>,
    waiters: u64,
    recent_terms: u32,
    pub(super) look: Reasons,
}

impl Snapshot {
    /// Reads the leases of a namespace (`None`: of all namespaces), one page after the other.
    /// Expected leases have rows even if they do not exist. The call blocks.
    pub(super) fn take(
        inner: &Inner,
        namespace: Option<&str>,
        expected: &BTreeSet<LeaseKey>,
    ) -> Self {
        let (taken, mut rows) = (inner.clock.now(), Vec::new());
        let (mut cost, mut worked, mut began) = (Duration::ZERO, Duration::ZERO, taken);
        let mut place = Some(Place::default());
        while let Some(at) = place {
            place = inner.table.visit(namespace, at, PAGE, |key, entry| {
                let is_expected = !expected.is_empty() && expected.contains(&key);
                rows.extend(row(inner, key, entry, is_expected));
            });
            let now = inner.clock.now();
            worked += now.since(began);
            if worked >= WORK {
                cost += std::mem::take(&mut worked);
                std::thread::sleep(WORK);
            }
            began = inner.clock.now();
        }
        let known: BTreeSet<&LeaseKey> = match expected.is_empty() {
            true => BTreeSet::new(),
            false => rows.iter().map(|row| &row.key).collect(),
        };
        let is_asked = |key: &LeaseKey| namespace.is_none_or(|name| key.namespace() == name);
        let missing = expected.iter().filter(|key| is_asked(key));
        let missing = missing.filter(|key| !known.contains(key));
        let missing: Vec<ElectionStatus> = missing.map(|key| of_missing(key.clone())).collect();
        rows.extend(missing);
        rows.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        cost += worked + inner.clock.now().since(began);
        Self { rows, taken, cost }
    }
}

impl ElectionStatus {
    pub(super) fn namespace(&self) -> &str {
        self.key.namespace()
    }

    pub(super) fn lease(&self) -> &str {
        self.key.lease()
    }

    /// Returns the key by which rows are sorted: leases that need a look first.
    pub(super) fn order(&self) -> (bool, &str, &str) {
        (self.look.is_empty(), self.namespace(), self.lease())
    }

    /// Returns whether the name of the lease or its holder contains this text, which has no ASCII
    /// capitals.
    pub(super) fn contains(&self, text: &str) -> bool {
        let holder = self.held.as_ref().map(|(holder, ..)| holder.as_str());
        [Some(self.key.as_str()), holder]
            .into_iter()
            .flatten()
            .any(|name| contains(name, text))
    }

    pub(super) fn view(&self) -> OverviewRow {
        let held = self.held.as_ref();
        let mut view = OverviewRow::new(self.namespace(), self.lease(), self.state);
        view.holder = held.map(|(holder, ..)| holder.as_str().into());
        view.owner = held.and_then(|(_, owner, _)| Some(owner.as_ref()?.as_str().into()));
        view.epoch = self.epoch.map(Epoch::get);
        view.duration_ms = self.duration.map(Into::into);
        view.remaining_ms = self.remaining.map(millis);
        view.granted_at = held.and_then(|(.., granted_at)| clock::rfc3339(*granted_at));
        view.ended_at = self.ended_at.and_then(clock::rfc3339);
        view.waiters = self.waiters;
        view.recent_terms = self.recent_terms.into();
        view.look = self.look.iter().collect();
        view
    }
}

/// Returns whether `name` contains `text`, in capitals or not.
fn contains(name: &str, text: &str) -> bool {
    let (name, text) = (name.as_bytes(), text.as_bytes());
    text.is_empty()
        || name
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text))
}

/// Returns the row of a lease; `None` if it does not exist. The row shows the durable state: a grant
/// that is not on disk yet might be undone. So no answer has to wait for a commit.
fn row(inner: &Inner, key: LeaseKey, entry: &Entry, is_expected: bool) -> Option<ElectionStatus> {
    let now = inner.clock.now();
    let is_durable = entry.revision <= inner.commit_queue.durable();
    let earlier = match is_durable {
        true => None,
        false => inner.commit_queue.last_durable(&key),
    };
    let current = entry.lease.record();
    let record = earlier.as_ref().map_or(current, |earlier| &earlier.record);
    if record.last_grant().is_none() && !is_expected {
        return None;
    }
    let (state, held) = (record.state(now), record.held(now));
    let ended = match held {
        Some(_) => None,
        None => record.lapsed_at(now).or_else(|| entry.recent.ended()),
    };
    let waiters = entry.waiters();
    let (duration, waited) = match held {
        Some(grant) => (grant.duration, None),
        None => of_queue(record, entry, now),
    };
    let remaining = record.remaining(now).and_then(LeaseDuration::fixed);
    let recent_terms = entry.recent.terms(now);
    let free_for = ended.map(|ended| now.since(ended));
    let look = reasons(Facts {
        state,
        duration,
        remaining,
        free_for,
        waited,
        recent_terms,
        is_expected,
    });
    Some(ElectionStatus {
        state,
        held: held.map(|grant| (grant.holder.clone(), grant.owner.clone(), grant.granted_at)),
        epoch: record.last_grant().map(|grant| grant.epoch),
        duration: held.map(|grant| grant.duration),
        remaining,
        ended_at: free_for.map(clock::before),
        waiters,
        recent_terms,
        look,
        key,
    })
}

/// Returns the duration by which the wait for a free lease is judged, and the longest wait.
fn of_queue(record: &Record, entry: &Entry, now: Instant) -> (LeaseDuration, Option<Duration>) {
    let mut waiters = entry.lease.waiters().map(|(_, waiting)| waiting);
    let last = record.last_grant().map(|grant| grant.duration);
    let first = waiters.next();
    let of_first = first.map(|waiting| waiting.request.duration);
    let since = first.into_iter().chain(waiters);
    let since = since.map(|waiting| waiting.since).min();
    let duration = last.or(of_first).unwrap_or(LeaseDuration::Infinite);
    (duration, since.map(|since| now.since(since)))
}

/// Returns the row of an expected lease that does not exist.
fn of_missing(key: LeaseKey) -> ElectionStatus {
    let state = State::Available;
    ElectionStatus {
        key,
        state,
        held: None,
        epoch: None,
        duration: None,
        remaining: None,
        ended_at: None,
        waiters: 0,
        recent_terms: 0,
        look: reasons(Facts {
            state,
            duration: LeaseDuration::Infinite,
            remaining: None,
            free_for: None,
            waited: None,
            recent_terms: 0,
            is_expected: true,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn a_part_of_a_name_is_found_in_capitals_or_not() {
        for text in ["", "ns/job", "s/j", "B-1", "job-1"] {
            let text = text.to_ascii_lowercase();
            assert!(contains("ns/Job-1", &text), "{text}");
        }
        for text in ["ns/job-11", "x", "job_1"] {
            assert!(!contains("ns/Job-1", text), "{text}");
        }
    }
}
