//! Contradictory parameters, and the wire format.

use alloc::string::{String, ToString};

use super::*;

fn refusal<T: fmt::Debug>(result: Result<T, OptionsError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn impossible_parameters_are_refused_with_both_numbers() {
    let day = MAX_DURATION;
    for (by, interval, suspect_after, phi_threshold, expected) in [
        (
            DetectBy::Push,
            millis(5),
            millis(500),
            8,
            "heartbeat_interval 5ms must be at least 10ms",
        ),
        (
            DetectBy::Push,
            day * 2,
            millis(500),
            8,
            "heartbeat_interval 172800s must be at most 86400s",
        ),
        (
            DetectBy::Push,
            day / 5,
            millis(500),
            8,
            "subscription lifetime 172800s must be at most 86400s",
        ),
        (
            DetectBy::PushFixed,
            millis(500),
            day,
            8,
            "heartbeat timeout 86400.5s must be at most 86400s",
        ),
        (
            DetectBy::Phi,
            millis(300),
            millis(500),
            0,
            "phi threshold 0 must be 1 to 100",
        ),
        (
            DetectBy::Pull,
            millis(10),
            millis(2_000),
            8,
            "misses 200 must be 1 to 100",
        ),
        (
            DetectBy::OnDemand,
            millis(400),
            millis(500),
            8,
            "poll 400ms must be at least the ask timeout 500ms",
        ),
    ] {
        let options = DetectionOptions {
            by,
            interval: Some(interval),
            suspect_after: Some(suspect_after),
            phi_threshold: Some(phi_threshold),
        };
        assert_eq!(refusal(Detection::new(&options, millis(200))), expected);
    }
}

/// Elections without a quorum depend on this: no message outlives the detection of its sender's
/// crash.
#[test]
fn no_node_counts_as_down_within_a_message_lifetime() {
    let lifetime = millis(400);
    let detection = |by, suspect_after| {
        let options = DetectionOptions {
            by,
            interval: Some(millis(2_000)),
            suspect_after,
            phi_threshold: None,
        };
        Detection::new(&options, lifetime)
    };
    for by in DetectBy::ALL {
        let least = match by {
            DetectBy::OnDemand => 1_000,
            DetectBy::Pull => 800,
            _ => 400,
        };
        let refused = refusal(detection(by, Some(millis(least - 1))));
        assert!(
            refused.contains("suspect_after") && refused.contains("message lifetime"),
            "{refused}"
        );
        for suspect_after in [None, Some(millis(least))] {
            let detection = detection(by, suspect_after).unwrap();
            assert!(
                detection.detection_bound(Duration::ZERO) > lifetime,
                "{detection}"
            );
            assert!(
                detection.ask_timeout() > lifetime * 2 && detection.confirm_timeout() > lifetime
            );
        }
    }
    let unknown = "ring".parse::<DetectBy>().unwrap_err();
    assert!(unknown.contains("\"push\""), "{unknown}");
}

#[test]
fn messages_keep_their_form_on_the_wire() {
    for (message, json) in [
        (
            DetectorMessage::Ping { round: 7 },
            r#"{"kind":"ping","round":7}"#,
        ),
        (
            DetectorMessage::Pong {
                round: 7,
                candidacy: Candidacy::NonCandidate,
            },
            r#"{"kind":"pong","round":7,"candidacy":"non_candidate"}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        assert_eq!(
            serde_json::from_str::<DetectorMessage>(json).unwrap(),
            message
        );
    }
}
