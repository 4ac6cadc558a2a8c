//! What a candidate does that needs two halves: by itself, and among others while the strategy is
//! changed.

mod alone;
mod rolling;
mod world;

use core::time::Duration;

use super::*;
use crate::bully::{
    GroupGuarantee, GroupSettings, GroupTimings, GroupTimingsOptions, HardState, Member,
    Membership, Started,
};
use crate::lease::candidate::TimingsOptions;
use crate::{Random, UnixMillis};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(time: u64) -> Instant {
    Instant::default() + millis(time)
}

/// A lease of 3 s; messages live 200 ms.
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

/// Member `me` of so many, on a machine whose wall clock shows `wall` when its other clock shows 0.
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

fn keeper() -> LeaseCandidate {
    LeaseCandidate::new(*timings().term())
}

/// Dice that fall the same way for the same seed (splitmix64).
#[derive(Clone, Debug)]
struct Dice(u64);

impl Random for Dice {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
