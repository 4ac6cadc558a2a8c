//! The promises hold in a few hundred storms, and the mistakes that were planted are found.

use tenure_lab::check::{self, Ground};
use tenure_lab::contestant::Contestant;

/// How many storms each contestant goes through here. More: `tenure compare check`.
const SEEDS: u64 = 60;

/// How many storms a mistake may go unnoticed.
const PATIENCE: u64 = 600;

#[test]
fn what_is_promised_is_kept_in_every_storm() {
    for name in ["lease", "bully", "bully-pull", "bully-no-quorum"] {
        let ground = Ground::new(Contestant::of_name(name).unwrap());
        let report = check::all(&ground, 0..SEEDS, false, || {});
        assert_eq!(report.seeds, SEEDS);
        assert!(report.terms > SEEDS, "{name} is led");
        if let Some(found) = report.found.first() {
            let (seed, next) = (found.seed, found.seed + 1);
            panic!(
                "{name}: {}; tenure compare check --seeds {seed}..{next} --contestant {name} --trace",
                found.violation
            );
        }
    }
}

#[test]
fn every_planted_mistake_is_found() {
    let all = check::plants();
    let found = |ground: &&Ground| {
        let report = check::all(ground, 0..PATIENCE, true, || {});
        !report.found.is_empty()
    };
    let (caught, missed): (Vec<_>, Vec<_>) = all.iter().partition(found);
    println!("planted faults caught: {} of {}", caught.len(), all.len());
    let missed: Vec<_> = missed.iter().filter_map(|ground| ground.planted).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
