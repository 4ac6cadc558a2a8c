//! Subscriptions to heartbeats, which every detector serves.

use super::*;

const INTERVAL: Duration = millis(100);

/// Returns a detector of each kind, as node 1 of two, after node 2 has acknowledged its recovery.
fn publishers(now: Instant) -> impl Iterator<Item = (&'static str, Box<dyn Detector + Send>)> {
    DetectBy::ALL.into_iter().map(move |by| {
        let options = DetectionOptions {
            by,
            ..DetectionOptions::default()
        };
        let detection = Detection::new(&options, millis(400)).unwrap();
        let mut detector = detection.detector(&group(ONE, 2));
        let incarnation = Incarnation(1);
        let ack = DetectorMessage::RecoveredAck { incarnation };
        detector.handle_input(now, from(TWO, 1, ack));
        (by.name(), detector)
    })
}

fn from(from: NodeId, incarnation: u64, message: DetectorMessage) -> DetectorInput {
    DetectorInput::Message {
        from,
        incarnation: Incarnation(incarnation),
        message,
    }
}

fn subscribe(interval: Duration, lifetime: Duration) -> DetectorInput {
    from(TWO, 1, DetectorMessage::Subscribe { interval, lifetime })
}

/// Node 1 is the publisher: node 2 subscribes while node 1's clock shows 1,050 ms.
#[test]
fn heartbeats_are_numbered_by_the_publishers_clock_and_end_with_the_subscription() {
    for (name, mut detector) in publishers(at(1_050)) {
        let mut sent = Vec::new();
        detector.handle_input(at(1_050), subscribe(INTERVAL, millis(500)));
        for now in (1_050..3_000).step_by(10) {
            if now == 1_230 {
                // Renewed: until 1,730 ms.
                detector.handle_input(at(now), subscribe(INTERVAL, millis(500)));
            }
            if (1_310..1_480).contains(&now) {
                continue; // The publisher is paused.
            }
            detector.handle_timeout(at(now));
            for output in drain(detector.as_mut()) {
                let DetectorOutput::Send {
                    to: TWO,
                    message: DetectorMessage::Heartbeat { tick },
                } = output
                else {
                    panic!("{name}: {output:?}");
                };
                sent.push((now, tick));
            }
        }
        let expected = [
            (1_100, 11),
            (1_200, 12),
            (1_300, 13),
            (1_480, 14),
            (1_500, 15),
            (1_600, 16),
            (1_700, 17),
        ];
        assert_eq!(sent, expected, "{name}");
        assert_eq!(detector.poll_timeout(), None, "{name}");
    }
}

#[test]
fn a_subscriber_gets_the_interval_for_which_it_asks() {
    for (name, mut detector) in publishers(at(0)) {
        for interval in [MIN_INTERVAL, millis(250), MAX_DURATION] {
            detector.handle_input(at(0), subscribe(interval, MAX_DURATION));
            assert_eq!(detector.poll_timeout(), Some(at(0) + interval), "{name}");
        }
    }
}

#[test]
fn a_subscriber_cannot_ask_for_more_heartbeats_than_the_shortest_interval_allows() {
    for (name, mut detector) in publishers(at(0)) {
        detector.handle_input(at(0), subscribe(Duration::ZERO, Duration::MAX));
        let next = Some(at(0) + MIN_INTERVAL);
        assert_eq!(detector.poll_timeout(), next, "{name}");
        detector.handle_input(at(0), subscribe(Duration::MAX, Duration::MAX));
        let next = Some(at(0) + MAX_DURATION);
        assert_eq!(detector.poll_timeout(), next, "{name}");
        // The lifetime is limited to a day, too: this subscription is over.
        detector.handle_timeout(at(0) + MAX_DURATION);
        assert_eq!(drain(detector.as_mut()), [], "{name}");
        assert_eq!(detector.poll_timeout(), None, "{name}");
    }
}

/// A member may come back with another detector, which needs no heartbeats.
#[test]
fn a_restart_of_the_subscriber_ends_its_subscription() {
    for (name, mut detector) in publishers(at(0)) {
        detector.handle_input(at(0), subscribe(INTERVAL, millis(9_000)));
        let incarnation = Incarnation(2);
        detector.handle_input(
            at(50),
            DetectorInput::Heard {
                from: TWO,
                incarnation,
            },
        );
        assert_eq!(detector.poll_timeout(), None, "{name}");
        // A late subscription of the former start has no effect.
        detector.handle_input(at(60), subscribe(INTERVAL, millis(9_000)));
        assert_eq!(detector.poll_timeout(), None, "{name}");
    }
}

#[test]
fn a_subscriber_that_unsubscribes_or_is_no_member_gets_no_heartbeats() {
    for (name, mut detector) in publishers(at(0)) {
        detector.handle_input(at(0), subscribe(INTERVAL, millis(9_000)));
        detector.handle_input(at(10), from(TWO, 1, DetectorMessage::Unsubscribe));
        let message = DetectorMessage::Subscribe {
            interval: INTERVAL,
            lifetime: millis(9_000),
        };
        detector.handle_input(at(20), from(NodeId(3), 1, message));
        detector.handle_timeout(at(500));
        assert_eq!(drain(detector.as_mut()), [], "{name}");
        assert_eq!(detector.poll_timeout(), None, "{name}");
    }
}
