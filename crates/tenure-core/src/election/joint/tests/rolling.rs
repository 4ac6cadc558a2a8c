//! Changing the strategy of a group that works, and halves that can't be had.

extern crate std;

use alloc::vec::Vec;
use std::println;

use super::GroupGuarantee;
use super::world::{By, World};

/// Long enough for a crashed leader's lease, several elections and the store's give-backs.
const LONG: u64 = 60_000;

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let set = std::env::var("TENURE_SEEDS").ok();
    0..set.map_or(count, |seeds| seeds.parse().unwrap())
}

/// Restarts all members one after the other, with this strategy from then on: some are stopped,
/// some die. Between two restarts there is a leader.
fn roll(world: &mut World, members: u32, by: By) {
    let mut order: Vec<u32> = (1..=members).collect();
    for last in (1..order.len()).rev() {
        let other = world.random.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
    for id in order {
        if world.random.one_in(3) {
            world.kill(id);
        } else {
            world.stop(id);
        }
        let pause = world.random.below(2_000);
        world.run(pause);
        world.start(id, by);
        world.until_led(LONG);
        let pause = world.random.below(8_000);
        world.run(pause);
    }
    world.until_led(LONG);
}

#[test]
fn from_one_strategy_to_the_other_and_back_one_leads_at_a_time_and_epochs_increase() {
    let (mut terms, mut ways) = (0, [0, 0, 0]);
    for seed in seeds(60) {
        let mut world = World::new(3, By::Lease, seed);
        world.until_led(LONG);
        for by in [By::Both, By::Peers, By::Both, By::Lease] {
            roll(&mut world, 3, by);
        }
        terms += world.terms.len();
        for (by, _) in &world.terms {
            ways[*by as usize] += 1;
        }
    }
    println!("{terms} terms; by a lease, by both, among peers: {ways:?}");
    assert!(ways.iter().all(|way| *way > 0), "{ways:?}");
}

#[test]
fn members_that_come_and_go_while_strategies_are_mixed_never_lead_together() {
    for seed in seeds(60) {
        let mut world = World::new(3, By::Both, seed);
        let other = if seed % 2 == 0 { By::Lease } else { By::Peers };
        for _ in 0..30 {
            let id = 1 + world.random.below(3) as u32;
            if world.is_up(id) {
                match world.random.below(4) {
                    0 => world.kill(id),
                    1 => world.stop(id),
                    _ => {
                        let (store, peers) = (!world.random.one_in(2), !world.random.one_in(2));
                        world.reach(id, store, peers);
                    }
                }
            } else {
                let by = if world.random.one_in(2) {
                    By::Both
                } else {
                    other
                };
                world.start(id, by);
            }
            let pause = world.random.below(6_000);
            world.run(pause);
        }
        // When all is well again there is a leader.
        for id in 1..=3 {
            world.reach(id, true, true);
            if world.is_up(id) {
                world.kill(id);
            }
            world.start(id, By::Both);
        }
        world.until_led(LONG);
    }
}

#[test]
fn the_only_member_that_reaches_store_and_peers_leads() {
    for seed in seeds(20) {
        let mut world = World::new(3, By::Both, seed);
        // The best one reaches its peers only, the second one the store only.
        world.reach(1, false, true);
        world.reach(2, true, false);
        let leader = world.until_led(LONG);
        if leader != 3 {
            world.fail("who reaches one place only leads");
        }
    }
}

#[test]
fn without_a_store_candidates_among_peers_lead() {
    for seed in seeds(20) {
        let mut world = World::new(3, By::Both, seed);
        for id in 1..=3 {
            world.reach(id, false, true);
        }
        world.run(5_000);
        world.kill(3);
        world.start(3, By::Peers);
        assert_eq!(world.until_led(LONG), 3);
    }
}

#[test]
fn without_a_majority_candidates_by_lease_lead() {
    for seed in seeds(20) {
        let mut world = World::new(3, By::Lease, seed);
        world.loss = u64::MAX;
        world.until_led(LONG);
        // The first of three to change: no majority elects it, and it disturbs none of the others.
        world.stop(1);
        world.start(1, By::Both);
        let leader = world.until_led(LONG);
        let terms = world.terms.len();
        world.run(30_000);
        assert_eq!((world.leader(), world.terms.len()), (Some(leader), terms));
    }
}

#[test]
fn two_members_without_a_quorum_change_beside_a_lease_and_epochs_are_the_stores() {
    for seed in seeds(60) {
        let mut world = World::with(GroupGuarantee::BestEffort, 2, By::Lease, seed);
        for by in [By::Both, By::Lease] {
            roll(&mut world, 2, by);
        }
        // The remaining member has both.
        roll(&mut world, 2, By::Both);
        world.kill(1);
        assert_eq!(world.until_led(LONG), 2);
        // Without the store it has not.
        world.reach(2, false, true);
        world.run(20_000);
        assert_eq!(world.leader(), None);
        world.reach(2, true, true);
        world.until_led(LONG);
    }
}
