//! Commands to the driver, and the handle of a candidate that sends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::lease::candidate::{EndReason, TaskEnd};
use tenure_core::{CandidateId, Epoch};
use tokio::sync::{mpsc, oneshot, watch};

use super::event_loop::CandidateSlot;
use crate::candidate::RunError;
use crate::clock::Clock;
use crate::config::Config;
use crate::leadership::ProclaimError;
use crate::term::TermState;
use crate::term_guard::TermGuard;

/// The caller that waits for a term to begin, or for the reason why none can.
pub(crate) type Campaigner = oneshot::Sender<Result<TermGuard, RunError>>;

/// The caller that waits for a proclamation. It is dropped if the term is over and nothing was
/// sent.
pub(crate) type Proclaimer = oneshot::Sender<Result<(), ProclaimError>>;

/// A command for one candidate.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compete; the term is sent when one begins.
    Campaign(Campaigner),
    /// The caller that campaigned has gone. If a term has begun for it meanwhile, that was dropped.
    GiveUp,
    /// Answered when nothing is held and no campaign is on.
    Settle(oneshot::Sender<()>),
    /// A command for this term, if it is still current.
    Term(Epoch, TermCommand),
    /// The last handle to this candidate is gone.
    Leave,
    /// Make the thread panic.
    #[cfg(test)]
    Panic,
}

/// A command for one term.
#[derive(Debug)]
pub(crate) enum TermCommand {
    /// End the term.
    Resign(EndReason),
    /// Hand the term over to this candidate.
    HandOver(CandidateId),
    /// Publish these metadata of the leader, in place of all earlier ones.
    Proclaim(BTreeMap<String, String>, Proclaimer),
    /// The task of the term is gone.
    TaskEnded(TaskEnd),
}

/// A message to the driver's thread.
pub(super) enum RuntimeMessage {
    Join(usize, Box<dyn CandidateSlot>),
    To(usize, Command),
}

/// One candidate on the driver's thread, from outside. When it is dropped, the candidate gives up
/// what it holds, and leaves.
#[derive(Debug)]
pub(crate) struct DriverHandle {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    /// The current term; closed when the driver has gone.
    pub(crate) terms: watch::Receiver<Option<Arc<TermState>>>,
    pub(super) candidate: usize,
    pub(super) messages: mpsc::UnboundedSender<RuntimeMessage>,
}

impl DriverHandle {
    /// Sends a command; false if the driver has gone.
    pub(crate) fn command(&self, command: Command) -> bool {
        let message = RuntimeMessage::To(self.candidate, command);
        self.messages.send(message).is_ok()
    }
}

impl Drop for DriverHandle {
    fn drop(&mut self) {
        self.command(Command::Leave);
    }
}
