//! Detectors on a network in virtual time: no test reads a clock, and equal seeds give equal runs.

mod estimators;
mod parameters;
mod subscriptions;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::{Incarnation, Instant, NodeId};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_millis(millis)
}

fn group(me: NodeId, members: u32) -> Group {
    Group::new(me, Incarnation(1), (1..=members).map(NodeId))
}

fn push_chen(_: Instant, group: &Group) -> Box<dyn Detector> {
    push(group, Chen::new(millis(300), millis(1200), Chen::WINDOW))
}

fn push<E: Estimator + 'static>(group: &Group, estimator: E) -> Box<dyn Detector> {
    Box::new(Push::new(
        group,
        AskOptions::default(),
        millis(300),
        estimator,
    ))
}

/// Returns all outputs of a detector.
fn drain(detector: &mut dyn Detector) -> Vec<DetectorOutput> {
    core::iter::from_fn(|| detector.poll_output()).collect()
}
