//! Commands to the driver, and the channel to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

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

/// The result of a proclamation; `None` if the term is over and nothing was sent.
pub(crate) type Proclaimed = Option<Result<(), ProclaimError>>;

/// A command for one candidate.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compete; the term is sent when one begins.
    Campaign(Campaigner),
    /// The caller that campaigned has gone. If a term has begun for it meanwhile, that was dropped.
    GiveUp,
    /// End the current term, if there is one; answered when that is done.
    ResignAny(oneshot::Sender<()>),
    /// Answered when nothing is held and no campaign is on.
    Settle(oneshot::Sender<()>),
    /// End this term, if it is still current.
    Resign {
        /// The term.
        term: Epoch,
        /// The reason.
        reason: EndReason,
    },
    /// Hand this term over to a candidate, if it is still current.
    HandOver {
        /// The term.
        term: Epoch,
        /// The next leader.
        to: CandidateId,
    },
    /// Publish these metadata of the leader, if this term is still current.
    Proclaim {
        /// The term.
        term: Epoch,
        /// All of the metadata.
        metadata: BTreeMap<String, String>,
        /// Answered when the store has answered.
        done: oneshot::Sender<Proclaimed>,
    },
    /// The task of this term is gone.
    TaskEnded {
        /// The term.
        term: Epoch,
        /// How the task ended.
        end: TaskEnd,
    },
    /// The last handle to this candidate is gone.
    Leave,
    /// Make the thread panic.
    #[cfg(test)]
    Panic,
}

/// A message to the driver's thread.
pub(super) enum RuntimeMessage {
    Join(usize, Box<dyn CandidateSlot>),
    To(usize, Command),
}

/// A handle to one candidate on the driver's thread. When the last one is dropped, the candidate
/// gives up what it holds, and leaves.
#[derive(Clone, Debug)]
pub(crate) struct DriverHandle {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    /// The current term; closed when the driver has gone.
    pub(crate) terms: watch::Receiver<Option<Arc<TermState>>>,
    channel: Arc<CommandChannel>,
}

#[derive(Debug)]
struct CommandChannel {
    candidate: usize,
    messages: mpsc::UnboundedSender<RuntimeMessage>,
}

impl DriverHandle {
    pub(super) fn new(
        config: Config,
        clock: Clock,
        terms: watch::Receiver<Option<Arc<TermState>>>,
        (candidate, messages): (usize, mpsc::UnboundedSender<RuntimeMessage>),
    ) -> Self {
        Self {
            config: Arc::new(config),
            clock,
            terms,
            channel: Arc::new(CommandChannel {
                candidate,
                messages,
            }),
        }
    }

    /// Sends a command; false if the driver has gone.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.channel.send(command)
    }

    pub(crate) fn downgrade(&self) -> WeakDriverHandle {
        WeakDriverHandle {
            config: self.config.clone(),
            clock: self.clock.clone(),
            terms: self.terms.clone(),
            channel: Arc::downgrade(&self.channel),
        }
    }
}

/// A handle to a candidate that does not keep it.
#[derive(Clone, Debug)]
pub(crate) struct WeakDriverHandle {
    pub(crate) config: Arc<Config>,
    clock: Clock,
    terms: watch::Receiver<Option<Arc<TermState>>>,
    channel: Weak<CommandChannel>,
}

impl WeakDriverHandle {
    /// Sends a command; false if the candidate or the driver has gone.
    pub(crate) fn command(&self, command: Command) -> bool {
        let channel = self.channel.upgrade();
        channel.is_some_and(|channel| channel.send(command))
    }

    pub(super) fn upgrade(&self) -> Option<DriverHandle> {
        Some(DriverHandle {
            channel: self.channel.upgrade()?,
            config: self.config.clone(),
            clock: self.clock.clone(),
            terms: self.terms.clone(),
        })
    }
}

impl CommandChannel {
    fn send(&self, command: Command) -> bool {
        self.messages
            .send(RuntimeMessage::To(self.candidate, command))
            .is_ok()
    }
}

impl Drop for CommandChannel {
    fn drop(&mut self) {
        self.send(Command::Leave);
    }
}
