//! Networks whose working links do not connect all nodes.

use tenure_lab::links::ForestSettings;
use tenure_lab::links::{LinkElection, LinkNetwork, compare_on_links};

fn parse(text: &str) -> LinkNetwork {
    LinkNetwork::parse(text).unwrap()
}

#[test]
fn a_part_with_a_majority_elects_and_the_other_part_does_not() {
    let network = parse("1 2\n2 3\n3 4 dead\n4 5");
    for seed in 0..200 {
        let outcome = LinkElection::on(&network, seed).run(&network).unwrap();
        assert_eq!((outcome.leaders.len(), outcome.knowing), (1, 3));
        assert!(outcome.is_at_rest);
    }
}

#[test]
fn two_halves_elect_nobody() {
    let network = parse("1 2\n2 3 dead\n3 4");
    for seed in 0..200 {
        let outcome = LinkElection::on(&network, seed).run(&network).unwrap();
        assert_eq!((outcome.leaders.len(), outcome.knowing), (0, 0));
        assert!(outcome.is_at_rest && !outcome.is_without_majority);
    }
    let on = LinkElection::on(&network, 1);
    let comparison = compare_on_links(&network, &on, None).unwrap();
    let why = comparison.why_no_leader(&network, &on).unwrap();
    assert!(why.contains("connect 2 of 4 nodes at most"), "{why}");
    assert!(comparison.rows.iter().all(|row| row.leaders == Some(0)
        // Flooding does not count, so each half has a leader.
        || (row.algorithm, row.leaders) == ("flooding", Some(2))));
}

#[test]
fn a_part_without_silent_ports_knows_that_it_has_no_majority() {
    let network = parse("1 2\n3 4");
    let outcome = LinkElection::on(&network, 1).run(&network).unwrap();
    assert!(outcome.is_without_majority && outcome.leaders.is_empty());
}

#[test]
fn an_election_ends_although_a_link_works_one_way() {
    let network = parse("1 2\n2 3\n3 1 one-way");
    for seed in 0..200 {
        let outcome = LinkElection::on(&network, seed).run(&network).unwrap();
        assert!(outcome.is_elected(), "seed {seed}");
    }
}

#[test]
fn more_silent_links_than_the_bound_are_named_as_the_reason() {
    let network = parse("1 2\n2 3\n3 4\n4 1 dead\n4 5\n5 1 dead");
    let on = LinkElection::on(&network, 1);
    let reasons = (0..200).find_map(|seed| {
        let believes = LinkElection {
            settings: ForestSettings::new(network.nodes(), 1),
            faulty: 1,
            seed,
            ..on
        };
        let comparison = compare_on_links(&network, &believes, None).unwrap();
        comparison.why_no_leader(&network, &believes)
    });
    let why = reasons.expect("a run in which both ends of both links hold the tokens");
    assert!(
        why.contains("4 ports are silent, and f = 1 allows 2"),
        "{why}"
    );
}
