//! The state of a server of a cluster, for operators and for other threads of the server.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::ownership::{EngineId, OwnershipRole, TailState};

use super::head::HeadRecord;
use super::log::ServiceFacts;
use crate::metrics::ClusterMetrics;

/// The part of the latest call in the average of the durations of calls: one of this number.
const LATENCY_SHARE: u32 = 8;

/// Publishes the state of a server of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStatus {
    view: Mutex<ClusterView>,
    /// What the server counts.
    pub(crate) metrics: ClusterMetrics,
}

/// The state of a server of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterView {
    /// The role of the server.
    pub(crate) role: OwnershipRole,
    /// The service that keeps the log, for example `etcd`.
    pub(crate) service: &'static str,
    /// The number of the ownership; zero if no head was seen.
    pub(crate) generation: u64,
    /// The number of the last append.
    pub(crate) sequence: u64,
    /// The revision of the last change in the log.
    pub(crate) revision: u64,
    /// The server that owns the log, as the head says; `None` if the head is vacant.
    pub(crate) active: Option<ActiveServer>,
    /// The id of the store: 32 hexadecimal digits.
    pub(crate) store: Option<String>,
    /// The number of revisions that the server has not read yet; `None` while it has no copy of
    /// the leases.
    pub(crate) behind: Option<u64>,
    /// The failure of the last call of the service; `None` if it succeeded.
    pub(crate) error: Option<String>,
    /// The reason why the server takes nothing over, and the remedy.
    pub(crate) refusal: Option<String>,
    /// The reason why the server has no copy of the leases, if it has failed several times to make
    /// one.
    pub(crate) copy_failure: Option<String>,
    /// That another server has the same name.
    pub(crate) namesake: Option<String>,
    /// The identity of the service in which the head was written; `None` if no head was seen.
    pub(crate) identity: Option<(EngineId, String)>,
    /// The facts about the service.
    pub(crate) facts: ServiceFacts,
    /// The average duration of the last calls of the service that it answered.
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
    pub(crate) fn new(service: &'static str) -> Self {
        let view = ClusterView {
            role: OwnershipRole::Following,
            service,
            generation: 0,
            sequence: 0,
            revision: 0,
            active: None,
            store: None,
            behind: None,
            error: None,
            refusal: None,
            copy_failure: None,
            namesake: None,
            identity: None,
            facts: ServiceFacts::default(),
            latency: None,
        };
        Self {
            view: Mutex::new(view),
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
            &self.namesake,
        ];
        reasons.into_iter().find_map(Option::as_deref)
    }

    /// Notes the duration of a call that the service answered.
    pub(super) fn note_call(&mut self, took: Duration) {
        let before = self.latency.unwrap_or(took);
        self.latency = Some(before - before / LATENCY_SHARE + took / LATENCY_SHARE);
    }

    /// Notes the head of the log.
    pub(super) fn note_head(&mut self, record: &HeadRecord) {
        let (head, server) = (&record.head, &record.server);
        (self.generation, self.sequence) = (head.generation, head.sequence);
        self.revision = record.content.revision;
        let is_owned = head.state == TailState::Owned;
        self.active = is_owned.then(|| ActiveServer {
            name: server.name.clone(),
            address: server.address.clone(),
            since_ms: server.since.get(),
        });
        self.store = Some(record.content.store.as_str().to_owned());
    }
}
