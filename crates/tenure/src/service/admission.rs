//! Whether a missing right is permanent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::lease::candidate::Answer;

use super::BackendReply;

/// The time for which a refused candidate tries again. A store reads a changed access file within a
/// second, so a token may be newer than the access file that the store has read.
const GRACE: Duration = Duration::from_secs(3);

/// Whether the service has ever admitted this candidate.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// From then on a missing right may be a temporary mistake of an operator.
    was_admitted: AtomicBool,
    /// The first denial since the last answer that showed access.
    denied_since: Mutex<Option<Instant>>,
}

/// What an answer that is no denial tells about the rights of the candidate.
pub(super) enum Access {
    /// Nothing.
    Unknown,
    /// The service does not deny it at present.
    Now,
    /// The service has admitted it.
    Admitted,
}

impl Admission {
    /// Lets [`Answer::Denied`] pass only if the service has never admitted this candidate, and has
    /// denied it for a while. Later the same answer may be temporary, so it must not end a campaign,
    /// and never a term. `access` judges all other answers. `origin` is added to the reason: the
    /// request and the origin of the credential.
    pub(super) fn settle(
        &self,
        reply: BackendReply,
        access: impl FnOnce(&Answer) -> Access,
        origin: impl FnOnce() -> String,
    ) -> BackendReply {
        let mut denied_since = self
            .denied_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let answer = match reply.answer {
            Answer::Denied(why) => {
                let is_early = denied_since.get_or_insert_with(Instant::now).elapsed() < GRACE;
                if is_early || self.was_admitted.load(Ordering::Relaxed) {
                    Answer::Unknown(why)
                } else {
                    Answer::Denied(format!("{why}; {}", origin()))
                }
            }
            answer => {
                match access(&answer) {
                    Access::Unknown => {}
                    Access::Now => *denied_since = None,
                    Access::Admitted => self.was_admitted.store(true, Ordering::Relaxed),
                }
                answer
            }
        };
        BackendReply { answer, ..reply }
    }
}
