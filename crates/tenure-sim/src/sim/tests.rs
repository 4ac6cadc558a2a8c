//! The simulation itself: its determinism, and its effects on messages and machines.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::detector::DetectBy;

use super::*;
use crate::check::{CheckCase, trace};
use crate::contestant::{Algorithm, Cluster, Contestant, DetectorKind};

/// Calculates the 64-bit FNV-1a hash.
fn digest(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn contestant(name: &str) -> Contestant {
    Contestant::of_name(name).unwrap()
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
    let names = ["lease", "bully", "bully-phi-no-quorum", "both"];
    assert_eq!(names.map(found), DIGESTS);
}

const DIGESTS: [(&str, u64); 4] = [
    ("lease", 0xc0b3_7fe7_29cd_cfdf),
    ("bully", 0x1e61_492c_bc99_3a56),
    ("bully-phi-no-quorum", 0x3a8f_d7a7_4da7_3a89),
    ("both", 0xfd1d_2ff0_2a7a_d8d7),
];

#[test]
fn recording_a_trace_does_not_change_the_run() {
    let case = CheckCase::new(contestant("lease"));
    let (_, violation) = trace(&case, 3);
    assert_eq!(crate::check::run(&case, 3).violation, violation);
}

/// A quick network: an organiser halts all other members one after the other.
#[test]
fn hundreds_of_members_elect_the_best_one() {
    let way = Algorithm::Bully {
        detector: DetectorKind::Of(DetectBy::Pull),
        quorum: false,
    };
    let cluster = Cluster::new(Contestant::new(way), 400).without_watches();
    let mut world = World::new(Box::new(cluster), WorldConfig::default(), 1);
    world.network.everywhere = Link {
        latency: Latency::Constant(Duration::from_micros(100)),
        ..Link::default()
    };
    for node in world.machines() {
        let quick = Duration::from_micros(10);
        world.inject_after(Duration::ZERO, Fault::SlowDisk(Target::Node(node), quick));
        world.start_after(node, Duration::ZERO);
    }
    world.run_until(Duration::from_secs(1));
    assert_eq!(world.leaders(), [NodeId(1)]);
    let opinions = world.seen_leaders();
    assert!(opinions.iter().all(|(_, sees)| *sees == Some(NodeId(1))));
}
