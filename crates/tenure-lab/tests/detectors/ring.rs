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

#[test]
fn a_refused_list_skips_the_failed_node_at_once() {
    let mut network = all_watch_all(3);
    network.run_until(at(10_000)).crash(TWO);
    // Node 1's messages to node 2 are refused, as by a running machine without the process.
    for millis in (10_000..11_000).step_by(10) {
        network.run_until(at(millis));
        network.input(ONE, DetectorInput::Refused(TWO));
    }
    assert_eq!(suspicions(&network, 3), [(1, 2), (3, 2)]);
}

fn list(generation: u64, hops: u64, present: &[NodeId], absent: &[NodeId]) -> Attendance {
    let stamp = Stamp {
        generation,
        author: ONE,
        hops,
    };
    Attendance {
        stamp,
        present: present.iter().copied().collect(),
        absent: absent.iter().copied().collect(),
    }
}

const FROM_ONE: (NodeId, Incarnation) = (ONE, Incarnation(1));

#[test]
fn an_older_list_and_a_duplicate_are_dropped() {
    let mut detector = attendance_ring(at(0), &group(TWO, 3));
    let mut take = |millis, generation, hops| {
        let list = list(generation, hops, &[ONE, NodeId(99)], &[TWO, THREE]);
        detector.handle_list(at(millis), FROM_ONE, list.clone());
        // A duplicate does not extend the time for which the node holds the list.
        detector.handle_list(at(millis + 50), FROM_ONE, list);
        detector.handle_timeout(at(millis + 100));
        detector
            .poll_list()
            .map(|(to, list)| (to, list.stamp.hops, list.present, list.absent))
    };
    // The node signs the list, leaves out the node that is not a member, and skips node 3, which
    // the list reports as absent.
    let (present, absent) = ([ONE, TWO].into(), [THREE].into());
    assert_eq!(take(1_000, 5, 7), Some((ONE, 8, present, absent)));
    assert_eq!(take(1_200, 5, 7), None);
    assert_eq!(take(1_400, 4, 900), None);
    assert!(take(1_600, 6, 0).is_some());
}

#[test]
fn newer_observations_of_a_node_prevail_over_the_list() {
    let mut detector = attendance_ring(at(0), &group(THREE, 3));
    let all = [ONE, TWO, THREE];
    detector.handle_list(at(1_000), FROM_ONE, list(1, 1, &all, &[]));
    detector.handle_timeout(at(1_100));
    // Node 2 is found down, but the list reports it as present.
    detector.handle_input(at(1_200), DetectorInput::Ask { node: TWO, ask: 1 });
    detector.handle_timeout(at(1_450));
    detector.handle_timeout(at(1_700));
    drain(&mut detector);
    detector.poll_list();
    detector.handle_list(at(1_800), FROM_ONE, list(1, 4, &all, &[]));
    detector.handle_timeout(at(1_900));
    assert_eq!(detector.poll_list().unwrap().1.absent, [TWO].into());
    // A message of node 2 arrives, but the list reports it as absent.
    let incarnation = Incarnation(1);
    detector.handle_input(
        at(2_000),
        DetectorInput::Heard {
            from: TWO,
            incarnation,
        },
    );
    detector.handle_list(at(2_100), FROM_ONE, list(1, 7, &[ONE, THREE], &[TWO]));
    detector.handle_timeout(at(2_200));
    assert_eq!(detector.poll_list().unwrap().1.present, all.into());
    // The node has no information except for the list.
    detector.handle_list(at(2_300), FROM_ONE, list(1, 10, &[ONE, THREE], &[TWO]));
    detector.handle_timeout(at(2_400));
    assert_eq!(detector.poll_list().unwrap().1.absent, [TWO].into());
}

#[test]
fn a_lost_list_is_searched_for_by_one_node_after_the_other() {
    for (me, searches_at) in [(ONE, 3_000), (TWO, 6_500), (THREE, 10_000)] {
        let mut detector = attendance_ring(at(0), &group(me, 3));
        let pings = |detector: &mut dyn Detector, millis| {
            detector.handle_timeout(at(millis));
            let is_ping = |output: &DetectorOutput| {
                let message = DetectorMessage::Ping { round: 1 };
                matches!(output, DetectorOutput::Send { message: it, .. } if *it == message)
            };
            drain(detector).iter().any(is_ping)
        };
        let from = if me == ONE { TWO } else { ONE };
        let seen = list(1, 1, &[ONE, TWO, THREE], &[]);
        detector.handle_list(at(0), (from, Incarnation(1)), seen);
        assert!(!pings(&mut detector, searches_at - 1), "{me}");
        assert!(pings(&mut detector, searches_at), "{me}");
    }
}
