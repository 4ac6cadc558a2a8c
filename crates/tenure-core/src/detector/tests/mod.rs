//! Detectors on a network in virtual time: no test reads a clock, and equal seeds give equal runs.

mod chaos;
mod estimators;
mod figures;
mod hints;
mod network;
mod parameters;
mod questions;
mod ring;
mod watches;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::{Incarnation, Instant, NodeId};
use network::Network;

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

type Make = fn(Instant, &Group) -> Box<dyn Detector>;

/// Every detector with its default parameters.
const ALL: [(&str, Make); 6] = [
    ("on demand", on_demand),
    ("pull", pull),
    ("push, fixed timeout", push_fixed),
    ("push, Chen", push_chen),
    ("push, phi accrual", push_phi),
    ("ring", ring_list),
];

fn on_demand(_: Instant, group: &Group) -> Box<dyn Detector> {
    Box::new(OnDemand::new(group, Default::default(), Default::default()).unwrap())
}

fn pull(_: Instant, group: &Group) -> Box<dyn Detector> {
    Box::new(Pull::new(group, Default::default(), Default::default()).unwrap())
}

fn push_fixed(_: Instant, group: &Group) -> Box<dyn Detector> {
    push::<FixedTimeout>(group, millis(1500))
}

fn push_chen(_: Instant, group: &Group) -> Box<dyn Detector> {
    push::<Chen>(group, ChenOptions::default())
}

fn push_phi(_: Instant, group: &Group) -> Box<dyn Detector> {
    push::<PhiAccrual>(group, PhiOptions::default())
}

fn push<E: Estimator + 'static>(group: &Group, options: E::Options) -> Box<dyn Detector> {
    Box::new(Push::<E>::new(group, Default::default(), Default::default(), options).unwrap())
}

fn ring_list(now: Instant, group: &Group) -> Box<dyn Detector> {
    Box::new(Ring::new(now, group, Default::default(), Default::default()).unwrap())
}

/// All outputs that the detector has now.
fn drain(detector: &mut dyn Detector) -> Vec<DetectorOutput> {
    core::iter::from_fn(|| detector.poll_output()).collect()
}
