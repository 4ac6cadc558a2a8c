//! The long forms of these tests, for a release build.

use std::fs;
use std::time::Instant;

use tenure_lab::links::LinkElection;

use super::cost::{SHAPES, check_bounds, elect};
use super::network;
use super::random::check_random_elections;
use super::without_ids::{self, check_stuck, cost_of_new_draws};

#[test]
#[ignore = "takes minutes"]
fn in_200_000_random_networks_one_leader_is_elected_and_all_know_it() {
    check_random_elections(200_000);
}

#[test]
#[ignore = "takes a minute"]
fn messages_bits_and_labels_keep_their_bounds_in_large_networks() {
    for shape in SHAPES {
        for faulty in [0, 1, 3, 8] {
            let nodes = if shape == "complete" { 512 } else { 4_096 };
            let began = Instant::now();
            check_bounds(shape, nodes, faulty);
            println!("{shape} {nodes}, f = {faulty}: {:.1?}", began.elapsed());
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_elections_without_identifiers_in_each_network_and_domain() {
    for nodes in [16, 64, 256] {
        for shape in without_ids::SHAPES {
            check_stuck(shape, nodes, 1_000);
            let ratio = cost_of_new_draws(shape, nodes, 1_000);
            // On a small ring one election in fifteen is held twice.
            let most = if (shape, nodes) == ("ring", 16) {
                1.1
            } else {
                1.05
            };
            assert!(ratio <= most, "{shape} {nodes}: {ratio}");
        }
    }
}

/// Prints the time and the memory, which depend on the machine and on the tests that run beside
/// this one.
#[test]
#[ignore = "measures a release build"]
fn the_largest_networks_elect() {
    for (shape, nodes) in [("grid", 4_096), ("hypercube", 16_384)] {
        let network = network(shape, nodes, 3);
        let began = Instant::now();
        let outcome = elect(&network, &LinkElection::on(&network, 1));
        println!(
            "MEASURED {shape} {nodes}: {} messages in {:.2?}, at most {} used so far",
            outcome.traffic.all(),
            began.elapsed(),
            most_memory()
        );
    }
}

/// The most memory that this process has used, as the system says it.
fn most_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".into(), |it| it.trim().to_owned())
}
