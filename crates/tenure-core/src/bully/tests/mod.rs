//! Tests of one member, of several members at rest, and of all orders of events. `tenure-sim`
//! simulates groups of members.

mod alone;
mod model;
mod peace;

use core::time::Duration;

use super::*;
use crate::detector::Verdict;
use crate::election::{ElectionMachine as _, Output, Standing, TermEvent};
use crate::lease::candidate::{EndReason, TaskEnd};
use crate::random::SplitMix64;
use crate::{Epoch, Incarnation, Instant, Random, UnixMillis};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns members 1 to `count`. Member 1 is the best.
fn members(count: u32) -> Membership {
    let member = |id| Member {
        id: NodeId(id),
        priority: id,
    };
    Membership::new((1..=count).map(member)).unwrap()
}
