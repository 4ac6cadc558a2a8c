//! Made-up histories: valid ones pass, and every rule finds its violation.

use super::*;

const SECOND: LeaseDuration = LeaseDuration::Fixed(Duration::from_secs(1));

fn at(ms: u64) -> Instant {
    Instant::default() + Duration::from_millis(ms)
}

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

fn call(what: What, sent: u64, answer: Option<(u64, u64, State, Option<u64>)>) -> Call {
    let answer = answer.map(|(received, revision, state, epoch)| {
        // Epochs and holders belong together: the holder of epoch 10 is c10.
        let holder = epoch.map(|epoch| format!("c{epoch}"));
        let seen = Seen {
            revision,
            state,
            holder,
            epoch,
        };
        (at(received), Answer::Done(seen))
    });
    Call {
        lease: "a/b".into(),
        what,
        sent: at(sent),
        answer,
    }
}

fn acquire(number: u64, epoch: u64, sent: u64, received: u64, revision: u64) -> Call {
    let what = What::Acquire {
        lease_id: id(number),
        duration: SECOND,
        holder: format!("c{epoch}").parse().unwrap(),
    };
    let answer = (received, revision, State::Leased, Some(epoch));
    call(what, sent, Some(answer))
}

fn renew(number: u64, epoch: u64, sent: u64, received: u64, revision: u64) -> Call {
    let what = What::Renew {
        lease_id: id(number),
        duration: None,
    };
    let answer = (received, revision, State::Leased, Some(epoch));
    call(what, sent, Some(answer))
}

fn release(number: u64, sent: u64, answer: Option<(u64, u64)>) -> Call {
    let what = What::Release {
        lease_id: id(number),
    };
    let answer = answer.map(|(received, revision)| (received, revision, State::Available, None));
    call(what, sent, answer)
}

fn read(epoch: Option<u64>, state: State, sent: u64, received: u64, revision: u64) -> Call {
    call(What::Read, sent, Some((received, revision, state, epoch)))
}

fn violation(calls: &[Call]) -> Option<Violation> {
    check(calls).err().map(|(_, violation)| violation)
}

#[test]
fn consecutive_terms_are_possible() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        renew(1, 10, 500, 510, 1),
        // This client waits from 100 on and is granted the lease when the first term has expired.
        acquire(2, 11, 100, 1_520, 3),
        read(Some(11), State::Leased, 1_600, 1_610, 3),
        release(2, 1_700, Some((1_710, 4))),
        acquire(3, 12, 1_650, 1_705, 5),
    ];
    assert_eq!(violation(&calls), None);
}

#[test]
fn a_request_without_an_answer_may_have_been_a_release() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        release(1, 100, None),
        acquire(2, 11, 150, 160, 3),
    ];
    assert_eq!(violation(&calls), None);
}

#[test]
fn an_id_that_the_store_has_forgotten_begins_another_term() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        acquire(2, 11, 1_100, 1_110, 3),
        acquire(1, 12, 700_000, 700_010, 5),
    ];
    assert_eq!(violation(&calls), None);
}

#[test]
fn a_repeated_acquire_is_one_term() {
    let lost = Call {
        answer: None,
        ..acquire(1, 10, 0, 0, 1)
    };
    let calls = [
        lost,
        acquire(1, 10, 300, 310, 1),
        acquire(2, 11, 20, 1_320, 3),
    ];
    assert_eq!(violation(&calls), None);
}

#[test]
fn a_grant_before_the_expiry_is_found_by_the_rules() {
    // By the clocks of clients, no client certainly holds the lease at 900. By the order of
    // revisions, a read at 400 shows the first holder, and the grant came after that.
    let calls = [
        read(None, State::Available, 400, 410, 1),
        acquire(1, 10, 0, 450, 2),
        acquire(2, 11, 0, 1_390, 3),
    ];
    let found = violation(&calls);
    assert!(
        matches!(found, Some(Violation::TwoHolders { epoch: 11, .. })),
        "{found:?}"
    );
}

#[test]
fn a_grant_during_a_certain_term_is_found_for_any_revision() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        renew(1, 10, 500, 510, 1),
        acquire(2, 11, 20, 1_400, 3),
    ];
    let found = violation(&calls);
    let expected = Violation::GrantedInsideHold {
        epoch: 11,
        held: 10,
    };
    assert_eq!(found, Some(expected));
}

#[test]
fn a_restart_that_forgets_a_lease_is_found() {
    let calls = [acquire(1, 10, 0, 10, 1), acquire(2, 11, 200, 210, 2)];
    assert!(matches!(
        violation(&calls),
        Some(Violation::GrantedInsideHold { .. })
    ));
}

#[test]
fn an_epoch_that_is_used_again_is_found() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        release(1, 100, Some((110, 2))),
        acquire(2, 10, 200, 210, 3),
    ];
    assert_eq!(violation(&calls), Some(Violation::EpochTwice { epoch: 10 }));
}

#[test]
fn epochs_that_do_not_increase_are_found() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        release(1, 100, Some((110, 2))),
        acquire(2, 9, 200, 210, 3),
    ];
    let expected = Violation::EpochBackwards {
        epoch: 9,
        before: 10,
    };
    assert_eq!(violation(&calls), Some(expected));
}

#[test]
fn a_read_of_an_older_state_is_found() {
    let calls = [
        acquire(1, 10, 0, 10, 2),
        read(None, State::Available, 20, 30, 1),
    ];
    let expected = Violation::WentBack {
        revision: 1,
        known: 2,
    };
    assert_eq!(violation(&calls), Some(expected));
}

#[test]
fn two_contents_of_one_revision_are_found() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        read(Some(11), State::Leased, 20, 30, 1),
    ];
    assert_eq!(
        violation(&calls),
        Some(Violation::TwoContents { revision: 1 })
    );
}

#[test]
fn a_term_is_shown_as_ended_under_its_revision_once_its_time_is_over() {
    let seen_ended = |received| {
        [
            acquire(1, 10, 0, 10, 1),
            renew(1, 10, 500, 510, 1),
            read(None, State::Expired, 1_450, received, 1),
        ]
    };
    assert_eq!(violation(&seen_ended(1_500)), None);
    let too_early = Some(Violation::TwoContents { revision: 1 });
    assert_eq!(violation(&seen_ended(1_499)), too_early);
    let available_and_expired = [
        release(1, 0, Some((10, 1))),
        read(None, State::Expired, 2_000, 2_010, 1),
    ];
    assert_eq!(violation(&available_and_expired), too_early);
}

#[test]
fn a_renewal_after_the_end_of_its_term_is_found() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        release(1, 100, Some((110, 2))),
        acquire(2, 11, 200, 210, 3),
        renew(1, 11, 220, 230, 3),
    ];
    let expected = Violation::RenewedAnother { epoch: Some(11) };
    assert_eq!(violation(&calls), Some(expected));
}

#[test]
fn a_grant_to_a_retired_id_is_found() {
    let calls = [
        acquire(1, 10, 0, 10, 1),
        release(1, 100, Some((110, 2))),
        acquire(1, 11, 200, 210, 3),
    ];
    let found = violation(&calls);
    assert!(
        matches!(found, Some(Violation::TwoHolders { epoch: 11, .. })),
        "{found:?}"
    );
}

#[test]
fn a_term_without_an_answer_ends_a_reservation() {
    let hand_over = What::HandOver {
        lease_id: id(1),
        to: "c11".parse().unwrap(),
        within: Duration::from_millis(500),
    };
    let lost = Call {
        answer: None,
        ..acquire(2, 11, 20, 30, 3)
    };
    let first = acquire(1, 10, 0, 10, 1);
    let handed_over = call(hand_over, 100, Some((110, 2, State::Available, None)));
    let read = call(What::Read, 120, Some((130, 3, State::Leased, Some(11))));
    let next = |revision| acquire(3, 12, 140, 150, revision);
    let with_a_read = [&first, &lost, &handed_over, &read, &next(5)].map(Clone::clone);
    assert_eq!(violation(&with_a_read), None);
    // No client knows the term, but there are revisions for its begin and its end.
    let unseen = [&first, &lost, &handed_over, &next(5)].map(Clone::clone);
    assert_eq!(violation(&unseen), None);
    // In the other cases, the next candidate took the lease of another one.
    let late = Call {
        sent: at(160),
        ..lost.clone()
    };
    let wrong = [
        [&first, &lost, &handed_over, &next(4)]
            .map(Clone::clone)
            .to_vec(),
        [&first, &late, &handed_over, &next(5)]
            .map(Clone::clone)
            .to_vec(),
        [&first, &handed_over, &next(5)].map(Clone::clone).to_vec(),
    ];
    for calls in wrong {
        let found = violation(&calls);
        assert!(
            matches!(found, Some(Violation::TwoHolders { epoch: 12, .. })),
            "{found:?}"
        );
    }
}

#[test]
fn leases_are_checked_separately() {
    let other = Call {
        lease: "a/c".into(),
        ..acquire(2, 10, 0, 10, 2)
    };
    assert_eq!(violation(&[acquire(1, 10, 0, 10, 1), other]), None);
}

/// The same call with a refusal.
fn refused(call: Call) -> Call {
    let answer = call.answer.map(|(received, _)| (received, Answer::Refused));
    Call { answer, ..call }
}

#[test]
fn a_holder_that_is_refused_is_found() {
    let held = [acquire(1, 10, 0, 10, 1), renew(1, 10, 500, 510, 1)];
    for call in [renew(1, 0, 900, 950, 0), acquire(1, 0, 900, 950, 0)] {
        let calls = [&held[..], &[refused(call)]].concat();
        let expected = Violation::RefusedHolder { epoch: 10 };
        assert_eq!(violation(&calls), Some(expected));
    }
    // The lease may have expired, and a released lease is no longer held.
    let late = refused(renew(1, 0, 1_490, 1_510, 0));
    assert_eq!(violation(&[&held[..], &[late]].concat()), None);
    let lost = release(1, 600, None);
    let after = refused(renew(1, 0, 700, 710, 0));
    assert_eq!(violation(&[&held[..], &[lost, after]].concat()), None);
}

#[test]
fn a_term_under_another_name_is_found() {
    let mut seen = read(Some(10), State::Leased, 20, 30, 2);
    if let Some((_, Answer::Done(seen))) = &mut seen.answer {
        seen.holder = Some("c11".into());
    }
    let expected = Violation::WrongHolder { epoch: 10 };
    let calls = [acquire(1, 10, 0, 10, 1), seen];
    assert_eq!(violation(&calls), Some(expected));
}

#[test]
fn a_grant_that_ignores_a_hand_over_is_found() {
    let hand_over = |to: &str| {
        let what = What::HandOver {
            lease_id: id(1),
            to: to.parse().unwrap(),
            within: Duration::from_secs(1),
        };
        call(what, 100, Some((110, 2, State::Available, None)))
    };
    let calls = |to| {
        [
            acquire(1, 10, 0, 10, 1),
            hand_over(to),
            acquire(2, 11, 200, 210, 3),
        ]
    };
    assert_eq!(violation(&calls("c11")), None);
    let found = violation(&calls("c12"));
    assert!(
        matches!(found, Some(Violation::TwoHolders { epoch: 11, .. })),
        "{found:?}"
    );
}

#[test]
fn a_break_may_have_ended_a_reservation() {
    let hand_over = What::HandOver {
        lease_id: id(1),
        to: "c12".parse().unwrap(),
        within: Duration::from_secs(1),
    };
    let handed_over = call(hand_over, 100, Some((110, 2, State::Available, None)));
    for (answer, revision) in [(None, 3), (Some((130, 3, State::Broken, None)), 4)] {
        let calls = [
            acquire(1, 10, 0, 10, 1),
            handed_over.clone(),
            call(What::Break, 120, answer),
            acquire(2, 11, 200, 210, revision),
        ];
        assert_eq!(violation(&calls), None);
    }
}

#[test]
fn a_term_continues_under_a_changed_id_and_the_old_id_is_retired() {
    let what = What::Change {
        lease_id: id(1),
        proposed: id(2),
    };
    let changed = call(what, 100, Some((110, 2, State::Leased, Some(10))));
    let held = [acquire(1, 10, 0, 10, 1), changed, renew(2, 10, 200, 210, 2)];
    let old = refused(renew(1, 10, 300, 310, 0));
    assert_eq!(violation(&[&held[..], &[old]].concat()), None);
    let expected = Violation::RenewedAnother { epoch: Some(10) };
    let old = renew(1, 10, 300, 310, 2);
    assert_eq!(violation(&[&held[..], &[old]].concat()), Some(expected));
}

#[test]
fn an_unanswered_renewal_for_a_shorter_time_counts_under_the_next_lease_id_too() {
    let history = |renewal: u64| {
        let shorter = What::Renew {
            lease_id: id(1),
            duration: Some(LeaseDuration::Fixed(Duration::from_millis(renewal))),
        };
        let change = What::Change {
            lease_id: id(1),
            proposed: id(2),
        };
        [
            acquire(1, 10, 0, 10, 1),
            // It has an effect, and its answer is lost.
            call(shorter, 100, None),
            renew(1, 10, 200, 210, 2),
            call(change, 300, Some((310, 3, State::Leased, Some(10)))),
            acquire(3, 11, 400, 850, 5),
        ]
    };
    assert_eq!(violation(&history(600)), None);
    // The term lasts until 1,200 if no renewal made it shorter, and until 1,000 by this one.
    let early = Violation::TwoHolders {
        epoch: 11,
        why: "the lease is held by c10".into(),
    };
    assert_eq!(violation(&history(900)), Some(early));
}
