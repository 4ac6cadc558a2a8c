//! The interface between a strategy and the runtime.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use tenure_core::election::{ElectionMachine, TaskEnd, TermEvent};
use tenure_core::{CandidateId, Instant};

use super::channel::LeaseChannel;
use super::term::{Command, Proclaimer};
use crate::base::random::OsRandom;
#[cfg(feature = "peers")]
use crate::base::term::TermQuorum;
use crate::service::BackendReply;

/// The inputs of a strategy: the time, answers of its lease service, and other input.
pub(crate) trait StrategyInput: Send {
    /// Handles the current time.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the latest time of the next call of [`StrategyInput::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns its channel to a lease service, if it has one.
    fn channel(&mut self) -> Option<&mut LeaseChannel>;

    /// Handles a reply of the lease service.
    fn handle_reply(&mut self, now: Instant, attempt: u64, reply: BackendReply);

    /// Lets the machine send its next renewal now if it is due soon.
    fn renew_early(&mut self, now: Instant);

    /// Waits for other input and handles it. Returns `None` if there never is any. The future is
    /// cancel safe: no input is lost.
    fn receive(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// A machine with its input and output. It executes the machine's effects itself. It returns the
/// events of the campaign and the term, which are the same for all strategies.
pub(crate) trait StrategyIo: StrategyInput {
    /// The type of the machine.
    type Machine: ElectionMachine;

    fn machine(&mut self) -> &mut Self::Machine;

    /// Tells the machine that the task of the term is gone.
    fn task_ended(&mut self, now: Instant, end: TaskEnd) {
        self.machine().task_ended(now, end, &mut OsRandom);
    }

    /// Executes the machine's effects until the next term event.
    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent>;

    /// Returns the voters that carry the term, if it has a fallback.
    #[cfg(feature = "peers")]
    fn term_quorum(&self, _now: Instant) -> Option<TermQuorum> {
        None
    }

    /// Hands the term over to this candidate, or returns why that is impossible.
    fn hand_over(&mut self, now: Instant, to: CandidateId) -> Result<(), &'static str>;

    /// Publishes these metadata of the leader.
    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer);
}

/// A candidate in the event loop, with any strategy.
pub(super) trait CandidateSlot: Send {
    /// Executes all outputs of the machine.
    fn execute(&mut self);

    fn handle_command(&mut self, command: Command);

    fn handle_timeout(&mut self);

    /// Returns whether the candidate has nothing left to do, and no command can reach it any more.
    fn is_done(&mut self) -> bool;

    /// Returns the input side of its strategy.
    fn io(&mut self) -> &mut dyn StrategyInput;
}

/// The candidates on the thread, by their numbers.
pub(super) type Slots = BTreeMap<usize, Box<dyn CandidateSlot>>;
