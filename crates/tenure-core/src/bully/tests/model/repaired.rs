//! The repaired algorithm, and what each repair is for.

use alloc::vec::Vec;
use std::println;

use super::explore::{Report, explore};
use super::peers::{Algorithm, CALM, Detection, Environment};
use super::*;

fn repaired(without: &[Fix]) -> Environment {
    Environment {
        algorithm: Algorithm::Repaired {
            preempt: false,
            without: without.to_vec(),
        },
        ..CALM
    }
}

#[track_caller]
fn is_clean(environment: &Environment) {
    let Report {
        to_disagreement,
        to_hang,
        ..
    } = explore(environment);
    assert!(to_disagreement.is_none(), "{}", to_disagreement.unwrap());
    assert!(to_hang.is_none(), "{}", to_hang.unwrap());
}

#[test]
fn repaired_it_agrees_over_crashes_and_restarts() {
    is_clean(&Environment {
        crashes: 1,
        restarts: 1,
        ..repaired(&[])
    });
}
