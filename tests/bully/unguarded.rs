//! Elections without a quorum: two leaders are possible, and one of them then follows the other.

use std::time::Duration;

use tenure_tests::group::{Group, MEMBERS};
use tenure_tests::receiver::overlap;

use super::group;

#[test]
fn without_a_quorum_two_leaders_merge_and_stale_writes_are_refused() {
    let mut group = group();
    group.set("TENURE_BULLY_QUORUM", "false");
    let first = group.start_all_under(1);
    let (with_it, others) = ([1, 2], [3, 4, 5]);
    group.partition(&with_it, &others);
    let second = group.settled(first.epoch, &others);
    assert!(others.contains(&second.member), "{second:?}");
    // The first leader does not know of the second: it still acts, and the fence refuses its
    // writes.
    group.let_pass(Duration::from_secs(1));
    let refused = |group: &Group, member: u32| {
        let acts = group.receiver().acts();
        let of = acts
            .iter()
            .filter(|act| act.candidate == member.to_string());
        of.filter(|act| !act.accepted).count()
    };
    let stale = refused(&group, 1);
    assert!(stale > 0, "1 still leads without a quorum");

    group.heal();
    group.wait_until_stepped_down(second.member);
    // The member with the lower priority follows, and the writes of the other are accepted again.
    let last = group.settled(second.epoch, &MEMBERS);
    assert_eq!(last.member, 1);
    eprintln!(
        "{stale} stale writes refused during the partition, {} in total; {:?}",
        refused(&group, 1) + refused(&group, second.member),
        overlap(&group.receiver().acts())
    );
    group.receiver().assert_fence_held();
}
