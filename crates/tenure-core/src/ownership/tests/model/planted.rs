//! Worlds in which servers can't keep their promises. The model must find that.

use std::println;

use super::checks::*;
use super::events::Bounds;
use super::state::Left;
use super::std;

/// Checks that the search finds a violation.
#[track_caller]
fn breaks(bounds: Bounds) {
    let found = check(bounds, &[]).expect_err("a violation in this world");
    println!("{found}");
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
fn a_service_that_does_not_compare_the_tail_is_found_out() {
    breaks(Bounds {
        compares: false,
        ..TWO
    });
}
