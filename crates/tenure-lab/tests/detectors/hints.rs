//! Hints: refused connections.

use super::*;

#[test]
fn a_refusal_shortens_the_detection_to_the_confirm_timeout() {
    for (name, make) in ALL {
        let mut network = Network::new(make, 3);
        network.run_until(at(10_050)).crash(TWO);
        network.input(ONE, DetectorInput::Refused(TWO));
        network.run_until(at(12_000));
        assert_eq!(
            network.events()[0],
            (10_175, DetectorOutput::Suspected(TWO)),
            "{name}"
        );
    }
}

#[test]
fn a_refusal_does_not_make_a_node_that_answers_suspected() {
    for (name, make) in ALL {
        let mut network = Network::new(make, 3);
        for _ in 0..100 {
            let now = network.now;
            network.run_until(now + millis(100));
            network.input(ONE, DetectorInput::Refused(TWO));
        }
        assert_eq!(network.events(), [], "{name}");
    }
}

#[test]
fn refusals_answer_an_open_question_sooner_but_only_after_one_more_ping_timed_out() {
    let mut network = Network::new(on_demand, 2);
    network.input(ONE, DetectorInput::Unwatch(TWO));
    network.run_until(at(10_000)).crash(TWO);
    network.input(ONE, DetectorInput::Ask { node: TWO, ask: 1 });
    for millis in [10_001, 10_002, 10_003] {
        network.run_until(at(millis));
        network.input(ONE, DetectorInput::Refused(TWO));
    }
    network.run_until(at(10_125));
    assert_eq!(network.events(), []);
    network.run_until(at(10_126));
    let [(10_126, DetectorOutput::Answer { verdict, .. })] = network.events()[..] else {
        panic!("{:?}", network.events());
    };
    assert_eq!(verdict, Verdict::Down);
}

/// Without this rule, two nodes that exchange no messages would ping each other at the end of every
/// connection.
#[test]
fn a_hint_about_a_node_without_question_and_watch_is_ignored() {
    for (name, make) in &ALL[..5] {
        let mut network = Network::new(*make, 2);
        network.input(ONE, DetectorInput::Unwatch(TWO));
        network.run_until(at(40_050));
        let before = network.sent;
        network.input(ONE, DetectorInput::Refused(TWO));
        assert_eq!(network.sent, before, "{name}");
    }
}
