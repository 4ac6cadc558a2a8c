//! A node under watch: steady, with jitter, with losses, paused, crashed, restarted.

use super::*;
use tenure_lab::sim::Rng;

#[test]
fn a_steady_node_is_never_suspected() {
    for (name, make) in ALL {
        let mut network = Network::new(make, 3);
        network.run_until(at(60_000));
        assert_eq!(network.events(), [], "{name}");
        assert_eq!(network.quality().query_accuracy(), 1.0);
    }
}

#[test]
fn jitter_and_reordering_are_no_failure() {
    for (name, make) in ALL {
        let way = |rng: &mut Rng| Some(network::up_to(rng, millis(100)));
        let mut network = Network::new(make, 3).with_way(7, way);
        network.run_until(at(600_000));
        assert_eq!(network.quality().mistakes.count, 0, "{name}");
    }
}

/// The crash comes at every phase of all periods, and the messages take their longest time.
#[test]
fn a_crash_is_detected_within_the_bound() {
    for (name, make) in ALL {
        let mut longest = Duration::ZERO;
        for phase in 0..75 {
            let way = |rng: &mut Rng| Some(network::up_to(rng, millis(20)));
            let mut network = Network::new(make, 3).with_way(phase, way);
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
        // The bound means something: it is not far above what happens.
        let network = Network::new(make, 3);
        let bound = network.bound(millis(20));
        assert!(longest * 3 > bound, "{name}: {longest:?}, {bound:?}");
    }
}

/// Where the bound can be reached, it is: the crash comes right after the node's last sign of life.
#[test]
fn the_bound_is_reached_where_the_docs_say_at_most() {
    for (name, make, last_sign) in [
        ("on demand", ALL[0].1, 30_000),
        ("pull", ALL[1].1, 30_000),
        ("push, fixed timeout", ALL[2].1, 30_000),
        ("push, Chen", ALL[3].1, 30_000),
    ] {
        let mut network = Network::new(make, 2);
        // The ping of this instant, or heartbeat, was answered, or sent, one delay later at last.
        network.run_until(at(last_sign) + DELAY).crash(TWO);
        network.run_until(at(60_000));
        let (bound, detection) = (network.bound(DELAY), network.quality().detection.total);
        assert!(
            bound - detection <= 2 * DELAY,
            "{name}: {detection:?}, {bound:?}"
        );
    }
}

/// Node 2 stands still from 10 s to 15 s. Messages take 1 ms, pings and heartbeats are due at
/// multiples of 300 ms, polls at multiples of 1 s.
#[test]
fn a_pause_makes_one_mistake_that_lasts_as_long_as_one_works_out() {
    for (make, begins, ends) in [
        // Polled at 10 s, down 500 ms later; the pings are answered at 15 s.
        (ALL[0].1, 10_500_000, 15_001_000),
        // Unanswered are the pings of 10.2, 10.5, 10.8 and 11.1 s; the last has 300 ms.
        (ALL[1].1, 11_400_000, 15_001_000),
        // The last heartbeat is of 9.9 s, and the next is sent at 15 s.
        (ALL[2].1, 9_901_000 + 1_500_000, 15_001_000),
        // The one of 10.2 s is expected at 10.201 s.
        (ALL[3].1, 10_201_000 + 1_200_000, 15_001_000),
        // Mean 300 ms, pause 600 ms, 5.612 times the least deviation of 30 ms.
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
        let said: Vec<DetectorOutput> = network.events().into_iter().map(|(_, it)| it).collect();
        assert_eq!(
            said,
            [DetectorOutput::Suspected(TWO), DetectorOutput::Trusted(TWO)]
        );
        let quality = network.quality();
        assert_eq!(quality.mistakes.count, 1);
        let micros = quality.mistakes.total.as_micros();
        assert!(micros.abs_diff(ends - begins) <= 1, "{micros}");
        assert_eq!(quality.wrong, quality.mistakes.total);
    }
}

#[test]
fn a_node_that_was_paused_is_back_in_the_ring() {
    let mut network = Network::new(ALL[5].1, 3);
    network.run_until(at(10_000)).pause(TWO);
    network.run_until(at(30_000)).resume(TWO);
    network.run_until(at(60_000));
    let quality = network.quality();
    assert_eq!((quality.mistakes.count, network.suspects()), (1, false));
}

/// All that node 2 sends is lost for a while.
#[test]
fn a_burst_of_losses_within_the_margin_is_no_failure_and_a_longer_one_is_one_mistake() {
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
fn a_node_that_is_back_is_trusted_and_its_restart_told_once() {
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
            // A node that was back before it was missed may be missed all the same: it does not know
            // who had subscribed.
            let quality = network.quality();
            let longest = quality.recovery.longest.max(quality.mistakes.longest);
            assert!(longest <= millis(1000), "{name}, {down}: {longest:?}");
        }
    }
}

#[test]
fn no_more_is_said_about_a_node_that_is_no_longer_watched() {
    for (name, make) in ALL {
        let mut network = Network::new(make, 2);
        network.run_until(at(5_000));
        network.input(ONE, DetectorInput::Unwatch(TWO));
        network.crash(TWO);
        network.run_until(at(40_000));
        assert_eq!(network.events(), [], "{name}");
    }
}

#[test]
fn a_watcher_by_questions_that_stood_still_itself_suspects_nobody() {
    for (name, make) in &ALL[..2] {
        let mut network = Network::new(*make, 2);
        network.run_until(at(10_010)).pause(ONE);
        network.run_until(at(30_000)).resume(ONE);
        network.run_until(at(60_000));
        assert_eq!(network.events(), [], "{name}");
    }
}

/// An exchange takes 350 ms: each ping is answered after the next one is sent.
#[test]
fn a_slow_answer_does_not_give_the_node_more_time_for_the_next_ping() {
    for answered in [30_000, 30_300] {
        let mut network = Network::new(pull, 2).with_way(1, |_| Some(millis(175)));
        // This ping comes and is answered; the next one finds nobody.
        network.run_until(at(answered + 180)).crash(TWO);
        network.run_until(at(60_000));
        let expected = (answered + 4 * 300 + 300, DetectorOutput::Suspected(TWO));
        assert_eq!(network.events(), [expected]);
    }
}

/// Else a node would be suspected for one lost message.
#[test]
fn a_subscription_that_is_lost_is_sent_again_at_once() {
    for (name, make) in &ALL[2..5] {
        let mut network = Network::new(*make, 2);
        network.input(ONE, DetectorInput::Unwatch(TWO));
        network.run_until(at(1_010)).cut(ONE, TWO);
        network.watch(ONE, TWO);
        network.run_until(at(1_200)).heal();
        network.run_until(at(60_000));
        assert_eq!(network.events(), [], "{name}");
    }
}

/// It was down when the watch began, so what it did not say or answer then does not count.
#[test]
fn a_node_that_starts_under_watch_has_as_much_time_as_at_first() {
    for (name, make) in &ALL[1..5] {
        let mut detector = make(at(0), &group(ONE, 2));
        detector.handle_input(at(0), DetectorInput::Watch(TWO));
        let heard = DetectorInput::Message {
            from: TWO,
            incarnation: Incarnation(1),
            message: DetectorMessage::Recovered,
        };
        let since = (0..9_000).step_by(10).find(|&now| {
            if now == 1_100 {
                detector.handle_input(at(now), heard.clone());
            }
            detector.handle_timeout(at(now));
            detector.is_suspected(TWO)
        });
        assert!(
            since.is_some_and(|since| (2_000..3_000).contains(&since)),
            "{name}: {since:?}"
        );
    }
}
