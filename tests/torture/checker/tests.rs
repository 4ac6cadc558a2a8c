//! Made-up histories: a valid one passes, and each check finds its violation.

use tenure_core::lease::{LeaseId, TermEnd};
use tenure_core::wire::{Code, EventKind, LeaseEvent, LeaseList, Problem};

use super::*;
use crate::history::{Removal, Stream};

fn at(ms: u64) -> Instant {
    Instant::default() + Duration::from_millis(ms)
}

const fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

/// The view of a lease that c1 holds under epoch 1 (and so on) with this remaining time; epoch 0
/// means that it is free.
fn view(epoch: u64, left: u64, revision: u64) -> LeaseView {
    let is_held = epoch > 0;
    let state = if is_held {
        State::Leased
    } else {
        State::Available
    };
    let mut view = LeaseView::new("a", "b", state);
    view.holder = is_held.then(|| format!("c{epoch}"));
    view.epoch = is_held.then_some(epoch);
    view.remaining_ms = is_held.then_some(left);
    view.revision = revision;
    view
}

fn op(holder: Option<u64>, ask: Ask, sent: u64, outcome: Outcome) -> Op {
    Op {
        client: "c".into(),
        principal: "p",
        by_session: false,
        connection: 0,
        lease: if ask == Ask::List { "" } else { "b" }.into(),
        holder: holder.map(|holder| format!("c{holder}")),
        ask,
        sent: at(sent),
        outcome,
    }
}

fn answered(ms: u64, answer: Answer) -> Outcome {
    Outcome::Answered { at: at(ms), answer }
}

fn shown(ms: u64, view: LeaseView) -> Outcome {
    answered(ms, Answer::View(Box::new(view)))
}

fn refused(ms: u64, code: Code) -> Outcome {
    answered(ms, Answer::Refused(Box::new(Problem::new(code, "no"))))
}

fn lost(ms: u64) -> Outcome {
    Outcome::Unknown {
        at: at(ms),
        why: "no answer in time",
    }
}

const fn asks(number: u64, wait_ms: u64) -> Ask {
    Ask::Acquire {
        id: id(number),
        duration_ms: 1_000,
        wait_ms,
        lock_delay_ms: 0,
        min_epoch: None,
    }
}

/// A grant to c1 under epoch 1 (and so on) for a second.
fn acquire(epoch: u64, sent: u64, ms: u64, revision: u64) -> Op {
    op(
        Some(epoch),
        asks(epoch, 0),
        sent,
        shown(ms, view(epoch, 1_000, revision)),
    )
}

fn renew(epoch: u64, sent: u64, outcome: Outcome) -> Op {
    let ask = Ask::Renew {
        id: id(epoch),
        duration_ms: None,
    };
    op(Some(epoch), ask, sent, outcome)
}

fn release(epoch: u64, sent: u64, ms: u64, revision: u64) -> Op {
    let ask = Ask::Release { id: id(epoch) };
    op(Some(epoch), ask, sent, shown(ms, view(0, 0, revision)))
}

fn read(sent: u64, ms: u64, view: LeaseView) -> Op {
    op(None, Ask::View, sent, shown(ms, view))
}

fn term(epoch: u64, end: Option<TermEnd>, ended_at: u64) -> TermView {
    let mut term = TermView::new(epoch, format!("c{epoch}"));
    term.ended_at = end.map(|_| ended_at.to_string());
    term.end = end;
    term
}

fn terms(sent: u64, ms: u64, terms: &[TermView]) -> Op {
    op(
        None,
        Ask::Terms,
        sent,
        answered(ms, Answer::Terms(terms.to_vec())),
    )
}

fn event(kind: EventKind, epoch: u64, revision: u64) -> Received {
    Received::Event {
        kind,
        id: Some(revision),
        event: Box::new(LeaseEvent::new(view(epoch, 1_000, revision))),
        has_lease_id: false,
    }
}

/// One event per millisecond, starting at `begin`.
fn stream(begin: u64, received: Vec<Received>) -> Stream {
    let times = (begin..).map(at);
    Stream {
        client: "w".into(),
        principal: "p",
        lease: None,
        renewed: true,
        received: times.zip(received).collect(),
    }
}

fn with(ops: Vec<Op>, streams: Vec<Stream>) -> History {
    History {
        ops,
        streams,
        ..History::default()
    }
}

/// The checks that find something.
fn found_in(history: &History) -> Vec<&'static str> {
    let mut found: Vec<_> = check(history).iter().map(|one| one.invariant).collect();
    found.dedup();
    found
}

#[track_caller]
fn finds(invariant: &str, ops: Vec<Op>) {
    let found = found_in(&with(ops, Vec::new()));
    assert!(found.contains(&invariant), "{found:?}");
}

#[track_caller]
fn is_valid(ops: Vec<Op>) {
    let violations = check(&with(ops, Vec::new()));
    assert!(violations.is_empty(), "{violations:?}");
}

#[test]
fn consecutive_terms_are_valid() {
    let ended = term(1, Some(TermEnd::Released), 5);
    let ops = vec![
        acquire(1, 0, 10, 5),
        renew(1, 500, shown(510, view(1, 1_000, 5))),
        release(1, 900, 910, 6),
        acquire(2, 905, 915, 7),
        read(920, 930, view(2, 990, 7)),
        terms(940, 950, &[term(2, None, 0), ended.clone()]),
        // The lease expires while another client waits for it.
        op(
            Some(3),
            asks(3, 8_000),
            930,
            shown(2_000, view(3, 1_000, 9)),
        ),
        terms(
            2_010,
            2_020,
            &[term(3, None, 0), term(2, Some(TermEnd::Expired), 9), ended],
        ),
    ];
    let answers = vec![
        Received::Opened(None, at(2_000)),
        Received::Reset(4),
        event(EventKind::Granted, 1, 5),
        event(EventKind::Released, 0, 6),
        event(EventKind::Granted, 2, 7),
        event(EventKind::Expired, 0, 8),
        Received::Opened(Some(8), at(2_000)),
        event(EventKind::Granted, 3, 9),
        Received::End,
    ];
    let violations = check(&with(ops, vec![stream(2_100, answers)]));
    assert!(violations.is_empty(), "{violations:?}");
}

/// The client of epoch 1 waited over one connection, closed it, and got its answer over another
/// one. Then the store takes the lease away because the first connection is closed.
#[test]
fn a_grant_during_the_term_of_another_holder_is_found() {
    let ops = |again| {
        vec![
            op(Some(1), asks(1, 8_000), 0, lost(300)),
            op(Some(1), asks(1, 8_000), 300, again),
            op(
                Some(2),
                asks(2, 8_000),
                100,
                shown(1_206, view(2, 1_000, 8)),
            ),
        ]
    };
    finds("exclusion", ops(shown(1_205, view(1, 1_000, 6))));
    // The client has no answer.
    is_valid(ops(lost(1_205)));
}

#[test]
fn a_term_that_ends_early_is_found_even_without_another_grant() {
    finds(
        "exclusion",
        vec![acquire(1, 0, 10, 5), read(500, 510, view(0, 0, 6))],
    );
    is_valid(vec![acquire(1, 0, 10, 5), read(990, 1_010, view(0, 0, 6))]);
    let ended = term(1, Some(TermEnd::Expired), 9);
    finds(
        "exclusion",
        vec![acquire(1, 0, 10, 5), terms(500, 510, &[ended])],
    );
}

#[test]
fn a_release_a_break_or_a_shorter_renewal_explains_an_early_end() {
    let shorter = Ask::Renew {
        id: id(1),
        duration_ms: Some(200),
    };
    let end = Ask::Break { period_ms: Some(0) };
    for cause in [
        op(Some(1), Ask::Release { id: id(1) }, 100, lost(150)),
        op(Some(1), shorter, 100, lost(150)),
        op(None, end, 100, lost(150)),
    ] {
        let next = op(Some(2), asks(2, 500), 120, shown(410, view(2, 1_000, 8)));
        is_valid(vec![acquire(1, 0, 10, 5), cause, next]);
    }
    // A release by another holder, or a refused one, does not.
    let others = op(Some(3), Ask::Release { id: id(3) }, 100, lost(150));
    finds(
        "exclusion",
        vec![acquire(1, 0, 10, 5), others, acquire(2, 200, 210, 8)],
    );
    let refused = op(
        Some(1),
        Ask::Release { id: id(7) },
        100,
        refused(110, Code::LeaseIdMismatch),
    );
    finds(
        "exclusion",
        vec![acquire(1, 0, 10, 5), refused, acquire(2, 200, 210, 8)],
    );
}

#[test]
fn a_refusal_of_the_holder_during_its_term_is_found() {
    let no = |sent, ms| renew(1, sent, refused(ms, Code::LeaseIdMismatch));
    finds("holder", vec![acquire(1, 0, 10, 5), no(500, 510)]);
    is_valid(vec![acquire(1, 0, 10, 5), no(980, 1_010)]);
    // The holder has another id since.
    let change = Ask::Change {
        id: id(1),
        proposed: id(9),
    };
    let changed = op(Some(1), change, 100, shown(110, view(1, 890, 6)));
    is_valid(vec![acquire(1, 0, 10, 5), changed, no(500, 510)]);
}

#[test]
fn an_epoch_that_decreases_or_has_two_holders_is_found() {
    finds(
        "epochs",
        vec![acquire(2, 0, 10, 5), read(2_000, 2_010, view(1, 100, 9))],
    );
    let mut other = view(1, 900, 5);
    other.holder = Some("c7".into());
    finds("epochs", vec![acquire(1, 0, 10, 5), read(100, 110, other)]);
    let verified = Answer::Verified {
        current: false,
        epoch: Some(1),
    };
    let verify = op(
        None,
        Ask::Verify { epoch: 1 },
        2_000,
        answered(2_010, verified),
    );
    finds("epochs", vec![acquire(2, 0, 10, 5), verify]);
}

#[test]
fn a_lease_id_that_is_granted_twice_is_found() {
    let mut again = view(2, 1_000, 8);
    again.holder = Some("c1".into());
    let delete = op(None, Ask::Delete, 120, answered(130, Answer::Deleted));
    let ops = vec![
        acquire(1, 0, 10, 5),
        release(1, 100, 110, 6),
        delete,
        op(Some(1), asks(1, 0), 200, shown(210, again)),
    ];
    finds("ids", ops);
}

#[test]
fn a_revision_that_decreases_or_has_two_contents_is_found() {
    let ops = vec![acquire(1, 0, 10, 5), read(20, 30, view(1, 900, 4))];
    finds("revisions", ops);
    let ops = vec![release(1, 0, 10, 5), read(2, 12, view(2, 900, 5))];
    finds("revisions", ops);
}

#[test]
fn a_history_that_lacks_a_term_or_has_it_twice_is_found() {
    let ended = || term(1, Some(TermEnd::Released), 5);
    let running = || term(2, None, 0);
    let answers = |list: &[TermView]| {
        vec![
            acquire(1, 0, 10, 5),
            release(1, 20, 30, 6),
            acquire(2, 40, 50, 7),
            terms(60, 70, list),
        ]
    };
    is_valid(answers(&[running(), ended()]));
    finds("terms", answers(&[running()]));
    finds("terms", answers(&[running(), ended(), ended()]));
    finds("terms", answers(&[ended(), running()]));
    // The holder itself ended the term.
    finds(
        "terms",
        answers(&[running(), term(1, Some(TermEnd::Broken), 5)]),
    );
}

#[test]
fn a_history_that_changes_an_end_is_found() {
    let ended = || term(1, Some(TermEnd::Expired), 1_000);
    let first = || vec![acquire(1, 0, 10, 5), terms(1_100, 1_110, &[ended()])];
    let then = |op| first().into_iter().chain([op]).collect();
    is_valid(then(terms(1_200, 1_210, &[ended()])));
    finds("terms", then(terms(1_200, 1_210, &[term(1, None, 0)])));
    finds(
        "terms",
        then(terms(
            1_200,
            1_210,
            &[term(1, Some(TermEnd::Expired), 1_001)],
        )),
    );
    finds("terms", then(terms(1_200, 1_210, &[])));
    finds(
        "terms",
        then(renew(1, 1_200, shown(1_210, view(1, 1_000, 5)))),
    );
}

#[test]
fn a_lost_lease_is_found() {
    let gone = || op(None, Ask::View, 2_000, refused(2_010, Code::UnknownLease));
    let listed = Answer::List(LeaseList {
        leases: Vec::new(),
        next: None,
    });
    finds("lost", vec![acquire(1, 0, 10, 5), gone()]);
    finds(
        "lost",
        vec![
            acquire(1, 0, 10, 5),
            op(None, Ask::List, 2_000, answered(2_010, listed)),
        ],
    );
    let delete = op(None, Ask::Delete, 1_500, lost(1_510));
    is_valid(vec![acquire(1, 0, 10, 5), delete, gone()]);
}

#[test]
fn an_answer_against_the_rules_of_leases_is_found() {
    let release = op(
        Some(9),
        Ask::Release { id: id(9) },
        100,
        shown(110, view(0, 0, 6)),
    );
    finds(
        "rules",
        vec![acquire(1, 0, 10, 5), release, acquire(2, 120, 130, 7)],
    );
}

#[test]
fn an_answer_outside_the_api_is_found() {
    let unexpected = Answer::Unexpected {
        status: 200,
        body: "[]".into(),
    };
    finds(
        "answers",
        vec![op(None, Ask::View, 0, answered(10, unexpected))],
    );
    finds(
        "answers",
        vec![op(None, Ask::View, 0, refused(10, Code::Internal))],
    );
}

/// A history in which the principal of all clients has no token: from 1,000 ms on its requests are
/// refused, its waits have ended at 2,000 ms, and it gets its token back at 5,000 ms.
fn without_token(ops: Vec<Op>, streams: Vec<Stream>) -> History {
    let removal = Removal {
        principal: "p",
        begin: at(500),
        in_force: at(1_000),
        settled: at(2_000),
        give_back: at(5_000),
        end: at(5_500),
    };
    History {
        removals: vec![removal],
        ..with(ops, streams)
    }
}

/// A read by another principal.
fn read_by_another(sent: u64, ms: u64, view: LeaseView) -> Op {
    Op {
        principal: "q",
        ..read(sent, ms, view)
    }
}

#[test]
fn a_success_with_a_removed_token_or_its_session_is_found() {
    for by_session in [false, true] {
        let found = |op: Op| {
            let op = Op { by_session, ..op };
            found_in(&without_token(vec![op], Vec::new())).contains(&"access")
        };
        let success = |sent, ms| acquire(1, sent, ms, 5);
        assert!(found(success(1_000, 1_010)));
        assert!(found(renew(1, 1_200, refused(1_210, Code::LeaseHeld))));
        assert!(!found(renew(
            1,
            1_200,
            refused(1_210, Code::Unauthenticated)
        )));
        assert!(!found(renew(1, 1_200, refused(1_210, Code::OverLimit))));
        // The store may have handled these before the removal, or after the token was given back.
        assert!(!found(success(990, 1_010)));
        assert!(!found(success(4_990, 5_000)));
    }
}

#[test]
fn a_refusal_of_a_valid_token_is_found() {
    let refusal = |sent, ms| renew(1, sent, refused(ms, Code::Unauthenticated));
    let found = |op: Op| !found_in(&without_token(vec![op], Vec::new())).is_empty();
    assert!(found(refusal(400, 490)));
    assert!(found(refusal(5_510, 5_520)));
    assert!(found(renew(1, 400, refused(490, Code::OverLimit))));
    assert!(!found(refusal(490, 510)));
    assert!(!found(refusal(5_490, 5_520)));
    // A session ends with the process of the store.
    let by_session = Op {
        by_session: true,
        ..refusal(400, 490)
    };
    assert!(!found(by_session));
}

#[test]
fn a_removal_that_ends_a_term_is_found() {
    let ops = vec![
        acquire(1, 400, 410, 5),
        read_by_another(1_100, 1_110, view(0, 0, 6)),
    ];
    assert_eq!(found_in(&without_token(ops, Vec::new())), ["exclusion"]);
}

#[test]
fn a_grant_to_a_wait_with_a_removed_token_is_found() {
    let waits = |ms, outcome| op(Some(1), asks(1, 8_000), ms, outcome);
    let free = |sent| read_by_another(sent, sent + 10, view(0, 0, 6));
    let granted = || waits(400, shown(2_500, view(1, 1_000, 7)));
    let found = |ops| found_in(&without_token(ops, Vec::new()));
    assert_eq!(found(vec![granted(), free(2_100)]), ["access"]);
    // The grant may be from the time before.
    assert!(found(vec![granted(), free(1_900)]).is_empty());
    // The store gave this grant back at once.
    let ended = waits(400, refused(1_010, Code::Forbidden));
    let short = read_by_another(900, 1_010, view(1, 1_000, 7));
    let over = read_by_another(1_020, 1_030, view(0, 0, 8));
    assert!(found(vec![ended, short, over]).is_empty());
}

#[test]
fn a_stream_with_a_removed_token_is_found() {
    let another = |op: Op| Op {
        principal: "q",
        ..op
    };
    let found = |begin, received| {
        let ops = vec![
            another(acquire(1, 2_100, 2_110, 5)),
            another(release(1, 2_120, 2_130, 6)),
        ];
        found_in(&without_token(ops, vec![stream(begin, received)]))
    };
    let released = || event(EventKind::Released, 0, 6);
    assert_eq!(found(2_140, vec![released()]), ["access"]);
    let opened = || vec![Received::Opened(None, at(1_000))];
    assert_eq!(found(1_010, opened()), ["access"]);
    assert!(found(5_000, opened()).is_empty());
    assert!(found(5_000, vec![released()]).is_empty());
    // It is no later change.
    assert!(found(2_140, vec![event(EventKind::Granted, 1, 5)]).is_empty());
}

/// Whether a stream beside a known grant and a known release has a violation.
fn found_by_stream(received: Vec<Received>) -> bool {
    let ops = vec![acquire(1, 0, 10, 5), release(1, 20, 30, 6)];
    let found = found_in(&with(ops, vec![stream(5_000, received)]));
    assert!(found.is_empty() || found == ["events"], "{found:?}");
    !found.is_empty()
}

#[test]
fn a_stream_that_repeats_or_skips_events_or_contains_a_secret_is_found() {
    let granted = || event(EventKind::Granted, 1, 5);
    let released = || event(EventKind::Released, 0, 6);
    let whole = || vec![Received::Reset(4), granted(), released(), Received::End];
    assert!(!found_by_stream(whole()));
    // After a reset nothing is missing.
    assert!(!found_by_stream(vec![Received::Reset(6), Received::End]));
    assert!(found_by_stream(vec![Received::Reset(4), released()]));
    assert!(found_by_stream(vec![
        Received::Reset(4),
        released(),
        granted()
    ]));
    assert!(found_by_stream(vec![
        Received::Reset(4),
        granted(),
        released(),
        released()
    ]));
    assert!(found_by_stream(vec![
        Received::Reset(4),
        granted(),
        Received::End
    ]));
    assert!(found_by_stream(vec![
        Received::Reset(4),
        Received::Unexpected("what".into())
    ]));
    let mut secret = granted();
    if let Received::Event { has_lease_id, .. } = &mut secret {
        *has_lease_id = true;
    }
    assert!(found_by_stream(vec![
        Received::Reset(4),
        secret,
        released()
    ]));
}
