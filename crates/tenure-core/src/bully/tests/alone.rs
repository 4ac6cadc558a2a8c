//! One member: its outputs for given inputs.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::lease::candidate;

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_millis(millis)
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// Returns a member with the default timings that is a candidate since 0 s and whose first record
/// is on disk.
fn member_of(count: u32, id: u32, record: HardState) -> PeerCandidate {
    let settings = GroupSettings::new(NodeId(id), members(count), GroupTimings::default()).unwrap();
    started(settings, record)
}

fn started(settings: GroupSettings, record: HardState) -> PeerCandidate {
    let started = Started {
        at: at(0),
        wall: UnixMillis::new(1_000),
    };
    let mut node = PeerCandidate::new(settings, record, started);
    node.campaign(at(0), &mut SplitMix64::new(0));
    node.handle_message(at(0), PeerInput::Persisted, &mut SplitMix64::new(0));
    node
}

fn drain(node: &mut PeerCandidate) -> Vec<Output<PeerEffect>> {
    core::iter::from_fn(|| node.poll_output()).collect()
}

fn hear(
    node: &mut PeerCandidate,
    millis: u64,
    from: u32,
    message: QuorumMessage,
) -> Vec<Output<PeerEffect>> {
    hear_of(node, millis, (from, 1), message)
}

/// Delivers a message of this start of a member.
fn hear_of(
    node: &mut PeerCandidate,
    millis: u64,
    (from, incarnation): (u32, u64),
    message: QuorumMessage,
) -> Vec<Output<PeerEffect>> {
    let input = PeerInput::Message {
        from: NodeId(from),
        incarnation: Incarnation(incarnation),
        message: PeerMessage::Quorum(message),
    };
    node.handle_message(at(millis), input, &mut SplitMix64::new(0));
    drain(node)
}

fn written(node: &mut PeerCandidate, millis: u64) -> Vec<Output<PeerEffect>> {
    node.handle_message(at(millis), PeerInput::Persisted, &mut SplitMix64::new(0));
    drain(node)
}

fn to(id: u32, message: QuorumMessage) -> Output<PeerEffect> {
    Output::Effect(PeerEffect::Send {
        to: NodeId(id),
        message: PeerMessage::Quorum(message),
    })
}

#[test]
fn a_vote_leaves_when_it_is_on_disk_and_not_before() {
    let mut node = member_of(3, 3, HardState::default());
    drain(&mut node);
    let epoch = epoch(7_000);
    let said = hear(&mut node, 10, 1, QuorumMessage::RequestVote { epoch });
    assert!(
        matches!(
            said[..],
            [Output::Effect(PeerEffect::Persist(HardState {
                voted: Some(NodeId(1)),
                ..
            }))]
        ),
        "{said:?}"
    );
    let said = written(&mut node, 20);
    assert_eq!(said, [to(1, QuorumMessage::VoteGranted { epoch })]);
}

#[test]
fn a_promise_to_one_process_of_a_member_does_not_let_another_one_lead() {
    let mut node = member_of(3, 3, HardState::default());
    drain(&mut node);
    let ask = |epoch| QuorumMessage::RequestVote { epoch };
    let renew = |round| QuorumMessage::Renew {
        epoch: epoch(7_000),
        round,
    };
    hear_of(&mut node, 10, (1, 5), ask(epoch(7_000)));
    let granted = QuorumMessage::VoteGranted {
        epoch: epoch(7_000),
    };
    assert!(written(&mut node, 10).contains(&to(1, granted)));
    // A process that was started with a copy of the state of member 1.
    let refused = QuorumMessage::VoteRejected {
        epoch: epoch(9_000),
        highest: Some(epoch(7_000)),
    };
    for millis in [20, 15_009] {
        let said = hear_of(&mut node, millis, (1, 6), ask(epoch(9_000)));
        assert_eq!(said, [to(1, refused)], "{millis}");
    }
    let said = hear_of(
        &mut node,
        15_009,
        (1, 6),
        QuorumMessage::PreVote { round: 1 },
    );
    let free = |output: &Output<PeerEffect>| {
        let reply = |bound| QuorumMessage::PreVoteReply {
            round: 1,
            highest: Some(epoch(7_000)),
            bound,
            can_lead: true,
        };
        *output == to(1, reply(Some(Duration::from_millis(1))))
    };
    assert!(said.iter().any(free), "{said:?}");
    // The process that was promised renews, and the wait of the other one begins again.
    hear_of(&mut node, 15_009, (1, 5), renew(1));
    let said = hear_of(&mut node, 30_008, (1, 6), ask(epoch(9_000)));
    assert_eq!(said, [to(1, refused)]);
    // The promise has ended.
    let said = hear_of(&mut node, 30_009, (1, 6), ask(epoch(9_000)));
    assert!(
        matches!(said[..], [Output::Effect(PeerEffect::Persist(_))]),
        "{said:?}"
    );
}

#[test]
fn a_restarted_voter_lets_the_promised_process_renew_and_no_process_lead_anew() {
    let record = HardState {
        highest: Some(epoch(7_000)),
        voted: Some(NodeId(1)),
        ..HardState::default()
    };
    let mut node = member_of(3, 3, record);
    drain(&mut node);
    let ask = QuorumMessage::RequestVote {
        epoch: epoch(9_000),
    };
    let said = hear_of(&mut node, 10, (1, 6), ask);
    let refused = QuorumMessage::VoteRejected {
        epoch: epoch(9_000),
        highest: Some(epoch(7_000)),
    };
    assert_eq!(said, [to(1, refused)]);
    let renew = QuorumMessage::Renew {
        epoch: epoch(7_000),
        round: 2,
    };
    let said = hear_of(&mut node, 20, (1, 5), renew);
    let acked = QuorumMessage::RenewAck {
        epoch: epoch(7_000),
        round: 2,
    };
    assert!(said.contains(&to(1, acked)), "{said:?}");
}

#[test]
fn a_member_that_led_waits_after_a_restart_unless_it_has_released_its_term() {
    let led = HardState {
        highest: Some(epoch(7_000)),
        voted: Some(NodeId(3)),
        ..HardState::default()
    };
    let ask = QuorumMessage::RequestVote {
        epoch: epoch(9_000),
    };
    let votes_at = |record, millis| {
        let mut node = member_of(3, 3, record);
        drain(&mut node);
        let said = hear(&mut node, millis, 2, ask);
        matches!(said[..], [Output::Effect(PeerEffect::Persist(_))])
    };
    assert!(!votes_at(led, 14_999), "its earlier process may still lead");
    assert!(votes_at(led, 15_000));
    // A leader that ends its term in order records that its promise to itself is void.
    let mut node = member_of(3, 3, HardState::default());
    node.stand_for_votes(at(10), None);
    written(&mut node, 10);
    let granted = QuorumMessage::VoteGranted {
        epoch: epoch(1_010),
    };
    hear(&mut node, 10, 2, granted);
    node.task_ended(at(20), TaskEnd::Returned, &mut SplitMix64::new(0));
    let said = drain(&mut node);
    let released = |output: &Output<PeerEffect>| {
        let Output::Effect(PeerEffect::Send { message, .. }) = output else {
            return false;
        };
        matches!(message, PeerMessage::Quorum(QuorumMessage::Release { .. }))
    };
    assert!(
        said.iter().any(released),
        "it does not wait for the disk: {said:?}"
    );
    let record = said.iter().find_map(|output| match output {
        Output::Effect(PeerEffect::Persist(record)) => Some(*record),
        _ => None,
    });
    assert!(votes_at(record.unwrap(), 10));
}

#[test]
fn a_member_that_restarts_with_a_shorter_lease_keeps_to_the_longer_one() {
    let mut node = member_of(3, 3, HardState::default());
    drain(&mut node);
    let halt = |epoch| QuorumMessage::RequestVote { epoch };
    let said = hear(&mut node, 10, 1, halt(epoch(7_000)));
    let [Output::Effect(PeerEffect::Persist(promised))] = said[..] else {
        panic!("{said:?}");
    };
    let options = candidate::TimingsOptions {
        lease_duration: Some(Duration::from_secs(5)),
        ..candidate::TimingsOptions::default()
    };
    let term = candidate::Timings::new(&options).unwrap();
    let timings = GroupTimings::new(term, &GroupTimingsOptions::default()).unwrap();
    let settings = GroupSettings::new(NodeId(3), members(3), timings).unwrap();
    let mut node = started(settings.clone(), promised);
    drain(&mut node);
    let ask = halt(epoch(9_000));
    assert!(!matches!(
        hear(&mut node, 14_999, 2, ask)[..],
        [Output::Effect(PeerEffect::Persist(_))]
    ));
    assert!(matches!(
        hear(&mut node, 15_000, 2, ask)[..],
        [Output::Effect(PeerEffect::Persist(_))]
    ));

    // Without a quorum it leads no sooner either.
    let node = started(
        settings.with_guarantee(GroupGuarantee::BestEffort),
        promised,
    );
    assert!(!node.is_candidate(at(14_999)) && node.is_candidate(at(15_000)));
}

#[test]
fn a_refused_candidate_changes_no_state() {
    let mut node = member_of(3, 3, HardState::default());
    drain(&mut node);
    hear(
        &mut node,
        10,
        1,
        QuorumMessage::RequestVote {
            epoch: epoch(7_000),
        },
    );
    written(&mut node, 20);
    hear(
        &mut node,
        30,
        2,
        QuorumMessage::RequestVote {
            epoch: epoch(9_000),
        },
    );
    let said = hear(
        &mut node,
        40,
        1,
        QuorumMessage::Renew {
            epoch: epoch(7_000),
            round: 1,
        },
    );
    let renewed = QuorumMessage::RenewAck {
        epoch: epoch(7_000),
        round: 1,
    };
    assert!(said.contains(&to(1, renewed)), "{said:?}");
}

#[test]
fn a_candidate_that_reaches_no_member_raises_no_epoch() {
    let mut node = member_of(3, 2, HardState::default());
    for look in 0..200 {
        node.handle_timeout(at(look * 300), &mut SplitMix64::new(look));
    }
    let raised = drain(&mut node).into_iter().any(|output| {
        matches!(
            output,
            Output::Effect(PeerEffect::Persist(HardState {
                highest: Some(_),
                ..
            }))
        )
    });
    assert!(!raised);
}

#[test]
fn a_better_member_takes_over_only_with_preemption_and_after_the_hold_down() {
    for preempt in [false, true] {
        let settings = GroupSettings::new(NodeId(1), members(3), GroupTimings::default()).unwrap();
        let mut node = started(settings.with_preempt(preempt), HardState::default());
        let epoch = epoch(7_000);
        let mut asked = None;
        for second in 0..60 {
            let renew = QuorumMessage::Renew {
                epoch,
                round: second,
            };
            let mut said = hear(&mut node, second * 1_000, 3, renew);
            said.extend(written(&mut node, second * 1_000));
            node.handle_timeout(at(second * 1_000 + 500), &mut SplitMix64::new(second));
            said.extend(drain(&mut node));
            if said.contains(&to(3, QuorumMessage::TransferRequest { epoch })) {
                asked = asked.or(Some(second));
            }
        }
        assert_eq!(asked.is_some(), preempt);
        assert!(
            asked.is_none_or(|second| (30..=36).contains(&second)),
            "{asked:?}"
        );
    }
}

#[test]
fn a_leader_that_learns_of_a_greater_epoch_begins_a_new_term_in_order() {
    let settings = GroupSettings::new(NodeId(1), members(2), GroupTimings::default()).unwrap();
    assert_eq!(settings.guarantee(), GroupGuarantee::BestEffort);
    let mut node = started(settings, HardState::default());
    let ask = drain(&mut node)
        .into_iter()
        .find_map(|output| match output {
            Output::Effect(PeerEffect::Ask { node, round }) => Some((node, round)),
            _ => None,
        });
    let (other, round) = ask.unwrap();
    let down = PeerInput::Answer {
        node: other,
        round,
        verdict: Verdict::Down,
    };
    node.handle_message(at(1), down, &mut SplitMix64::new(0));
    let began = written(&mut node, 2);
    let led = began.iter().find_map(|output| match output {
        Output::Term(TermEvent::Began(epoch)) => Some(*epoch),
        _ => None,
    });
    let led = led.unwrap();
    let election = ElectionId {
        organiser: other,
        incarnation: 1,
        number: 1,
    };
    let mut meet = |number| {
        let epoch = epoch(number);
        let message = PeerMessage::Norm { election, epoch };
        let from = other;
        node.handle_message(
            at(3),
            PeerInput::Message {
                from,
                incarnation: Incarnation(1),
                message,
            },
            &mut SplitMix64::new(0),
        );
        drain(&mut node).contains(&Output::Term(TermEvent::Cancel(EndReason::Superseded)))
    };
    assert!(!meet(led.get() - 1), "the leader's own epoch is greater");
    assert!(meet(led.get() + 1));
    assert!(!meet(led.get() + 1), "the term is ending already");
    node.task_ended(at(4), TaskEnd::Returned, &mut SplitMix64::new(0));
    let ended = Output::Term(TermEvent::Ended(led, EndReason::Superseded));
    assert!(drain(&mut node).contains(&ended));
}

/// A slow disk must not delay the stop of a task.
#[test]
fn a_task_is_cancelled_while_a_record_is_being_written() {
    let settings = GroupSettings::new(NodeId(1), members(1), GroupTimings::default()).unwrap();
    let mut node = started(settings, HardState::default());
    let began = written(&mut node, 1);
    assert!(
        began
            .iter()
            .any(|output| matches!(output, Output::Term(TermEvent::Began(_)))),
        "{began:?}"
    );
    node.state.persist();
    node.resign(at(2), EndReason::Resigned, &mut SplitMix64::new(0));
    assert!(drain(&mut node).contains(&Output::Term(TermEvent::Cancel(EndReason::Resigned))));
}

#[test]
fn messages_and_records_survive_json() {
    let election = ElectionId {
        organiser: NodeId(2),
        incarnation: 3,
        number: 4,
    };
    let messages = [
        PeerMessage::Halt {
            election,
            preempt: false,
        },
        PeerMessage::Quorum(QuorumMessage::Renew {
            epoch: epoch(5),
            round: 6,
        }),
    ];
    for message in messages {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(
            serde_json::from_str::<PeerMessage>(&text).unwrap(),
            message,
            "{text}"
        );
    }
    let too_great = r#"{"incarnation":1,"highest":9007199254740992,"voted":null,"accepted":null}"#;
    let error = serde_json::from_str::<HardState>(too_great).unwrap_err();
    assert!(error.to_string().contains("9007199254740992"), "{error}");
}

/// A better member that could lead but never does must not block the others for ever.
#[test]
fn a_candidate_defers_to_a_better_one_at_most_three_times() {
    let mut node = member_of(3, 2, HardState::default());
    let mut rounds = 0;
    for look in 0..100 {
        let asked = drain(&mut node)
            .into_iter()
            .find_map(|output| match output {
                Output::Effect(PeerEffect::Send {
                    message: PeerMessage::Quorum(QuorumMessage::PreVote { round }),
                    ..
                }) => Some(round),
                _ => None,
            });
        if let Some(round) = asked {
            rounds += 1;
            for from in [1, 3] {
                let reply = QuorumMessage::PreVoteReply {
                    round,
                    highest: None,
                    bound: None,
                    can_lead: true,
                };
                let said = hear(&mut node, look * 300, from, reply);
                if said
                    .iter()
                    .any(|output| matches!(output, Output::Effect(PeerEffect::Persist(_))))
                {
                    assert_eq!(rounds, 4);
                    return;
                }
            }
        }
        node.handle_timeout(at(look * 300), &mut SplitMix64::new(look));
    }
    panic!("the member asked for no votes in {rounds} rounds");
}

fn reply(bound: Option<Duration>, can_lead: bool, round: u64) -> QuorumMessage {
    QuorumMessage::PreVoteReply {
        round,
        highest: None,
        bound,
        can_lead,
    }
}

fn stands(said: &[Output<PeerEffect>]) -> bool {
    said.iter()
        .any(|it| matches!(it, Output::Effect(PeerEffect::Persist(_))))
}

#[test]
fn a_pre_vote_waits_for_better_members_and_a_majority_only() {
    let mut node = member_of(5, 2, HardState::default());
    drain(&mut node);
    assert!(!stands(&hear(&mut node, 1, 3, reply(None, true, 1))));
    assert!(!stands(&hear(&mut node, 2, 4, reply(None, true, 1))));
    // The better member answers only now; member 5 never answers.
    assert!(stands(&hear(&mut node, 3, 1, reply(None, false, 1))));
}

#[test]
fn a_pre_vote_does_not_wait_for_a_member_that_did_not_answer_the_last_one() {
    let mut node = member_of(5, 2, HardState::default());
    drain(&mut node);
    let bound = Some(millis(100));
    for from in [3, 4] {
        hear(&mut node, 1, from, reply(bound, true, 1));
    }
    node.handle_timeout(at(500), &mut SplitMix64::new(0));
    node.handle_timeout(at(600), &mut SplitMix64::new(0));
    for speaks in [false, true] {
        let mut node = node.clone();
        if speaks {
            hear(&mut node, 601, 1, QuorumMessage::PreVote { round: 7 });
        }
        hear(&mut node, 602, 3, reply(None, true, 2));
        let said = hear(&mut node, 603, 4, reply(None, true, 2));
        assert_eq!(stands(&said), !speaks);
    }
}

#[test]
fn a_candidate_does_not_defer_to_a_better_one_that_is_bound_for_long() {
    for (bound, stands_now) in [(40, false), (10_000, true)] {
        let mut node = member_of(5, 2, HardState::default());
        drain(&mut node);
        hear(&mut node, 1, 1, reply(Some(millis(bound)), true, 1));
        hear(&mut node, 1, 3, reply(None, true, 1));
        let said = hear(&mut node, 1, 4, reply(None, true, 1));
        assert_eq!(stands(&said), stands_now, "{bound}");
    }
}

/// The promises to one leader end within milliseconds of each other.
#[test]
fn a_candidate_asks_again_when_the_promises_that_bind_the_others_end() {
    let mut node = member_of(3, 1, HardState::default());
    drain(&mut node);
    hear(&mut node, 1, 2, reply(Some(millis(40)), true, 1));
    hear(&mut node, 1, 3, reply(Some(millis(90)), true, 1));
    assert_eq!(node.poll_timeout(), Some(at(41)));
    node.handle_timeout(at(41), &mut SplitMix64::new(0));
    // After either answer, the next attempt is neither immediate nor later than a message lifetime
    // with its jitter.
    for (bound, from, to) in [(Duration::ZERO, 52, 52), (Duration::MAX, 492, 592)] {
        let mut node = node.clone();
        hear(&mut node, 42, 2, reply(Some(bound.max(millis(1))), true, 2));
        hear(&mut node, 42, 3, reply(Some(Duration::MAX), true, 2));
        let next = node.poll_timeout().unwrap();
        assert!((at(from)..=at(to)).contains(&next), "{next:?}");
    }
}

/// The follower relies on a better leader that it does not suspect yet; the organiser does suspect
/// it.
#[test]
fn a_follower_that_refuses_an_organiser_asks_about_its_leader() {
    let settings = GroupSettings::new(NodeId(3), members(3), GroupTimings::default()).unwrap();
    let settings = settings.with_guarantee(GroupGuarantee::BestEffort);
    let mut node = started(settings, HardState::default());
    drain(&mut node);
    let election = |organiser| ElectionId {
        organiser: NodeId(organiser),
        incarnation: 1,
        number: 1,
    };
    let mut said = Vec::new();
    let (first, second) = (election(1), election(2));
    for (from, message) in [
        (
            1,
            PeerMessage::Norm {
                election: first,
                epoch: epoch(5),
            },
        ),
        (
            1,
            PeerMessage::Ldr {
                election: first,
                epoch: epoch(5),
            },
        ),
        (
            2,
            PeerMessage::Halt {
                election: second,
                preempt: false,
            },
        ),
    ] {
        let from = NodeId(from);
        node.handle_message(
            at(10),
            PeerInput::Message {
                from,
                incarnation: Incarnation(1),
                message,
            },
            &mut SplitMix64::new(0),
        );
        said = drain(&mut node);
        said.extend(written(&mut node, 10));
    }
    let asks = |output: &Output<PeerEffect>| {
        matches!(
            output,
            Output::Effect(PeerEffect::Ask {
                node: NodeId(1),
                ..
            })
        )
    };
    let refuses = |output: &Output<PeerEffect>| {
        let rej = PeerMessage::Rej {
            election: second,
            holds_to: NodeId(1),
        };
        *output
            == Output::Effect(PeerEffect::Send {
                to: NodeId(2),
                message: rej,
            })
    };
    assert!(
        said.iter().any(refuses) && said.iter().any(asks),
        "{said:?}"
    );
}

/// With a slow disk, the member may have accepted another election, or none, before the message
/// leaves.
#[test]
fn an_acknowledgement_that_waits_for_the_disk_leaves_only_if_it_still_holds() {
    let settings = GroupSettings::new(NodeId(3), members(3), GroupTimings::default()).unwrap();
    let settings = settings.with_guarantee(GroupGuarantee::BestEffort);
    let election = |organiser| ElectionId {
        organiser: NodeId(organiser),
        incarnation: 1,
        number: 1,
    };
    let halt = |organiser| PeerMessage::Halt {
        election: election(organiser),
        preempt: false,
    };
    let stale = PeerMessage::Stale {
        election: election(2),
    };
    for (then, left) in [
        ((2, halt(2)), Some(2)),
        ((1, halt(1)), Some(1)),
        ((2, stale), None),
    ] {
        let mut node = started(settings.clone(), HardState::default());
        drain(&mut node);
        for (from, message) in [(2, halt(2)), then] {
            let from = NodeId(from);
            node.handle_message(
                at(10),
                PeerInput::Message {
                    from,
                    incarnation: Incarnation(1),
                    message,
                },
                &mut SplitMix64::new(0),
            );
        }
        let mut said = drain(&mut node);
        while said
            .iter()
            .any(|it| matches!(it, Output::Effect(PeerEffect::Persist(_))))
        {
            said = written(&mut node, 9_000);
            said.extend(written(&mut node, 9_000));
        }
        let acks = said.iter().filter_map(|output| match output {
            Output::Effect(PeerEffect::Send {
                to,
                message: PeerMessage::Ack { election, .. },
            }) => Some((*to, *election)),
            _ => None,
        });
        let mut acks: Vec<_> = acks.collect();
        acks.dedup();
        let expected = left.map(|left| (NodeId(left), election(left)));
        assert_eq!(acks, Vec::from_iter(expected), "{then:?}");
    }
}

/// In a group whose members start one by one, each member has once reached no other member. If a
/// follower still counted as unable to lead because of that, no member would defer to it when the
/// leader is gone: all would ask for votes at once and split them.
#[test]
fn a_follower_could_lead_although_it_reached_no_member_when_it_started() {
    let mut node = member_of(3, 2, HardState::default());
    let could_lead = |node: &mut PeerCandidate, millis| {
        let said = hear(node, millis, 3, QuorumMessage::PreVote { round: 9 });
        said.iter().any(|output| {
            let Output::Effect(PeerEffect::Send { message, .. }) = output else {
                return false;
            };
            matches!(
                message,
                PeerMessage::Quorum(QuorumMessage::PreVoteReply { can_lead: true, .. })
            )
        })
    };
    for look in 0..4 {
        node.handle_timeout(at(look * 600), &mut SplitMix64::new(look));
    }
    assert!(!could_lead(&mut node, 2_000));
    let epoch = epoch(7_000);
    hear(
        &mut node,
        2_100,
        1,
        QuorumMessage::Renew { epoch, round: 1 },
    );
    written(&mut node, 2_110);
    assert!(could_lead(&mut node, 2_200));
}
