//! Commands to the driver, and the handle of a candidate that sends them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tenure_core::lease::candidate::{EndReason, TaskEnd};
use tenure_core::{CandidateId, Epoch};
use tokio::sync::{oneshot, watch};

use crate::base::clock::Clock;
use crate::config::Config;
use crate::election::error::{ProclaimError, RunError};
use crate::election::term::TermState;
use crate::election::term::guard::TermGuard;

/// The channel to a caller that waits for a term to begin, or for the reason why no term can begin.
pub(crate) type Campaigner = oneshot::Sender<Result<TermGuard, RunError>>;

/// The channel to a caller that waits for a proclamation. It is dropped if the term is over and
/// nothing was sent.
pub(crate) type Proclaimer = oneshot::Sender<Result<(), ProclaimError>>;

/// A command for one candidate.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compete in the election. The channel receives the next term.
    Campaign(Campaigner),
    /// The caller of the campaign has dropped its future. If a term began for it meanwhile, that
    /// term was dropped.
    GiveUp,
    /// Reply when the candidate holds no lease and does not campaign.
    Settle(oneshot::Sender<()>),
    /// A command for this term, if the term is still current.
    Term(Epoch, TermCommand),
    /// The last handle to this candidate was dropped.
    Leave,
    /// Make the thread panic.
    #[cfg(all(test, feature = "peers"))]
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
    /// The task of the term has ended. Other parts of it may still run.
    TaskEnded(TaskEnd),
    /// All parts of the task have ended.
    PartsEnded,
}

/// The handle to a candidate on the driver's thread. When the handle is dropped, the candidate
/// gives up its lease and leaves.
pub(crate) struct DriverHandle {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    /// The current term. The channel is closed when the driver has ended.
    pub(crate) terms: watch::Receiver<Option<Arc<TermState>>>,
    /// Sends a command to the candidate. Returns false if the driver has ended.
    pub(in crate::election) send: Box<dyn Fn(Command) -> bool + Send + Sync>,
}

impl DriverHandle {
    /// Sends a command. Returns false if the driver has ended.
    pub(crate) fn command(&self, command: Command) -> bool {
        (self.send)(command)
    }
}

impl fmt::Debug for DriverHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverHandle")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Drop for DriverHandle {
    fn drop(&mut self) {
        self.command(Command::Leave);
    }
}
