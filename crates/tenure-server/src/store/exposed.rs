//! The metrics of the store.

use std::sync::atomic::Ordering;

use tenure_core::Instant;
use tenure_core::lease::{LeaseDuration, State};

use super::{Entry, Store};
use crate::engine;
use crate::metrics::{Exposition, LeaseSample, LeaseSurvey, MetricsConfig, Sample};
use crate::model::LeaseKey;

impl Store {
    /// Walks over all leases.
    pub(crate) fn survey(&self, config: &MetricsConfig) -> LeaseSurvey {
        let mut survey = LeaseSurvey::new(config, self.inner.floors().of_all());
        let now = self.inner.clock.now();
        let add = |key: &LeaseKey, entry: &Entry| survey.add(config, key, sample(entry, now));
        self.inner.table.visit_all(add);
        survey
    }

    /// Returns the kind of the home.
    pub(crate) fn home_name(&self) -> &'static str {
        match (&self.inner.member, &self.inner.data_dir) {
            (Some(member), _) => member.config.home.name(),
            (None, Some(_)) => "folder",
            (None, None) => "memory",
        }
    }

    /// Adds the metrics of the store, except for those of its leases.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let (inner, limits) = (&self.inner, &self.inner.limits);
        inner.metrics.expose(out);
        if let Some(member) = &inner.member {
            member.expose(out);
        }
        let long_polls = inner.long_polls.load(Ordering::Relaxed);
        let waiting = inner.waiting.taken();
        let mut gauge = |name, help, value: usize| {
            out.gauge(name, help, [Sample::count(value as u64)]);
        };
        gauge(
            "tenure_waiting",
            "Acquires and long polls that wait.",
            waiting,
        );
        gauge(
            "tenure_waiting_limit",
            "The limit of tenure_waiting.",
            limits.max_waiting,
        );
        gauge("tenure_long_polls", "Long polls that wait.", long_polls);
        gauge(
            "tenure_long_polls_limit",
            "The limit of tenure_waiting, which includes the long polls.",
            limits.max_waiting,
        );
        gauge("tenure_watchers", "Event streams.", inner.watching.taken());
        gauge(
            "tenure_watchers_limit",
            "The limit of tenure_watchers.",
            limits.max_watchers,
        );
        gauge(
            "tenure_journal_queue",
            "Requests whose changes wait for a commit.",
            inner.commit_queue.queued(),
        );
        let history = inner.history.lock();
        let (terms, forgotten) = (history.len(), history.forgotten());
        drop(history);
        gauge(
            "tenure_past_terms",
            "The past terms that the store remembers.",
            terms,
        );
        let is_disk_full = inner.metrics.is_disk_full.load(Ordering::Relaxed);
        out.gauge(
            "tenure_disk_full",
            "Whether the last commit failed because the disk was full.",
            [Sample::flag(is_disk_full)],
        );
        out.gauge(
            "tenure_home_failed",
            "Whether the home failed for good. The store then ends.",
            [Sample::flag(inner.failed.is_cancelled())],
        );
        out.counter(
            "tenure_past_terms_forgotten_total",
            "Past terms that were forgotten because there were more than serve.max_terms.",
            [Sample::count(forgotten)],
        );
        let sizes = inner
            .data_dir
            .iter()
            .flat_map(|folder| engine::sizes(folder));
        out.gauge(
            "tenure_database_bytes",
            "The sizes of the snapshots and of the log in the data directory.",
            sizes.map(|(file, bytes)| Sample::count(bytes).with("file", file)),
        );
    }
}

fn sample(entry: &Entry, now: Instant) -> LeaseSample {
    let record = entry.lease.record();
    let (held, state) = (record.held(now), record.state(now));
    let renewal_age_ratio = match (held.map(|grant| grant.duration), record.remaining(now)) {
        (Some(LeaseDuration::Fixed(duration)), Some(LeaseDuration::Fixed(remaining)))
            // The remaining time of a break does not depend on the last renewal.
            if state == State::Leased && !duration.is_zero() =>
        {
            let age = duration.saturating_sub(remaining);
            Some(age.as_secs_f64() / duration.as_secs_f64())
        }
        _ => None,
    };
    LeaseSample {
        state: entry.is_known().then_some(state),
        last_epoch: record.last_epoch(),
        epoch: record.last_grant().map(|grant| grant.epoch),
        waiters: entry.waiters(),
        granted_at: held.map(|grant| grant.granted_at),
        renewal_age_ratio,
        terms: entry.terms,
    }
}
