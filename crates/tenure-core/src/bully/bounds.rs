//! What an election costs at rest and how long it takes, from its settings alone.

use core::fmt;
use core::time::Duration;

use super::{Guarantee, Settings};
use crate::detector::Detection;

/// Messages of a follower and renew interval with a quorum: a renewal and its answer.
const RENEWALS: f64 = 2.0;

/// The same without: the leader shows itself, the follower does so and is answered, and asks its
/// detector, which is a ping and its answer.
const LOOKS: f64 = 5.0;

/// What an election by these settings costs while one leads and all follow, and how long it takes
/// when the leader dies, as long as no message is lost and none takes longer than its lifetime. For
/// whoever chooses timings; no rule rests on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Longest time from the leader's end until its followers suspect it, with messages that take as
    /// long as they may.
    pub detection: Duration,
    /// Longest time from the leader's end until another one leads, if the next election succeeds at
    /// the first attempt.
    ///
    /// With a quorum the dead leader's promises must lapse first. Without, it is the detection, then
    /// a question about the better members and one about the worse ones (should some be down as
    /// well), and an exchange with each of the worse ones.
    pub without_leader: Duration,
    /// How many messages are sent in a second, by all members together. Over HTTP a message and its
    /// answer are one request.
    pub messages_per_second: f64,
}

impl Bounds {
    /// Of these settings, with this failure detection.
    #[must_use]
    pub fn of(settings: &Settings, detection: &Detection) -> Self {
        let timings = settings.timings();
        let lifetime = timings.message_lifetime();
        let members = settings.members().len() as u32;
        let detected = detection.detection_bound(lifetime);
        let (without_leader, rounds) = match settings.guarantee() {
            Guarantee::Quorum => (timings.worst_without_leader(), RENEWALS),
            Guarantee::BestEffort => {
                let questions = detection.ask_timeout() * 2;
                (detected + questions + lifetime * members, LOOKS)
            }
        };
        let rounds = rounds / timings.term().renew_interval().as_secs_f64();
        let followers = f64::from(members - 1);
        Self {
            detection: detected,
            without_leader,
            messages_per_second: followers * (detection.messages_per_second() + rounds),
        }
    }
}

/// For the log at start.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a leader that is gone is suspected after {:.1?} at most, and replaced after {:.1?} at most; \
             {:.1} messages a second at rest",
            self.detection, self.without_leader, self.messages_per_second,
        )
    }
}
