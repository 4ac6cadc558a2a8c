//! Random identifiers: aFLEA.

use tenure_lab::links::{LinkElection, LinkIds, RandomElection};

use super::network;

pub(super) const SHAPES: [&str; 4] = ["ring", "grid", "hypercube", "random"];

/// The domains of the identifiers: 1 to n^power, or 128 bits.
pub(super) const DOMAINS: [(&str, Option<f64>); 5] = [
    ("n", Some(1.0)),
    ("n^1.5", Some(1.5)),
    ("n^2", Some(2.0)),
    ("n^3", Some(3.0)),
    ("128 bits", None),
];

/// Runs elections on a network of this shape with a dead link. Returns how many got stuck.
pub(super) fn stuck(shape: &str, nodes: u32, power: Option<f64>, runs: u64) -> u64 {
    let network = network(shape, nodes, 1);
    let ids = LinkIds::Random(power.map(|power| f64::from(nodes).powf(power) as u128));
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
    stuck.count() as u64
}

/// Runs elections on a network of this shape with a dead link, with given identifiers and with
/// identifiers from n^2 numbers, which are drawn again after a stop. Returns both mean numbers of
/// messages.
pub(super) fn messages(shape: &str, nodes: u32, runs: u64) -> (f64, f64) {
    let (mut given, mut drawn) = (0, 0);
    let network = network(shape, nodes, 1);
    for seed in 0..runs {
        let on = LinkElection::on(&network, seed);
        given += on.run(&network).unwrap().traffic.all();
        let random = LinkElection {
            ids: LinkIds::Random(Some(u128::from(nodes * nodes))),
            ..on
        };
        let all = random.run_until_elected(&network, 100).unwrap();
        assert!(all.last.is_elected());
        drawn += all.messages;
    }
    (given as f64 / runs as f64, drawn as f64 / runs as f64)
}

#[test]
fn equal_random_identifiers_seldom_stop_an_election_and_never_make_two_leaders() {
    for nodes in [16, 64, 256] {
        for shape in SHAPES {
            let found = DOMAINS.map(|(_, power)| stuck(shape, nodes, power, 250));
            println!("{shape} {nodes}: {found:?} of 250 stuck");
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
        let (given, drawn) = messages(shape, 64, 250);
        println!("{shape}: {given:.0} messages with identifiers, {drawn:.0} without");
        assert!(drawn <= 1.05 * given, "{shape}: {given}, {drawn}");
    }
}
