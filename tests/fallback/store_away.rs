//! The store is killed, unreachable, or comes and goes.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use tenure_tests::group::{Group, LEASE, MEMBERS};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::{BOUND, RENEW_INTERVAL, group, longest_pause, settled, shown_again_after};

#[test]
fn a_store_that_is_killed_for_ten_lease_durations_costs_no_term() {
    let groups = [1, 2].map(|k| thread::spawn(move || the_same_term_goes_on(k)));
    for group in groups {
        if let Err(panic) = group.join() {
            resume_unwind(panic);
        }
    }
}

fn the_same_term_goes_on(k: u32) {
    let mut group = group(k);
    group.start_all();
    let leader = settled(&group, 0);
    let killed = now();
    group.kill_store();
    for _ in 0..10 {
        group.let_pass(LEASE);
        assert_eq!(group.leaders(), [leader], "another term has begun");
    }
    let pause = longest_pause(&group, leader, killed);
    assert!(pause < LEASE / 2, "the leader paused for {pause:?}");
    group.start_store();
    let shown = shown_again_after(&group, leader);
    // The promise is one renew interval; the rest is for a busy machine.
    assert!(shown < 3 * RENEW_INTERVAL, "{shown:?}");
    wait_for("the time without the store in the history", || {
        let history = group.history()?.to_string();
        history.contains("without_store").then_some(())
    });
    assert_eq!(group.leaders(), [leader]);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_leader_that_is_killed_while_the_store_is_away_is_replaced_within_the_bound() {
    let mut group = group(2);
    group.start_all();
    let leader = settled(&group, 0);
    group.kill_store();
    group.let_pass(LEASE);
    assert_eq!(group.leaders(), [leader]);
    let killed = now();
    group.kill(&[leader.member]);
    let next = group.receiver().next_leader(leader.epoch);
    assert!(next.at - killed < 2 * BOUND, "{:?}", next.at - killed);
    let next = group.last_leader();
    // A term that began without the store is shown there after the store has returned, as soon as
    // the lease of the earlier term has ended.
    group.start_store();
    let _ = shown_again_after(&group, next);
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_leader_that_is_cut_off_from_the_store_takes_the_same_lease_again() {
    let mut group = group(1);
    group.start_all();
    let leader = settled(&group, 0);
    group.let_reach_store(&Group::all_but(&[leader.member]));
    wait_for("the end of the lease in the store", || {
        let lease = group.lease()?;
        (lease["state"] == "expired").then_some(())
    });
    // The other members reach the store. They have promised the leader, so they do not lead.
    group.let_pass(LEASE);
    assert_eq!(group.leaders(), [leader]);
    group.let_reach_store(&MEMBERS);
    let _ = shown_again_after(&group, leader);
    assert_eq!(group.leaders(), [leader]);
    let history = group.history().expect("an answer of the store").to_string();
    assert!(history.contains("without_store"), "{history}");
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_store_that_comes_and_goes_costs_no_term() {
    let mut group = group(2);
    group.start_all();
    let leader = settled(&group, 0);
    let begin = now();
    for round in 0..6 {
        group.kill_store();
        group.let_pass(Duration::from_millis(300 + 400 * round));
        group.start_store();
        group.let_pass(Duration::from_millis(2_000 - 300 * round));
    }
    let _ = shown_again_after(&group, leader);
    assert_eq!(group.leaders(), [leader]);
    let pause = longest_pause(&group, leader, begin);
    assert!(pause < LEASE / 2, "the leader paused for {pause:?}");
    group.receiver().assert_one_at_a_time();
}

#[test]
fn with_too_few_members_nobody_leads_until_the_store_returns() {
    let mut group = group(2);
    group.start_all();
    let leader = settled(&group, 0);
    let others = Group::all_but(&[leader.member]);
    group.kill(&others[..2]);
    group.kill_store();
    // Three of five members are left, and four are needed without the store.
    group.wait_until_stepped_down(leader.member);
    let last = group.leaders();
    group.let_pass(2 * LEASE);
    assert_eq!(group.leaders(), last);
    group.start_store();
    let _ = settled(&group, leader.epoch);
    group.receiver().assert_one_at_a_time();
}
