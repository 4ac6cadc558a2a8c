//! The outputs of a machine: actions for its driver, and term events.

use alloc::collections::VecDeque;
use alloc::string::String;

use super::EndReason;
use crate::{CandidateId, Epoch};

/// An output of an [`ElectionMachine`](super::ElectionMachine).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output<E> {
    /// Something that the driver must do: an effect of this kind of machine.
    Effect(E),
    /// News of the campaign or of a term, the same for all machines.
    Term(TermEvent),
}

/// An event of a campaign or a term, the same for all machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TermEvent {
    /// A term began: start the task.
    Began(Epoch),
    /// A renewal has failed and is tried again (`true`), or the term is safe again.
    AtRisk(bool),
    /// Tell the task to stop. It may take the stop grace for it.
    Cancel(EndReason),
    /// Abort the task.
    Abort,
    /// The task was aborted and still runs. The overrun policy decides.
    Overrun,
    /// The term is over and its task is gone; the machine has told the others if it could.
    Ended(Epoch, EndReason),
    /// The campaign was given up before it won.
    Withdrawn,
    /// The campaign has failed for good.
    Failed(CampaignFailure),
    /// Another candidate was seen to lead, or nobody.
    LeaderSeen(Option<(CandidateId, Epoch)>),
}

/// Why a campaign has failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CampaignFailure {
    /// The store refuses to deal with this candidate. An operator must change one of the two.
    Refused(String),
    /// The store has never accepted this candidate's credential, or never allowed it this election.
    Denied(String),
    /// This member can't lead its group any more.
    Barred(String),
}

/// Outputs not yet polled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outputs<E>(VecDeque<Output<E>>);

impl<E> Default for Outputs<E> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<E> Outputs<E> {
    pub(crate) fn effect(&mut self, effect: E) {
        self.0.push_back(Output::Effect(effect));
    }

    pub(crate) fn emit(&mut self, event: TermEvent) {
        self.0.push_back(Output::Term(event));
    }

    pub(crate) fn poll(&mut self) -> Option<Output<E>> {
        self.0.pop_front()
    }
}
