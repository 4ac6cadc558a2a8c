//! Electing by a lease in a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{Answer, LeaseCandidate, LeaseOutput, Request};
use tenure_core::{CandidateId, Instant};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::debug;

use super::command::Proclaimed;
use super::elector::{Elector, News};
use crate::backend::SharedBackend;
use crate::candidate::RunError;
use crate::config::Config;
use crate::random::OsRandom;

/// A keeper with its way to the store.
pub(super) struct Lease {
    keeper: LeaseCandidate,
    way: StoreWay,
}

/// A keeper's way to the store.
pub(super) struct StoreWay {
    config: Arc<Config>,
    link: SharedBackend,
    /// What the keeper wants to be sent and the driver has not sent yet.
    outbox: Vec<Outgoing>,
    /// The request in flight, where it can be given up.
    in_flight: Option<AbortHandle>,
}

/// A request that a keeper wants to be sent.
pub(super) struct Outgoing {
    pub(super) attempt: u64,
    pub(super) request: Request,
    pub(super) timeout: Duration,
}

/// Who asks a store.
pub(super) trait AsksStore {
    fn way(&mut self) -> &mut StoreWay;

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer);

    fn renew_early(&mut self, now: Instant);
}

impl StoreWay {
    pub(super) fn new(config: Arc<Config>, link: SharedBackend) -> Self {
        Self {
            config,
            link,
            outbox: Vec::new(),
            in_flight: None,
        }
    }

    pub(super) const fn link(&self) -> &SharedBackend {
        &self.link
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether it is about to send a renewal.
    pub(super) fn renews(&self) -> bool {
        let is_renewal = |outgoing: &Outgoing| matches!(outgoing.request, Request::Renew(_));
        self.outbox.iter().any(is_renewal)
    }

    pub(super) fn take_outbox(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outbox)
    }

    /// This request is under way. It replaces the last one.
    pub(super) fn set_in_flight(&mut self, request: Option<AbortHandle>) {
        if let Some(last) = std::mem::replace(&mut self.in_flight, request) {
            last.abort();
        }
    }

    /// Does what the keeper wants of the store, or says what it has to say.
    pub(super) fn obey(&mut self, output: LeaseOutput) -> Option<News> {
        Some(match output {
            LeaseOutput::Send {
                attempt,
                request,
                timeout,
            } => {
                let (election, candidate) = (&self.config.election, &self.config.candidate);
                debug!(%election, %candidate, attempt, request = name(&request), "request");
                self.outbox.push(Outgoing {
                    attempt,
                    request,
                    timeout,
                });
                return None;
            }
            LeaseOutput::Withdrawn => return None,
            LeaseOutput::Began(epoch) => News::Began(epoch),
            LeaseOutput::AtRisk(at_risk) => News::AtRisk(at_risk),
            LeaseOutput::Cancel(reason) => News::Cancel(reason),
            LeaseOutput::Abort => News::Abort,
            LeaseOutput::Overrun => News::Overrun,
            LeaseOutput::Ended(epoch, reason) => News::Ended(epoch, reason),
            LeaseOutput::Failed(why) => News::Failed(RunError::Refused(why)),
            LeaseOutput::SeenLeader(leader) => News::SeenLeader(leader),
            LeaseOutput::Retrying(why) => News::Retrying(why),
        })
    }

    /// Says this about the holder of this lease.
    pub(super) fn proclaim(
        &self,
        lease_id: Option<LeaseId>,
        metadata: BTreeMap<String, String>,
        done: oneshot::Sender<Proclaimed>,
    ) {
        let Some(lease_id) = lease_id else {
            let _ = done.send(None);
            return;
        };
        let link = self.link.clone();
        tokio::spawn(async move {
            let proclaimed = link.proclaim(lease_id, metadata).await;
            let _ = done.send(Some(proclaimed.map_err(Into::into)));
        });
    }
}

impl Lease {
    pub(super) fn new(config: Arc<Config>, link: SharedBackend) -> Self {
        Self {
            keeper: LeaseCandidate::new(config.timings),
            way: StoreWay::new(config, link),
        }
    }
}

impl AsksStore for Lease {
    fn way(&mut self) -> &mut StoreWay {
        &mut self.way
    }

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer) {
        self.keeper
            .handle_message(now, attempt, answer, &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.keeper.renew_early(now);
    }
}

impl Elector for Lease {
    type Machine = LeaseCandidate;

    fn machine(&self) -> &LeaseCandidate {
        &self.keeper
    }

    fn machine_mut(&mut self) -> &mut LeaseCandidate {
        &mut self.keeper
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.keeper.handle_timeout(now, &mut OsRandom);
    }

    fn poll_news(&mut self, _now: Instant) -> Option<News> {
        while let Some(output) = self.keeper.poll_output() {
            if let Some(news) = self.way.obey(output) {
                return Some(news);
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.keeper.poll_timeout()
    }

    fn peer(&self, candidate: &CandidateId) -> Result<CandidateId, &'static str> {
        let link = self.way.link();
        let refusal =
            "this lease service can't hand a lease over to a chosen candidate; the term goes on";
        let candidate = link.can_hand_over().then(|| candidate.clone());
        candidate.ok_or(refusal)
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>) {
        self.way.proclaim(self.keeper.lease_id(), metadata, done);
    }
}

const fn name(request: &Request) -> &'static str {
    match request {
        Request::Acquire { .. } => "acquire",
        Request::Renew(_) => "renew",
        Request::Release { .. } => "release",
        Request::HandOver { .. } => "handover",
    }
}
