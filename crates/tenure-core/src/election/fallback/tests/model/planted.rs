//! Settings with which members can't keep their promises. The model must find that.

use std::println;

use super::bounds::Bounds;
use super::checks::*;
use super::std;

/// Checks that the search finds a violation.
#[track_caller]
fn breaks(bounds: Bounds) {
    let found = check(bounds, &[]).expect_err("a violation with these settings");
    println!("{found}");
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
fn a_lease_longer_than_the_promise_is_found_out() {
    breaks(Bounds {
        promise: 1,
        ..long(with(THREE_1, STORE), 3)
    });
}
