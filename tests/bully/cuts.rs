//! Partitioned networks.

use std::time::Duration;

use tenure_tests::group::{A_WHILE, Group, LEASE, MEMBERS};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::group;

#[test]
fn a_leader_that_is_cut_off_from_the_majority_steps_down_and_the_majority_elects() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let others = Group::all_but(&[leader.member]);
    let (with_it, majority) = others.split_at(1);
    let cut = now();
    group.partition(&[leader.member, with_it[0]], majority);
    let next = group.settled(leader.epoch, majority);
    assert!(majority.contains(&next.member), "{next:?}");
    group.wait_until_stepped_down(leader.member);
    let last = group
        .receiver()
        .last_of(&leader.member.to_string(), leader.epoch);
    assert!(
        last.before < cut + LEASE,
        "the old leader acted for {:?}",
        last.before - cut
    );
    // The minority of two has no leader, and does not affect the majority.
    group.heal();
    group.wait_until_follows(leader.member, next.member);
    group.wait_until_follows(with_it[0], next.member);
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_one_at_a_time();
}

/// The votes of the others are for the old term until its lease ends.
#[test]
fn after_an_outage_a_member_leads_at_once_under_a_greater_epoch() {
    let mut group = group();
    for (name, value) in [
        ("TENURE_LEASE_DURATION", "60s"),
        ("TENURE_RENEW_INTERVAL", "1s"),
        ("TENURE_RENEW_DEADLINE", "3s"),
        ("TENURE_STOP_GRACE", "1s"),
    ] {
        group.set(name, value);
    }
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    group.partition(&[leader.member], &Group::all_but(&[leader.member]));
    wait_for("the end of the term", || {
        let log = group.member(leader.member).stderr();
        log.contains("reason=renew_deadline").then_some(())
    });
    group.heal();
    let healed = now();
    let next = group.next_leader(leader.epoch);
    assert!(now() - healed < Duration::from_secs(20));
    assert!(next.epoch > leader.epoch);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_leader_that_receives_nothing_steps_down_and_the_others_elect() {
    one_way_cut(|group, leader, other| group.cut_one_way(other, leader));
}

#[test]
fn a_leader_whose_messages_are_lost_steps_down_and_the_others_elect() {
    one_way_cut(|group, leader, other| group.cut_one_way(leader, other));
}

fn one_way_cut(cut: impl Fn(&Group, u32, u32)) {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let others = Group::all_but(&[leader.member]);
    let begin = now();
    for &other in &others {
        cut(&group, leader.member, other);
    }
    let next = group.settled(leader.epoch, &others);
    assert!(others.contains(&next.member), "{next:?}");
    group.wait_until_stepped_down(leader.member);
    let last = group
        .receiver()
        .last_of(&leader.member.to_string(), leader.epoch);
    assert!(
        last.before < begin + LEASE,
        "the old leader acted for {:?}",
        last.before - begin
    );
    // Half of its messages arrive, which disturbs no other member.
    group.let_pass(A_WHILE);
    assert_eq!(group.last_leader(), next);
    group.heal();
    group.wait_until_follows(leader.member, next.member);
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_one_at_a_time();
}

/// The time from the renew deadline to the end of the lease is shorter than the delay of answers: a
/// leader that counted from the answers would lead for too long.
#[test]
fn a_leader_among_peers_with_late_answers_counts_from_its_requests() {
    let mut group = group();
    for (name, value) in [
        ("TENURE_LEASE_DURATION", "6s"),
        ("TENURE_RENEW_INTERVAL", "2s"),
        ("TENURE_RENEW_DEADLINE", "5500ms"),
        ("TENURE_STOP_GRACE", "300ms"),
        ("TENURE_BULLY_MESSAGE_LIFETIME", "1s"),
        // With rare heartbeats, renewals seldom wait for one.
        ("TENURE_BULLY_HEARTBEAT_INTERVAL", "3s"),
        ("TENURE_BULLY_SUSPECT_AFTER", "1200ms"),
    ] {
        group.set(name, value);
    }
    let leader = group.start_all_under(1);
    let others = Group::all_but(&[1]);
    let late = Duration::from_millis(750);
    for &other in &others {
        // The best of the other members votes last, so when it may become a candidate, all others
        // may vote.
        let request = Duration::from_millis(if other == 2 { 50 } else { 0 });
        group.link(1, other).delay(request, late);
    }
    // Waits for a round whose requests were sent after the delay began, and whose answers have all
    // arrived.
    let at_rest = || -> Option<Vec<u64>> {
        let replies = others.iter().map(|&other| group.link(1, other).at_rest());
        replies.collect()
    };
    let before = wait_for("no request in flight", at_rest);
    wait_for("late answers of all members", || {
        let all_late = |(now, before): (&u64, &u64)| *now >= before + 2;
        at_rest()?.iter().zip(&before).all(all_late).then_some(())
    });
    group.partition(&[1], &others);
    let next = group.receiver().next_leader(leader.epoch);
    group.wait_until_stepped_down(1);
    let last = group.receiver().last_of("1", leader.epoch);
    eprintln!(
        "{:?} after the last action of the old leader",
        next.at.saturating_sub(last.before)
    );
    group.receiver().assert_one_at_a_time();
}

#[test]
fn cuts_around_a_minority_do_not_affect_the_leader() {
    let mut group = group();
    group.set("TENURE_LEASE_DURATION", "6s");
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let others = Group::all_but(&[leader.member]);
    let (majority, minority) = others.split_at(2);
    // The first cut is between these two only, the second one between them and all others. Each
    // lasts longer than a term without renewals.
    group.partition(&minority[..1], &minority[1..]);
    group.let_pass(Duration::from_secs(2));
    let rest = [&[leader.member], majority].concat();
    group.partition(minority, &rest);
    group.let_pass(Duration::from_secs(7));
    group.heal();
    for &member in &others {
        group.wait_until_follows(member, leader.member);
    }
    group.let_pass(Duration::from_secs(1));
    assert_eq!(group.leaders(), [leader]);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn under_random_cuts_leaders_do_not_overlap_and_one_leads_in_the_end() {
    let seed = std::env::var("TENURE_SEED").ok();
    let seed: u64 = seed.map_or_else(|| std::process::id().into(), |seed| seed.parse().unwrap());
    eprintln!("TENURE_SEED={seed} repeats these cuts");
    let mut random = seed;
    let mut below = |limit: u64| {
        // The constants of Knuth's MMIX; the high bits are the more random ones.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut group = group();
    group.start_all();
    let _ = group.settled(0, &MEMBERS);
    for _ in 0..12 {
        // Two halves, plus a few cuts in one direction.
        let mut ones = MEMBERS.to_vec();
        ones.retain(|_| below(2) == 0);
        group.partition(&ones, &Group::all_but(&ones));
        for from in MEMBERS {
            for to in Group::all_but(&[from]) {
                if below(8) == 0 {
                    group.cut_one_way(from, to);
                }
            }
        }
        group.let_pass(Duration::from_millis(300 + below(1_200)));
        if below(2) == 0 {
            group.heal();
            group.let_pass(Duration::from_millis(below(1_000)));
        }
    }
    group.heal();
    let last = group.settled(0, &MEMBERS);
    eprintln!("{} terms; in the end {last:?}", group.leaders().len());
    group.receiver().assert_one_at_a_time();
}
