//! Mistakes that the model must find.

use super::DisabledForestRule as Rule;
use super::model::{Case, check};
use super::*;

/// The most states of a search for a mistake. Some mistakes never end.
const MOST: usize = 3_000_000;

#[track_caller]
fn breaks(case: Case) {
    let found = check(case, MOST).expect_err("a violation without this rule");
    println!("{found}");
}

#[test]
fn half_of_the_nodes_as_a_majority_are_found_out() {
    breaks(Case::of(PAIR).without(Rule::StrictMajority));
}

#[test]
fn fragments_that_compare_levels_only_are_found_out() {
    breaks(Case::of(PAIR).without(Rule::CompareLabels));
}

#[test]
fn a_frozen_core_that_wins_is_found_out() {
    // The core of node 2 orders a join to the fragment of node 5, and still hears from nodes 1 and
    // 3.
    let case = Case {
        settings: ForestSettings::new(5, 1),
        ..Case::of(LINE_5.from(&[1, 4]))
    };
    assert!(check(case, MOST).is_ok());
    breaks(case.without(Rule::FrozenNeverWins));
}

#[test]
fn a_frozen_core_that_raises_its_level_is_found_out() {
    breaks(Case::of(LINE_4).without(Rule::FrozenNeverRaises));
}

#[test]
fn one_token_alone_is_found_out() {
    breaks(Case::of(RING_4.cut()).without(Rule::MoreThanOneToken));
}

#[test]
fn tokens_for_one_end_of_each_faulty_link_are_found_out() {
    breaks(Case::of(RING_4.cut()).without(Rule::TokensForBothEnds));
}

#[test]
fn an_answer_that_does_not_wait_is_found_out() {
    breaks(Case::of(STAR_4).without(Rule::Defer));
}

#[test]
fn an_announcement_on_working_links_only_is_found_out() {
    breaks(Case::of(LINE_3.from(&[0, 1])).without(Rule::TellSilent));
}
