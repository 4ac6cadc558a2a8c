//! Algorithms and failure detectors of other crates.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tenure_core::detector::{AskOptions, Detector, Group};
use tenure_core::{Instant, NodeId};

use crate::sim::{Context, DurableState, Process, SimMessage};

/// An election algorithm of another crate, among members without a store.
pub trait OtherAlgorithm: fmt::Debug + Send + Sync {
    /// Returns its name on the command line and in tables. No other algorithm has this name.
    fn name(&self) -> &'static str;

    /// Returns a description of a few words.
    fn about(&self) -> &'static str;

    /// Returns whether the papers judge it by one safety property: all members that have a leader
    /// have the same one. Their model is a network in which messages keep their order, arrive
    /// within a known time, and are not lost.
    fn has_model_of_papers(&self) -> bool;

    /// Starts a member.
    fn start(&self, member: OtherMember<'_>, context: &mut Context<'_>) -> Box<dyn Process>;
}

/// A member of another algorithm.
#[derive(Debug)]
pub struct OtherMember<'a> {
    /// Its number.
    pub me: NodeId,
    /// The number of its starts.
    pub incarnation: u64,
    /// All members.
    pub members: Vec<NodeId>,
    /// The interval at which it asks about its leader.
    pub poll: Duration,
    /// The time that it waits for an answer.
    pub timeout: Duration,
    /// Its state on disk.
    pub durable: Option<&'a DurableState>,
}

impl PartialEq for dyn OtherAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn OtherAlgorithm {}

/// A failure detector of another crate, for members of Bully_FD with the repairs.
#[derive(Debug)]
pub struct OtherDetectorKind {
    /// The end of the names of algorithms with this detector.
    pub suffix: &'static str,
    /// A description of a few words.
    pub about: &'static str,
    /// Starts the detector of a member.
    pub start: fn(Instant, &Group, AskOptions) -> Box<dyn OtherDetector>,
}

impl PartialEq for OtherDetectorKind {
    fn eq(&self, other: &Self) -> bool {
        self.suffix == other.suffix
    }
}

impl Eq for OtherDetectorKind {}

/// A failure detector with messages of its own.
pub trait OtherDetector: Detector {
    /// Handles a message that is not one of the library.
    fn handle_message(&mut self, now: Instant, from: NodeId, message: &dyn SimMessage);

    /// Returns the next message of its own to send.
    fn poll_message(&mut self) -> Option<(NodeId, Rc<dyn SimMessage>)>;
}
