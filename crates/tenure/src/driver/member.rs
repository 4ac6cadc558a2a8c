//! One candidate on the driver's thread: does what its keeper says.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use tenure_core::lease::keeper::{Answer, EndReason, Keeper, Output, Request, Standing, TaskEnd};
use tenure_core::{Epoch, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tracing::{debug, error, info, warn};

use super::command::{Campaigner, Command, DriverHandle, WeakDriverHandle};
use super::outbox::Outgoing;
use crate::clock::Clock;
use crate::config::{Config, OnOverrun};
use crate::in_use::InUse;
use crate::random::OsRandom;
use crate::store::Link;
use crate::term::TermState;

/// One candidate.
pub(super) struct Member {
    config: Arc<Config>,
    clock: Clock,
    link: Arc<Link>,
    keeper: Keeper,
    /// The request in flight, where it can be given up.
    in_flight: Option<AbortHandle>,
    /// For the terms that begin; the driver does not keep its candidates.
    handle: WeakDriverHandle,
    campaigner: Option<Campaigner>,
    resigners: Vec<oneshot::Sender<()>>,
    settlers: Vec<oneshot::Sender<()>>,
    term: Option<Arc<TermState>>,
    /// The same for those who only look.
    publish_term: watch::Sender<Option<Arc<TermState>>>,
    last_leader: Option<String>,
    /// Whether anybody can still ask for something.
    wanted: bool,
}

/// If the driver goes, whatever takes it, nobody renews any more: the term is over.
impl Drop for Member {
    fn drop(&mut self) {
        if let Some(term) = &self.term {
            term.abandon();
        }
    }
}

impl Member {
    pub(super) fn new(
        handle: &DriverHandle,
        link: Arc<Link>,
        publish_term: watch::Sender<Option<Arc<TermState>>>,
    ) -> Self {
        Self {
            keeper: Keeper::new(handle.config.timings),
            config: handle.config.clone(),
            clock: handle.clock.clone(),
            link,
            in_flight: None,
            handle: handle.downgrade(),
            campaigner: None,
            resigners: Vec::new(),
            settlers: Vec::new(),
            term: None,
            publish_term,
            last_leader: None,
            wanted: true,
        }
    }

    /// When to wake it at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.keeper.poll_timeout()
    }

    /// Whether nothing is left to do for it, and nobody wants anything of it.
    pub(super) fn is_done(&self) -> bool {
        !self.wanted && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.keeper.standing(self.clock.now()) == Standing::Idle
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Time has passed.
    pub(super) fn look(&mut self) {
        if let Some(term) = &self.term {
            self.keeper.handle_progress(term.progress());
        }
        self.keeper.handle_timeout(self.clock.now(), &mut OsRandom);
    }

    pub(super) fn handle_answer(&mut self, attempt: u64, answer: Answer) {
        self.keeper
            .handle_message(self.clock.now(), attempt, answer, &mut OsRandom);
    }

    /// This request is under way. It replaces the last one.
    pub(super) fn set_in_flight(&mut self, request: Option<AbortHandle>) {
        if let Some(last) = std::mem::replace(&mut self.in_flight, request) {
            last.abort();
        }
    }

    pub(super) fn renew_early(&mut self) {
        self.keeper.renew_early(self.clock.now());
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Campaign(campaigner) => {
                self.campaigner = Some(campaigner);
            }
            Command::GiveUp => {
                self.campaigner = None;
                // Only a campaign: a term is in the hands of whoever uses it, and the task of an
                // earlier one may still be stopping.
                if self.keeper.standing(now) == Standing::Campaigning {
                    self.keeper.resign(now, EndReason::Resigned, &mut OsRandom);
                }
            }
            Command::ResignAny(done) => {
                self.resigners.push(done);
                if self.term.is_some() {
                    self.keeper.resign(now, EndReason::Resigned, &mut OsRandom);
                }
            }
            Command::Settle(done) => self.settlers.push(done),
            Command::Resign { term, reason } => {
                if self.is_current(term) {
                    self.keeper.resign(now, reason, &mut OsRandom);
                }
            }
            Command::HandOver { term, to } => {
                if self.is_current(term) {
                    self.keeper.hand_over(now, to);
                }
            }
            Command::Proclaim {
                term,
                metadata,
                done,
            } => {
                let lease_id = self.keeper.lease_id().filter(|_| self.is_current(term));
                let Some(lease_id) = lease_id else {
                    let _ = done.send(None);
                    return;
                };
                let link = self.link.clone();
                tokio::spawn(async move {
                    let _ = done.send(Some(link.proclaim(lease_id, metadata).await));
                });
            }
            // Whoever campaigned or used a term had a way to the driver, so they are gone.
            Command::Leave => {
                self.wanted = false;
                self.campaigner = None;
                self.keeper.resign(now, EndReason::ShutDown, &mut OsRandom);
            }
            Command::TaskEnded { term, end } => {
                if self.is_current(term) {
                    self.keeper.task_ended(now, end, &mut OsRandom);
                }
            }
        }
    }

    fn is_current(&self, epoch: Epoch) -> bool {
        self.term.as_ref().is_some_and(|term| term.epoch == epoch)
    }

    /// Does what the keeper says, until it says nothing more. What is to be sent goes to `outbox`.
    pub(super) fn obey(&mut self, outbox: &mut Vec<Outgoing>, member: usize) {
        self.publish();
        loop {
            while let Some(output) = self.keeper.poll_output() {
                match output {
                    Output::Send {
                        attempt,
                        request,
                        timeout,
                    } => {
                        let (election, candidate) = (&self.config.election, &self.config.candidate);
                        debug!(%election, %candidate, attempt, request = name(&request), "request");
                        outbox.push(Outgoing {
                            member,
                            attempt,
                            request,
                            timeout,
                        });
                    }
                    output => self.do_output(output),
                }
                self.publish();
            }
            if self.term.is_none() {
                answer(&mut self.resigners);
            }
            if !self.is_idle() {
                return;
            }
            if self.campaigner.is_none() {
                answer(&mut self.settlers);
                return;
            }
            // Asked for now, or while the last term was still ending.
            self.keeper.campaign(self.clock.now(), &mut OsRandom);
        }
    }

    /// Lets the task see how the term stands.
    fn publish(&self) {
        if let Some(term) = &self.term {
            let valid_until = match self.keeper.standing(self.clock.now()) {
                Standing::Leading { until, .. } => Some(until),
                Standing::Idle | Standing::Campaigning | Standing::Ending => None,
            };
            term.update(valid_until, self.keeper.stop_by());
        }
    }

    fn do_output(&mut self, output: Output) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        match output {
            Output::Began(epoch) => self.begin(epoch),
            Output::AtRisk(at_risk) => {
                if let Some(term) = &self.term {
                    term.at_risk.send_replace(at_risk);
                }
            }
            Output::Cancel(reason) => {
                if let Some(term) = &self.term {
                    info!(%election, %candidate, epoch = %term.epoch, %reason, "stopping");
                    term.cancel(reason);
                }
            }
            Output::Abort => {
                if let Some(term) = &self.term {
                    warn!(%election, %candidate, epoch = %term.epoch,
                        "the task has not stopped within the stop grace and is aborted");
                    term.abort();
                }
            }
            Output::Overrun => self.overrun(),
            Output::Ended(epoch, reason) => {
                info!(%election, %candidate, %epoch, %reason, "leadership lost");
                if let Some(term) = self.term.take() {
                    term.update(None, None);
                    term.ended.send_replace(Some(reason));
                }
                self.publish_term.send_replace(None);
            }
            Output::Withdrawn => {}
            Output::Failed(why) => {
                error!(%election, %candidate, error = why, "the store refuses this candidate");
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Err(why));
                }
            }
            Output::SeenLeader(leader) => {
                let leader = leader.map(|(id, epoch)| format!("{id} (epoch {epoch})"));
                if self.last_leader != leader {
                    info!(%election, %candidate, leader, "following");
                    self.last_leader = leader;
                }
            }
            // Taken out before.
            Output::Send { .. } => {}
            Output::Retrying(why) => warn!(%election, %candidate, error = why, "retrying"),
        }
    }

    fn begin(&mut self, epoch: Epoch) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        info!(%election, %candidate, %epoch, "leadership gained");
        self.last_leader = None;
        let term = Arc::new(TermState::new(epoch, self.clock.clone()));
        self.term = Some(term.clone());
        self.publish();
        self.publish_term.send_replace(Some(term.clone()));
        match self.handle.upgrade() {
            Some(handle) => {
                let in_use = InUse::new(term, handle);
                // If nobody receives it any more it is dropped, and the term ends by that.
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Ok(in_use));
                }
            }
            // Everybody has gone.
            None => self
                .keeper
                .task_ended(self.clock.now(), TaskEnd::Aborted, &mut OsRandom),
        }
    }

    fn overrun(&self) {
        let Some(term) = &self.term else { return };
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        error!(%election, %candidate, epoch = %term.epoch,
            "the task is still running after it was aborted; others may lead soon");
        match &self.config.on_overrun {
            OnOverrun::Report => {}
            OnOverrun::Exit => {
                error!(%election, %candidate, "exiting, so that the task ends");
                std::process::exit(OnOverrun::EXIT_CODE);
            }
            OnOverrun::Call(call) => {
                // Renewals and watchdog must survive it.
                let called = panic::catch_unwind(AssertUnwindSafe(|| call(term.epoch)));
                if called.is_err() {
                    error!(%election, %candidate, "the overrun policy has panicked");
                }
            }
        }
    }
}

const fn name(request: &Request) -> &'static str {
    match request {
        Request::Acquire { .. } => "acquire",
        Request::Renew(_) => "renew",
        Request::Release(_) => "release",
        Request::HandOver { .. } => "handover",
    }
}

fn answer(waiting: &mut Vec<oneshot::Sender<()>>) {
    for done in waiting.drain(..) {
        // Whoever waits no more needs no answer.
        let _ = done.send(());
    }
}
