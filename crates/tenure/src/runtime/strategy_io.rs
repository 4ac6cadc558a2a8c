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

    /// Waits for other input and handles it; `None` if there is never any. May be dropped while it
    /// waits; no input is lost then.
    fn receive(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// A machine with its input and output. It executes the machine's effects itself, and passes on the
/// events of the campaign and the term, which are the same for all strategies.
pub(crate) trait StrategyIo: StrategyInput {
    /// The machine.
    type Machine: ElectionMachine;

    fn machine(&mut self) -> &mut Self::Machine;

    /// Executes the machine's effects, up to the next term event.
    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent>;

    /// Hands the term over to this candidate, or returns why that is impossible.
    fn hand_over(&mut self, now: Instant, to: CandidateId) -> Result<(), &'static str>;

    /// Publishes these metadata of the leader.
    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer);
}
