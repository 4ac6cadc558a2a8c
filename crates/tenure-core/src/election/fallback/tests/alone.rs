//! The machine alone: what it sends, and when it leads.

use alloc::vec::Vec;
use core::time::Duration;

use super::super::*;
use crate::bully::{
    GroupSettings, GroupTimings, HardState, Member, Membership, NodeId, PeerEffect, PeerInput,
    PeerMessage, QuorumKind, QuorumMessage, Quorums, Started,
};
use crate::lease::candidate::{Answer, LeaseEffect, Request};
use crate::{Incarnation, UnixMillis};

struct Numbers(u64);

impl Random for Numbers {
    fn next_u64(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0
    }
}

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_secs(1_000) + Duration::from_millis(millis)
}

/// One machine, with the requests and messages that it has sent.
struct Bench {
    machine: FallbackCandidate,
    random: Numbers,
    requests: Vec<(u64, Request)>,
    messages: Vec<(u32, QuorumMessage)>,
    events: Vec<TermEvent>,
    now: u64,
    /// Whether the disk completes no write.
    disk_hangs: bool,
}

impl Bench {
    fn new(members: u32, k: usize) -> Self {
        Self::with_quorums(members, Quorums::fallback(members as usize, k).unwrap())
    }

    fn with_quorums(members: u32, quorums: Quorums) -> Self {
        let membership = Membership::new((1..=members).map(|id| Member {
            id: NodeId(id),
            priority: 100,
        }));
        let settings =
            GroupSettings::new(NodeId(1), membership.unwrap(), GroupTimings::default()).unwrap();
        let started = Started {
            at: at(0),
            wall: UnixMillis::new(1_000),
        };
        let node = PeerCandidate::new(
            settings.with_quorums(quorums),
            HardState::default(),
            started,
        );
        let mut bench = Self {
            machine: FallbackCandidate::new(node, at(0)),
            random: Numbers(1),
            requests: Vec::new(),
            messages: Vec::new(),
            events: Vec::new(),
            now: 0,
            disk_hangs: false,
        };
        bench.drain();
        bench.machine.campaign(at(0), &mut bench.random);
        bench.drain();
        bench
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Term(event) => self.events.push(event),
                Output::Effect(JointEffect::Store(LeaseEffect::Send {
                    attempt, request, ..
                })) => self.requests.push((attempt, request)),
                Output::Effect(JointEffect::Store(LeaseEffect::Retrying(..))) => {}
                Output::Effect(JointEffect::Peers(PeerEffect::Persist(_))) if self.disk_hangs => {}
                Output::Effect(JointEffect::Peers(PeerEffect::Persist(_))) => {
                    let written = JointMessage::Peers(PeerInput::Persisted);
                    let now = at(self.now);
                    self.machine.handle_message(now, written, &mut self.random);
                }
                Output::Effect(JointEffect::Peers(PeerEffect::Send {
                    to,
                    message: PeerMessage::Quorum(message),
                })) => self.messages.push((to.0, message)),
                Output::Effect(JointEffect::Peers(_)) => {}
            }
        }
    }

    fn until(&mut self, millis: u64) {
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= at(millis)) {
            self.now = (due.since(at(0)).as_millis() as u64).max(self.now);
            self.machine.handle_timeout(due, &mut self.random);
            self.drain();
        }
        self.now = millis;
        self.machine.handle_timeout(at(millis), &mut self.random);
        self.drain();
    }

    /// Lets time pass while the store does not answer.
    fn without_store_until(&mut self, millis: u64) {
        while self.now < millis {
            self.answer(Answer::Unknown("away".into()));
            self.until(self.now + 100);
        }
    }

    fn answer(&mut self, answer: Answer) {
        let attempt = self.requests.last().unwrap().0;
        let message = JointMessage::Store(attempt, answer);
        self.machine
            .handle_message(at(self.now), message, &mut self.random);
        self.drain();
    }

    fn hear(&mut self, from: u32, message: QuorumMessage) {
        let message = PeerInput::Message {
            from: NodeId(from),
            incarnation: Incarnation(1),
            message: message.into(),
        };
        let message = JointMessage::Peers(message);
        self.machine
            .handle_message(at(self.now), message, &mut self.random);
        self.drain();
    }

    fn leads(&self) -> bool {
        matches!(
            self.machine.standing(at(self.now)),
            Standing::Leading { .. }
        )
    }

    /// Answers the last pre-vote for these members, which are free.
    fn are_free(&mut self, members: impl IntoIterator<Item = u32>) {
        let pre_vote = self.messages.iter().rev();
        let mut rounds = pre_vote.filter_map(|(_, message)| match message {
            QuorumMessage::PreVote { round } => Some(*round),
            _ => None,
        });
        let round = rounds.next().expect("a pre-vote");
        for from in members {
            let reply = QuorumMessage::PreVoteReply {
                round,
                highest: None,
                bound: None,
                can_lead: false,
            };
            self.hear(from, reply);
        }
    }

    /// Returns the members to which the renewals of the last round went.
    fn renewed(&self) -> Vec<u32> {
        let renewals = self
            .messages
            .iter()
            .filter_map(|(to, message)| match message {
                QuorumMessage::Renew { round, .. } => Some((*round, *to)),
                _ => None,
            });
        let renewals: Vec<(u64, u32)> = renewals.collect();
        let last = renewals.iter().map(|(round, _)| *round).max();
        let of_last = renewals.iter().filter(|(round, _)| Some(*round) == last);
        of_last.map(|(_, to)| *to).collect()
    }

    /// Answers this number of renewals at the store.
    fn with_store(&mut self, renewals: usize) {
        for _ in 0..renewals {
            let sent = self.requests.len();
            while self.requests.len() == sent {
                self.until(self.now + 100);
            }
            self.answer(Answer::Held(epoch(2_000)));
        }
    }

    /// Answers the last round of renewals for this member.
    fn acknowledge(&mut self, from: u32) {
        let renew = self.messages.iter().rev().find(|(to, _)| *to == from);
        let Some((_, QuorumMessage::Renew { epoch, round })) = renew else {
            panic!("no renewal was sent to {from}");
        };
        let (epoch, round) = (*epoch, *round);
        self.hear(from, QuorumMessage::RenewAck { epoch, round });
    }
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

#[test]
fn with_one_member_beside_the_store_a_grant_is_enough_and_no_member_gets_a_message() {
    let mut bench = Bench::new(3, 1);
    assert!(matches!(bench.requests[..], [(1, Request::Acquire { .. })]));
    bench.answer(Answer::Held(epoch(2_000)));
    assert!(bench.leads());
    assert_eq!(bench.events, [TermEvent::Began(epoch(2_000))]);
    for step in 1..1_000 {
        bench.until(step * 100);
        if matches!(bench.requests.last(), Some((_, Request::Renew(_)))) {
            bench.answer(Answer::Held(epoch(2_000)));
        }
        assert!(bench.leads(), "{step}");
    }
    assert_eq!(bench.messages, []);
    assert_eq!(
        bench.machine.node().carried_by(at(bench.now)),
        Some(QuorumKind::Store)
    );
}

#[test]
fn a_leader_that_loses_the_store_is_carried_by_all_members_and_takes_the_same_epoch_again() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Held(epoch(2_000)));
    for step in 1..1_000 {
        bench.until(step * 100);
        for member in [2, 3] {
            if bench.messages.iter().any(|(to, _)| *to == member) {
                bench.acknowledge(member);
            }
        }
        assert!(bench.leads(), "{step}");
    }
    assert_eq!(
        bench.machine.node().carried_by(at(bench.now)),
        Some(QuorumKind::Members)
    );
    bench.answer(Answer::Expired);
    assert!(bench.leads());
    let Some((
        _,
        Request::Resume {
            epoch: asked,
            without_store,
            ..
        },
    )) = bench.requests.last()
    else {
        panic!("{:?}", bench.requests.last());
    };
    assert_eq!(*asked, epoch(2_000));
    assert!(
        *without_store > Duration::from_secs(95),
        "{without_store:?}"
    );
    bench.answer(Answer::Held(epoch(2_000)));
    assert_eq!(
        bench.machine.node().carried_by(at(bench.now)),
        Some(QuorumKind::Store)
    );
    assert_eq!(bench.events, [TermEvent::Began(epoch(2_000))]);
}

#[test]
fn with_more_members_beside_the_store_all_members_follow_and_need_not_ask() {
    let mut bench = Bench::new(5, 2);
    bench.are_free(2..=5);
    bench.answer(Answer::Held(epoch(2_000)));
    assert!(!bench.leads());
    bench.hear(
        4,
        QuorumMessage::VoteGranted {
            epoch: epoch(2_000),
        },
    );
    assert!(bench.leads());
    assert_eq!(bench.renewed(), [2, 3, 4, 5]);
    for member in 2..=5 {
        bench.acknowledge(member);
    }
    bench.with_store(2);
    assert_eq!(bench.renewed(), [2, 3, 4, 5]);
}

#[test]
fn a_member_that_asks_for_votes_during_a_term_follows_the_leader_from_then_on() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Held(epoch(2_000)));
    bench.with_store(2);
    assert_eq!(bench.messages, []);
    bench.hear(3, QuorumMessage::PreVote { round: 1 });
    assert_eq!(bench.renewed(), [3]);
    bench.messages.clear();
    bench.with_store(2);
    assert_eq!(bench.renewed(), [3]);
    assert!(bench.messages.iter().all(|(to, _)| *to == 3));
}

#[test]
fn a_refusal_ends_a_term_in_order_only_if_too_few_voters_are_left() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Held(epoch(2_000)));
    bench.hear(3, QuorumMessage::PreVote { round: 1 });
    let refusal = QuorumMessage::VoteRejected {
        epoch: epoch(2_000),
        highest: Some(epoch(3_000)),
    };
    bench.hear(3, refusal);
    bench.with_store(4);
    // The store is silent for a little longer than a renew interval.
    bench.until(bench.now + 6_000);
    bench.hear(3, refusal);
    let cancels = |event: &TermEvent| matches!(event, TermEvent::Cancel(_));
    assert!(!bench.events.iter().any(cancels), "{:?}", bench.events);
    bench.until(bench.now + 2_000);
    bench.hear(3, refusal);
    let cancel = TermEvent::Cancel(EndReason::Superseded);
    assert!(bench.events.contains(&cancel), "{:?}", bench.events);
}

#[test]
fn a_member_that_cannot_promise_a_leader_knows_it_and_does_not_ask_before_its_next_renewal() {
    let mut bench = Bench::new(3, 1);
    bench.hear(
        2,
        QuorumMessage::RequestVote {
            epoch: epoch(5_000),
        },
    );
    bench.hear(
        2,
        QuorumMessage::Release {
            epoch: epoch(5_000),
            to: None,
        },
    );
    bench.until(8_000);
    bench.hear(
        3,
        QuorumMessage::Renew {
            epoch: epoch(4_000),
            round: 1,
        },
    );
    let refusal = QuorumMessage::VoteRejected {
        epoch: epoch(4_000),
        highest: Some(epoch(5_000)),
    };
    assert_eq!(bench.messages.last(), Some(&(3, refusal)));
    let leader = Some((NodeId(3), epoch(4_000)));
    assert_eq!(bench.machine.node().leader(), leader);
    let sent = bench.messages.len();
    bench.until(13_000);
    assert_eq!(
        (bench.messages.len(), bench.machine.node().leader()),
        (sent, leader)
    );
    // Without renewals it asks for votes itself.
    bench.until(20_000);
    assert!(bench.messages.len() > sent);
    assert_eq!(bench.machine.node().leader(), None);
}

#[test]
fn a_vote_that_did_not_reach_the_disk_in_time_asks_nobody_later() {
    let mut bench = Bench::new(5, 2);
    bench.are_free(2..=5);
    bench.disk_hangs = true;
    bench.answer(Answer::Held(epoch(2_000)));
    bench.until(3_000);
    bench.messages.clear();
    bench.disk_hangs = false;
    let written = JointMessage::Peers(PeerInput::Persisted);
    bench
        .machine
        .handle_message(at(bench.now), written, &mut bench.random);
    bench.drain();
    let asks = |message: &QuorumMessage| {
        matches!(
            message,
            QuorumMessage::RequestVote { .. } | QuorumMessage::Release { .. }
        )
    };
    assert!(
        !bench.messages.iter().any(|(_, message)| asks(message)),
        "{:?}",
        bench.messages
    );
}

#[test]
fn members_that_require_the_store_are_not_elected_without_it_and_their_terms_end_without_it() {
    let required = Quorums::fallback(3, 1).unwrap().requiring_store();
    let mut bench = Bench::with_quorums(3, required);
    bench.until(30_000);
    for _ in 0..20 {
        bench.are_free([2, 3]);
        bench.until(bench.now + 1_000);
    }
    assert!(
        !bench
            .messages
            .iter()
            .any(|(_, it)| matches!(it, QuorumMessage::RequestVote { .. }))
    );
    let mut bench = Bench::with_quorums(3, required);
    bench.answer(Answer::Held(epoch(2_000)));
    assert!(bench.leads());
    for _ in 0..150 {
        bench.until(bench.now + 100);
        for member in [2, 3] {
            if bench.messages.iter().any(|(to, _)| *to == member) {
                bench.acknowledge(member);
            }
        }
    }
    assert!(!bench.leads());
}

/// A store that keeps its promises never takes one back before it counts no more. A store that was
/// restored from a backup, or whose clock runs too fast, may do so.
#[test]
fn a_leader_stops_at_once_when_the_store_takes_its_promise_back() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Held(epoch(2_000)));
    bench.until(6_000);
    assert!(matches!(
        bench.requests.last(),
        Some((_, Request::Renew(_)))
    ));
    bench.answer(Answer::Superseded);
    assert!(!bench.leads());
}

#[test]
fn a_store_that_can_not_promise_the_epoch_any_more_does_not_count_as_silent() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Held(epoch(2_000)));
    for step in 1..100 {
        bench.until(step * 100);
        for member in [2, 3] {
            if bench.messages.iter().any(|(to, _)| *to == member) {
                bench.acknowledge(member);
            }
        }
    }
    assert!(bench.machine.store().silent_since(at(bench.now)).is_some());
    bench.answer(Answer::Superseded);
    assert_eq!(bench.machine.store().hold_state(), HoldState::Passed);
    bench.until(11_000);
    assert!(bench.leads());
    assert_eq!(bench.machine.store().silent_since(at(bench.now)), None);
}

#[test]
fn a_hand_over_without_a_term_has_no_effect_on_a_later_term() {
    let mut bench = Bench::new(3, 1);
    bench.machine.hand_over(at(0), NodeId(2).into());
    bench.answer(Answer::Held(epoch(2_000)));
    let now = at(bench.now);
    bench
        .machine
        .task_ended(now, TaskEnd::Returned, &mut bench.random);
    bench.drain();
    assert!(matches!(
        bench.requests.last(),
        Some((_, Request::Release { .. }))
    ));
}

#[test]
fn a_member_that_followed_a_leader_since_the_store_was_silent_asks_the_store_first() {
    let mut bench = Bench::new(3, 1);
    bench.answer(Answer::Unknown("no answer".into()));
    for step in 0..300 {
        bench.until(1_000 + step * 100);
        let (epoch, round) = (epoch(5_000), step);
        bench.hear(2, QuorumMessage::Renew { epoch, round });
    }
    // The store answers the withdrawal of the request.
    bench.answer(Answer::Superseded);
    bench.messages.clear();
    bench.requests.clear();
    // The leader is gone, and its promise ends.
    bench.until(31_000 + 15_500);
    assert!(
        matches!(bench.requests[..], [(_, Request::Acquire { .. })]),
        "{:?}",
        bench.requests
    );
    assert_eq!(bench.messages, []);
}

#[test]
fn after_an_outage_without_a_quorum_the_old_lease_is_released_before_the_member_asks_under_another_id()
 {
    let mut bench = Bench::new(3, 1);
    let Request::Acquire { lease_id: old, .. } = bench.requests[0].1 else {
        unreachable!()
    };
    bench.answer(Answer::Held(epoch(2_000)));
    // Neither the store nor the other members answer.
    bench.without_store_until(20_000);
    assert!(!bench.leads());
    let now = at(bench.now);
    bench
        .machine
        .task_ended(now, TaskEnd::Returned, &mut bench.random);
    bench.drain();
    bench.without_store_until(30_000);
    let ended = TermEvent::Ended(epoch(2_000), EndReason::RenewDeadline);
    assert_eq!(bench.events.last(), Some(&ended));
    let now = at(bench.now);
    bench.machine.campaign(now, &mut bench.random);
    bench.drain();
    bench.without_store_until(60_000);
    let release = Request::Release {
        lease_id: old,
        reason: Some(EndReason::RenewDeadline),
    };
    assert_eq!(bench.requests.last().unwrap().1, release);
    // The store answers again.
    let sent = bench.requests.len();
    while bench.requests.len() == sent {
        bench.until(bench.now + 10);
    }
    assert_eq!(bench.requests.last().unwrap().1, release);
    bench.answer(Answer::Released);
    while bench.requests.len() == sent + 1 {
        bench.until(bench.now + 10);
    }
    match bench.requests.last().unwrap().1 {
        Request::Acquire {
            lease_id,
            min_epoch,
            ..
        } => assert!(lease_id != old && min_epoch > Some(epoch(2_000))),
        ref other => panic!("{other:?}"),
    }
    bench.answer(Answer::Held(epoch(3_000)));
    assert_eq!(bench.events.last(), Some(&TermEvent::Began(epoch(3_000))));
}
