//! A group moves from a lease to a fallback and back while it runs.

use tenure_core::Random;

use super::group::{By, Group, LONG, seeds};

/// The sizes of groups, and the numbers of members beside the store.
const GROUPS: [(u32, usize); 3] = [(3, 1), (3, 2), (5, 2)];

/// The only safe order: all members require the store before the first one elects without it, and
/// after the last one did. Between two steps there is a leader.
#[test]
fn from_a_lease_to_a_fallback_and_back_one_leads_at_a_time_and_epochs_increase() {
    for (members, k) in GROUPS {
        let mut terms = [0; 5];
        for seed in seeds(20) {
            let mut group = Group::with_k(k, members, By::Lease, seed);
            group.until_led(LONG);
            for by in [
                By::StoreRequired,
                By::Fallback,
                By::StoreRequired,
                By::Lease,
            ] {
                group.roll(by);
            }
            group.check();
            for by in &group.terms {
                terms[*by as usize] += 1;
            }
        }
        println!("n = {members}, k = {k}; terms by strategy: {terms:?}");
        for by in [By::Lease, By::StoreRequired, By::Fallback] {
            assert!(terms[by as usize] > 0, "n = {members}, k = {k}: {by:?}");
        }
    }
}

#[test]
fn members_of_two_neighbouring_steps_that_come_and_go_never_lead_together() {
    for (members, k) in GROUPS {
        for seed in seeds(30) {
            let other = if seed % 2 == 0 {
                By::Lease
            } else {
                By::Fallback
            };
            let mut group = Group::with_k(k, members, By::StoreRequired, seed);
            for _ in 0..30 {
                let id = 1 + group.rng.below(members.into()) as u32;
                match group.rng.below(5) {
                    0 | 1 if group.is_up(id) => {
                        let bits = group.rng.next_u64();
                        group.reach(id, bits & 1 == 0, bits & 2 == 0);
                    }
                    2 if group.is_up(id) => group.kill(id),
                    _ if group.is_up(id) => group.stop(id),
                    _ => {
                        let by = [By::StoreRequired, other][group.rng.below(2) as usize];
                        group.start(id, by);
                    }
                }
                let pause = group.rng.below(6_000);
                group.run(pause);
            }
            for id in 1..=members {
                group.reach(id, true, true);
                if group.is_up(id) {
                    group.kill(id);
                }
                group.start(id, By::StoreRequired);
            }
            group.until_led(LONG);
            group.check();
        }
    }
}
