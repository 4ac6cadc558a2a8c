//! One candidate on the driver's thread: what is the same whichever way it is elected.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use tenure_core::election::{ElectionMachine, Standing};
use tenure_core::lease::candidate::{EndReason, TaskEnd};
use tenure_core::{CandidateId, Epoch, Instant};
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

use super::command::{Campaigner, Command, DriverHandle, WeakDriverHandle};
use super::elector::{Elector, News};
use crate::clock::Clock;
use crate::config::{Config, OnOverrun};
use crate::in_use::InUse;
use crate::random::OsRandom;
use crate::term::TermState;

/// One candidate, and what elects it.
pub(super) struct Member<E> {
    config: Arc<Config>,
    clock: Clock,
    elector: E,
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
impl<E> Drop for Member<E> {
    fn drop(&mut self) {
        if let Some(term) = &self.term {
            term.abandon();
        }
    }
}

impl<E: Elector> Member<E> {
    pub(super) fn new(
        handle: &DriverHandle,
        elector: E,
        publish_term: watch::Sender<Option<Arc<TermState>>>,
    ) -> Self {
        Self {
            config: handle.config.clone(),
            clock: handle.clock.clone(),
            elector,
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

    pub(super) const fn elector(&mut self) -> &mut E {
        &mut self.elector
    }

    /// When to wake it at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.elector.poll_timeout()
    }

    /// Whether nothing is left to do for it, and nobody wants anything of it.
    pub(super) fn is_done(&self) -> bool {
        !self.wanted && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.term.is_none() && self.standing() == Standing::Idle
    }

    fn standing(&self) -> Standing {
        self.elector.machine().standing(self.clock.now())
    }

    /// Time has passed.
    pub(super) fn look(&mut self) {
        if let Some(term) = &self.term {
            self.elector.machine_mut().handle_progress(term.progress());
        }
        self.elector.handle_timeout(self.clock.now());
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            #[cfg(test)]
            Command::Panic => panic!("planted"),
            Command::Campaign(campaigner) => {
                self.campaigner = Some(campaigner);
            }
            Command::GiveUp => {
                self.campaigner = None;
                // Only a campaign: a term is in the hands of whoever uses it, and the task of an
                // earlier one may still be stopping.
                if self.standing() == Standing::Campaigning {
                    self.resign(EndReason::Resigned);
                }
            }
            Command::ResignAny(done) => {
                self.resigners.push(done);
                if self.term.is_some() {
                    self.resign(EndReason::Resigned);
                }
            }
            Command::Settle(done) => self.settlers.push(done),
            Command::Resign { term, reason } => {
                if self.is_current(term) {
                    self.resign(reason);
                }
            }
            Command::HandOver { term, to } => {
                if self.is_current(term) {
                    self.hand_over(&to);
                }
            }
            Command::Proclaim {
                term,
                metadata,
                done,
            } => {
                if self.is_current(term) {
                    self.elector.proclaim(metadata, done);
                } else {
                    let _ = done.send(None);
                }
            }
            // Whoever campaigned or used a term had a way to the driver, so they are gone.
            Command::Leave => {
                self.wanted = false;
                self.campaigner = None;
                self.resign(EndReason::ShutDown);
            }
            Command::TaskEnded { term, end } => {
                if self.is_current(term) {
                    self.task_ended(end);
                }
            }
        }
    }

    fn resign(&mut self, reason: EndReason) {
        let now = self.clock.now();
        let machine = self.elector.machine_mut();
        machine.resign(now, reason, &mut OsRandom);
    }

    fn hand_over(&mut self, to: &CandidateId) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        match self.elector.peer(to) {
            Ok(to) => {
                let now = self.clock.now();
                self.elector.machine_mut().hand_over(now, to);
            }
            Err(why) => warn!(%election, %candidate, %to, "not handed over: {why}"),
        }
    }

    fn task_ended(&mut self, end: TaskEnd) {
        let now = self.clock.now();
        let machine = self.elector.machine_mut();
        machine.task_ended(now, end, &mut OsRandom);
    }

    fn is_current(&self, epoch: Epoch) -> bool {
        self.term.as_ref().is_some_and(|term| term.epoch == epoch)
    }

    /// Does what the machine says, until it says nothing more.
    pub(super) fn obey(&mut self) {
        self.publish();
        loop {
            while let Some(news) = self.elector.poll_news(self.clock.now()) {
                self.take(news);
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
            let now = self.clock.now();
            let machine = self.elector.machine_mut();
            machine.campaign(now, &mut OsRandom);
        }
    }

    /// Lets the task see how the term stands.
    fn publish(&self) {
        if let Some(term) = &self.term {
            let valid_until = match self.standing() {
                Standing::Leading { until, .. } => Some(until),
                Standing::Idle | Standing::Campaigning | Standing::Ending => None,
            };
            term.update(valid_until, self.elector.machine().stop_by());
        }
    }

    fn take(&mut self, news: News) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        match news {
            News::Began(epoch) => self.begin(epoch),
            News::AtRisk(at_risk) => {
                if let Some(term) = &self.term {
                    term.at_risk.send_replace(at_risk);
                }
            }
            News::Cancel(reason) => {
                if let Some(term) = &self.term {
                    info!(%election, %candidate, epoch = %term.epoch, %reason, "stopping");
                    term.cancel(reason);
                }
            }
            News::Abort => {
                if let Some(term) = &self.term {
                    warn!(%election, %candidate, epoch = %term.epoch,
                        "the task has not stopped within the stop grace and is aborted");
                    term.abort();
                }
            }
            News::Overrun => self.overrun(),
            News::Ended(epoch, reason) => {
                info!(%election, %candidate, %epoch, %reason, "leadership lost");
                if let Some(term) = self.term.take() {
                    term.update(None, None);
                    term.ended.send_replace(Some(reason));
                }
                self.publish_term.send_replace(None);
            }
            News::Failed(why) => {
                error!(%election, %candidate, "{why}");
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Err(why));
                }
            }
            News::SeenLeader(leader) => {
                let leader = leader.map(|(id, epoch)| format!("{id} (epoch {epoch})"));
                if self.last_leader != leader {
                    info!(%election, %candidate, leader, "following");
                    self.last_leader = leader;
                }
            }
            News::Retrying(why) => warn!(%election, %candidate, error = why, "retrying"),
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
            None => self.task_ended(TaskEnd::Aborted),
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

fn answer(waiting: &mut Vec<oneshot::Sender<()>>) {
    for done in waiting.drain(..) {
        // Whoever waits no more needs no answer.
        let _ = done.send(());
    }
}
