//! "Is it up?", which all detectors answer alike, and the down list.

use super::*;

fn ask(network: &mut Network, ask: u64) {
    network.input(ONE, DetectorInput::Ask { node: TWO, ask });
}

/// What node 1 has answered: when in milliseconds, the question, the verdict.
fn answers(network: &Network) -> Vec<(u64, u64, Verdict)> {
    let said = network.events().into_iter();
    said.filter_map(|(at, output)| match output {
        DetectorOutput::Answer { ask, verdict, .. } => Some((at, ask, verdict)),
        _ => None,
    })
    .collect()
}

/// A network of two in which nobody watches and all notices have been acknowledged.
fn quiet(make: Make) -> Network {
    let mut network = Network::new(make, 2);
    network.input(ONE, DetectorInput::Unwatch(TWO));
    network.run_until(at(10_020));
    network.said.clear();
    network
}

/// Else a question that was asked a moment before would put off what the watch has found out.
#[test]
fn a_silence_that_a_watch_does_not_allow_answers_an_open_question() {
    for (name, make) in &ALL[1..5] {
        let mut network = Network::new(*make, 2);
        network.run_until(at(10_010)).crash(TWO);
        // It is suspected 10.97 s (phi) to 11.401 s after the beginning, and a question takes 500 ms.
        network.run_until(at(10_950));
        ask(&mut network, 1);
        network.run_until(at(30_000));
        let events = network.events();
        let suspected = events
            .iter()
            .find(|it| it.1 == DetectorOutput::Suspected(TWO));
        let (answered, ..) = answers(&network)[0];
        assert_eq!(answered, suspected.unwrap().0, "{name}");
        assert!(answered <= 11_401, "{name}: {answered}");
    }
}

#[test]
fn a_node_that_is_up_answers_after_a_message_each_way() {
    for (_, make) in ALL {
        let mut network = quiet(make);
        ask(&mut network, 7);
        network.run_until(at(10_022));
        assert_eq!(answers(&network), [(10_022, 7, Verdict::Up)]);
    }
}

#[test]
fn a_node_that_stands_aside_says_so() {
    let mut network = quiet(on_demand);
    network.input(TWO, DetectorInput::Candidacy(Candidacy::NonCandidate));
    ask(&mut network, 7);
    network.run_until(at(10_022));
    assert_eq!(answers(&network), [(10_022, 7, Verdict::NonCandidate)]);
}

#[test]
fn a_node_that_is_down_is_so_after_the_timeout_and_then_at_once_while_that_is_fresh() {
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

        // Two seconds old, the entry is a hint: the node is asked, and has little time.
        network.run_until(at(12_520));
        ask(&mut network, 3);
        network.run_until(at(13_000));
        assert_eq!(answers(&network)[2..], [(12_645, 3, Verdict::Down)]);
        assert_eq!(network.sent, sent + 1);
    }
}

#[test]
fn a_lost_recovery_notice_costs_no_more_than_the_freshness() {
    let mut network = quiet(on_demand);
    network.crash(TWO);
    ask(&mut network, 1);
    network.run_until(at(10_600)).cut(TWO, ONE);
    network.restart(TWO);
    network.run_until(at(12_519));
    network.heal();
    ask(&mut network, 2); // The last moment at which the list may be wrong.
    network.run_until(at(12_520));
    ask(&mut network, 3);
    network.run_until(at(13_000));
    let verdicts: Vec<_> = answers(&network)
        .into_iter()
        .map(|it| (it.1, it.2))
        .collect();
    let (down, up) = (Verdict::Down, Verdict::Up);
    assert_eq!(verdicts, [(1, down), (2, down), (3, up)]);
}

#[test]
fn a_recovery_notice_takes_the_node_off_the_list_and_comes_until_it_is_acknowledged() {
    let mut network = quiet(on_demand);
    network.crash(TWO);
    ask(&mut network, 1);
    network.run_until(at(10_600)).cut(TWO, ONE);
    network.restart(TWO); // Notices are lost now, and half a second and one and a half later.
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
    // The ping of question 3 and its pong: the notice was acknowledged, so no more of them come.
    network.run_until(at(60_000));
    assert_eq!(network.sent, sent + 2);
}

#[test]
fn who_asks_again_has_the_answer_to_the_last_question_when_the_first_would_have_had_it() {
    let mut network = quiet(on_demand);
    network.crash(TWO);
    for round in 0..10 {
        ask(&mut network, round);
        let now = network.now;
        network.run_until(now + millis(60));
    }
    // The first was asked at 10.02 s; the ninth at 10.5 s, the tenth after the answer.
    let (first, second) = ((10_520, 8, Verdict::Down), (10_560, 9, Verdict::Down));
    assert_eq!(answers(&network), [first, second]);
}

#[test]
fn what_was_sent_before_a_restart_counts_for_nothing() {
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
        (2, Verdict::Down, known, at(501)), // From the list: found out at 501 ms.
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}

#[test]
fn the_node_itself_is_up_and_who_is_no_member_is_down_and_ignored() {
    for (name, make) in ALL {
        let mut detector = make(at(0), &group(ONE, 2));
        drain(&mut *detector);
        let stranger = NodeId(9);
        detector.handle_input(at(0), DetectorInput::Ask { node: ONE, ask: 1 });
        detector.handle_input(
            at(0),
            DetectorInput::Ask {
                node: stranger,
                ask: 2,
            },
        );
        let verdicts = drain(&mut *detector).into_iter().map(|it| match it {
            DetectorOutput::Answer { verdict, .. } => verdict,
            other => panic!("{other:?}"),
        });
        let expected = [Verdict::Up, Verdict::Down];
        assert_eq!(verdicts.collect::<Vec<_>>(), expected, "{name}");

        detector.handle_input(at(0), DetectorInput::Watch(stranger));
        for message in [
            DetectorMessage::Ping { round: 1 },
            DetectorMessage::Recovered,
            DetectorMessage::Subscribe {
                interval: millis(300),
                lifetime: millis(9000),
            },
        ] {
            let (from, incarnation) = (stranger, Incarnation(1));
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

#[test]
fn after_this_process_stood_still_the_node_still_has_its_time_to_answer() {
    let mut detector = on_demand(at(0), &group(ONE, 2));
    detector.handle_input(at(0), DetectorInput::Ask { node: TWO, ask: 1 });
    drain(&mut *detector);
    // Both pings and the verdict are overdue: it pings once more and waits.
    let is_answer = |output: &DetectorOutput| matches!(output, DetectorOutput::Answer { .. });
    for (millis, answered) in [(10_000, false), (10_249, false), (10_250, true)] {
        detector.handle_timeout(at(millis));
        let outputs = drain(&mut *detector);
        assert_eq!(outputs.iter().any(is_answer), answered, "{millis}");
    }
}

#[test]
fn any_message_takes_a_node_off_the_list_watched_or_not() {
    for (name, make) in ALL {
        let mut detector = make(at(0), &group(ONE, 2));
        detector.handle_input(at(0), DetectorInput::Ask { node: TWO, ask: 1 });
        detector.handle_timeout(at(250));
        detector.handle_timeout(at(500));
        detector.handle_input(at(600), DetectorInput::Ask { node: TWO, ask: 2 });
        let incarnation = Incarnation(1);
        detector.handle_input(
            at(601),
            DetectorInput::Heard {
                from: TWO,
                incarnation,
            },
        );
        detector.handle_input(at(602), DetectorInput::Ask { node: TWO, ask: 3 });
        let answered = drain(&mut *detector).into_iter().filter_map(|it| match it {
            DetectorOutput::Answer { ask, .. } => Some(ask),
            _ => None,
        });
        // The third question is not answered from the list: the node is pinged.
        assert_eq!(answered.collect::<Vec<_>>(), [1, 2], "{name}");
    }
}

/// It may have said so before, and stand for election since.
#[test]
fn that_a_node_stands_aside_is_told_only_by_its_answer_to_the_question() {
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
    // The first question's ping is the first one, the second question's the second one.
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
                let said = drain(&mut *detector).into_iter();
                verdicts.extend(said.filter_map(|output| match output {
                    DetectorOutput::Answer { verdict, .. } => Some(verdict),
                    _ => None,
                }));
            }
            assert_eq!(verdicts, [Verdict::NonCandidate, expected], "{name}");
        }
    }
}

/// Whoever asked about it while it was away has it on the down list.
#[test]
fn whoever_starts_says_so_to_all_others_whichever_way_it_watches() {
    for (name, make) in ALL {
        let mut detector = make(at(0), &group(ONE, 3));
        assert!(
            detector.poll_timeout().is_some_and(|due| due <= at(0)),
            "{name}"
        );
        detector.handle_timeout(at(0));
        let told = drain(&mut *detector).into_iter().filter_map(|it| match it {
            DetectorOutput::Send {
                to,
                message: DetectorMessage::Recovered,
            } => Some(to),
            _ => None,
        });
        assert_eq!(Vec::from_iter(told), [TWO, THREE], "{name}");
    }
}
