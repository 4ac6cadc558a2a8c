//! Random identifiers: aFLEA.

use tenure_lab::links::{LinkElection, LinkIds, RandomElection};

use super::network;

/// Elections for each shape, number of nodes and domain.
const RUNS: u64 = 250;

/// Runs elections with identifiers from 1 to n^power on four shapes. Returns how many got stuck.
fn stuck(nodes: u32, power: f64) -> u64 {
    let domain = f64::from(nodes).powf(power) as u128;
    let shapes = ["ring", "grid", "hypercube", "random"];
    let networks = shapes.map(|shape| network(shape, nodes, 1));
    let runs = networks.iter().flat_map(|network| {
        (0..RUNS).filter(move |seed| {
            let election = LinkElection {
                ids: LinkIds::Random(Some(domain)),
                ..LinkElection::on(network, *seed)
            };
            let outcome = election.run(network).unwrap();
            assert!(outcome.leaders.len() <= 1, "seed {seed}");
            assert!(outcome.is_at_rest, "seed {seed}");
            !outcome.is_elected()
        })
    });
    runs.count() as u64
}

#[test]
fn equal_random_identifiers_seldom_stop_an_election_and_never_make_two_leaders() {
    for nodes in [16, 64, 256] {
        let found = [1.0, 1.5, 2.0, 3.0].map(|power| stuck(nodes, power));
        println!("n = {nodes}: {found:?} of 1000 stuck with domains n, n^1.5, n^2, n^3");
        // Equal neighbours stop a fragment. On a ring with a dead link they stop the election.
        let most = if nodes == 16 {
            [400, 150, 40, 5]
        } else {
            [350, 80, 15, 2]
        };
        let within = found.iter().zip(most).all(|(found, most)| *found <= most);
        assert!(within, "n = {nodes}: {found:?}");
    }
}

#[test]
fn identifiers_of_128_bits_elect_always() {
    for seed in 0..1_000 {
        let mut random = RandomElection::new(seed);
        random.election.ids = LinkIds::Random(None);
        assert_eq!(random.check(), Ok(()));
    }
}

#[test]
fn new_draws_after_a_stop_cost_next_to_nothing_with_the_square_of_n() {
    let (mut given, mut drawn) = (0, 0);
    let network = network("grid", 64, 1);
    for seed in 0..RUNS {
        let on = LinkElection::on(&network, seed);
        given += on.run(&network).unwrap().traffic.all();
        let random = LinkElection {
            ids: LinkIds::Random(Some(64 * 64)),
            ..on
        };
        let (outcome, _, messages) = random.run_until_elected(&network, 100).unwrap();
        assert!(outcome.is_elected());
        drawn += messages;
    }
    println!("{given} messages with identifiers, {drawn} without");
    assert!(drawn * 100 <= given * 105, "{given}, {drawn}");
}
