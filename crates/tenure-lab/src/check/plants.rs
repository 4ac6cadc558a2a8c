//! Mistakes on purpose, each on the ground on which it shows.

use tenure_core::detector::DetectBy;

use super::Ground;
use crate::contestant::{Contestant, DetectorKind, Way};
use crate::fault::Planted;

/// One ground for each mistake that shows in a storm.
#[must_use]
pub fn plants() -> Vec<Ground> {
    let detector = DetectorKind::Of(DetectBy::Push);
    let quorum = Way::Bully {
        detector,
        quorum: true,
    };
    let best_effort = Way::Bully {
        detector,
        quorum: false,
    };
    let of = |way: Way, planted: &[Planted]| {
        let planted = planted.iter();
        let grounds = planted.map(|&it| Ground::new(Contestant::new(way)).with_planted(it));
        grounds.collect::<Vec<_>>()
    };
    let mut all = of(Way::Lease, Planted::LEASE);
    all.extend(of(quorum, Planted::QUORUM));
    all.extend(of(best_effort, Planted::BEST_EFFORT));
    all
}
