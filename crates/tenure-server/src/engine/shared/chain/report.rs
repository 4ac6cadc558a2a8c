//! What a server logs, shows and counts about its part in the cluster.

use std::time::Duration;

use tenure_core::Instant;
use tenure_core::ownership::{AppendOutcome, Refusal};
use tracing::{error, info, warn};

use super::super::head::HeadRecord;
use super::super::log::LogError;
use super::{Chain, remedy};
use crate::metrics::AppendResult;

/// The time after which a message about a failure that lasts is logged again.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// Reads that failed, without a success since the first of them.
#[derive(Debug)]
pub(super) struct Away {
    since: Instant,
    /// Whether the failure was logged.
    is_logged: bool,
}

impl Chain {
    /// Counts an attempt of an append.
    pub(super) fn count(&self, outcome: &AppendOutcome, took: Duration) {
        let result = match outcome {
            AppendOutcome::Committed => AppendResult::Done,
            AppendOutcome::Superseded(_) => AppendResult::Refused,
            AppendOutcome::Refused => AppendResult::NotApplied,
            AppendOutcome::Unknown => AppendResult::Unknown,
        };
        let status = &self.shell.status;
        status.metrics.appended(result, took);
        if result == AppendResult::Done {
            status.change(|view| view.note_call(took));
        }
    }

    pub(super) fn lapsed(&self) {
        let timings = self.machine.timings();
        let time = timings.ownership().saturating_sub(timings.margin());
        let error = self.shell.status.view().error;
        let error = error.unwrap_or_else(|| format!("{}: no answer", self.shell.service()));
        warn!(
            "no append for {} ({error}), answering nobody until it works",
            seconds(time)
        );
        self.shell.status.metrics.lapsed();
    }

    /// Reports that another head than that of this owner stands in the log.
    pub(in super::super) fn deposed(&self) {
        match self.record() {
            // The head that was found is not one of the log; a refusal says more.
            Some(record) if record.server == self.shell.server => warn!("deposed; following"),
            _ => warn!("deposed: {}; following", self.owner()),
        }
    }

    /// Publishes the deadline of answers from memory, and the role.
    pub(in super::super) fn publish(&self) {
        self.shell.serving.set(self.machine.serves_until());
        let role = self.machine.role(self.now());
        let facts = self.log.facts();
        self.shell.status.change(|view| {
            view.role = role;
            view.facts = facts;
            if self.namesakes == 0 {
                view.namesake = None;
            }
            // The text of a refusal of the machine is there already.
            if self.machine.refusal().is_none() {
                let closed = self.record().and_then(|record| self.closed(record));
                let closed = closed.map(|reason| reason.to_string());
                view.refusal = closed.or_else(|| self.barred.clone());
            }
            if let Some(record) = self.record() {
                view.note_head(record);
                let engine = record.head.engine;
                let known = view.identity.as_ref().map(|(known, _)| *known);
                if known != Some(engine) {
                    view.identity = Some((engine, self.shell.connect.identity(engine)));
                }
            }
        });
    }

    /// Returns the reason of a refusal with its remedy.
    pub(super) fn remedy(&self, refusal: &Refusal) -> String {
        remedy(&*self.shell.connect, refusal, self.other_store.as_ref())
    }

    /// Notes a head, before it is the known one. Another server with the same name is a mistake of an
    /// operator: this one could not tell its clients which server is active.
    pub(super) fn note_namesake(&mut self, bytes: &[u8], record: &HeadRecord) {
        let name = &self.shell.server.name;
        let is_new = matches!(&self.known, Some((known, _)) if known != bytes);
        match record.server.name == *name && record.head.owner != self.owner {
            false => self.namesakes = 0,
            true if is_new => self.namesakes = self.namesakes.saturating_add(1),
            true => {}
        }
        // The first new head may be the last append of this server before it was restarted.
        if self.namesakes < 2 {
            return;
        }
        let text = format!(
            "another server of this cluster, at {}, has the name {name}, too: give each server its own \
             cluster.server",
            record.server.address
        );
        if self.is_news(&text) {
            warn!("{text}");
        }
        self.shell.status.change(|view| view.namesake = Some(text));
    }

    /// Reports a refusal of the machine.
    pub(in super::super) fn refuse(&self, refusal: &Refusal) {
        let text = self.remedy(refusal);
        error!("{text}");
        self.shell.status.change(|view| view.refusal = Some(text));
    }

    /// Notes the outcome of a call. Returns whether it logged an error.
    pub(in super::super) fn note_error(&mut self, error: Option<&LogError>) -> bool {
        let text = error.map(|error| format!("{}: {error}", self.shell.service()));
        let is_logged = match (error, &text) {
            (Some(LogError::Misconfigured(_) | LogError::Full(_)), Some(text)) => {
                self.is_news(text)
            }
            _ => false,
        };
        if let Some(text) = text.as_ref().filter(|_| is_logged) {
            error!("{text}");
        }
        self.shell.status.change(|view| view.error = text);
        is_logged
    }

    /// Notes that a read has failed, and whether that was logged as an error, which says what to
    /// change. A failure that lasts is logged once: this server could not take over now.
    pub(super) fn note_away(&mut self, now: Instant, error: &LogError, is_logged: bool) {
        let away = self.away.get_or_insert(Away {
            since: now,
            is_logged: false,
        });
        let time = now.since(away.since);
        if away.is_logged {
            return;
        }
        away.is_logged = is_logged;
        if !is_logged && time >= self.machine.timings().ownership() {
            away.is_logged = true;
            warn!(
                "no read of the log for {} ({}: {error}), taking nothing over until it works",
                seconds(time),
                self.shell.service()
            );
        }
    }

    /// Notes that a read has succeeded.
    pub(super) fn note_back(&mut self, now: Instant) {
        if let Some(away) = self.away.take().filter(|away| away.is_logged) {
            self.forget(now);
            info!(
                "the log in {} can be read again, after {}",
                self.shell.service(),
                seconds(now.since(away.since))
            );
        }
    }

    /// Forgets what was logged while the service was away. The same reason is news again, unless
    /// single calls fail in between.
    pub(super) fn forget(&mut self, now: Instant) {
        let recent = self.machine.timings().ownership();
        self.logged.retain(|(_, at)| now.since(*at) < recent);
    }

    /// Returns whether a message was not logged within the last minute, or since the service was away.
    /// A service that refuses is asked several times in a second, and reads may succeed in between.
    pub(in super::super) fn is_news(&mut self, text: &str) -> bool {
        let now = self.now();
        self.logged.retain(|(_, at)| now.since(*at) < LOG_AGAIN);
        let is_news = self.logged.iter().all(|(logged, _)| logged != text);
        if is_news {
            self.logged.push((text.to_owned(), now));
        }
        is_news
    }
}

/// Returns a duration as messages have it.
pub(in super::super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
