//! Failure detectors: they decide which nodes of a group are suspected to be down.
//!
//! A detector can be wrong: over a network, a slow node and a dead node look the same. Its output
//! is therefore a reason to hold an election, and never a proof that the old leader is gone.
//!
//! All detectors have one interface, [`Detector`]:
//!
//! | detector | messages |
//! |---|---|
//! | [`OnDemand`] | a ping when it is asked; keeps a down list |
//! | [`Pull`] | a ping to each node under watch, at an interval |
//! | [`Push`]`<`[`FixedTimeout`]`>` | a heartbeat to each subscriber, at an interval |
//! | [`Push`]`<`[`Chen`]`>` | the same, with an adaptive deadline |
//! | [`Push`]`<`[`PhiAccrual`]`>` | the same, with a level of suspicion |
//!
//! [`Detection`] creates one of them from a name and a few numbers, and refuses impossible ones.
//! The detectors do not check their parameters.
//!
//! Each node of a group may run another detector, with parameters of its own. Every detector serves
//! the messages of all others ([`PeerTable`](peer_table::PeerTable)): it answers pings, sends
//! heartbeats to subscribers at the interval for which they ask, and acknowledges recovery notices.
//! All detectors answer questions in the same way ([`AskOptions`]): they send pings. All detectors
//! are pure state machines. Their methods, in the order in which a driver calls them:
//!
//! - inputs: [`Detector::handle_input`], [`Detector::handle_timeout`];
//! - outputs, to be drained after each of the above: [`Detector::poll_output`], then
//!   [`Detector::poll_timeout`] for the latest time of the next call;
//! - getters, at any time: [`Detector::is_suspected`], [`Detector::detection_bound`].
//!
//! **Guarantees for a client:**
//!
//! - A question has at most one answer. If a client asks about the same node again before the
//!   answer, the detector answers only the last question, no later than it would have answered the
//!   first one.
//! - The answer `Down` never follows a message that the node sent since the question.
//! - A message that a node sent before its last known restart has no effect.
//! - A late or duplicate timer is harmless. After a pause of the process, hand in the messages that
//!   have arrived before the timer: a detector does not know about messages that wait in a socket.
//! - Memory is bounded: a detector stores data only about members of the group, and its windows
//!   have a limited length.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use tenure_core::detector::{
//!     AskOptions, Detector, DetectorInput, DetectorOutput, Group, OnDemand, Verdict,
//! };
//! use tenure_core::{Incarnation, Instant, NodeId};
//!
//! let at = |millis| Instant::default() + Duration::from_millis(millis);
//! let [one, two] = [1, 2].map(NodeId);
//! let group = Group::new(one, Incarnation(1), [one, two]);
//! let mut detector = OnDemand::new(&group, AskOptions::default(), OnDemand::POLL);
//!
//! detector.handle_input(at(0), DetectorInput::Ask { node: two, ask: 7 });
//! while let Some(output) = detector.poll_output() {
//!     // Node 2 does not answer the ping.
//!     assert!(matches!(output, DetectorOutput::Send { to, .. } if to == two));
//! }
//!
//! // A driver sleeps until `poll_timeout`. After half a second without an answer:
//! detector.handle_timeout(at(250));
//! detector.handle_timeout(at(500));
//! let answer = std::iter::from_fn(|| detector.poll_output())
//!     .find(|output| matches!(output, DetectorOutput::Answer { .. }));
//! let Some(DetectorOutput::Answer { ask: 7, verdict, .. }) = answer else { unreachable!() };
//! assert_eq!(verdict, Verdict::Down);
//! ```

mod message;
pub mod options;
mod subscriptions;

pub mod peer_table;

mod on_demand;
mod pull;

mod push;

mod chen;
mod fixed;
mod phi;

mod detection;

use core::fmt;
use core::time::Duration;

pub use chen::Chen;
pub use detection::{DetectBy, Detection, DetectionOptions};
pub use fixed::FixedTimeout;
pub use message::{Candidacy, DetectorInput, DetectorMessage, DetectorOutput, Group, Verdict};
pub use on_demand::OnDemand;
pub use options::{AskOptions, MAX_DURATION, MIN_INTERVAL, OptionsError};
pub use phi::{PhiAccrual, PhiOptions};
pub use pull::Pull;
pub use push::{Estimator, Push};

use crate::{Instant, NodeId};

/// A failure detector. The [module](self) describes how to drive it and what it guarantees.
///
/// The trait is open: simulations implement it for their own detectors.
pub trait Detector: fmt::Debug {
    /// Input: a question, a watch, a message, a hint.
    fn handle_input(&mut self, now: Instant, input: DetectorInput);

    /// Input: the time that [`poll_timeout`](Self::poll_timeout) returned has come. Any other time
    /// is allowed too.
    fn handle_timeout(&mut self, now: Instant);

    /// Output: the next message to send, answer or event; `None` if there is none.
    fn poll_output(&mut self) -> Option<DetectorOutput>;

    /// Output: the latest time for the next call of [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns whether a node under watch is suspected.
    fn is_suspected(&self, node: NodeId) -> bool;

    /// Returns the longest time from a crash until the detector suspects a node under watch, if
    /// messages take at most `delay`, no message is lost, and timers are punctual.
    fn detection_bound(&self, delay: Duration) -> Duration;
}

fn earliest(times: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
