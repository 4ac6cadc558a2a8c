//! Parameters that contradict each other, and the wire format.

use alloc::string::{String, ToString};

use super::*;

fn refusal<T: fmt::Debug>(result: Result<T, OptionsError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn impossible_parameters_are_refused_with_both_numbers() {
    let group = &group(ONE, 5);
    let ask = AskOptions::default();
    let asking = |ask| refusal(Pull::new(group, ask, PullOptions::default()));
    let polling = |poll| refusal(OnDemand::new(group, ask, OnDemandOptions { poll }));
    let pulling = |options| refusal(Pull::new(group, ask, options));
    let chen = |options| {
        refusal(Push::<Chen>::new(
            group,
            ask,
            PushOptions::default(),
            options,
        ))
    };
    let phi = |options| {
        refusal(Push::<PhiAccrual>::new(
            group,
            ask,
            PushOptions::default(),
            options,
        ))
    };
    let fixed = |options, timeout| refusal(Push::<FixedTimeout>::new(group, ask, options, timeout));
    let (pull, push) = (PullOptions::default(), PushOptions::default());
    for (message, expected) in [
        (
            asking(AskOptions {
                timeout: millis(5),
                ..ask
            }),
            "ask timeout 5ms must be at least 10ms",
        ),
        (
            asking(AskOptions { pings: 11, ..ask }),
            "pings per question 11 must be 1 to 10",
        ),
        (
            asking(AskOptions {
                timeout: millis(30),
                pings: 4,
                confirm: millis(20),
                ..ask
            }),
            "ask timeout 30ms must be at least the shortest interval per ping, 40ms",
        ),
        (
            asking(AskOptions {
                confirm: millis(600),
                ..ask
            }),
            "confirm timeout 600ms must be at most the ask timeout 500ms",
        ),
        (
            polling(millis(400)),
            "poll 400ms must be at least the ask timeout 500ms",
        ),
        (
            pulling(PullOptions { misses: 0, ..pull }),
            "misses 0 must be 1 to 100",
        ),
        (
            fixed(push, millis(300)),
            "heartbeat timeout 300ms must be at least the heartbeat interval and 10ms, 310ms",
        ),
        (
            fixed(
                PushOptions {
                    lifetime: millis(900),
                    ..push
                },
                millis(900),
            ),
            "subscription lifetime 900ms must be at least 6 heartbeat intervals, 1.8s",
        ),
        (
            fixed(
                PushOptions {
                    interval: MAX_DURATION * 2,
                    ..push
                },
                millis(900),
            ),
            "heartbeat interval 172800s must be at most 86400s",
        ),
        (
            chen(ChenOptions {
                window: 0,
                ..Default::default()
            }),
            "window 0 must be 1 to 10000",
        ),
        (
            phi(PhiOptions {
                threshold: f64::NAN,
                ..Default::default()
            }),
            "phi threshold NaN must be 1 to 100",
        ),
    ] {
        assert_eq!(message, expected);
    }
}

/// Elections without a quorum rely on this: no message outlives the detection of its sender's end.
#[test]
fn no_node_is_taken_for_down_within_a_message_lifetime() {
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
        let least = if by == DetectBy::OnDemand { 1_000 } else { 400 };
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
