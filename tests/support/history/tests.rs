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
