//! What the rest of the library asks of the driver, and the way to it.

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

/// Whoever waits for a term to begin, or for the reason why none can.
pub(crate) type Campaigner = oneshot::Sender<Result<TermGuard, RunError>>;

/// What comes of proclaiming: nothing is sent for a term that is over.
pub(crate) type Proclaimed = Option<Result<(), ProclaimError>>;

/// What is asked of one candidate.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compete; the term is sent when one begins.
    Campaign(Campaigner),
    /// Whoever campaigned has gone. If a term has begun for it meanwhile, that was dropped.
    GiveUp,
    /// End the term that is on, if there is one; answered when that is done.
    ResignAny(oneshot::Sender<()>),
    /// Answered when nothing is held and nobody campaigns.
    Settle(oneshot::Sender<()>),
    /// End this term, if it is still on.
    Resign {
        /// Which.
        term: Epoch,
        /// Why.
        reason: EndReason,
    },
    /// End this term, if it is still on, for the good of this candidate.
    HandOver {
        /// Which.
        term: Epoch,
        /// Who is to be next.
        to: CandidateId,
    },
    /// Say this about the leader, if this term is still on.
    Proclaim {
        /// Which.
        term: Epoch,
        /// All that is to be said.
        metadata: BTreeMap<String, String>,
        /// Told when the store has answered.
        done: oneshot::Sender<Proclaimed>,
    },
    /// The task of this term is gone.
    TaskEnded {
        /// Which.
        term: Epoch,
        /// How.
        end: TaskEnd,
    },
    /// Nobody can ask anything of this candidate any more.
    Leave,
    /// The thread is to panic.
    #[cfg(test)]
    Panic,
}

/// What goes to the driver's thread.
pub(super) enum Message {
    Join(usize, Box<dyn CandidateSlot>),
    To(usize, Command),
}

/// A way to one candidate on the driver's thread. When the last one is dropped the candidate gives
/// up what it holds, and leaves.
#[derive(Clone, Debug)]
pub(crate) struct DriverHandle {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    /// The term that is on; closed when the driver has gone.
    pub(crate) terms: watch::Receiver<Option<Arc<TermState>>>,
    channel: Arc<CommandChannel>,
}

#[derive(Debug)]
struct CommandChannel {
    candidate: usize,
    messages: mpsc::UnboundedSender<Message>,
}

impl DriverHandle {
    pub(super) fn new(
        config: Config,
        clock: Clock,
        terms: watch::Receiver<Option<Arc<TermState>>>,
        (candidate, messages): (usize, mpsc::UnboundedSender<Message>),
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

/// A way to a candidate that does not keep it.
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
            .send(Message::To(self.candidate, command))
            .is_ok()
    }
}

impl Drop for CommandChannel {
    fn drop(&mut self) {
        self.send(Command::Leave);
    }
}
