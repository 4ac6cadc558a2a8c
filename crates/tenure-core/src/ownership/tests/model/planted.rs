//! Mistakes that the model must find.

use std::println;

use super::checks::*;
use super::events::Bounds;
use super::state::Left;
use super::std;
use crate::ownership::DisabledOwnershipRule as Rule;

/// Checks that the search finds a violation.
#[track_caller]
fn breaks(bounds: Bounds) {
    let found = check(bounds, &[]).expect_err("a violation without this rule");
    println!("{:?}: {found}", bounds.without);
}

const fn without(rule: Rule, bounds: Bounds) -> Bounds {
    Bounds {
        without: Some(rule),
        ..bounds
    }
}

#[test]
fn an_ownership_that_counts_from_the_answer_is_found_out() {
    breaks(without(Rule::CountFromSend, TWO));
}

#[test]
fn a_repeated_append_that_counts_from_its_last_send_is_found_out() {
    let events = Left { losses: 1, ..NONE };
    breaks(without(Rule::CountFromFirstSend, with(events, 3, TWO)));
}

#[test]
fn an_ownership_without_a_margin_is_found_out() {
    breaks(without(Rule::Margin, with(LOST_TICK, 3, TWO)));
}

#[test]
fn clocks_whose_rates_differ_by_more_than_the_margin_are_found_out() {
    let events = Left {
        lost_ticks: 2,
        ..NONE
    };
    breaks(with(
        events,
        3,
        Bounds {
            lost_ticks_each: 2,
            ..TWO
        },
    ));
}

#[test]
fn an_owner_without_a_deadline_is_found_out() {
    breaks(without(Rule::Deadline, TWO));
}

#[test]
fn a_follower_that_counts_from_when_it_sent_the_read_is_found_out() {
    breaks(without(Rule::ObserveFromArrival, TWO));
}

#[test]
fn a_follower_that_waits_for_its_own_ownership_duration_only_is_found_out() {
    breaks(without(Rule::OwnersDuration, UNEQUAL));
}

#[test]
fn an_unknown_append_that_is_taken_for_done_is_found_out() {
    breaks(without(Rule::UnknownIsNotDone, with(LOST_ANSWER, 1, TWO)));
}

#[test]
fn an_append_that_is_undone_after_an_unknown_attempt_is_found_out() {
    let events = Left {
        losses: 1,
        failures: 1,
        batches: 2,
        ..NONE
    };
    breaks(without(Rule::UndoOnlyKnown, with(events, 1, TWO)));
}

#[test]
fn a_server_that_accepts_before_it_has_loaded_the_content_is_found_out() {
    breaks(without(Rule::LoadFirst, TWO));
}

#[test]
fn a_server_that_accepts_after_it_has_resigned_is_found_out() {
    breaks(without(Rule::ResignStops, with(HAND_OVER, 1, TWO)));
}

#[test]
fn a_service_that_does_not_compare_the_head_is_found_out() {
    breaks(Bounds {
        compares: false,
        ..TWO
    });
}
