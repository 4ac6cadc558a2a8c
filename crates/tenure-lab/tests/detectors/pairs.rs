//! Two nodes with different detectors that watch each other.

use tenure_sim::sim::Rng;

use super::network::up_to;
use super::*;

/// The detectors of the library.
const LIBRARY: usize = 5;

const LONGEST_DELAY: Duration = millis(20);

fn detectors() -> impl Iterator<Item = (&'static str, Make)> {
    ALL[..LIBRARY].iter().copied()
}

/// Every ordered pair of detectors. In the name the watcher is first.
fn pairs() -> impl Iterator<Item = (String, [Make; 2])> {
    detectors().flat_map(|(watcher, one)| {
        detectors().map(move |(watched, two)| (format!("{watcher} watches {watched}"), [one, two]))
    })
}

fn network(makes: [Make; 2], seed: u64) -> Network {
    let delay = |rng: &mut Rng| Some(up_to(rng, LONGEST_DELAY));
    let mut network = Network::mixed(&makes).with_delay(seed, delay);
    network.watch(TWO, ONE);
    network
}

#[test]
fn a_crash_is_suspected_within_the_bound_of_the_watcher() {
    for (name, makes) in pairs() {
        for phase in 0..25 {
            let mut network = network(makes, phase);
            let bound = network.bound(LONGEST_DELAY);
            network.run_until(at(30_000 + 123 * phase)).crash(TWO);
            network.run_until(at(60_000));
            let detection = network.quality().detection;
            assert_eq!(detection.count, 1, "{name}");
            assert!(
                detection.longest <= bound,
                "{name}, phase {phase}: {detection:?}, {bound:?}"
            );
            assert!(network.suspects());
        }
    }
}

/// A group changes its detector in this way: one member after the other.
#[test]
fn a_restart_with_any_detector_is_seen_and_the_node_is_watched_further() {
    for (name, makes) in pairs() {
        for (next, make) in detectors() {
            let name = format!("{name}, then {next}");
            for down in [50, 20_000] {
                let mut network = network(makes, down);
                let bound = network.bound(LONGEST_DELAY);
                network.run_until(at(10_010)).crash(TWO);
                network.run_until(at(10_010 + down));
                network.restart_with(TWO, make);
                network.watch(TWO, ONE);
                network.run_until(at(12_000 + down));
                let settled = network.reports.len();
                network.run_until(at(90_000));
                let events = network.events();
                let seen = DetectorOutput::Restarted(TWO, Incarnation(2));
                let seen = events.iter().filter(|(_, event)| *event == seen).count();
                assert_eq!(seen, 1, "{name}, {down}: {events:?}");
                assert!(!network.suspects() && !network.suspects_of(TWO, ONE));
                // For more than two lifetimes of a subscription, neither node suspects the other.
                assert_eq!(network.reports.len(), settled, "{name}, {down}: {events:?}");

                network.crash(TWO);
                network.run_until(network.now + bound);
                assert!(network.suspects(), "{name}, {down}: {:?}", network.events());
            }
        }
    }
}
