//! The state of a server of a cluster, for operators and for other threads of the server.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::ownership::{OwnershipRole, TailState};
use tenure_register::HomeFacts;

use super::serving::{OwnershipClock, Serving};
use crate::engine::ring::SlotValue;
use crate::metrics::ClusterMetrics;

/// The part of the latest call in the average of the durations of calls: one of this number.
const LATENCY_SHARE: u32 = 8;

/// Publishes the state of a server of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStatus {
    view: Mutex<ClusterView>,
    /// The name of the server to which the log is left, if an operator named one.
    successor: Mutex<Option<String>>,
    /// The deadline up to which the store may answer from its memory.
    pub(crate) serving: Serving,
    /// What the server counts.
    pub(crate) metrics: ClusterMetrics,
}

/// The state of a server of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterView {
    /// The role of the server.
    pub(crate) role: OwnershipRole,
    /// The number of the ownership; zero if no entry was seen.
    pub(crate) generation: u64,
    /// The number of the last append.
    pub(crate) sequence: u64,
    /// The revision of the last change in the log.
    pub(crate) revision: u64,
    /// The number of entries that no base contains.
    pub(crate) uncovered: u64,
    /// The server that owns the log, as the newest entry says; `None` if the log is vacant.
    pub(crate) active: Option<ActiveServer>,
    /// The id of the store: 32 hexadecimal digits.
    pub(crate) store: Option<String>,
    /// The number of revisions that the server has not read yet; `None` while it has no copy of
    /// the leases.
    pub(crate) behind: Option<u64>,
    /// The failure of the last call of the home; `None` if it succeeded.
    pub(crate) error: Option<String>,
    /// The reason why the server takes nothing over, and the remedy.
    pub(crate) refusal: Option<String>,
    /// The reason why the server has no copy of the leases, if it has failed to make one.
    pub(crate) copy_failure: Option<String>,
    /// The reason why the last take-over of this server failed, until a server has appended and
    /// the home does not refuse this one.
    pub(crate) take_over_failure: Option<String>,
    /// That another server has the same name.
    pub(crate) namesake: Option<String>,
    /// The home in which the newest entry was written; `None` if no entry was seen.
    pub(crate) identity: Option<String>,
    /// The facts about the home.
    pub(crate) facts: HomeFacts,
    /// The average duration of the last calls of the home that it answered.
    pub(crate) latency: Option<Duration>,
}

/// The server that owns the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActiveServer {
    /// Its name.
    pub(crate) name: String,
    /// The URL at which clients reach it.
    pub(crate) address: String,
    /// The time of its take-over, in milliseconds since 1970 by its clock.
    pub(crate) since_ms: u64,
}

impl ClusterStatus {
    pub(crate) fn new(clock: OwnershipClock) -> Self {
        let view = ClusterView {
            role: OwnershipRole::Following,
            generation: 0,
            sequence: 0,
            revision: 0,
            uncovered: 0,
            active: None,
            store: None,
            behind: None,
            error: None,
            refusal: None,
            copy_failure: None,
            take_over_failure: None,
            namesake: None,
            identity: None,
            facts: HomeFacts::default(),
            latency: None,
        };
        Self {
            view: Mutex::new(view),
            successor: Mutex::default(),
            serving: Serving::new(clock),
            metrics: ClusterMetrics::default(),
        }
    }

    /// Returns the current state.
    pub(crate) fn view(&self) -> ClusterView {
        self.lock().clone()
    }

    /// Changes the state.
    pub(super) fn change(&self, change: impl FnOnce(&mut ClusterView)) {
        change(&mut self.lock());
    }

    /// Leaves the log to the server with this name, or to any other, when the store is closed.
    pub(crate) fn leave_to(&self, server: Option<String>) {
        *self
            .successor
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// Returns the name of the server to which the log is left.
    pub(super) fn successor(&self) -> Option<String> {
        let successor = self.successor.lock();
        successor.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, ClusterView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterView {
    /// Returns what is wrong with this server, the most important reason first.
    pub(crate) fn reason(&self) -> Option<&str> {
        let reasons = [
            &self.refusal,
            &self.error,
            &self.copy_failure,
            &self.take_over_failure,
            &self.namesake,
        ];
        reasons.into_iter().find_map(Option::as_deref)
    }

    /// Notes the duration of a call that the home answered.
    pub(super) fn note_call(&mut self, took: Duration) {
        let before = self.latency.unwrap_or(took);
        self.latency = Some(before - before / LATENCY_SHARE + took / LATENCY_SHARE);
    }

    /// Notes the newest entry of the log.
    pub(super) fn note_tail(&mut self, value: &SlotValue) {
        let (tail, about) = (&value.tail, &value.about);
        if tail.generation != self.generation {
            self.identity = Some(about.home.clone());
        }
        (self.generation, self.sequence) = (tail.generation, tail.sequence);
        self.revision = value.revision;
        self.uncovered = tail.sequence - value.base.map_or(0, |it| it.covered);
        let is_owned = tail.state == TailState::Owned;
        self.active = is_owned.then(|| ActiveServer {
            name: about.server.clone(),
            address: about.address.clone(),
            since_ms: about.since.get(),
        });
        self.store = Some(about.store.as_str().to_owned());
    }
}
