//! Every partition of the five members into two sides, of which one reaches the store.

use tenure_tests::group::{Group, LEASE, MEMBERS};

use super::group;

/// The sides that reach the store, by their members as bits.
fn check(k: u32, sides: impl Iterator<Item = u32>) {
    let mut group = group(k);
    group.start_all();
    let mut above = 0;
    for side in sides {
        let with_store: Vec<u32> = MEMBERS
            .into_iter()
            .filter(|member| side & (1 << (member - 1)) != 0)
            .collect();
        let without: Vec<u32> = Group::all_but(&with_store);
        group.heal();
        group.partition(&with_store, &without);
        group.let_reach_store(&with_store);
        let enough = with_store.len() >= k as usize || without.len() > MEMBERS.len() - k as usize;
        if enough {
            // A leader of one of the sides acts after the partition.
            let since = tenure_tests::receiver::now() + LEASE;
            let act =
                tenure_tests::wait_for(&format!("a leader of {with_store:?}, {without:?}"), || {
                    group
                        .receiver()
                        .acts()
                        .pop()
                        .filter(|act| act.at > since && act.accepted)
                });
            assert!(act.epoch >= above);
            above = act.epoch;
        } else {
            group.let_pass(2 * LEASE);
        }
        group.receiver().assert_one_at_a_time();
    }
}

#[test]
fn in_a_partition_whose_one_side_reaches_the_store_never_two_lead() {
    check(2, [0b00001, 0b00011, 0b11110, 0b10000, 0b10101].into_iter());
}

#[test]
#[ignore = "takes five minutes"]
fn in_every_partition_whose_one_side_reaches_the_store_never_two_lead() {
    let sides: Vec<u32> = (1..0b11111).collect();
    for k in [1, 2, 3] {
        // A group may run for a minute.
        for sides in sides.chunks(5) {
            check(k, sides.iter().copied());
        }
    }
}
