//! Whether a missing right is permanent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure_core::lease::candidate::Answer;

use super::BackendReply;

/// The time for which a refused candidate tries again. A store reads a changed access file within a
/// second, so a token may be newer than the access file that the store has read.
const GRACE: Duration = Duration::from_secs(3);

/// Whether the service has ever admitted this candidate.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// `true` once the service has executed or answered a request of this candidate. From then on a
    /// missing right may be a temporary mistake of an operator.
    was_admitted: AtomicBool,
    /// The time when the service first refused this candidate.
    denied_since: OnceLock<Instant>,
}

impl Admission {
    /// Lets [`Answer::Denied`] pass only if the service has never accepted this candidate; an
    /// acquire is the only request that such a candidate sends. Later the same answer may be
    /// temporary, so it must not end a campaign, and never a term. `origin` is added to the reason:
    /// the request and the origin of the credential.
    pub(super) fn settle(
        &self,
        reply: BackendReply,
        origin: impl FnOnce() -> String,
    ) -> BackendReply {
        let answer = match reply.answer {
            Answer::Denied(why) => {
                let denied_since = *self.denied_since.get_or_init(Instant::now);
                let is_early = denied_since.elapsed() < GRACE;
                if is_early || self.was_admitted.load(Ordering::Relaxed) {
                    Answer::Unknown(why)
                } else {
                    Answer::Denied(format!("{why}; {}", origin()))
                }
            }
            Answer::Unknown(_) | Answer::Refused(_) => reply.answer,
            admitted => {
                self.was_admitted.store(true, Ordering::Relaxed);
                admitted
            }
        };
        BackendReply { answer, ..reply }
    }
}
