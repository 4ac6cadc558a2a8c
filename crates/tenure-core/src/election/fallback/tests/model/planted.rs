//! Mistakes that the model must find.

use std::println;

use super::bounds::Bounds;
use super::checks::*;
use super::state::Left;
use super::std;
use crate::bully::DisabledRule as Rule;
use crate::lease::DisabledLeaseRule as LeaseRule;

/// Checks that the search finds a violation.
#[track_caller]
fn breaks(bounds: Bounds) {
    let found = check(bounds, &[]).expect_err("a violation without this rule");
    println!(
        "{:?}, {:?}: {found}",
        bounds.without, bounds.without_in_store
    );
}

/// Checks that the search finds no violation.
#[track_caller]
fn holds(bounds: Bounds) {
    if let Err(broken) = check(bounds, &[]) {
        panic!("{broken}");
    }
}

const fn without(rules: &'static [Rule], bounds: Bounds) -> Bounds {
    Bounds {
        without: rules,
        ..bounds
    }
}

const CRASH: Left = Left { crashes: 1, ..EACH };

#[test]
fn quorums_without_a_common_voter_are_found_out() {
    breaks(without(&[Rule::Intersection], THREE_1));
}

#[test]
fn a_k_that_is_too_large_is_found_out() {
    // Two halves of four members elect a leader each.
    let bounds = with(FOUR, VOTES);
    breaks(Bounds {
        quorums: (3, 2),
        ..bounds
    });
}

#[test]
fn a_leader_without_the_members_that_are_necessary_beside_the_store_is_found_out() {
    breaks(without(&[Rule::MembersBesideStore], THREE_2));
}

#[test]
fn a_member_that_elects_itself_alone_is_found_out() {
    breaks(without(&[Rule::Majority], THREE_1));
}

#[test]
fn a_promise_that_does_not_bind_is_found_out() {
    breaks(without(&[Rule::Promise], THREE_1));
}

#[test]
fn a_member_that_votes_for_another_one_while_it_leads_is_found_out() {
    breaks(without(&[Rule::OwnPromise], THREE_1));
}

#[test]
fn a_promise_that_is_not_on_disk_is_found_out() {
    for bounds in [THREE_1, THREE_2] {
        breaks(without(&[Rule::DurablePromise], with(bounds, CRASH)));
    }
}

#[test]
fn a_restart_without_quarantine_is_found_out() {
    for bounds in [THREE_1, THREE_2] {
        breaks(without(&[Rule::Quarantine], with(bounds, CRASH)));
    }
}

#[test]
fn a_promise_that_passes_to_another_process_of_its_member_is_found_out() {
    for bounds in [THREE_1, THREE_2] {
        breaks(without(&[Rule::SameProcess], with(bounds, CRASH)));
    }
}

#[test]
fn a_promise_of_the_store_that_counts_from_its_answer_is_found_out() {
    let bounds = long(with(THREE_1, STORE), 3);
    breaks(without(&[Rule::CountFromStoreRequest], bounds));
}

#[test]
fn a_vote_that_counts_from_its_answer_is_found_out() {
    breaks(without(&[Rule::CountFromRequest], long(THREE_1, 3)));
}

#[test]
fn a_renewal_that_counts_from_its_answer_is_found_out() {
    breaks(without(&[Rule::CountFromRound], long(THREE_1, 3)));
}

#[test]
fn a_lease_longer_than_the_promise_is_found_out() {
    breaks(Bounds {
        promise: 1,
        ..long(with(THREE_1, STORE), 3)
    });
}

/// A term among the members, a second one, and a late release of the first one.
#[test]
fn a_release_of_another_epoch_is_found_out() {
    let events = Left {
        votes: 2,
        task_ends: 1,
        ..EACH
    };
    let bounds = Bounds {
        ticks: 0,
        ..with(THREE_1, events)
    };
    breaks(without(&[Rule::ReleaseOwn], bounds));
}

/// A candidate that waits in the store's queue, and promises another one meanwhile.
const MEANWHILE: Bounds = Bounds {
    ticks: 0,
    events: Left {
        task_ends: 1,
        ..EACH
    },
    ..THREE_1
};

#[test]
fn a_grant_for_a_member_that_has_promised_another_one_is_found_out() {
    breaks(without(&[Rule::LeaveQueue, Rule::ClaimUnbound], MEANWHILE));
}

#[test]
fn a_grant_under_an_epoch_that_the_member_has_promised_is_found_out() {
    let rules = &[Rule::LeaveQueue, Rule::ClaimAbovePromise];
    breaks(without(rules, MEANWHILE));
}

/// The two rules make up for each other: a candidate that leaves the queue when it promises another
/// one gets no grant afterwards, and a candidate that stays gives the grant back.
#[test]
fn a_candidate_may_leave_the_queue_or_give_the_grant_back() {
    for rules in [
        &[Rule::LeaveQueue][..],
        &[Rule::ClaimUnbound, Rule::ClaimAbovePromise],
    ] {
        holds(without(rules, MEANWHILE));
        holds(without(rules, THREE_1));
    }
}

#[test]
fn an_epoch_that_the_store_takes_again_after_another_grant_is_found_out() {
    let events = Left {
        campaigns: 2,
        task_ends: 2,
        ..EACH
    };
    breaks(Bounds {
        ticks: 0,
        without_in_store: Some(LeaseRule::EpochPassed),
        ..with(THREE_1, events)
    });
}

#[test]
fn a_late_request_that_undoes_a_release_is_found_out() {
    breaks(Bounds {
        without_in_store: Some(LeaseRule::ReleaseIsFinal),
        ..MEANWHILE
    });
}
