//! What runs on a machine.

use std::fmt;
use std::time::Duration;

use tenure_core::lease::Stored;
use tenure_core::lease::candidate::{EndReason, TaskEnd};
use tenure_core::{Epoch, Instant, NodeId, UnixMillis, bully};

use super::uplink::Uplink;
use super::{Payload, Rng, Sending, Time};
use crate::contestant::Algorithm;

/// A process: a state machine of the library with the least around it that a driver must be, or a
/// store, or an algorithm to compare with.
pub trait Process: fmt::Debug {
    /// Something happens.
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput);

    /// When to wake it at the latest, by its own clock.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether it holds itself to lead at `now`, by its own clock.
    fn claim(&self, now: Instant) -> Option<LeadershipClaim>;
}

/// What a process that leads holds to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipClaim {
    /// The number of its term, where its way of electing has such a thing.
    pub epoch: Option<Epoch>,
    /// Until when it leads without hearing from anybody; `None` if for ever.
    pub until: Option<Instant>,
}

/// What happens to a process.
#[derive(Clone, Debug)]
pub enum ProcessInput {
    /// Time has passed.
    Wake,
    /// A message has come.
    Message {
        /// From whom.
        from: NodeId,
        /// What.
        payload: Payload,
        /// How long it was under way.
        age: Duration,
    },
    /// This machine is there and nobody listens on it: a connection was refused, or broke off.
    Refused(NodeId),
    /// The oldest [`Effect::Write`] not yet acknowledged is on disk.
    Written,
    /// The term's task is gone.
    TaskEnded(TaskEnd),
    /// Give up the term or the campaign, and compete again.
    Resign(EndReason),
    /// Give up the term or the campaign, for good.
    Leave,
    /// Somebody breaks the lease, and lets it run for so long.
    Break(Duration),
}

/// What a process wants done.
#[derive(Clone, Debug)]
pub enum ProcessEffect {
    /// Send this.
    Send(NodeId, Payload),
    /// Write this to disk, and say [`Input::Written`] then.
    Write(DurableState),
    /// A term began: start the task.
    StartTask(Option<Epoch>),
    /// Tell the task to stop.
    CancelTask(EndReason),
    /// Abort the task.
    AbortTask,
    /// The term is over and its task is gone.
    TermEnded(EndReason),
    /// It has left: end the process.
    Exit,
    /// Somebody was seen to lead, or nobody.
    SeesLeader(Option<NodeId>),
    /// The store has granted the lease, and will not forget it.
    Granted {
        /// The number of the term.
        epoch: Epoch,
        /// To whom.
        to: NodeId,
        /// Stands for the lease id.
        id: u64,
        /// When.
        at: Instant,
    },
    /// The store counts a lease of this duration from then on.
    LeaseRuns(Epoch, Instant, Duration),
    /// The store was told that the term is over, or to break it.
    LeaseGivenUp(Epoch),
    /// The process can't go on, for this reason.
    Failed(String),
}

/// What a machine keeps when its process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurableState {
    /// A member's record.
    Member(bully::HardState),
    /// A store's lease.
    Lease(Box<Stored>),
    /// How often the process has started.
    Starts(u64),
}

/// The process's surroundings at one moment.
#[derive(Debug)]
pub struct Context<'a> {
    /// By its clock that only goes forward.
    pub now: Instant,
    /// By its wall clock.
    pub wall: UnixMillis,
    /// Its random numbers.
    pub rng: &'a mut Rng,
    pub(super) effects: &'a mut Vec<ProcessEffect>,
    pub(super) uplink: (Sending, Time, Uplink),
}

impl Context<'_> {
    /// Wants this done.
    pub fn emit(&mut self, effect: ProcessEffect) {
        self.effects.push(effect);
    }

    /// Wants this sent.
    pub fn send(&mut self, to: NodeId, payload: Payload) {
        self.emit(ProcessEffect::Send(to, payload));
    }

    /// When all that it wants sent is out, by its clock.
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

/// Which processes there are.
pub trait ProcessFactory {
    /// On which machines processes run.
    fn machines(&self) -> Vec<NodeId>;

    /// Whether this machine is a store: it does not compete.
    fn is_store(&self, node: NodeId) -> bool;

    /// Whether this machine's clock goes on while it is suspended: that of a candidate does.
    fn counts_suspensions(&self, node: NodeId) -> bool {
        !self.is_store(node)
    }

    /// The host elects by this algorithm from its next start on.
    fn set_algorithm(&mut self, _node: NodeId, _algorithm: Algorithm) {}

    /// Starts the process of this machine, with what the machine has kept; `life` counts its starts.
    fn start(
        &self,
        node: NodeId,
        incarnation: u64,
        stable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process>;

    /// How long a task may take that was told to stop, and then one that was aborted.
    fn stop_allowances(&self) -> (Duration, Duration);
}
