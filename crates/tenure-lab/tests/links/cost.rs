//! The numbers of messages, bits and labels against the bounds.

use std::time::Instant;

use tenure_lab::links::ForestSettings;
use tenure_lab::links::{
    LinkDelay, LinkElection, LinkIds, LinkInitiators, LinkNetwork, LinkOutcome,
};

use super::network;

pub(super) const SHAPES: [&str; 9] = [
    "line",
    "ring",
    "star",
    "grid",
    "hypercube",
    "random",
    "complete",
    "tree",
    "caterpillar",
];

pub(super) fn elect(network: &LinkNetwork, election: &LinkElection) -> LinkOutcome {
    let outcome = election.run(network).unwrap();
    assert!(outcome.is_elected(), "{election:?}");
    outcome
}

/// Checks all bounds on one network.
pub(super) fn check_bounds(shape: &str, nodes: u32, faulty: usize) {
    // A tree has no link to lose.
    let is_tree = ["line", "star", "tree", "caterpillar"].contains(&shape);
    let dead = match shape {
        _ if is_tree => 0,
        "ring" => faulty.min(1),
        _ => faulty,
    };
    let network = network(shape, nodes, dead);
    // The processes know the bound, whether or not there are so many.
    let election = LinkElection {
        settings: ForestSettings::new(nodes, faulty as u32),
        faulty: faulty as u32,
        ..LinkElection::on(&network, 1)
    };
    let outcome = elect(&network, &election);
    let traffic = outcome.traffic;
    let (n, m) = (f64::from(nodes), network.links().len() as f64);
    let log = f64::from(nodes).log2();
    let about = format!("{shape} {nodes}, f = {faulty}: {traffic:?}");
    let forest = (traffic.greeting + traffic.growing) as f64;
    assert!(forest <= 4.0 * m + 3.0 * n * log, "{about}");
    let counting = traffic.counting as f64;
    assert!(counting <= 8.0 * (2.0 * faulty as f64 + 1.0) * n, "{about}");
    let share = traffic.all() as f64 / network.bound();
    assert!(share <= 4.0, "{about}");
    if m <= 3.0 * n && nodes >= 256 {
        assert!(share <= 0.7, "{about}");
    }
    assert!(
        f64::from(outcome.largest) <= 4.0 * 2.0 * log + 16.0,
        "{about}: {} bits",
        outcome.largest
    );
    assert!(f64::from(outcome.most_labels) <= log, "{about}");
}

#[test]
fn messages_bits_and_labels_keep_their_bounds() {
    for shape in SHAPES {
        for nodes in [64, 256, 1_024] {
            if shape == "complete" && nodes > 256 {
                continue;
            }
            for faulty in [0, 1, 3, 8] {
                check_bounds(shape, nodes, faulty);
            }
        }
    }
}

/// Identifiers of 128 bits are longer than all other parts of a message, and a message has one.
#[test]
fn a_message_has_one_random_identifier_of_128_bits() {
    for shape in SHAPES {
        for nodes in [16, 64, 256, 1_024] {
            if shape == "complete" && nodes > 256 {
                continue;
            }
            let network = network(shape, nodes, 0);
            let election = LinkElection {
                ids: LinkIds::Random(None),
                ..LinkElection::on(&network, 1)
            };
            let largest = elect(&network, &election).largest;
            println!("{shape} {nodes}: {largest} bits");
            let log = f64::from(nodes).log2();
            assert!(
                f64::from(largest) <= 128.0 + 3.0 * log + 16.0,
                "{shape} {nodes}: {largest} bits"
            );
        }
    }
}

#[test]
fn four_thousand_nodes_elect() {
    for (shape, faulty) in [("ring", 1), ("grid", 8), ("hypercube", 3)] {
        let began = Instant::now();
        let network = network(shape, 4_096, faulty);
        let outcome = elect(&network, &LinkElection::on(&network, 1));
        println!(
            "{shape} 4096: {} messages in {:.1?}",
            outcome.traffic.all(),
            began.elapsed()
        );
    }
}

#[test]
fn the_share_of_the_bound_does_not_grow_with_the_number_of_nodes() {
    for shape in ["ring", "grid", "tree"] {
        let share = |nodes| {
            let network = network(shape, nodes, 0);
            let outcome = elect(&network, &LinkElection::on(&network, 1));
            outcome.traffic.all() as f64 / network.bound()
        };
        let shares = [64, 256, 1_024, 4_096].map(share);
        println!("{shape}: {shares:.3?}");
        assert!(shares.is_sorted_by(|one, other| one >= other), "{shares:?}");
    }
}

/// With one initiator, each edge of a tree costs `Hello` twice, `Test`, `Connect`, `Initiate`, one
/// report and `Elected`. If the initiator has more than one neighbour, it may count a majority
/// before all have reported.
#[test]
fn on_a_tree_with_one_initiator_each_edge_costs_seven_messages() {
    for shape in ["line", "star", "tree", "caterpillar"] {
        for nodes in [2, 3, 8, 33, 256, 1_024, 4_096] {
            let network = network(shape, nodes, 0);
            let all = 7 * u64::from(nodes - 1);
            let degree = |node: u32| {
                let ends = network.links().iter();
                ends.filter(|it| it.one == node || it.other == node).count()
            };
            for delay in LinkDelay::ALL {
                for node in [0, nodes - 1] {
                    let id = network.ids()[node as usize];
                    let election = LinkElection {
                        initiators: LinkInitiators::Id(id),
                        delay,
                        ..LinkElection::on(&network, u64::from(nodes))
                    };
                    let outcome = elect(&network, &election);
                    let found = outcome.traffic.all();
                    let about = format!("{shape} {nodes}, {delay}: {:?}", outcome.traffic);
                    match degree(node) {
                        1 => assert_eq!(found, all, "{about}"),
                        _ => assert!(found <= all, "{about}"),
                    }
                }
            }
        }
    }
}

#[test]
fn quotas_save_most_messages_of_the_count_on_a_long_ring() {
    let counting = |nodes, has_quotas| {
        let network = network("ring", nodes, 1);
        let on = LinkElection {
            initiators: LinkInitiators::Some(1),
            ..LinkElection::on(&network, 1)
        };
        let settings = match has_quotas {
            true => on.settings,
            false => on.settings.without_quotas(),
        };
        elect(&network, &LinkElection { settings, ..on })
            .traffic
            .counting
    };
    for nodes in [256, 1_024, 4_096] {
        let found = counting(nodes, true);
        println!("ring {nodes} with quotas: {found}");
        assert!(found <= 3 * u64::from(nodes), "{nodes}: {found}");
    }
    let (small, large) = (counting(256, false), counting(1_024, false));
    println!("without quotas: {small} at 256, {large} at 1024");
    assert!(large > 100_000 && large >= 12 * small, "{small}, {large}");
}

#[test]
fn a_bound_as_large_as_the_number_of_links_costs_messages_only() {
    for (shape, nodes) in [("hypercube", 256), ("grid", 256), ("random", 128)] {
        let network = network(shape, nodes, 0);
        let on = LinkElection::on(&network, 5);
        let exact = elect(&network, &on);
        let links = network.links().len() as u32;
        let unknown = LinkElection {
            settings: ForestSettings::new(nodes, links),
            faulty: links,
            ..on
        };
        let large = elect(&network, &unknown);
        println!(
            "{shape} {nodes}: {} to count with f = 0, {} with f = m",
            exact.traffic.counting, large.traffic.counting
        );
        assert!(large.traffic.all() as f64 <= 4.0 * network.bound());
    }
}

/// The rows of the table with these columns in `docs/links.md`: shape, nodes, faulty links,
/// messages and their share of the bound.
#[test]
fn the_figures_of_the_page_are_those_of_the_stage() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/links.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| `--graph`"))
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [shape, nodes, faulty, messages, share] = cells[..] else {
            panic!("{row}");
        };
        let network = network(shape, nodes.parse().unwrap(), faulty.parse().unwrap());
        let outcome = elect(&network, &LinkElection::on(&network, 1));
        let found = outcome.traffic.all();
        assert_eq!(messages.replace(',', ""), found.to_string(), "{row}");
        assert_eq!(
            share,
            format!("{:.2}", found as f64 / network.bound()),
            "{row}"
        );
        count += 1;
    }
    assert!(count >= 3, "the table of the page");
}
