//! A candidate in a group of one member, with a store that the test simulates.

extern crate std;

use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::election::CampaignFailure;
use crate::lease::candidate::Request;

/// A candidate and its outputs. It is the only member of its group, so its peers elect it at once.
struct Bench {
    both: Joint,
    now: u64,
    random: SplitMix64,
    /// The newest request to the store.
    request: Option<(u64, Request)>,
    /// The term events of the candidate.
    said: Vec<TermEvent>,
    /// The reason of the store's refusal.
    refused: Option<String>,
}

impl Bench {
    fn new(wall: u64) -> Self {
        let node = node(1, 1, GroupGuarantee::Quorum, HardState::default(), 0, wall);
        let mut bench = Self {
            both: Joint::new(lease_candidate(), node),
            now: 0,
            random: SplitMix64::new(1),
            request: None,
            said: Vec::new(),
            refused: None,
        };
        // The member's incarnation is on disk before anything else happens.
        bench.act(|both, now, random| both.handle_timeout(now, random));
        bench.act(|both, now, random| both.campaign(now, random));
        bench
    }

    fn act(&mut self, act: impl FnOnce(&mut Joint, Instant, &mut SplitMix64)) {
        act(&mut self.both, at(self.now), &mut self.random);
        while let Some(output) = self.both.poll_output() {
            match output {
                Output::Effect(JointEffect::Store(LeaseEffect::Send {
                    attempt, request, ..
                })) => self.request = Some((attempt, request)),
                Output::Effect(JointEffect::Peers(PeerEffect::Persist(_))) => {
                    let written = JointMessage::Peers(PeerInput::Persisted);
                    let now = at(self.now);
                    self.both.handle_message(now, written, &mut self.random);
                }
                Output::Term(TermEvent::Failed(CampaignFailure::Refused(why))) => {
                    self.refused = Some(why);
                }
                Output::Effect(_) | Output::Term(TermEvent::LeaderSeen(_)) => {}
                Output::Term(event) => self.said.push(event),
            }
        }
    }

    fn go(&mut self, pause: u64) {
        for _ in 0..pause / 10 {
            self.now += 10;
            self.act(|both, now, random| both.handle_timeout(now, random));
        }
    }

    /// Returns the epoch in the request to the store.
    fn asked(&mut self) -> Epoch {
        match self.request {
            Some((_, Request::Acquire { min_epoch, .. })) => min_epoch.unwrap(),
            ref other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, answer: Answer) {
        let (attempt, _) = self.request.take().unwrap();
        self.act(|both, now, random| {
            both.handle_message(now, JointMessage::Store(attempt, answer), random);
        });
    }

    /// Lets time pass while the store does not answer.
    fn go_without_store(&mut self, pause: u64) {
        for _ in 0..pause / 100 {
            if self.request.is_some() {
                self.answer(Answer::Unknown("away".into()));
            }
            self.go(100);
        }
    }

    /// Waits for the next request to the store.
    fn next_request(&mut self) -> Request {
        while self.request.is_none() {
            self.go(10);
        }
        self.request.clone().unwrap().1
    }

    fn standing(&self) -> Standing {
        self.both.standing(at(self.now))
    }
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

#[test]
fn a_term_begins_when_the_store_grants_the_epoch_that_the_peers_have_elected() {
    let mut bench = Bench::new(1_000);
    let elected = bench.asked();
    assert_eq!(
        (elected, bench.standing()),
        (epoch(1_000), Standing::Campaigning)
    );
    assert_eq!(bench.said, []);
    bench.answer(Answer::Held(elected));
    assert_eq!(bench.said, [TermEvent::Began(elected)]);
    assert!(matches!(bench.standing(), Standing::Leading { epoch, .. } if epoch == elected));
}

#[test]
fn a_lease_that_has_had_greater_epochs_is_released_and_the_peers_elect_above_them() {
    let mut bench = Bench::new(1_000);
    bench.answer(Answer::Held(epoch(7_000)));
    assert_eq!(bench.said, []);
    assert!(matches!(bench.request, Some((_, Request::Release { .. }))));
    bench.answer(Answer::Released);
    bench.go(500);
    assert_eq!(bench.asked(), epoch(7_001));
    bench.answer(Answer::Held(epoch(7_001)));
    assert_eq!(bench.said, [TermEvent::Began(epoch(7_001))]);
}

#[test]
fn while_another_candidate_holds_the_lease_it_waits_and_is_elected_under_a_greater_epoch() {
    let mut bench = Bench::new(1_000);
    let held = |number| Answer::HeldByAnother(Some(("worker".parse().unwrap(), epoch(number))));
    bench.answer(held(7_000));
    // The candidate is elected again, under an epoch above that of the holder, and keeps that
    // epoch.
    while !matches!(bench.request, Some((_, Request::Acquire { .. }))) {
        if bench.request.is_some() {
            bench.answer(Answer::Released);
        }
        bench.go(10);
    }
    for _ in 0..20 {
        assert_eq!(bench.asked(), epoch(7_001));
        bench.answer(held(7_000));
        bench.go(1_000);
    }
    assert_eq!(bench.said, []);
}

#[test]
fn without_a_store_the_peers_half_is_released_and_the_candidate_pauses() {
    let mut bench = Bench::new(1_000);
    bench.answer(Answer::Unknown("no answer".into()));
    let deadline = timings().term().renew_deadline().as_millis() as u64;
    bench.go(deadline);
    assert_eq!(bench.both.node().standing(at(bench.now)), Standing::Idle);
    // Other members learn that this member is not a candidate.
    assert!(!bench.both.node().is_candidate(at(bench.now)));
    bench.go(2_000);
    assert!(!bench.both.node().is_candidate(at(bench.now)));
    // The candidate competes again, after the store has answered the withdrawal.
    assert!(matches!(bench.next_request(), Request::Release { .. }));
    bench.answer(Answer::Superseded);
    bench.next_request();
    let again = bench.asked();
    bench.answer(Answer::Held(again));
    assert_eq!(bench.said, [TermEvent::Began(again)]);
}

#[test]
fn a_term_ends_with_the_half_that_ends_first_and_both_are_given_back_after_the_task() {
    let mut bench = Bench::new(1_000);
    let led = bench.asked();
    bench.answer(Answer::Held(led));
    bench.said.clear();
    // The peers' half is renewed by its only member; the store's half is not renewed.
    let Standing::Leading { until, .. } = bench.standing() else {
        panic!("the candidate does not lead");
    };
    assert_eq!(until, at(0) + timings().term().renew_deadline());
    assert_eq!(
        bench.both.stop_by(),
        Some(at(0) + timings().term().hard_stop())
    );
    bench.go(2_500);
    let reason = EndReason::RenewDeadline;
    assert!(bench.said.contains(&TermEvent::Cancel(reason)));
    assert_eq!(bench.standing(), Standing::Ending);
    // The candidate keeps both halves until the task is gone.
    assert!(matches!(
        bench.both.node().standing(at(bench.now)),
        Standing::Leading { .. }
    ));
    bench.act(|both, now, random| both.task_ended(now, TaskEnd::Aborted, random));
    while bench.request.is_some() {
        bench.answer(Answer::Released);
    }
    assert_eq!(bench.said.last(), Some(&TermEvent::Ended(led, reason)));
    assert_eq!(bench.standing(), Standing::Idle);
}

#[test]
fn a_resigned_leader_keeps_both_halves_until_the_task_is_gone() {
    let mut bench = Bench::new(1_000);
    let led = bench.asked();
    bench.answer(Answer::Held(led));
    bench.act(|both, now, random| both.resign(now, EndReason::ShutDown, random));
    assert!(matches!(bench.standing(), Standing::Leading { .. }));
    bench.act(|both, now, random| both.task_ended(now, TaskEnd::Returned, random));
    assert!(matches!(bench.request, Some((_, Request::Release { .. }))));
    bench.answer(Answer::Released);
    let said = [
        TermEvent::Began(led),
        TermEvent::Cancel(EndReason::ShutDown),
        TermEvent::Ended(led, EndReason::ShutDown),
    ];
    assert_eq!(bench.said, said);
}

#[test]
fn a_campaign_that_is_given_up_gives_both_halves_back() {
    let mut bench = Bench::new(1_000);
    bench.act(|both, now, random| both.resign(now, EndReason::Resigned, random));
    assert_eq!(bench.both.node().standing(at(bench.now)), Standing::Idle);
    assert!(matches!(bench.request, Some((_, Request::Release { .. }))));
    bench.answer(Answer::Released);
    assert_eq!(bench.said, [TermEvent::Withdrawn]);
    assert_eq!(bench.standing(), Standing::Idle);
}

#[test]
fn a_store_that_refuses_it_ends_the_campaign() {
    let mut bench = Bench::new(1_000);
    bench.answer(Answer::Refused("no".into()));
    assert_eq!(
        (bench.refused.as_deref(), &bench.said[..]),
        (Some("no"), &[][..])
    );
    assert_eq!(bench.standing(), Standing::Idle);
    assert!(!bench.both.node().is_candidate(at(bench.now)));
}

#[test]
fn a_hand_over_names_the_successor_in_both_places() {
    let mut bench = Bench::new(1_000);
    let led = bench.asked();
    bench.answer(Answer::Held(led));
    bench.act(|both, now, _| both.hand_over(now, NodeId(2).into()));
    assert_eq!(
        bench.said.last(),
        Some(&TermEvent::Cancel(EndReason::HandedOver))
    );
    bench.act(|both, now, random| both.task_ended(now, TaskEnd::Returned, random));
    let Some((_, Request::HandOver { to, .. })) = &bench.request else {
        panic!("{:?}", bench.request);
    };
    assert_eq!(to.as_str(), "2");
}

#[test]
fn after_an_outage_of_the_store_the_old_lease_is_released_and_the_next_term_has_another_id_and_epoch()
 {
    let mut bench = Bench::new(1_000);
    let first = bench.asked();
    let Some((_, Request::Acquire { lease_id: old, .. })) = bench.request else {
        unreachable!()
    };
    bench.answer(Answer::Held(first));
    bench.go_without_store(2_500);
    let reason = EndReason::RenewDeadline;
    assert_eq!(bench.said.last(), Some(&TermEvent::Cancel(reason)));
    bench.act(|both, now, random| both.task_ended(now, TaskEnd::Returned, random));
    bench.go_without_store(1_500);
    assert_eq!(bench.said.last(), Some(&TermEvent::Ended(first, reason)));
    bench.act(|both, now, random| both.campaign(now, random));
    bench.go_without_store(500);
    let release = Request::Release {
        lease_id: old,
        reason: Some(reason),
    };
    assert_eq!(bench.next_request(), release);
    bench.answer(Answer::Released);
    let Request::Acquire { lease_id, .. } = bench.next_request() else {
        panic!("{:?}", bench.request)
    };
    let next = bench.asked();
    assert!(lease_id != old && next > first);
    bench.answer(Answer::Held(next));
    assert_eq!(bench.said.last(), Some(&TermEvent::Began(next)));
}
