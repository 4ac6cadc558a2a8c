//! The interface of a process in the simulation.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tenure_core::lease::candidate::{EndReason, TaskEnd};
use tenure_core::{Epoch, Instant, NodeId, UnixMillis};

use super::uplink::Uplink;
use super::{HistoryEventKind, Rng, Sending, SimMessage, Time};

/// A process, for example a state machine of the library with a minimal driver.
pub trait Process: fmt::Debug {
    /// Handles an input.
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput);

    /// Returns the latest time of the next wake-up, by the process's own clock.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns whether the process leads at `now` in its own opinion, by its own clock.
    fn claim(&self, now: Instant) -> Option<LeadershipClaim>;
}

/// The claim of a process to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipClaim {
    /// The epoch of its term, if its algorithm has epochs.
    pub epoch: Option<Epoch>,
    /// The end of its leadership without a renewal; `None` if it does not end.
    pub until: Option<Instant>,
}

/// An input of a process.
#[derive(Clone, Debug)]
pub enum ProcessInput {
    /// Time has passed.
    Wake,
    /// A message.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        payload: Rc<dyn SimMessage>,
        /// The time that the message was under way.
        age: Duration,
    },
    /// A connection to this host was refused or broken: the host is up and its process is not.
    Refused(NodeId),
    /// The oldest pending [`ProcessEffect::Write`] is on disk.
    Written,
    /// The task has ended.
    TaskEnded(TaskEnd),
    /// Resign from the term or the campaign, and then campaign again.
    Resign(EndReason),
    /// Resign permanently.
    Leave,
    /// An operator breaks the lease, which lasts for this period.
    Break(Duration),
}

/// An effect that the simulation executes for a process.
#[derive(Clone, Debug)]
pub enum ProcessEffect {
    /// Send this message.
    Send(NodeId, Rc<dyn SimMessage>),
    /// Write this state to disk. [`ProcessInput::Written`] reports the end of the write.
    Write(DurableState),
    /// Start the task of a term.
    StartTask(Option<Epoch>),
    /// Ask the task to stop.
    CancelTask(EndReason),
    /// Abort the task.
    AbortTask,
    /// Exit the process.
    Exit,
    /// Report that the process sees this leader, or none.
    SeesLeader(Option<NodeId>),
    /// Add this to the history.
    Record(HistoryEventKind),
}

/// The state of a host that outlives its process, of a type that its algorithm chooses.
pub type DurableState = Rc<dyn Any>;

/// The environment of a process while it handles an input.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of its monotonic clock.
    pub now: Instant,
    /// The time of its wall clock.
    pub wall: UnixMillis,
    /// Its random numbers.
    pub rng: &'a mut Rng,
    pub(super) effects: &'a mut Vec<ProcessEffect>,
    pub(super) uplink: (Sending, Time, Uplink),
}

impl Context<'_> {
    /// Returns the true time, for the history only.
    #[must_use]
    pub const fn true_time(&self) -> Time {
        self.uplink.1
    }

    /// Adds this to the history.
    pub fn record(&mut self, event: HistoryEventKind) {
        self.emit(ProcessEffect::Record(event));
    }

    /// Requests this effect.
    pub fn emit(&mut self, effect: ProcessEffect) {
        self.effects.push(effect);
    }

    /// Returns the effects of a part of the process, which the process executes itself.
    pub fn collect(&mut self, act: impl FnOnce(&mut Context<'_>)) -> Vec<ProcessEffect> {
        let mut effects = Vec::new();
        act(&mut Context {
            now: self.now,
            wall: self.wall,
            rng: self.rng,
            effects: &mut effects,
            uplink: self.uplink,
        });
        effects
    }

    /// Sends this message.
    pub fn send(&mut self, to: NodeId, payload: impl SimMessage) {
        self.emit(ProcessEffect::Send(to, Rc::new(payload)));
    }

    /// Writes this state to disk.
    pub fn write(&mut self, state: impl Any) {
        self.emit(ProcessEffect::Write(Rc::new(state)));
    }

    /// Returns the time at which the process's last message has left the host, by the host's clock.
    #[must_use]
    pub fn sent(&self) -> Instant {
        let (sending, now, mut line) = self.uplink;
        let mut takes = Duration::ZERO;
        for effect in self.effects.iter() {
            if let ProcessEffect::Send(_, payload) = effect {
                takes = line.enqueue(sending, now, payload.kind());
            }
        }
        self.now + takes
    }
}

/// Creates the processes of a simulation.
pub trait ProcessFactory: fmt::Debug {
    /// Returns the hosts.
    fn machines(&self) -> Vec<NodeId>;

    /// Returns whether this host runs the store, which does not compete.
    fn is_store(&self, node: NodeId) -> bool;

    /// Returns whether the clock of this host continues while the host is suspended, as that of a
    /// candidate does.
    fn counts_suspensions(&self, node: NodeId) -> bool {
        !self.is_store(node)
    }

    /// Returns whether these hosts, among which every message arrives, can elect a leader.
    fn can_elect(&self, _connected: &BTreeSet<NodeId>) -> bool {
        false
    }

    /// Changes the host to the algorithm with this name, from its next start on.
    fn set_algorithm(&mut self, _node: NodeId, _algorithm: &str) {}

    /// Starts the process of this host with its state on disk; `incarnation` counts its starts.
    fn start(
        &self,
        node: NodeId,
        incarnation: u64,
        stable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process>;

    /// Returns the stop grace of a task, and the allowance of an aborted one.
    fn stop_allowances(&self) -> (Duration, Duration);
}
