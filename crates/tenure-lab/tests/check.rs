//! The promises hold in a few hundred storms, and in the courses of events that need luck.

use tenure_lab::check::{self, Course, Ground};
use tenure_lab::contestant::Contestant;

/// How many storms each contestant goes through here. More: `tenure compare check`.
const SEEDS: u64 = 60;

/// How many variants of each course are tried here.
const VARIANTS: u64 = 200;

/// Runs these seeds; none breaks a promise.
#[track_caller]
fn keeps_its_promises(ground: &Ground, seeds: u64) {
    let report = check::all(ground, 0..seeds, false, || {});
    assert_eq!(report.seeds, seeds);
    let name = ground.name();
    assert!(report.terms >= seeds, "{name} is led");
    if let Some(found) = report.found.first() {
        let command = ground.command(found.seed);
        panic!("{name}: {}; {command}", found.violation);
    }
}

#[test]
fn what_is_promised_is_kept_in_every_storm() {
    for (name, members) in [
        ("lease", 5),
        ("bully", 5),
        ("bully", 3),
        ("bully-pull", 5),
        ("bully-no-quorum", 5),
        ("bully-no-quorum", 3),
        ("bully-no-quorum", 9),
        ("bully-on-demand-no-quorum", 3),
    ] {
        let ground = Ground {
            nodes: members,
            ..Ground::new(Contestant::of_name(name).unwrap())
        };
        keeps_its_promises(&ground, SEEDS);
    }
}

#[test]
fn what_is_promised_is_kept_in_every_course() {
    for course in Course::ALL {
        keeps_its_promises(&Ground::on(course), VARIANTS);
    }
}
