//! A node under watch: running steadily, with jitter, with losses, paused, crashed, and restarted.

use tenure_sim::sim::Rng;

use super::*;

#[test]
fn a_steady_node_is_never_suspected() {
    for (name, make) in ALL {
        let mut network = Network::new(make, 3);
        network.run_until(at(60_000));
        assert_eq!(network.events(), [], "{name}");
        assert_eq!(network.quality().query_accuracy(), 1.0);
    }
}

/// The crash happens at different phases of all periods, with random delays up to the limit.
#[test]
fn a_crash_is_detected_within_the_bound() {
    for (name, make) in ALL {
        let mut longest = Duration::ZERO;
        for phase in 0..75 {
            let delay = |rng: &mut Rng| Some(network::up_to(rng, millis(20)));
            let mut network = Network::new(make, 3).with_delay(phase, delay);
            let bound = network.bound(millis(20));
            network.run_until(at(30_000 + 41 * phase)).crash(TWO);
            network.run_until(at(60_000));
            let detection = network.quality().detection;
            assert_eq!(detection.count, 1, "{name}");
            assert!(
                detection.longest <= bound,
                "{name}: {detection:?}, {bound:?}"
            );
            assert!(network.suspects());
            longest = longest.max(detection.longest);
        }
        // The bound is tight: at most three times the longest detection.
        let network = Network::new(make, 3);
        let bound = network.bound(millis(20));
        assert!(longest * 3 > bound, "{name}: {longest:?}, {bound:?}");
    }
}

/// The worst case of the bound: the crash happens right after the node's last message.
#[test]
fn the_bound_is_tight_for_the_detectors_with_an_exact_bound() {
    for (name, make, last_sign) in [
        ("on demand", ALL[0].1, 30_000),
        ("pull", ALL[1].1, 30_000),
        ("push, fixed timeout", ALL[2].1, 30_000),
        ("push, Chen", ALL[3].1, 30_000),
    ] {
        let mut network = Network::new(make, 2);
        // At this instant a ping was just answered, or a heartbeat was just sent.
        network.run_until(at(last_sign) + DELAY).crash(TWO);
        network.run_until(at(60_000));
        let (bound, detection) = (network.bound(DELAY), network.quality().detection.total);
        assert!(
            bound - detection <= 2 * DELAY,
            "{name}: {detection:?}, {bound:?}"
        );
    }
}

/// Node 2 is paused from 10 s to 15 s. Messages take 1 ms. Pings and heartbeats are due at
/// multiples of 300 ms, polls at multiples of 1 s.
#[test]
fn a_pause_causes_one_mistake_of_the_calculated_length() {
    for (make, begins, ends) in [
        // The poll is at 10 s, and the node counts as down 500 ms later. The pings are answered at
        // 15 s.
        (ALL[0].1, 10_500_000, 15_001_000),
        // The pings at 10.2, 10.5, 10.8 and 11.1 s stay unanswered. The last one has 300 ms for its
        // answer.
        (ALL[1].1, 11_400_000, 15_001_000),
        // The last heartbeat was sent at 9.9 s, and the next one is sent at 15 s.
        (ALL[2].1, 9_901_000 + 1_500_000, 15_001_000),
        // The heartbeat of 10.2 s is expected at 10.201 s.
        (ALL[3].1, 10_201_000 + 1_200_000, 15_001_000),
        // The deadline uses a mean of 300 ms, a pause of 600 ms, and 5.612 times the least
        // deviation of 30 ms.
        (
            ALL[4].1,
            9_901_000 + 300_000 + 600_000 + 168_360,
            15_001_000,
        ),
    ] {
        let mut network = Network::new(make, 2);
        network.run_until(at(9_999)).pause(TWO);
        network.run_until(at(15_000)).resume(TWO);
        network.run_until(at(30_000));
        let outputs: Vec<DetectorOutput> = network.events().into_iter().map(|(_, it)| it).collect();
        assert_eq!(
            outputs,
            [DetectorOutput::Suspected(TWO), DetectorOutput::Trusted(TWO)]
        );
        let quality = network.quality();
        assert_eq!(quality.mistakes.count, 1);
        let micros = quality.mistakes.total.as_micros();
        assert!(micros.abs_diff(ends - begins) <= 1, "{micros}");
        assert_eq!(quality.wrong, quality.mistakes.total);
    }
}

/// All messages from node 2 are lost for a certain time.
#[test]
fn a_burst_of_losses_within_the_margin_is_harmless_and_a_longer_one_causes_one_mistake() {
    for (make, survived) in [
        (ALL[0].1, 250), // One of the two pings of a poll may be lost.
        (ALL[1].1, 850),
        (ALL[2].1, 1150),
        (ALL[3].1, 1150),
        (ALL[4].1, 550),
    ] {
        for (burst, mistakes) in [(survived, 0), (4_000, 1)] {
            let mut network = Network::new(make, 2);
            network.run_until(at(9_950)).cut(TWO, ONE);
            network.run_until(at(9_950 + burst)).heal();
            network.run_until(at(30_000));
            let quality = network.quality();
            assert_eq!(
                quality.mistakes.count,
                mistakes,
                "{burst} {:?}",
                network.events()
            );
            assert!(!network.suspects());
        }
    }
}

#[test]
fn a_restarted_node_is_trusted_and_its_restart_is_reported_once() {
    for (name, make) in ALL {
        for down in [50, 20_000] {
            let mut network = Network::new(make, 3);
            network.run_until(at(10_010)).crash(TWO);
            network.run_until(at(10_010 + down)).restart(TWO);
            network.run_until(at(60_000));
            let events = network.events();
            let restarts = events
                .iter()
                .filter(|(_, it)| *it == DetectorOutput::Restarted(TWO, Incarnation(2)))
                .count();
            assert_eq!(restarts, 1, "{name}, {down}: {events:?}");
            assert!(!network.suspects(), "{name}, {down}: {events:?}");
            // A node that restarts before its crash is detected may still be suspected: it does not
            // know its subscribers.
            let quality = network.quality();
            let longest = quality.recovery.longest.max(quality.mistakes.longest);
            assert!(longest <= millis(1000), "{name}, {down}: {longest:?}");
        }
    }
}
