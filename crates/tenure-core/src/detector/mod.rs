//! Failure detectors: which nodes of a group are taken for down.
//!
//! A detector can be wrong: over a network, slow and dead look the same. So what it says is a reason
//! to hold an election and never a proof that the old leader is gone.
//!
//! There is one interface, [`Detector`], and several ways to do it:
//!
//! | detector | what it sends |
//! |---|---|
//! | [`OnDemand`] | a ping when it is asked; keeps a down list |
//! | [`Pull`] | a ping to each node under watch, at an interval |
//! | [`Push`]`<`[`FixedTimeout`]`>` | a heartbeat to each subscriber, at an interval |
//! | [`Push`]`<`[`Chen`]`>` | the same, with an adaptive deadline |
//! | [`Push`]`<`[`PhiAccrual`]`>` | the same, with a level of suspicion |
//! | [`Ring`] | one attendance list that goes round all nodes |
//!
//! [`Detection`] makes one of them from a name and a few numbers, all but the ring.
//!
//! All nodes of a group run the same one, with the same parameters. All of them answer questions in
//! the same way ([`AskOptions`]), by pings that all of them answer. All are pure state machines.
//! Their methods, in the order in which a driver uses them:
//!
//! - inputs: [`Detector::handle_input`], [`Detector::handle_timeout`];
//! - outputs, to be drained after each of the above: [`Detector::poll_output`], then
//!   [`Detector::poll_timeout`] for when to come back at the latest;
//! - getters, at any time: [`Detector::is_suspected`], [`Detector::detection_bound`].
//!
//! **What a client may rely on.**
//!
//! - A question has at most one answer. Who asks about the same node again before it is answered has
//!   one answer to the last question, no later than one to the first would have come.
//! - `Down` is never said about a node that was heard since the question.
//! - A node's messages from before its last known restart count for nothing.
//! - A late or a duplicate timer is harmless. But when the process stood still, hand in what has
//!   arrived meanwhile before the timer: a detector can't know what waits in a socket.
//! - Memory is bounded: something is kept only for the members of the group, and windows have a
//!   length.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use tenure_core::detector::{
//!     AskOptions, Detector, Group, Input, OnDemand, OnDemandOptions, Output, Verdict,
//! };
//! use tenure_core::{Incarnation, Instant, NodeId};
//!
//! let at = |millis| Instant::default() + Duration::from_millis(millis);
//! let [one, two] = [1, 2].map(NodeId);
//! let group = Group::new(one, Incarnation(1), [one, two]);
//! let (ask, options) = (AskOptions::default(), OnDemandOptions::default());
//! let mut detector = OnDemand::new(&group, ask, options).unwrap();
//!
//! detector.handle_input(at(0), Input::Ask { node: two, ask: 7 });
//! while let Some(output) = detector.poll_output() {
//!     assert!(matches!(output, Output::Send { to, .. } if to == two)); // It stays unanswered.
//! }
//!
//! // A driver sleeps until `poll_timeout`. After half a second without an answer:
//! detector.handle_timeout(at(250));
//! detector.handle_timeout(at(500));
//! let answer = std::iter::from_fn(|| detector.poll_output())
//!     .find(|output| matches!(output, Output::Answer { .. }));
//! let Some(Output::Answer { ask: 7, verdict, .. }) = answer else { unreachable!() };
//! assert_eq!(verdict, Verdict::Down);
//! ```

mod message;
mod options;
mod peer_table;
mod recovery_announcer;

mod on_demand;
mod pull;

mod push;

mod chen;
mod fixed;
mod phi;

mod ring;

mod detection;

pub mod quality;

use core::fmt;
use core::time::Duration;

pub use chen::{Chen, ChenOptions};
pub use detection::{DetectBy, Detection, DetectionOptions};
pub use fixed::FixedTimeout;
pub use message::{
    Attendance, Candidacy, DetectorInput, DetectorMessage, DetectorOutput, Group, Stamp, Verdict,
};
pub use on_demand::{OnDemand, OnDemandOptions};
pub use options::{MAX_DURATION, MIN_INTERVAL, OptionsError};
pub use peer_table::AskOptions;
pub use phi::{PhiAccrual, PhiOptions};
pub use pull::{Pull, PullOptions};
pub use push::{Estimator, Push, PushOptions};
pub use ring::{Ring, RingOptions};

use crate::{Instant, NodeId};

/// A failure detector; see the [module](self) for how to drive it and what to rely on.
///
/// This trait is open, for detectors in simulations.
pub trait Detector: fmt::Debug {
    /// Input: a question, a watch, a message, a hint.
    fn handle_input(&mut self, now: Instant, input: DetectorInput);

    /// Input: the time has come that [`poll_timeout`](Self::poll_timeout) named, or any other.
    fn handle_timeout(&mut self, now: Instant);

    /// Output: the next thing to do or to know, until there is none.
    fn poll_output(&mut self) -> Option<DetectorOutput>;

    /// Output: when to call [`handle_timeout`](Self::handle_timeout) at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a node under watch is suspected.
    fn is_suspected(&self, node: NodeId) -> bool;

    /// The longest time from a crash until a watch says so, while messages take at most `delay`,
    /// none is lost, and timers are punctual.
    fn detection_bound(&self, delay: Duration) -> Duration;
}

fn earliest(times: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
