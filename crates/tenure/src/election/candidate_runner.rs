//! Runs one candidate with any strategy on the driver's thread.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::election::{
    CampaignFailure, ElectionMachine, EndReason, SUSPENSION, Standing, TaskEnd, TermEvent,
};
use tenure_core::{CandidateId, Epoch, Instant};
use tokio::sync::{oneshot, watch};
use tracing::{Span, error, info, warn};

use super::spans::{self, TermEnd};
use super::strategy_io::StrategyIo;
use super::term::{Campaigner, Command, DriverHandle, TermCommand};
use crate::base::clock::Clock;
use crate::base::random::OsRandom;
use crate::base::trace;
use crate::config::{Config, OnOverrun};
use crate::election::error::RunError;
use crate::election::metrics::Recorder;
use crate::election::overrun::OverrunWatch;
use crate::election::term::TermState;
use crate::election::term::guard::TermGuard;

/// The candidates on the thread, by their numbers.
pub(super) type Slots = BTreeMap<usize, Box<CandidateRunner>>;

/// Runs one candidate with any strategy: executes commands, and reports term events to tasks and
/// callers.
pub(super) struct CandidateRunner {
    config: Arc<Config>,
    clock: Clock,
    metrics: Arc<Recorder>,
    pub(super) io: StrategyIo,
    /// The handle for the terms that begin. It is weak because the driver does not keep its
    /// candidates alive.
    handle: Weak<DriverHandle>,
    campaigner: Option<Campaigner>,
    settlers: Vec<oneshot::Sender<()>>,
    term: Option<Arc<TermState>>,
    /// The span of renewals that fail.
    at_risk: Span,
    /// The span of the end of the term.
    end: Option<TermEnd>,
    /// Whether the task of the term has ended. Other parts of it may still run.
    has_returned: bool,
    /// Ends the process if a term is overrun and the configuration says so.
    overrun_watch: Option<OverrunWatch>,
    /// Publishes the term to the other parts of the library.
    publish_term: watch::Sender<Option<Arc<TermState>>>,
    last_leader: Option<(CandidateId, Epoch)>,
    /// The time at which the task was asked to stop, until it has stopped.
    cancelled_at: Option<Instant>,
    /// The time of the last turn, if a term was running after it: it needs a turn at each tick.
    last_turn: Option<Instant>,
    /// Whether a handle to the candidate exists.
    wanted: bool,
}

/// If the driver ends for any reason, nothing renews its terms any more, so they are over.
impl Drop for CandidateRunner {
    fn drop(&mut self) {
        if let Some(term) = &self.term {
            term.abandon();
        }
    }
}

impl CandidateRunner {
    pub(super) fn new(
        handle: &Arc<DriverHandle>,
        metrics: Arc<Recorder>,
        io: StrategyIo,
        publish_term: watch::Sender<Option<Arc<TermState>>>,
        overrun_watch: Option<OverrunWatch>,
    ) -> Self {
        Self {
            config: handle.config.clone(),
            clock: handle.clock.clone(),
            metrics,
            io,
            handle: Arc::downgrade(handle),
            campaigner: None,
            settlers: Vec::new(),
            term: None,
            at_risk: Span::none(),
            end: None,
            has_returned: false,
            overrun_watch,
            publish_term,
            last_leader: None,
            cancelled_at: None,
            last_turn: None,
            wanted: true,
        }
    }

    /// Executes all outputs of the machine.
    pub(super) fn execute(&mut self) {
        self.count_suspension();
        self.publish();
        self.handle_outputs();
        let is_running = self.io.machine().stop_by().is_some();
        self.last_turn = is_running.then(|| self.clock.now());
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            #[cfg(all(test, feature = "peers"))]
            Command::Panic => panic!("planted"),
            Command::Campaign(campaigner) => {
                self.campaigner = Some(campaigner);
            }
            Command::GiveUp => {
                self.campaigner = None;
                // This ends only a campaign. A term belongs to the holder of its guard, and the
                // task of an earlier term may still be stopping.
                if self.standing() == Standing::Campaigning {
                    self.resign(EndReason::Resigned);
                }
            }
            Command::Settle(done) => self.settlers.push(done),
            Command::Term(epoch, command) => {
                if self.term.as_ref().is_some_and(|term| term.epoch == epoch) {
                    self.handle_term_command(command);
                }
            }
            // Callers and guards keep a handle, so none of them exists any more.
            Command::Leave => {
                self.wanted = false;
                self.campaigner = None;
                self.resign(EndReason::ShutDown);
            }
        }
    }

    pub(super) fn handle_timeout(&mut self) {
        if let Some(term) = &self.term {
            self.io.machine().handle_progress(term.progress());
        }
        self.io.handle_timeout(self.clock.now());
    }

    /// Returns whether the candidate has nothing left to do, and no command can reach it any more.
    pub(super) fn is_done(&mut self) -> bool {
        !self.wanted && self.is_idle()
    }

    fn is_idle(&mut self) -> bool {
        self.term.is_none() && self.standing() == Standing::Idle
    }

    fn standing(&mut self) -> Standing {
        self.io.machine().standing(self.clock.now())
    }

    fn resign(&mut self, reason: EndReason) {
        let now = self.clock.now();
        // The time is checked first: if the term has passed already, this does not end it.
        self.io.machine().handle_timeout(now, &mut OsRandom);
        self.io.machine().resign(now, reason, &mut OsRandom);
    }

    fn parts_ended(&mut self) {
        let now = self.clock.now();
        if let Some(cancelled_at) = self.cancelled_at.take() {
            self.metrics.stopped(now.since(cancelled_at));
        }
        if let Some(end) = &self.end {
            end.record_stop(now);
        }
        self.io.task_ended(now, TaskEnd::Aborted);
    }

    /// Updates the state that the task sees.
    fn publish(&mut self) {
        let standing = self.standing();
        if let Some(term) = &self.term {
            let valid_until = match standing {
                Standing::Leading { until, .. } => Some(until),
                Standing::Idle | Standing::Campaigning | Standing::Ending => None,
            };
            term.update(valid_until, self.io.machine().stop_by());
            term.set_overrun_at(self.io.machine().overrun_at());
            self.metrics.set_deadline(valid_until);
            #[cfg(feature = "peers")]
            term.quorum.send_if_modified(|known| {
                let quorum = match &self.io {
                    StrategyIo::Lease { .. } => None,
                    StrategyIo::Peers(peers) => peers.term_quorum(self.clock.now()),
                };
                std::mem::replace(known, quorum) != quorum
            });
        }
    }

    /// Counts a suspension of this process since the last turn.
    fn count_suspension(&mut self) {
        let last = self.last_turn.take();
        if last.is_some_and(|last| self.clock.now().since(last) >= SUSPENSION) {
            self.metrics.suspended();
        }
    }

    /// Executes a command for the current term.
    fn handle_term_command(&mut self, command: TermCommand) {
        match command {
            TermCommand::Resign(reason) => self.resign(reason),
            TermCommand::HandOver(to) => {
                if let Err(why) = self.io.hand_over(self.clock.now(), to.clone()) {
                    let (election, candidate) = (&self.config.election, &self.config.candidate);
                    warn!(%election, %candidate, %to, "not handed over: {why}");
                }
            }
            TermCommand::Proclaim(metadata, done) => self.io.proclaim(metadata, done),
            TermCommand::TaskEnded(end) => {
                // The other parts are asked to stop.
                self.has_returned = true;
                self.resign(EndReason::of_task(end));
            }
            TermCommand::PartsEnded => self.parts_ended(),
        }
    }

    fn handle_term_event(&mut self, event: TermEvent) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        match (event, &self.term) {
            (TermEvent::Began(epoch), _) => self.begin(epoch),
            (TermEvent::AtRisk(at_risk), Some(term)) => {
                if at_risk {
                    self.metrics.at_risk();
                }
                term.at_risk.send_replace(at_risk);
                if self.end.is_none() {
                    self.at_risk = match at_risk {
                        true => spans::at_risk(term),
                        false => Span::none(),
                    };
                    self.io.set_span(self.at_risk.clone());
                }
            }
            (TermEvent::Cancel(reason), Some(term)) => {
                let now = self.clock.now();
                let end = TermEnd::begin(term, reason, now);
                self.io.set_span(end.span.clone());
                self.at_risk = Span::none();
                info!(%election, %candidate, epoch = term.epoch.get(), %reason,
                    trace_id = end.trace_id(), "stopping");
                self.end = Some(end);
                // If the task has returned, it was not asked to stop.
                self.cancelled_at = Some(now).filter(|_| !self.has_returned);
                term.cancel(reason);
            }
            (TermEvent::Abort, Some(term)) => {
                term.aborted.cancel();
                let span = self.end.as_ref().and_then(|end| end.span.id());
                let began = self.end.as_ref().map(|end| end.began);
                let given = began.map_or_else(Duration::default, |it| self.clock.now().since(it));
                let why = if given >= self.config.timings.stop_grace() {
                    "it has not stopped within the stop grace"
                } else {
                    "the stop grace is cut short, because another candidate may lead soon or leads"
                };
                warn!(parent: span, %election, %candidate, epoch = term.epoch.get(),
                    "the task is aborted: {why}");
            }
            (TermEvent::Lingering, Some(_)) => self.report_overrun(true),
            (TermEvent::Overrun, Some(_)) => self.report_overrun(false),
            (TermEvent::Ended(epoch, reason), _) => {
                self.io.set_span(Span::none());
                self.at_risk = Span::none();
                let end = self.end.take();
                let trace_id = end.as_ref().and_then(TermEnd::trace_id);
                info!(%election, %candidate, epoch = epoch.get(), %reason, trace_id,
                    "leadership lost");
                // The process may end as soon as its caller knows of the end of the term.
                drop(end);
                self.metrics.set_deadline(None);
                self.metrics.ended(reason);
                self.cancelled_at = None;
                if let Some(term) = self.term.take() {
                    term.update(None, None);
                    term.ended.send_replace(Some(reason));
                }
                self.publish_term.send_replace(None);
            }
            (TermEvent::Failed(why), _) => {
                self.io.set_span(Span::none());
                let why = RunError::from(why);
                error!(%election, %candidate, "{why}");
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Err(why));
                }
            }
            (TermEvent::LeaderSeen(leader), _) if self.last_leader != leader => {
                match &leader {
                    Some((leader, epoch)) => {
                        info!(%election, %candidate, %leader, epoch = epoch.get(), "following");
                    }
                    None => info!(%election, %candidate, "no leader"),
                }
                self.last_leader = leader;
            }
            (TermEvent::Withdrawn, _) => {
                self.io.set_span(Span::none());
            }
            // The same leader again, or an event of another term.
            _ => {}
        }
    }

    /// Executes the machine's effects, and handles its term events.
    fn handle_outputs(&mut self) {
        loop {
            while let Some(event) = self.io.poll_term_event(self.clock.now()) {
                self.handle_term_event(event);
                self.publish();
            }
            if !self.is_idle() {
                return;
            }
            if self.campaigner.is_none() {
                for done in self.settlers.drain(..) {
                    // The caller may have dropped the receiver.
                    let _ = done.send(());
                }
                return;
            }
            // A campaign was requested now, or while the last term was still ending.
            let now = self.clock.now();
            self.io.machine().campaign(now, &mut OsRandom);
        }
    }

    fn begin(&mut self, epoch: Epoch) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        let campaign = self.io.set_span(Span::none());
        let span = spans::term_begin(&self.config, epoch, &campaign);
        drop(campaign);
        let traceparent = trace::traceparent(&span);
        let trace_id = traceparent.as_deref().and_then(trace::trace_id);
        info!(%election, %candidate, epoch = epoch.get(), trace_id, "leadership gained");
        self.metrics.began(epoch);
        self.last_leader = None;
        self.has_returned = false;
        let (config, clock) = (self.config.clone(), self.clock.clone());
        let handle = self.handle.clone();
        let term = Arc::new(TermState::new(epoch, traceparent, config, clock, handle));
        self.term = Some(term.clone());
        self.publish();
        self.publish_term.send_replace(Some(term.clone()));
        match self.handle.upgrade() {
            Some(handle) => {
                let guard = TermGuard::new(term.clone(), handle, span);
                // After the guard, because a term without parts is over.
                let watch = self.overrun_watch.as_ref();
                if let (OnOverrun::Exit, Some(watch)) = (&self.config.on_overrun, watch) {
                    watch.watch(term);
                }
                // If the caller has gone, the guard is dropped, which ends the term.
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Ok(guard));
                }
            }
            // There is no handle any more.
            None => self.parts_ended(),
        }
    }

    /// Reports work that still runs after its abort, and calls the overrun policy if the term is
    /// not renewed. [`OverrunWatch`] ends the process.
    fn report_overrun(&mut self, is_renewed: bool) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        let Some(term) = &self.term else { return };
        let ends_process = matches!(self.config.on_overrun, OnOverrun::Exit);
        let allowance = self.config.timings.abort_allowance();
        if (ends_process && !is_renewed) || !term.parts.outlive_abort(allowance) {
            return;
        }
        let span = self.end.as_ref().and_then(|end| end.span.id());
        let (epoch, running) = (term.epoch.get(), term.parts.names());
        if is_renewed {
            warn!(parent: span, %election, %candidate, epoch, running,
                "the task still runs after it was aborted; the lease is renewed until it has ended, so \
                 this process waits and no other candidate leads");
        } else {
            error!(parent: span, %election, %candidate, epoch, running,
                "the task still runs after it was aborted, and the lease is not renewed; others may lead \
                 soon or lead already");
        }
        if let Some(end) = &mut self.end
            && end.record_overrun()
        {
            self.metrics.overrun();
        }
        if let (OnOverrun::Call(call), false) = (&self.config.on_overrun, is_renewed) {
            // Renewals and the watchdog must continue after a panic in the function.
            let called = panic::catch_unwind(AssertUnwindSafe(|| call(term.epoch)));
            if called.is_err() {
                error!(%election, %candidate, "the overrun policy has panicked");
            }
        }
    }
}

impl From<CampaignFailure> for RunError {
    fn from(failure: CampaignFailure) -> Self {
        match failure {
            CampaignFailure::Refused(why) => Self::Refused(why),
            CampaignFailure::Denied(why) => Self::Denied(why),
            CampaignFailure::Barred(why) => Self::Barred(why),
        }
    }
}
