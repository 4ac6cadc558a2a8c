//! The outputs of a machine: actions for its driver, and term events.

use alloc::collections::VecDeque;
use alloc::string::String;

use super::EndReason;
use crate::{CandidateId, Epoch};

/// An output of an [`ElectionMachine`](super::ElectionMachine).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output<E> {
    /// An action that the driver must execute, specific to this kind of machine.
    Effect(E),
    /// An event of the campaign or the term, the same for all machines.
    Term(TermEvent),
}

impl<E> Output<E> {
    /// Converts the effect.
    pub(crate) fn map<F>(self, convert: fn(E) -> F) -> Output<F> {
        match self {
            Self::Effect(effect) => Output::Effect(convert(effect)),
            Self::Term(event) => Output::Term(event),
        }
    }
}

/// An event of a campaign or a term, the same for all machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TermEvent {
    /// A term began: start the task.
    Began(Epoch),
    /// A renewal has failed and is retried (`true`), or the term is no longer at risk (`false`).
    AtRisk(bool),
    /// Ask the task to stop. It has at most the stop grace to do so.
    Cancel(EndReason),
    /// Abort the task.
    Abort,
    /// The task was aborted and still runs. The term is renewed until the task is gone.
    Lingering,
    /// The task was aborted and still runs, and the term is not renewed. The overrun policy decides
    /// what happens.
    Overrun,
    /// The term is over and its task is gone. The machine has released the leadership if it could.
    Ended(Epoch, EndReason),
    /// The campaign was given up before the candidate was elected.
    Withdrawn,
    /// The campaign has failed permanently.
    Failed(CampaignFailure),
    /// The known leader has changed; `None` if no leader is known.
    LeaderSeen(Option<(CandidateId, Epoch)>),
}

/// The reason why a campaign has failed permanently.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CampaignFailure {
    /// The store refuses this candidate. An operator must change the candidate or the store.
    Refused(String),
    /// The store has never accepted this candidate's credential, or the credential has never
    /// allowed this election.
    Denied(String),
    /// This member can no longer lead its group.
    Barred(String),
}

/// The outputs that were not polled yet.
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
