//! Random identifiers: aFLEA.

use tenure_lab::links::{LinkElection, LinkIds, RandomElection};

use super::network;

pub(super) const SHAPES: [&str; 4] = ["ring", "grid", "hypercube", "random"];

/// The domains of the identifiers: 1 to n^power, or 128 bits. The last number is the target for the
/// elections of a thousand that get stuck.
pub(super) const DOMAINS: [(&str, Option<f64>, u64); 5] = [
    ("n", Some(1.0), 100),
    ("n^1.5", Some(1.5), 10),
    ("n^2", Some(2.0), 2),
    ("n^3", Some(3.0), 0),
    ("128 bits", None, 0),
];

/// Whether a network meets the targets. Among few nodes, and where all nodes have few neighbours, an
/// equal identifier at both ends of a link stops more elections than the targets allow.
fn meets_targets(shape: &str, nodes: u32) -> bool {
    nodes > 16 && shape != "ring" && (shape, nodes) != ("grid", 64)
}

/// Runs elections on a network of this shape with a dead link, with identifiers from each domain.
/// Prints how many got stuck, and checks that there are no more than three for each pair of neighbours
/// whose identifiers are expected to be equal.
pub(super) fn check_stuck(shape: &str, nodes: u32, runs: u64) {
    let network = network(shape, nodes, 1);
    for (name, power, target) in DOMAINS {
        let domain = power.map(|power| f64::from(nodes).powf(power));
        let ids = LinkIds::Random(domain.map(|domain| domain as u128));
        let stuck = (0..runs).filter(|seed| {
            let election = LinkElection {
                ids,
                ..LinkElection::on(&network, *seed)
            };
            let outcome = election.run(&network).unwrap();
            assert!(outcome.leaders.len() <= 1, "seed {seed}");
            assert!(outcome.is_at_rest, "seed {seed}");
            !outcome.is_elected()
        });
        let stuck = stuck.count() as u64;
        println!("{shape} {nodes}, identifiers of {name}: {stuck} of {runs} stuck");
        let equal = domain.map_or(0.0, |domain| network.links().len() as f64 / domain);
        let most = (3.0 * equal * runs as f64).ceil() as u64;
        assert!(
            stuck <= most,
            "{shape} {nodes}, {name}: {stuck}, not {most}"
        );
        // Fewer elections say nothing about two of a thousand.
        if runs == 1_000 && meets_targets(shape, nodes) {
            assert!(
                stuck <= target,
                "{shape} {nodes}, {name}: {stuck}, not {target}"
            );
        }
    }
}

/// Runs elections on a network of this shape with a dead link, with different identifiers and with
/// identifiers from n^2 numbers, which are drawn again after a stop. Returns the ratio of their
/// messages.
pub(super) fn cost_of_new_draws(shape: &str, nodes: u32, runs: u64) -> f64 {
    let (mut different, mut drawn) = (0, 0);
    let network = network(shape, nodes, 1);
    for seed in 0..runs {
        let with = |ids| LinkElection {
            ids,
            ..LinkElection::on(&network, seed)
        };
        let unique = with(LinkIds::Random(None)).run(&network).unwrap();
        different += unique.traffic.all();
        let square = u128::from(nodes * nodes);
        let random = with(LinkIds::Random(Some(square)));
        let all = random.run_until_elected(&network, 100).unwrap();
        assert!(unique.is_elected() && all.last.is_elected());
        drawn += all.messages;
    }
    let ratio = drawn as f64 / different as f64;
    println!("{shape} {nodes}: {ratio:.3} times the messages with different identifiers");
    ratio
}

#[test]
fn equal_random_identifiers_seldom_stop_an_election_and_never_make_two_leaders() {
    for nodes in [16, 64] {
        for shape in SHAPES {
            check_stuck(shape, nodes, 250);
        }
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
    for shape in SHAPES {
        assert!(cost_of_new_draws(shape, 64, 250) <= 1.05, "{shape}");
    }
}
