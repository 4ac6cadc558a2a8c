//! The algorithms in the simulation: their traces, and the effects of links on their messages.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_sim::check::{CheckCase, trace};
use tenure_sim::contestant::{Cluster, Contestant};
use tenure_sim::sim::{HistoryEvent, HistoryEventKind, Latency, Link, Time, World, WorldConfig};

/// Calculates the 64-bit FNV-1a hash.
fn digest(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn contestant(name: &str) -> Contestant {
    crate::contestant_of_name(name).unwrap()
}

/// A change of these hashes means that runs have changed, or the text of their traces.
#[test]
fn a_seed_gives_the_same_trace_byte_for_byte_on_every_machine() {
    let found = |name| {
        let case = CheckCase {
            lasts: Duration::from_secs(60),
            ..CheckCase::new(contestant(name))
        };
        (name, digest(&trace(&case, 7).0))
    };
    assert_eq!(["published", "garcia-molina"].map(found), DIGESTS);
}

const DIGESTS: [(&str, u64); 2] = [
    ("published", 0x5830_720e_13ef_65f8),
    ("garcia-molina", 0xaafb_3b23_fecb_d193),
];

#[test]
fn a_message_takes_the_latency_of_its_link_and_a_cut_link_delivers_none() {
    let cluster = Cluster::new(contestant("textbook"), 2);
    let mut world = World::new(Box::new(cluster), WorldConfig::default(), 1).with_trace();
    let (one, two) = (NodeId(1), NodeId(2));
    let link = Link {
        latency: Latency::Constant(Duration::from_secs(3)),
        ..Link::default()
    };
    let network = &mut world.network;
    network.set_kind("Coordinator", one, two, link);
    world.start_after(two, Duration::ZERO);
    world.start_after(one, Duration::from_secs(1));
    world.run_until(Duration::from_millis(3_900));
    assert_eq!(world.seen_leaders(), [(one, Some(one)), (two, Some(two))]);
    world.run_until(Duration::from_millis(4_010));
    let heard = |event: &HistoryEvent| {
        event.node == two && event.kind == HistoryEventKind::SeesLeader(Some(one))
    };
    let heard = world.history.iter().find(|event| heard(event));
    assert!(heard.is_some_and(|heard| heard.at >= Time::after(Duration::from_secs(4))));

    let mut world = World::new(
        Box::new(Cluster::new(contestant("textbook"), 2)),
        WorldConfig::default(),
        1,
    );
    world.network.cut(one, two);
    world.start_after(two, Duration::ZERO);
    world.start_after(one, Duration::from_secs(1));
    world.run_until(Duration::from_secs(60));
    assert_eq!(world.leaders(), [one, two]);
}
