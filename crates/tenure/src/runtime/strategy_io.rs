//! The interface between a strategy and the runtime.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use tenure_core::election::{ElectionMachine, TermEvent};
use tenure_core::lease::candidate::Answer;
use tenure_core::{CandidateId, Instant};

use super::command::Proclaimer;
use super::lease::LeaseChannel;

/// The inputs of a strategy: time, answers of its lease service, and input from elsewhere.
pub(crate) trait StrategyInput: Send {
    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call [`StrategyInput::handle_timeout`] at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Its requests to a lease service, if it makes any.
    fn channel(&mut self) -> Option<&mut LeaseChannel>;

    /// The lease service has answered.
    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer);

    /// Lets the machine send its next renewal now, if that is due soon.
    fn renew_early(&mut self, now: Instant);

    /// Waits for input and keeps it for [`StrategyInput::handle_input`]; `None` if there is never
    /// any. May be dropped while it waits; no input is lost then.
    fn receive(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn handle_input(&mut self, _now: Instant) {}
}

/// A machine with its input and output. It executes the machine's effects itself, and passes on what
/// happens to the campaign and the term, which is the same for all strategies.
pub(crate) trait StrategyIo: StrategyInput {
    /// The machine.
    type Machine: ElectionMachine;

    fn machine(&mut self) -> &mut Self::Machine;

    /// Executes the machine's effects, up to the next term event.
    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent>;

    /// The machine's name for this candidate, or why a term can't be handed over to it.
    fn peer(
        &self,
        candidate: CandidateId,
    ) -> Result<<Self::Machine as ElectionMachine>::Peer, &'static str>;

    /// Publishes these metadata of the leader.
    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer);
}
