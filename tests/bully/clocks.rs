//! Clocks with different speeds.

use tenure_tests::group::{Group, LEASE};
use tenure_tests::needs::preload;
use tenure_tests::process::tenure;
use tenure_tests::receiver::now;

use super::group;

/// Compiled into a library that is loaded before the C library.
const CLOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bully/fast.c");

/// Members 2, 3 and 4: the promises of a majority end early, and one of these members leads next.
#[test]
fn clocks_that_are_five_per_cent_fast_cause_no_second_leader() {
    let test = "clocks_that_are_five_per_cent_fast_cause_no_second_leader";
    let mut group = group();
    let Some(library) = preload(test, CLOCKS, group.folder(), &tenure()) else {
        return;
    };
    group.set(
        "TENURE_LEASE_DURATION",
        format!("{}ms", (2 * LEASE).as_millis()),
    );
    let since = now().as_nanos().to_string();
    for member in [2, 3, 4] {
        group.set_for(member, "LD_PRELOAD", &library);
        group.set_for(member, "FAST_SINCE", &since);
        group.set_for(member, "FAST_PER_CENT", "5");
    }
    let leader = group.start_all_under(1);
    let others = Group::all_but(&[1]);
    let cut = now();
    group.partition(&[1], &others);
    let next = group.next_leader(leader.epoch);
    let first = group.receiver().next_leader(leader.epoch);
    let last = group.receiver().last_of("1", leader.epoch);
    eprintln!(
        "{next:?} acted {:?} after the cut; the last action of 1 was {:?} after it",
        first.before - cut,
        last.before - cut
    );
    group.heal();
    group.wait_until_follows(1, next.member);
    // Next, a leader with a fast clock is cut off: it steps down early.
    let others = Group::all_but(&[next.member]);
    group.partition(&[next.member], &others);
    let third = group.settled(next.epoch, &others);
    assert!(others.contains(&third.member));
    group.receiver().assert_one_at_a_time();
}
