//! What members do: alone, together in a world of chance, and in every order that there is.

mod alone;
mod model;
mod peace;
mod together;
mod world;

use core::time::Duration;

use super::*;
use crate::detector::Verdict;
use crate::election::{ElectionMachine as _, Output, Standing, TermEvent};
use crate::lease::candidate::{
    EndReason, TaskEnd, Timings as TermTimings, TimingsOptions as TermOptions,
};
use crate::{Epoch, Instant, Random, UnixMillis};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Members 1 to `count`, the first one the best.
fn members(count: u32) -> Membership {
    let member = |id| Member {
        id: NodeId(id),
        priority: id,
    };
    Membership::new((1..=count).map(member)).unwrap()
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
