//! The attendance list.

use super::*;

/// Who is suspected by whom, when all watch all.
fn suspicions(network: &Network, members: u32) -> Vec<(u32, u32)> {
    let all = || (1..=members).map(NodeId);
    let pairs = all().flat_map(|watcher| all().map(move |node| (watcher, node)));
    let suspected = pairs.filter(|(watcher, node)| network.suspects_of(*watcher, *node));
    suspected
        .map(|(watcher, node)| (watcher.0, node.0))
        .collect()
}

fn all_watch_all(members: u32) -> Network {
    let mut network = Network::new(ring_list, members);
    for watcher in (2..=members).map(NodeId) {
        for node in (1..=members).map(NodeId).filter(|node| *node != watcher) {
            network.watch(watcher, node);
        }
    }
    network
}

#[test]
fn one_message_per_member_and_round_tells_everybody_about_everybody() {
    let mut network = all_watch_all(5);
    network.run_until(at(10_000));
    let before = network.sent;
    // A hop takes 101 ms.
    network.run_until(at(10_000 + 101 * 5 * 20));
    assert_eq!(network.sent - before, 5 * 20);
}

#[test]
fn everybody_learns_of_a_crash_within_the_bound() {
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
            let bound = ring_list(at(0), &group).detection_bound(DELAY);
            assert!(quality.detection.longest <= bound, "{quality:?}");
        }
    }
}

#[test]
fn the_last_one_left_suspects_all_others_and_takes_them_back() {
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
fn two_halves_of_a_parted_network_have_a_list_each_and_one_when_it_is_whole_again() {
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
fn a_list_that_met_a_refusal_goes_round_the_dead_node_at_once() {
    let mut network = all_watch_all(3);
    network.run_until(at(10_000)).crash(TWO);
    // What node 1 sends to node 2 is refused, as a live machine without the process does it.
    for millis in (10_000..11_000).step_by(10) {
        network.run_until(at(millis));
        network.input(ONE, Input::Refused(TWO));
    }
    assert_eq!(suspicions(&network, 3), [(1, 2), (3, 2)]);
}

#[test]
fn an_older_list_and_a_duplicate_are_dropped() {
    let mut detector = ring_list(at(0), &group(TWO, 3));
    let mut take = |millis, generation, hops| {
        let (from, incarnation) = (ONE, Incarnation(1));
        let message = Message::Attendance(Attendance {
            stamp: Stamp {
                generation,
                author: ONE,
                hops,
            },
            present: [ONE, NodeId(99)].into(),
            absent: [TWO, THREE].into(),
        });
        drain(detector.as_mut());
        detector.handle_input(
            at(millis),
            Input::Message {
                from,
                incarnation,
                message,
            },
        );
        detector.handle_timeout(at(millis + 100));
        let passed = drain(detector.as_mut())
            .into_iter()
            .find_map(|it| match it {
                Output::Send {
                    to,
                    message: Message::Attendance(list),
                } => Some((to, list)),
                _ => None,
            });
        passed.map(|(to, list)| (to.0, list.stamp.hops, list.present.len(), list.absent.len()))
    };
    // Signed, without the stranger, and passed over node 3, which it says is absent.
    assert_eq!(take(1_000, 5, 7), Some((1, 8, 2, 1)));
    assert_eq!(take(1_200, 5, 7), None);
    assert_eq!(take(1_400, 4, 900), None);
    assert_eq!(take(1_600, 6, 0), Some((1, 1, 2, 1)));
}
