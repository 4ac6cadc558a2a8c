//! Random elections.

use std::collections::BTreeSet;
use std::time::Instant;

use tenure_core::links::ForestSettings;
use tenure_lab::links::RandomElection;

/// The number of random elections. `TENURE_SEEDS` sets another number.
const SEEDS: u64 = 6_000;

fn seeds() -> u64 {
    let set = std::env::var("TENURE_SEEDS").ok();
    set.map_or(SEEDS, |set| set.parse().expect("a number"))
}

#[test]
fn in_random_networks_one_leader_is_elected_and_all_know_it() {
    let began = Instant::now();
    let mut shapes = BTreeSet::new();
    let wrong: Vec<String> = (0..seeds())
        .filter_map(|seed| {
            let random = RandomElection::new(seed);
            shapes.insert(random.shape.to_string());
            random.check().err()
        })
        .collect();
    println!("{} elections in {:.1?}", seeds(), began.elapsed());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(shapes.len(), 9, "{shapes:?}");
}

#[test]
fn raising_by_count_and_reporting_without_quotas_elect_too() {
    for seed in 0..seeds() / 10 {
        let raised = RandomElection::new(seed).with_settings(|network| {
            let settings = ForestSettings::new(network.nodes(), network.faulty());
            settings.with_handshake().with_raise_by_count()
        });
        assert_eq!(raised.check(), Ok(()));
        let eager = RandomElection::new(seed).with_settings(|network| {
            let settings = ForestSettings::new(network.nodes(), network.faulty());
            settings.with_handshake().without_quotas()
        });
        assert_eq!(eager.check(), Ok(()));
    }
}

/// A bound that is too small costs the election, never the uniqueness of the leader.
#[test]
fn with_too_small_a_bound_on_faulty_links_there_are_never_two_leaders() {
    let (mut elected, mut stuck) = (0, 0);
    for seed in 0..seeds() / 4 {
        let random = RandomElection::new(seed)
            .with_settings(|network| ForestSettings::new(network.nodes(), 0).with_handshake());
        let outcome = random.election.run(&random.network).unwrap();
        assert!(outcome.leaders.len() <= 1, "seed {seed}");
        assert!(outcome.is_at_rest, "seed {seed}");
        match outcome.is_elected() {
            true => elected += 1,
            false => {
                stuck += 1;
                assert!(outcome.silent_ports > 0, "seed {seed}");
            }
        }
    }
    println!("f = 0 believed: {elected} elected a leader, {stuck} did not");
    assert!(elected > 0 && stuck > 0);
}

#[test]
fn a_size_that_is_too_small_is_the_mistake_that_makes_two_leaders() {
    let two = (0..20_000).find(|seed| {
        let random = RandomElection::new(*seed).with_settings(|network| {
            ForestSettings::new(network.nodes() / 2, network.faulty()).with_handshake()
        });
        let outcome = random.election.run(&random.network);
        outcome.is_ok_and(|it| it.leaders.len() > 1)
    });
    println!("two leaders with seed {two:?}");
    assert!(two.is_some());
}
