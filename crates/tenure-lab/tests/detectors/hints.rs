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
