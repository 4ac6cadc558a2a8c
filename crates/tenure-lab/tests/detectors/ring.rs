//! The attendance list detector.

use super::*;

/// Returns the suspicions as pairs of watcher and node, if all nodes watch all others.
fn suspicions(network: &Network, members: u32) -> Vec<(u32, u32)> {
    let all = || (1..=members).map(NodeId);
    let pairs = all().flat_map(|watcher| all().map(move |node| (watcher, node)));
    let suspected = pairs.filter(|(watcher, node)| network.suspects_of(*watcher, *node));
    suspected
        .map(|(watcher, node)| (watcher.0, node.0))
        .collect()
}

fn all_watch_all(members: u32) -> Network {
    let mut network = Network::new(ALL[5].1, members);
    for watcher in (2..=members).map(NodeId) {
        for node in (1..=members).map(NodeId).filter(|node| *node != watcher) {
            network.watch(watcher, node);
        }
    }
    network
}

#[test]
fn with_one_message_per_member_and_round_all_nodes_learn_about_all() {
    let mut network = all_watch_all(5);
    network.run_until(at(10_000));
    let before = network.sent;
    // A hop takes 101 ms.
    network.run_until(at(10_000 + 101 * 5 * 20));
    assert_eq!(network.sent - before, 5 * 20);
}

#[test]
fn all_nodes_learn_of_a_crash_within_the_bound() {
    for crashed in 1..=5 {
        for phase in 0..20 {
            let mut network = all_watch_all(5);
            network
                .run_until(at(10_000 + 31 * phase))
                .crash(NodeId(crashed));
            network.run_until(at(30_000));
            let quality = network.quality();
            let others = (1..=5).filter(|watcher| *watcher != crashed);
            let expected: Vec<_> = others.map(|watcher| (watcher, crashed)).collect();
            assert_eq!(suspicions(&network, 5), expected);
            assert_eq!((quality.detection.count, quality.mistakes.count), (4, 0));
            let group = group(NodeId(crashed % 5 + 1), 5);
            let bound = attendance_ring(at(0), &group).detection_bound(DELAY);
            assert!(quality.detection.longest <= bound, "{quality:?}");
        }
    }
}

#[test]
fn the_last_running_node_suspects_all_others_and_trusts_them_after_their_restart() {
    let mut network = all_watch_all(4);
    network.run_until(at(10_000));
    for node in [1, 2, 3].map(NodeId) {
        network.crash(node);
    }
    network.run_until(at(60_000));
    assert_eq!(suspicions(&network, 4), [(4, 1), (4, 2), (4, 3)]);
    network.restart(TWO);
    network.run_until(at(70_000));
    assert_eq!(suspicions(&network, 4), [(4, 1), (4, 3)]);
}

#[test]
fn each_side_of_a_partition_has_a_list_and_after_the_partition_there_is_one() {
    let halves = [[ONE, TWO], [THREE, NodeId(4)]];
    let mut network = all_watch_all(4);
    network.run_until(at(10_000));
    for (one, other) in [(0, 1), (1, 0)] {
        for from in halves[one] {
            halves[other]
                .into_iter()
                .for_each(|to| network.cut(from, to));
        }
    }
    network.run_until(at(60_000));
    let expected = [
        (1, 3),
        (1, 4),
        (2, 3),
        (2, 4),
        (3, 1),
        (3, 2),
        (4, 1),
        (4, 2),
    ];
    assert_eq!(suspicions(&network, 4), expected);
    network.heal();
    network.run_until(at(120_000));
    assert_eq!(suspicions(&network, 4), []);
}
