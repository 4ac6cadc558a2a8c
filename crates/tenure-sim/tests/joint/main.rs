//! A group changes its strategy while it runs, and candidates by both reach only one half.

mod fallback;
mod group;

use group::{By, Group, LONG, seeds};
use tenure_core::Random;

#[test]
fn from_one_strategy_to_the_other_and_back_one_leads_at_a_time_and_epochs_increase() {
    let (mut terms, mut strategies) = (0, [0, 0, 0]);
    for seed in seeds(60) {
        let mut group = Group::new(3, By::Lease, seed);
        group.until_led(LONG);
        for by in [By::Both, By::Peers, By::Both, By::Lease] {
            group.roll(by);
        }
        group.check();
        terms += group.terms.len();
        for by in &group.terms {
            strategies[*by as usize] += 1;
        }
    }
    println!("{terms} terms; by lease, both and peers: {strategies:?}");
    assert!(strategies.iter().all(|it| *it > 0), "{strategies:?}");
}

#[test]
fn members_that_come_and_go_while_strategies_are_mixed_never_lead_together() {
    for seed in seeds(60) {
        let mut group = Group::new(3, By::Both, seed);
        let other = if seed % 2 == 0 { By::Lease } else { By::Peers };
        for _ in 0..30 {
            let id = 1 + group.rng.below(3) as u32;
            if group.is_up(id) {
                match group.rng.below(4) {
                    0 => group.kill(id),
                    1 => group.stop(id),
                    _ => {
                        let bits = group.rng.next_u64();
                        group.reach(id, bits & 1 == 0, bits & 2 == 0);
                    }
                }
            } else {
                let by = [By::Both, other][group.rng.below(2) as usize];
                group.start(id, by);
            }
            let pause = group.rng.below(6_000);
            group.run(pause);
        }
        // A leader is elected after all faults have ended.
        for id in 1..=3 {
            group.reach(id, true, true);
            if group.is_up(id) {
                group.kill(id);
            }
            group.start(id, By::Both);
        }
        group.until_led(LONG);
        group.check();
    }
}
