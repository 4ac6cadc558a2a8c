//! Tests of a candidate that needs both halves. `tenure-sim` simulates groups of such candidates.

mod alone;

use core::time::Duration;

use super::*;
use crate::UnixMillis;
use crate::bully::{
    GroupGuarantee, GroupSettings, GroupTimings, GroupTimingsOptions, HardState, Member,
    Membership, NodeId, Started,
};
use crate::lease::candidate::TimingsOptions;
use crate::random::SplitMix64;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(time: u64) -> Instant {
    Instant::default() + millis(time)
}

/// Returns timings with a lease of 3 s and a message lifetime of 200 ms.
fn timings() -> GroupTimings {
    let term = Timings::new(&TimingsOptions {
        lease_duration: Some(millis(3_000)),
        ..TimingsOptions::default()
    });
    let options = GroupTimingsOptions {
        message_lifetime: Some(millis(200)),
        ..GroupTimingsOptions::default()
    };
    GroupTimings::new(term.unwrap(), &options).unwrap()
}

/// Returns member `me` of a group of this size. Its wall clock shows `wall` when its monotonic
/// clock shows 0.
fn node(
    me: u32,
    members: u32,
    guarantee: GroupGuarantee,
    record: HardState,
    now: u64,
    wall: u64,
) -> PeerCandidate {
    let member = |id| Member {
        id: NodeId(id),
        priority: id,
    };
    let members = Membership::new((1..=members).map(member)).unwrap();
    let settings = GroupSettings::new(NodeId(me), members, timings()).unwrap();
    let started = Started {
        at: at(now),
        wall: UnixMillis::new(wall + now),
    };
    PeerCandidate::new(settings.with_guarantee(guarantee), record, started)
}

fn lease_candidate() -> LeaseCandidate {
    LeaseCandidate::new(*timings().term())
}
