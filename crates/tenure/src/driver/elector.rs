//! What a way of electing brings to the driver.

use std::collections::BTreeMap;

use tenure_core::election::ElectionMachine;
use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, Epoch, Instant};
use tokio::sync::oneshot;

use super::command::Proclaimed;
use crate::candidate::RunError;

/// A strategy's machine, with what it needs around it. What the machine says to the outside is the
/// elector's own affair; what it says of the campaign and the term is [`News`], and the same for all.
pub(super) trait Elector {
    /// The machine.
    type Machine: ElectionMachine;

    fn machine(&self) -> &Self::Machine;

    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Does what the machine wants to be done, up to the next news.
    fn poll_news(&mut self, now: Instant) -> Option<News>;

    /// When to wake it at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// How the machine calls this candidate, or why a term can't be handed over to it.
    fn peer(
        &self,
        candidate: &CandidateId,
    ) -> Result<<Self::Machine as ElectionMachine>::Peer, &'static str>;

    /// Says this about the leader.
    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>);
}

/// Why a term can't be handed over to who is no member.
#[cfg(feature = "peers")]
pub(super) const NO_SUCH_MEMBER: &str = "there is no such member";

/// What a machine says of its campaign and its term.
pub(super) enum News {
    Began(Epoch),
    AtRisk(bool),
    Cancel(EndReason),
    Abort,
    Overrun,
    Ended(Epoch, EndReason),
    Failed(RunError),
    SeenLeader(Option<(CandidateId, Epoch)>),
    Retrying(String),
}
