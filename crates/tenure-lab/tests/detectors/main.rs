//! Failure detectors on a network in virtual time. No test reads a clock, and equal seeds give
//! equal runs.

mod network;
mod quality;

mod chaos;
mod figures;
mod hints;
mod pairs;
mod questions;
mod ring;
mod watches;

use std::time::Duration;

use network::Network;
use tenure_core::detector::{
    AskOptions, Candidacy, Chen, Detector, DetectorInput, DetectorMessage, DetectorOutput,
    Estimator, FixedTimeout, Group, OnDemand, PhiAccrual, PhiOptions, Pull, Push, Verdict,
};
use tenure_core::{Incarnation, Instant, NodeId};
use tenure_lab::detector::{Attendance, AttendanceRing, Stamp};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);

/// The delay of every message on the quiet network.
const DELAY: Duration = millis(1);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_millis(millis)
}

fn group(me: NodeId, members: u32) -> Group {
    Group::new(me, Incarnation(1), (1..=members).map(NodeId))
}

/// A detector under test.
#[derive(Debug)]
enum SimDetector {
    Library(Box<dyn Detector>),
    AttendanceRing(Box<AttendanceRing>),
}

impl SimDetector {
    /// Handles an attendance list. For the library's detectors it only shows that its sender is up.
    fn handle_list(&mut self, now: Instant, from: (NodeId, Incarnation), list: Attendance) {
        match self {
            Self::Library(detector) => {
                let (from, incarnation) = from;
                detector.handle_input(now, DetectorInput::Heard { from, incarnation });
            }
            Self::AttendanceRing(ring) => ring.handle_list(now, from, list),
        }
    }

    /// Returns the next attendance list to send.
    fn poll_list(&mut self) -> Option<(NodeId, Attendance)> {
        match self {
            Self::Library(_) => None,
            Self::AttendanceRing(ring) => ring.poll_list(),
        }
    }
}

impl std::ops::Deref for SimDetector {
    type Target = dyn Detector;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Library(detector) => detector.as_ref(),
            Self::AttendanceRing(ring) => ring.as_ref(),
        }
    }
}

impl std::ops::DerefMut for SimDetector {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Library(detector) => detector.as_mut(),
            Self::AttendanceRing(ring) => ring.as_mut(),
        }
    }
}

type Make = fn(Instant, &Group) -> SimDetector;

/// Every detector with its default parameters.
const ALL: [(&str, Make); 6] = [
    ("on demand", on_demand),
    ("pull", pull),
    ("push, fixed timeout", push_fixed),
    ("push, Chen", push_chen),
    ("push, phi accrual", push_phi),
    ("ring", |now, group| {
        SimDetector::AttendanceRing(Box::new(attendance_ring(now, group)))
    }),
];

fn on_demand(_: Instant, group: &Group) -> SimDetector {
    library(OnDemand::new(group, AskOptions::default(), OnDemand::POLL))
}

fn pull(_: Instant, group: &Group) -> SimDetector {
    library(Pull::new(group, AskOptions::default(), millis(300), 4))
}

fn push_fixed(_: Instant, group: &Group) -> SimDetector {
    push(group, FixedTimeout::new(millis(300), millis(1500)))
}

fn push_chen(_: Instant, group: &Group) -> SimDetector {
    push(group, Chen::new(millis(300), millis(1200), Chen::WINDOW))
}

fn push_phi(_: Instant, group: &Group) -> SimDetector {
    let options = PhiOptions {
        threshold: 8.0,
        window: PhiAccrual::WINDOW,
        min_deviation: millis(30),
        pause: millis(600),
    };
    push(group, PhiAccrual::new(millis(300), options))
}

fn push<E: Estimator + 'static>(group: &Group, estimator: E) -> SimDetector {
    library(Push::new(
        group,
        AskOptions::default(),
        millis(300),
        estimator,
    ))
}

fn library(detector: impl Detector + 'static) -> SimDetector {
    SimDetector::Library(Box::new(detector))
}

fn attendance_ring(now: Instant, group: &Group) -> AttendanceRing {
    AttendanceRing::new(now, group, AskOptions::default())
}

/// Returns all outputs of a detector, except for its attendance lists.
fn drain(detector: &mut dyn Detector) -> Vec<DetectorOutput> {
    std::iter::from_fn(|| detector.poll_output()).collect()
}
