//! Questions about a node, which all detectors answer in the same way, and the down list.

use super::*;

fn ask(network: &mut Network, ask: u64) {
    network.input(ONE, DetectorInput::Ask { node: TWO, ask });
}

/// Returns the answers of node 1: the time in milliseconds, the question, and the verdict.
fn answers(network: &Network) -> Vec<(u64, u64, Verdict)> {
    let outputs = network.events().into_iter();
    outputs
        .filter_map(|(at, output)| match output {
            DetectorOutput::Answer { ask, verdict, .. } => Some((at, ask, verdict)),
            _ => None,
        })
        .collect()
}

/// Creates a network of two nodes without a watch, in which all notices were acknowledged.
fn quiet(make: Make) -> Network {
    let mut network = Network::new(make, 2);
    network.input(ONE, DetectorInput::Unwatch(TWO));
    network.run_until(at(10_020));
    network.reports.clear();
    network
}

#[test]
fn a_question_about_a_node_that_is_up_takes_one_round_trip() {
    for (_, make) in ALL {
        let mut network = quiet(make);
        ask(&mut network, 7);
        network.run_until(at(10_022));
        assert_eq!(answers(&network), [(10_022, 7, Verdict::Up)]);
    }
}

#[test]
fn a_node_that_is_not_a_candidate_says_so_in_its_answer() {
    let mut network = quiet(on_demand);
    network.input(TWO, DetectorInput::Candidacy(Candidacy::NonCandidate));
    ask(&mut network, 7);
    network.run_until(at(10_022));
    assert_eq!(answers(&network), [(10_022, 7, Verdict::NonCandidate)]);
}

#[test]
fn a_node_counts_as_down_after_the_timeout_and_then_at_once_while_the_entry_is_fresh() {
    for (name, make) in &ALL[..5] {
        let mut network = quiet(*make);
        network.crash(TWO);
        ask(&mut network, 1);
        network.run_until(at(10_600));
        assert_eq!(answers(&network), [(10_520, 1, Verdict::Down)], "{name}");

        let sent = network.sent;
        network.run_until(at(12_500));
        ask(&mut network, 2);
        assert_eq!(answers(&network)[1..], [(12_500, 2, Verdict::Down)]);
        assert_eq!(
            network.sent, sent,
            "nothing is sent about a node on the list"
        );

        // The entry is now two seconds old and counts only as a hint: the node gets a ping and a
        // short time to answer.
        network.run_until(at(12_520));
        ask(&mut network, 3);
        network.run_until(at(13_000));
        assert_eq!(answers(&network)[2..], [(12_645, 3, Verdict::Down)]);
        assert_eq!(network.sent, sent + 1);
    }
}

#[test]
fn a_recovery_notice_clears_the_list_entry_and_is_repeated_until_it_is_acknowledged() {
    let mut network = quiet(on_demand);
    network.crash(TWO);
    ask(&mut network, 1);
    network.run_until(at(10_600)).cut(TWO, ONE);
    network.restart(TWO); // The notices now and after 0.5 s are lost.
    network.run_until(at(11_000)).heal();
    network.run_until(at(11_099));
    ask(&mut network, 2);
    network.run_until(at(11_102));
    let sent = network.sent;
    ask(&mut network, 3);
    network.run_until(at(11_110));
    let verdicts: Vec<_> = answers(&network)
        .into_iter()
        .map(|it| (it.1, it.2))
        .collect();
    let (down, up) = (Verdict::Down, Verdict::Up);
    assert_eq!(verdicts, [(1, down), (2, down), (3, up)]);
    // These are the ping of question 3 and its pong. The notice was acknowledged, so it is not
    // repeated.
    network.run_until(at(60_000));
    assert_eq!(network.sent, sent + 2);
}

#[test]
fn messages_from_before_a_restart_are_ignored() {
    let mut detector = on_demand(at(0), &group(ONE, 2));
    let heard = |incarnation| DetectorInput::Heard {
        from: TWO,
        incarnation: Incarnation(incarnation),
    };
    detector.handle_input(at(0), heard(5));
    detector.handle_input(at(1), DetectorInput::Ask { node: TWO, ask: 1 });
    detector.handle_input(at(2), heard(4));
    detector.handle_timeout(at(251));
    detector.handle_timeout(at(501));
    detector.handle_input(at(502), heard(4));
    detector.handle_input(at(503), DetectorInput::Ask { node: TWO, ask: 2 });
    let answers = drain(&mut *detector).into_iter().filter_map(|it| match it {
        DetectorOutput::Answer {
            ask,
            verdict,
            incarnation,
            at,
            ..
        } => Some((ask, verdict, incarnation, at)),
        _ => None,
    });
    let known = Some(Incarnation(5));
    let expected = [
        (1, Verdict::Down, known, at(501)),
        (2, Verdict::Down, known, at(501)), // From the list: found down at 501 ms.
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}

#[test]
fn the_node_itself_is_up_and_a_non_member_is_down_and_ignored() {
    for (name, make) in ALL {
        let mut detector = make(at(0), &group(ONE, 2));
        drain(&mut *detector);
        let non_member = NodeId(9);
        detector.handle_input(at(0), DetectorInput::Ask { node: ONE, ask: 1 });
        detector.handle_input(
            at(0),
            DetectorInput::Ask {
                node: non_member,
                ask: 2,
            },
        );
        let verdicts = drain(&mut *detector).into_iter().map(|it| match it {
            DetectorOutput::Answer { verdict, .. } => verdict,
            other => panic!("{other:?}"),
        });
        let expected = [Verdict::Up, Verdict::Down];
        assert_eq!(verdicts.collect::<Vec<_>>(), expected, "{name}");

        detector.handle_input(at(0), DetectorInput::Watch(non_member));
        for message in [
            DetectorMessage::Ping { round: 1 },
            DetectorMessage::Recovered,
            DetectorMessage::Subscribe {
                interval: millis(300),
                lifetime: millis(9000),
            },
        ] {
            let (from, incarnation) = (non_member, Incarnation(1));
            detector.handle_input(
                at(0),
                DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                },
            );
        }
        assert_eq!(drain(&mut *detector), [], "{name}");
    }
}

/// An older answer may be out of date: the node may have become a candidate since.
#[test]
fn only_the_answer_to_the_question_itself_shows_that_a_node_is_not_a_candidate() {
    let pong = |round| DetectorInput::Message {
        from: TWO,
        incarnation: Incarnation(1),
        message: DetectorMessage::Pong {
            round,
            candidacy: Candidacy::NonCandidate,
        },
    };
    let heard = DetectorInput::Heard {
        from: TWO,
        incarnation: Incarnation(1),
    };
    // Ping 1 belongs to the first question, ping 2 to the second.
    for (answer, expected) in [
        (heard, Verdict::Up),
        (pong(1), Verdict::Up),
        (pong(2), Verdict::NonCandidate),
    ] {
        for (name, make) in ALL {
            let mut detector = make(at(0), &group(ONE, 2));
            detector.handle_timeout(at(0));
            drain(&mut *detector);
            let mut verdicts = Vec::new();
            for (ask, input) in [(7, pong(1)), (8, answer.clone())] {
                detector.handle_input(at(1), DetectorInput::Ask { node: TWO, ask });
                detector.handle_input(at(2), input);
                let outputs = drain(&mut *detector).into_iter();
                verdicts.extend(outputs.filter_map(|output| match output {
                    DetectorOutput::Answer { verdict, .. } => Some(verdict),
                    _ => None,
                }));
            }
            assert_eq!(verdicts, [Verdict::NonCandidate, expected], "{name}");
        }
    }
}
