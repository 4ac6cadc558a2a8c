//! The requests of a lease candidate, by reads and writes of the object.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use humantime::format_duration;
use tenure_core::lease::candidate::Answer;
use tenure_core::lease::election_record::{
    AwaitedTerm, ElectionRecord, ObservedRecord, RecordClaim, RecordLook, TermMark,
};
use tenure_core::lease::{LeaseDuration, LeaseId};
use tenure_core::time::millis;
use tenure_core::{CandidateId, ElectionName, Epoch, UnixMillis};
use tracing::info;

use super::client::{ApiClient, ApiError, Written};
use super::object::{LeaseObject, MicroTimes};
use super::review::Review;
use crate::base::clock::Clock;
use crate::config::Config;
use crate::http::builder::REQUEST_TIMEOUT;
use crate::http::store::{DurationMs, LeaseView, State};

/// The number of writes that may meet a conflict in one request. Other programs that write the
/// object all the time must not make a leader send requests without a pause.
const ATTEMPTS: u32 = 5;

/// A candidate, or an observer, of the election by one object.
#[derive(Debug)]
pub(super) struct LeaseElection {
    pub(super) client: ApiClient,
    clock: Clock,
    election: ElectionName,
    candidate: CandidateId,
    duration: Duration,
    poll_interval: Duration,
    metadata: BTreeMap<String, String>,
    times: MicroTimes,
    review: Review,
    known: Mutex<Known>,
}

/// The state of this process. It is never locked while a request is in flight.
#[derive(Debug, Default)]
struct Known {
    observed: ObservedRecord,
    /// Whether the object is missing, as the last read tells.
    is_missing: bool,
    /// The object after the last write of a term, with the lease id of that term.
    written: Option<(LeaseId, LeaseObject)>,
    /// The term in [`LeaseElection::log_awaited`]; the inner `None` is an unknown one.
    awaited: Option<Option<(CandidateId, Epoch)>>,
}

impl LeaseElection {
    pub(super) fn new(client: ApiClient, config: &Config, clock: Clock) -> Self {
        Self {
            client,
            clock,
            election: config.election.clone(),
            candidate: config.candidate.clone(),
            duration: config.timings.lease_duration(),
            poll_interval: config.timings.poll_interval(),
            metadata: config.metadata.clone(),
            times: MicroTimes::default(),
            review: Review::default(),
            known: Mutex::default(),
        }
    }

    /// Returns the right that this candidate lacks, as the API server reviews it. Returns `None` once
    /// it has written the object: from then on a missing right may come back.
    pub(super) async fn missing_right(&self, was_refused: bool) -> Option<String> {
        let (has_written, exists) = {
            let known = self.lock();
            (known.written.is_some(), !known.is_missing)
        };
        if has_written {
            return None;
        }
        let (client, timeout) = (&self.client, self.poll_interval);
        let review = self
            .review
            .missing_right(client, exists, was_refused, timeout);
        review.await
    }

    /// Takes the object if it is free, or renews it if this lease id holds it.
    pub(super) async fn acquire(
        &self,
        lease_id: LeaseId,
        min_epoch: Option<Epoch>,
        timeout: Duration,
    ) -> Result<Answer, ApiError> {
        self.client.check_pause()?;
        let (read, record, claim) = loop {
            // A read that hangs must not use up the time in which the object becomes free.
            let read = self.client.read(Instant::now() + timeout / 3).await?;
            let record = read.object.as_ref().map(|object| self.record(object));
            let record = record.transpose()?;
            // The time is read after the answer has arrived.
            let now = self.clock.now();
            let (claim, remaining) = {
                let mut known = self.lock();
                known.is_missing = record.is_none();
                let observed = &mut known.observed;
                let claim = observed.claim(now, record.as_ref(), lease_id, self.duration);
                (claim, observed.remaining(now, self.duration))
            };
            if claim != RecordClaim::Held {
                break (read, record, claim);
            }
            self.log_awaited(now);
            match remaining {
                // The object is free before the next poll, so this candidate reads it at that moment.
                Some(left) if left <= self.poll_interval => tokio::time::sleep(left).await,
                _ => return Ok(self.held_by_another(record.as_ref())),
            }
        };
        let (next, epoch) = match (claim, &record) {
            (RecordClaim::Own(mark), Some(record)) => {
                let Some(renewed) = record.renewed(&mark, self.duration, &self.wall()) else {
                    return Ok(self.held_by_another(Some(record)));
                };
                (renewed, mark.epoch)
            }
            (_, record) => {
                let epoch = self.next_epoch(min_epoch, read.date.as_deref(), record.as_ref())?;
                let by = (&self.candidate, lease_id);
                let wall = self.wall();
                let granted =
                    ElectionRecord::granted(record.as_ref(), by, epoch, self.duration, &wall);
                (granted, epoch)
            }
        };
        // A candidate that could create the object but not renew it must not lead.
        if let Some(right) = self.missing_right(false).await {
            return Err(ApiError::MissingRight(right));
        }
        let object = read.object.unwrap_or_else(|| self.client.new_object());
        let object = object.with_record(&next).with_metadata(&self.metadata);
        match self.client.write(&object, Instant::now() + timeout).await? {
            Written::Done(written) => {
                self.note(lease_id, &object, written)?;
                Ok(Answer::Held(epoch))
            }
            // Another candidate was faster, or another program has written the object.
            Written::Conflict | Written::Missing => Ok(Answer::HeldByAnother(None)),
        }
    }

    /// Renews a term.
    pub(super) async fn renew(
        &self,
        lease_id: LeaseId,
        until: Instant,
    ) -> Result<Answer, ApiError> {
        let renewed = |record: &ElectionRecord, mark: &TermMark, object: &LeaseObject| {
            let renewed = record.renewed(mark, self.duration, &self.wall())?;
            Some(object.with_record(&renewed))
        };
        let epoch = self.replace(lease_id, until, renewed).await?;
        Ok(epoch.map_or(Answer::Superseded, Answer::Held))
    }

    /// Reads the object while the term of this lease id runs.
    pub(super) async fn look(&self, lease_id: LeaseId, until: Instant) -> Result<Answer, ApiError> {
        self.client.check_pause()?;
        let written = self.written(lease_id).map(|it| self.record(&it));
        let written = written.transpose()?.and_then(|record| record.mark);
        let object = match self.client.read(until).await {
            Err(ApiError::Unreachable { .. }) => return Ok(Answer::Released),
            read => read?.object,
        };
        let (Some(object), Some(mark)) = (object, written) else {
            return Ok(Answer::Superseded);
        };
        Ok(match self.record(&object)?.look(&mark) {
            RecordLook::Kept => Answer::Held(mark.epoch),
            RecordLook::Removed => Answer::Released,
            RecordLook::Over => Answer::Superseded,
        })
    }

    /// Releases the object if this lease id holds it.
    pub(super) async fn release(
        &self,
        lease_id: LeaseId,
        until: Instant,
    ) -> Result<Answer, ApiError> {
        let released = |record: &ElectionRecord, mark: &TermMark, object: &LeaseObject| {
            let object = object.with_record(&record.released(mark, &self.wall())?);
            Some(object.with_metadata(&BTreeMap::new()))
        };
        let epoch = self.replace(lease_id, until, released).await?;
        Ok(epoch.map_or(Answer::Superseded, |_| Answer::Released))
    }

    /// Replaces the leader's metadata. Other candidates do not take that for a renewal.
    pub(super) async fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: &BTreeMap<String, String>,
        until: Instant,
    ) -> Result<(), ApiError> {
        let proclaimed = |record: &ElectionRecord, mark: &TermMark, object: &LeaseObject| {
            let is_own = record
                .running()
                .is_some_and(|it| it.lease_id == mark.lease_id);
            is_own.then(|| object.with_metadata(metadata))
        };
        let epoch = self.replace(lease_id, until, proclaimed).await?;
        epoch
            .map(drop)
            .ok_or_else(|| self.client.malformed("the term of this lease id is over"))
    }

    /// Returns the lease as a store would show it. The object has no remaining time that this
    /// process could know, no waiters and no revision, so these values are null or 0.
    pub(super) async fn view(&self) -> Result<Option<LeaseView>, ApiError> {
        let read = self.client.read(Instant::now() + REQUEST_TIMEOUT).await?;
        let Some(object) = read.object else {
            return Ok(None);
        };
        let record = self.record(&object)?;
        let now = self.clock.now();
        let is_held = {
            let observed = &mut self.lock().observed;
            observed.observe(now, &record);
            observed.remaining(now, self.duration).is_some()
        };
        let leader = record.running();
        let mut holding = record.holding.clone();
        if let (None, Some(mark)) = (&holding.holder, leader) {
            // Another program has emptied the object, and the term goes on.
            holding.holder = Some(mark.holder.to_string());
            (holding.duration, holding.acquired) = (Some(mark.duration), None);
        }
        let state = match (&holding.holder, is_held) {
            (None, _) => State::Available,
            (Some(_), true) => State::Leased,
            (Some(_), false) => State::Expired,
        };
        let election = &self.election;
        let (namespace, name) = (election.namespace.to_string(), election.name.to_string());
        let mut view = LeaseView::new(namespace, name, state);
        if state == State::Leased {
            view.epoch = leader.map(|it| it.epoch.get());
            view.granted_at = holding.acquired;
            view.duration_ms = holding
                .duration
                .map(|it| DurationMs::from(LeaseDuration::Fixed(it)));
            // Another program that holds the object keeps the metadata of the last leader.
            view.metadata = Some(leader.map(|_| object.metadata()).unwrap_or_default());
            view.holder = holding.holder;
        }
        Ok(Some(view))
    }

    /// Returns the term that a candidate waits for that reads the object now for the first time.
    pub(super) async fn awaited(&self) -> Result<Option<AwaitedTerm>, ApiError> {
        let read = self.client.read(Instant::now() + REQUEST_TIMEOUT).await?;
        let Some(object) = read.object else {
            return Ok(None);
        };
        let (record, now) = (self.record(&object)?, self.clock.now());
        let observed = &mut self.lock().observed;
        observed.observe(now, &record);
        Ok(observed.awaited(now, self.duration))
    }

    /// Replaces the object while this lease id holds it. If another program has changed the object
    /// meanwhile, reads it and tries again. Returns the epoch of the term; `None` if the lease id
    /// does not hold the object.
    async fn replace(
        &self,
        lease_id: LeaseId,
        until: Instant,
        change: impl Fn(&ElectionRecord, &TermMark, &LeaseObject) -> Option<LeaseObject>,
    ) -> Result<Option<Epoch>, ApiError> {
        let mut object = self.written(lease_id);
        let written = object
            .as_ref()
            .map(|object| self.record(object))
            .transpose()?;
        let written = written.and_then(|record| record.mark);
        for _ in 0..ATTEMPTS {
            let current = match object.take() {
                Some(object) => object,
                None => match self.client.read(until).await?.object {
                    Some(object) => object,
                    None => return Ok(None),
                },
            };
            let record = self.record(&current)?;
            // Without an own write, the outcome of the acquire is unknown, and the record tells it.
            let found = record.mark.as_ref().filter(|it| it.lease_id == lease_id);
            let Some(mark) = written.as_ref().or(found) else {
                return Ok(None);
            };
            let Some(next) = change(&record, mark, &current) else {
                return Ok(None);
            };
            match self.client.write(&next, until).await? {
                Written::Done(written) => {
                    self.note(lease_id, &next, written)?;
                    return Ok(Some(mark.epoch));
                }
                Written::Conflict => {}
                Written::Missing => return Ok(None),
            }
        }
        Err(self.client.conflicts(ATTEMPTS))
    }

    /// Returns the epoch of a grant that replaces this record. The date has whole seconds. The
    /// number of holders in its last three digits makes the epochs of one second differ, even if
    /// another program has removed the last one.
    fn next_epoch(
        &self,
        min_epoch: Option<Epoch>,
        date: Option<&str>,
        record: Option<&ElectionRecord>,
    ) -> Result<Epoch, ApiError> {
        let wall = date.and_then(wall_of);
        let wall = wall.ok_or_else(|| self.client.malformed("the answer has no date"))?;
        let holders = record.map_or(0, |it| u64::from(it.holding.transitions) + 1);
        let wall = wall.get() + holders % 1_000;
        let wall = UnixMillis::new(wall.max(min_epoch.map_or(0, Epoch::get)));
        let next = self.lock().observed.next_epoch(wall);
        next.ok_or_else(|| self.client.malformed("no epoch is left"))
    }

    /// Logs once for each term that this candidate waits for it, although the object has no holder, or
    /// one that has expired.
    fn log_awaited(&self, now: tenure_core::Instant) {
        let mut known = self.lock();
        let Some(awaited) = known.observed.awaited(now, self.duration) else {
            return;
        };
        let is_new = known.awaited.as_ref() != Some(&awaited.leader);
        known.awaited = Some(awaited.leader.clone());
        drop(known);
        if !is_new {
            return;
        }
        let (election, candidate) = (&self.election, &self.candidate);
        let remaining = format_duration(Duration::from_millis(millis(awaited.remaining)));
        match awaited.leader {
            Some((leader, epoch)) => {
                info!(%election, %candidate, %leader, epoch = epoch.get(), %remaining,
                    "the object has no valid holder, but a term may still run: waiting for its end");
            }
            None => {
                info!(%election, %candidate, %remaining,
                    "the object does not show whether a term of tenure runs: waiting as if one did");
            }
        }
    }

    /// Returns the holder and its epoch, if both are known. The record may still contain this
    /// candidate.
    fn held_by_another(&self, record: Option<&ElectionRecord>) -> Answer {
        let leader = record.and_then(ElectionRecord::running);
        let leader = leader.filter(|it| it.holder != self.candidate);
        Answer::HeldByAnother(leader.map(|it| (it.holder.clone(), it.epoch)))
    }

    fn record(&self, object: &LeaseObject) -> Result<ElectionRecord, ApiError> {
        object
            .record()
            .map_err(|reason| self.client.malformed(reason))
    }

    /// Notes the object after a write of this lease id.
    ///
    /// # Errors
    ///
    /// If the answer shows another term than the one that was sent. Other servers also answer 200.
    fn note(
        &self,
        lease_id: LeaseId,
        sent: &LeaseObject,
        written: LeaseObject,
    ) -> Result<(), ApiError> {
        let (sent, record) = (self.record(sent)?, self.record(&written)?);
        let term = |record: &ElectionRecord| (record.mark.clone(), record.epoch);
        if term(&sent) != term(&record) || sent.holding.holder != record.holding.holder {
            let reason = "the answer to a write shows another term than the one that was sent";
            return Err(self.client.malformed(reason));
        }
        let mut known = self.lock();
        known.observed.observe(self.clock.now(), &record);
        known.written = Some((lease_id, written));
        Ok(())
    }

    fn written(&self, lease_id: LeaseId) -> Option<LeaseObject> {
        let known = self.lock();
        let (of, object) = known.written.as_ref()?;
        (*of == lease_id).then(|| object.clone())
    }

    fn wall(&self) -> String {
        self.times.next(SystemTime::now())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an HTTP date, which has whole seconds.
fn wall_of(date: &str) -> Option<UnixMillis> {
    let date = httpdate::parse_http_date(date).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(UnixMillis::new(millis(since_1970)))
}
