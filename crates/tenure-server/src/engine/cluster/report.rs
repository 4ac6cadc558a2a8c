//! What a server logs, shows and counts about its part in the cluster.

use std::time::Duration;

use tenure_core::Instant;
use tenure_core::ownership::{AppendOutcome, Refusal};
use tenure_register::Failure;
use tracing::{error, info, warn};

use super::log::ClusterLog;
use crate::metrics::AppendResult;

/// The time after which a message about a failure that lasts is logged again.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// What a server has reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The number of entries in a row that another server with the same name has written, and the
    /// number of the last one.
    namesakes: (u32, u64),
    /// The messages of the last minute, with their times: see [`ClusterLog::is_news`].
    logged: Vec<(String, Instant)>,
    /// The failure of the last reads, if the last one failed.
    away: Option<Away>,
    /// The reason why the machine is barred from taking the log over, if it is.
    pub(super) barred: Option<String>,
    /// The reason, as it was logged, why the log is closed for this server.
    closed: Option<String>,
}

/// Reads that failed, without a success since the first of them.
#[derive(Debug)]
struct Away {
    since: Instant,
    /// Whether the failure was logged.
    is_logged: bool,
}

impl ClusterLog {
    /// Takes nothing over for this reason, or again if there is none.
    pub(super) fn bar(&mut self, reason: Option<String>) {
        self.machine.bar(reason.is_some());
        self.reports.barred = reason;
    }

    /// Counts an attempt of an append.
    pub(super) fn count(&self, outcome: &AppendOutcome, took: Duration) {
        let result = match outcome {
            AppendOutcome::Committed => AppendResult::Done,
            AppendOutcome::Superseded(_) => AppendResult::Refused,
            AppendOutcome::Refused => AppendResult::NotApplied,
            AppendOutcome::Unknown => AppendResult::Unknown,
        };
        self.status.metrics.appended(result, took);
        if result == AppendResult::Done {
            self.status.change(|view| view.note_call(took));
        }
    }

    pub(super) fn lapsed(&self) {
        let timings = self.machine.timings();
        let time = timings.ownership().saturating_sub(timings.margin());
        let error = self.status.view().error;
        let error = error.unwrap_or_else(|| format!("{}: no answer", self.home.kind));
        warn!(
            "no append for {} ({error}), answering nobody until it works",
            seconds(time)
        );
        self.status.metrics.lapsed();
    }

    pub(super) fn resumed(&mut self) {
        self.forget(self.now());
        info!("an append to {} succeeded again", self.home.kind);
    }

    /// Reports that another entry than that of this owner stands in the log.
    pub(super) fn deposed(&self) {
        match self.ring.tail() {
            // The home shows an older log, or none: a refusal says more, if it lasts.
            Some(value) if value.tail.owner == self.owner => {
                warn!("deposed: the home does not show the last entry of this server; following");
            }
            _ => warn!("deposed: {}; following", self.owner_text()),
        }
    }

    /// Publishes the deadline of answers from memory, and the role.
    pub(super) fn publish(&self) {
        self.status.serving.set(self.machine.serves_until());
        let role = self.machine.role(self.now());
        let facts = self.home.files.facts();
        self.status.change(|view| {
            view.role = role;
            view.facts = facts;
            if self.reports.namesakes.0 == 0 {
                view.namesake = None;
            }
            // The text of a refusal of the machine is there already.
            if self.machine.refusal().is_none() {
                let closed = self.closed().map(|reason| reason.to_string());
                view.refusal = closed.or_else(|| self.reports.barred.clone());
            }
            if let Some(value) = self.ring.tail() {
                view.note_tail(value);
            }
        });
    }

    /// Returns the reason of a refusal with its remedy.
    pub(super) fn remedy(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::OtherHome { .. } => {
                let written = self.ring.tail().map(|it| it.about.home.as_str());
                other_home(written, &self.ring.home_text())
            }
            Refusal::WentBack { .. } => format!(
                "{refusal}. If a backup was restored there, restart this server. Else stop all \
                 servers, then: tenure cluster recover; or restore a backup into another prefix, \
                 schema or cluster name"
            ),
            Refusal::NewerFormat { found } => format!(
                "the log has format {found}, which this version does not know: upgrade the standbys \
                 first"
            ),
            Refusal::SlotDeleted { .. } | Refusal::SlotDamaged { .. } => format!(
                "{refusal}: another program writes to the log in {}. Make a backup while a server is \
                 active, stop all servers, and restore it into another prefix, schema or cluster name",
                self.home.place
            ),
        }
    }

    /// Notes the newest entry. Another server with the same name is a mistake of an operator: this one
    /// could not tell its clients which server is active.
    pub(super) fn note_tail(&mut self) {
        let Some(value) = self.ring.tail() else {
            return;
        };
        let (sequence, closed) = (value.tail.sequence, self.closed().map(|it| it.to_string()));
        let is_namesake =
            value.about.server == self.config.server && value.tail.owner != self.owner;
        let address = value.about.address.clone();
        if closed != self.reports.closed {
            if let Some(reason) = &closed {
                warn!("taking nothing over: {reason}");
            }
            self.reports.closed = closed;
        }
        let (count, last) = self.reports.namesakes;
        let count = match is_namesake {
            false => 0,
            true if sequence > last => count.saturating_add(1),
            true => count,
        };
        self.reports.namesakes = (count, sequence);
        // The first new entry may be the last one of this server before it was restarted.
        if count < 3 {
            return;
        }
        let text = format!(
            "another server of this cluster, at {address}, has the name {}, too: give each server its \
             own cluster.server",
            self.config.server
        );
        self.warn(&text);
        self.status.change(|view| view.namesake = Some(text));
    }

    /// Reports a refusal of the machine.
    pub(super) fn refuse(&self, refusal: &Refusal) {
        let text = self.remedy(refusal);
        error!("{text}");
        self.status.change(|view| view.refusal = Some(text));
    }

    /// Notes the outcome of a request. Returns whether it logged an error.
    pub(super) fn note_failure(&mut self, failure: Option<&Failure>) -> bool {
        let text = failure.map(|failure| format!("{}: {failure}", self.home.kind));
        let is_logged = match (failure, &text) {
            (Some(Failure::Misconfigured(_) | Failure::Full(_)), Some(text)) => self.is_news(text),
            _ => false,
        };
        if let Some(text) = text.as_ref().filter(|_| is_logged) {
            error!("{text}");
        }
        self.status.change(|view| view.error = text);
        is_logged
    }

    /// Notes that a read has failed, and whether that was logged as an error, which says what to
    /// change. A failure that lasts is logged once: this server could not take over now.
    pub(super) fn note_away(&mut self, now: Instant, failure: &Failure, is_logged: bool) {
        let away = self.reports.away.get_or_insert(Away {
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
                "no read of the log for {} ({}: {failure}), taking nothing over until it works",
                seconds(time),
                self.home.kind
            );
        }
    }

    /// Notes that a read has succeeded.
    pub(super) fn note_back(&mut self, now: Instant) {
        if let Some(away) = self.reports.away.take().filter(|away| away.is_logged) {
            self.forget(now);
            info!(
                "the log in {} can be read again, after {}",
                self.home.kind,
                seconds(now.since(away.since))
            );
        }
    }

    /// Forgets what was logged while the home was away. The same reason is news again, unless single
    /// requests fail in between.
    fn forget(&mut self, now: Instant) {
        let recent = self.machine.timings().ownership();
        self.reports
            .logged
            .retain(|(_, at)| now.since(*at) < recent);
    }

    /// Logs a warning if it is news.
    pub(super) fn warn(&mut self, text: &str) {
        if self.is_news(text) {
            warn!("{text}");
        }
    }

    /// Returns whether a message was not logged within the last minute, or since the home was away. A
    /// home that refuses is asked several times in a second, and reads may succeed in between.
    pub(super) fn is_news(&mut self, text: &str) -> bool {
        let now = self.now();
        let logged = &mut self.reports.logged;
        logged.retain(|(_, at)| now.since(*at) < LOG_AGAIN);
        let is_news = logged.iter().all(|(logged, _)| logged != text);
        if is_news {
            logged.push((text.to_owned(), now));
        }
        is_news
    }
}

/// Returns what it means that the log was written at another home than the one that answers.
pub(super) fn other_home(written: Option<&str>, answering: &str) -> String {
    format!(
        "the log was written in {} and this is {answering}: a restored or promoted server, a copy, or \
         a wrong address. If a promotion of PostgreSQL loses nothing, write failover=lossless into home \
         before. Stop all servers, then: tenure cluster recover",
        written.unwrap_or("another home")
    )
}

/// Returns a duration as messages have it.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
