//! The interface between a strategy and the runtime.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use tenure_core::election::{ElectionMachine, TermEvent};
use tenure_core::lease::candidate::Answer;
use tenure_core::{CandidateId, Instant};
use tokio::sync::oneshot;

use super::command::Proclaimed;
use super::lease::LeaseChannel;

/// A machine with its input and output. It executes the machine's effects itself, and passes on what
/// happens to the campaign and the term, which is the same for all strategies.
pub(super) trait StrategyIo: Send {
    /// The machine.
    type Machine: ElectionMachine;
    /// An input that does not come from a lease store.
    type Input: Send;

    fn machine(&self) -> &Self::Machine;

    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Executes the machine's effects, up to the next term event.
    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent>;

    /// When to call [`StrategyIo::handle_timeout`] at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The machine's name for this candidate, or why a term can't be handed over to it.
    fn peer(
        &self,
        candidate: &CandidateId,
    ) -> Result<<Self::Machine as ElectionMachine>::Peer, &'static str>;

    /// Publishes these metadata of the leader.
    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>);

    /// Its requests to a lease store, if it makes any.
    fn lease(&mut self) -> Option<&mut dyn LeaseIo> {
        None
    }

    /// Waits for the next input; `None` if there is never any. May be dropped while it waits; no input
    /// is lost then.
    fn next_input(&mut self) -> Option<BoxFuture<'_, Self::Input>> {
        None
    }

    fn handle_input(&mut self, _now: Instant, _input: Self::Input) {}
}

/// The part of a strategy that talks to a lease store.
pub(super) trait LeaseIo {
    fn channel(&mut self) -> &mut LeaseChannel;

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer);

    /// Lets the machine send its next renewal now, if that is due soon.
    fn renew_early(&mut self, now: Instant);
}

/// Why a term can't be handed over to a candidate that is not in the group.
#[cfg(feature = "peers")]
pub(super) const NO_SUCH_MEMBER: &str = "there is no such member";
