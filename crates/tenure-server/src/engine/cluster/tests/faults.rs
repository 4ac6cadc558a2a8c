//! Faults of the home: answers that are lost, appends that arrive late, refusals.

use super::*;

/// A home with an owner that has committed one lease.
fn owned() -> (FaultyHome, Server, Owner) {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    (home, server, owner)
}

/// Returns the number of leases in the log.
fn leases(home: &FaultyHome) -> usize {
    Server::new("reader", &home.copied())
        .own()
        .loaded
        .leases
        .len()
}

#[test]
fn an_append_of_unknown_outcome_is_repeated_until_the_outcome_is_known() {
    use Fault::{Full, Late, LoseAnswer, LoseRequest, Misconfigured, NotApplied};
    let patterns: [&[Fault]; 9] = [
        &[LoseRequest],
        &[LoseAnswer],
        &[Late],
        &[LoseRequest, LoseRequest, LoseAnswer],
        &[LoseAnswer, LoseRequest],
        &[LoseAnswer, NotApplied, Full, Misconfigured],
        &[LoseRequest, NotApplied, Full],
        &[Late, NotApplied],
        &[Late, LoseAnswer, Late],
    ];
    for faults in patterns {
        let of = format!("{faults:?}");
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let fail = |server: &Server| {
            server
                .reached
                .fail_replaces(faults.iter().copied().map(Some));
        };
        let deliver = || while home.memory.deliver().is_some() {};
        // The append that takes over.
        fail(&server);
        let mut owner = server.own();
        assert_eq!(owner.generation, 1, "{of}");
        // A commit.
        fail(&server);
        owner.write().unwrap();
        assert_eq!(leases(&home), 1, "{of}");
        deliver();
        owner.write().unwrap();
        assert_eq!(leases(&home), 2, "{of}");
        // A beat.
        server.advance(T / 6);
        fail(&server);
        owner.log.upkeep().unwrap();
        assert!(server.status().serving.check(), "{of}");
        deliver();
        // The hand-over.
        fail(&server);
        owner.log.close().unwrap();
        deliver();
        drop(owner);
        assert_eq!(tail_of(&home).tail.state, TailState::Vacant, "{of}");
        // A take-over of a log that has entries, and of one whose owner is silent.
        for generation in [2, 3] {
            let mut next = Server::new(&format!("next-{generation}"), &home);
            fail(&next);
            let next = next.own();
            deliver();
            let found = (next.generation, next.loaded.leases.len());
            assert_eq!(found, (generation, 2), "{of}");
        }
        check_chain(&home);
    }
}

#[test]
fn a_batch_is_undone_only_if_no_attempt_of_it_can_be_applied() {
    let (home, server, mut owner) = owned();
    for (fault, is_full) in [
        (Fault::Full, true),
        (Fault::NotApplied, false),
        (Fault::Misconfigured, false),
    ] {
        server.reached.fail_replaces([Some(fault)]);
        match owner.write() {
            Err(AppendError::DiskFull(_)) => assert!(is_full),
            Err(AppendError::Busy(_)) => assert!(!is_full),
            other => panic!("{fault:?}: {other:?}"),
        }
        assert_eq!(leases(&home), 1);
        // The ownership goes on with another batch after the same revision.
        owner
            .commit(&[alone(delete(owner.revision + 1, 900, 1))])
            .unwrap();
    }
    // After an unknown outcome a definite refusal proves nothing about the first attempt.
    let faults = [Fault::LoseAnswer, Fault::Full, Fault::NotApplied];
    server.reached.fail_replaces(faults.map(Some));
    owner.write().unwrap();
    assert_eq!(leases(&home), 2);
    check_chain(&home);
}

#[test]
fn an_append_that_was_applied_in_spite_of_a_definite_refusal_is_never_taken_for_another_one() {
    let (home, server, mut owner) = owned();
    server.reached.fail_replaces([Some(Fault::FullButApplied)]);
    let refused = owner.write();
    assert!(
        matches!(refused, Err(AppendError::DiskFull(_))),
        "{refused:?}"
    );
    // The next batch has the same number. It is not in the log, so it is not acknowledged.
    let refused = owner.commit(&[alone(delete(owner.revision + 1, 900, 1))]);
    assert!(
        matches!(refused, Err(AppendError::NotOwner(_))),
        "{refused:?}"
    );
    drop(owner);
    assert_eq!(leases(&home), 2);
    check_chain(&home);
}

#[test]
fn a_server_that_is_deposed_in_the_middle_of_a_commit_appends_nothing_more() {
    for (fault, is_loaded) in [(Fault::LoseAnswer, true), (Fault::Late, false)] {
        let (home, server, mut owner) = owned();
        let mut standby = Server::new("standby", &home);
        assert!(standby.step().unwrap().is_none());
        server.reached.fail_replaces([Some(fault)]);
        server.reached.fail_all(Some(Fault::LoseRequest));
        let status = server.status();
        let commit = thread::spawn(move || (owner.write(), owner));
        while server.reached.has_planned_faults() {
            thread::yield_now();
        }
        let next = standby.own();
        assert_eq!(next.generation, 2);
        let count = 1 + usize::from(is_loaded);
        assert_eq!(next.loaded.leases.len(), count, "{fault:?}");
        while status.serving.check() {
            thread::yield_now();
        }
        while home.memory.deliver().is_some() {}
        server.reached.fail_all(None);
        let (outcome, mut owner) = commit.join().unwrap();
        assert!(
            matches!(&outcome, Err(AppendError::NotOwner(it)) if it == "superseded by standby, generation 2"),
            "{outcome:?}"
        );
        assert!(!status.serving.check());
        assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
        assert!(matches!(owner.log.upkeep(), Err(AppendError::NotOwner(_))));
        assert_eq!(leases(&home), count, "{fault:?}");
        check_chain(&home);
    }
}

#[test]
fn a_stop_ends_an_append_whose_outcome_stays_unknown_and_undoes_nothing() {
    let home = FaultyHome::default();
    let mut server = Server::in_real_time("first", &home, T);
    let mut owner = server.own();
    server.reached.fail_replaces([Some(Fault::LoseAnswer)]);
    server.reached.fail_all(Some(Fault::LoseRequest));
    let stop = server.stop.clone();
    let commit = thread::spawn(move || {
        let outcome = owner.write();
        let then = owner.write();
        drop(owner);
        (outcome, then)
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!commit.is_finished());
    stop.cancel();
    let (outcome, then) = commit.join().unwrap();
    assert!(
        matches!(outcome, Err(AppendError::Unknown(_))),
        "{outcome:?}"
    );
    // Nothing else is appended with the number of an entry that is in the log.
    assert!(matches!(then, Err(AppendError::NotOwner(_))), "{then:?}");
    assert!(!server.status().serving.check());
    assert_eq!(
        server.standby.run_until_owner().unwrap_err(),
        Ended::Stopped
    );
    assert_eq!(leases(&home), 1);
}

#[test]
fn an_owner_without_its_home_serves_for_five_sixths_of_the_ownership() {
    let (_, server, mut owner) = owned();
    server.advance(T / 6);
    owner.log.upkeep().unwrap();
    let status = server.status();
    server.advance(T * 5 / 6 - Duration::from_millis(1));
    assert!(status.serving.check());
    server.advance(Duration::from_millis(1));
    assert!(!status.serving.check());
    // An append succeeds, and nobody has taken over: the server goes on.
    owner.log.upkeep().unwrap();
    assert!(status.serving.check());
    owner.write().unwrap();
    assert_eq!(owner.generation, 1);
}

#[test]
fn a_frozen_owner_that_wakes_is_refused_and_has_answered_nothing_meanwhile() {
    let (home, server, mut owner) = owned();
    server.advance(2 * T);
    assert!(!server.status().serving.check());
    let mut standby = Server::new("store-2", &home);
    let mut next = standby.own();
    next.write().unwrap();
    let refused = owner.write().unwrap_err().to_string();
    assert!(
        refused.contains("superseded by store-2, generation 2"),
        "{refused}"
    );
    assert!(!server.status().serving.check());
    check_chain(&home);
}

#[test]
fn a_repeated_append_extends_the_ownership_from_its_first_attempt() {
    let (_, server, mut owner) = owned();
    let before = server.clock.load(Ordering::SeqCst);
    server.reached.fail_replaces([Some(Fault::LoseAnswer)]);
    owner.write().unwrap();
    let after = server.clock.load(Ordering::SeqCst);
    assert!(after > before, "the append was repeated after a pause");
    let passed = Duration::from_nanos(after - before);
    server.advance(T * 5 / 6 - passed - Duration::from_millis(1));
    assert!(server.status().serving.check());
    server.advance(Duration::from_millis(1));
    assert!(!server.status().serving.check());
}

#[test]
fn a_request_that_arrives_after_rounds_of_the_ring_changes_nothing() {
    let (home, server, mut owner) = owned();
    server.reached.fail_replaces([Some(Fault::Late)]);
    owner.write().unwrap();
    for _ in 0..600 {
        owner.write().unwrap();
    }
    let before = tail_of(&home);
    assert_eq!(home.memory.deliver(), Some(false));
    assert_eq!(tail_of(&home), before);
    assert_eq!(leases(&home), 602);
    check_chain(&home);
}

#[test]
fn a_home_that_was_promoted_ends_the_ownership_in_the_middle_of_a_commit() {
    for entries in [1, 300] {
        for lost in [0, 1] {
            let (home, server, mut owner) = owned();
            for _ in 0..entries {
                owner.write().unwrap();
            }
            home.memory.promote(lost);
            let refused = owner.write();
            assert!(
                matches!(refused, Err(AppendError::NotOwner(_))),
                "{refused:?}"
            );
            assert!(!server.status().serving.check());
            let text = "the log was written in memory, cluster default (memory/0) and this is memory, cluster \
                        default (memory/1): a restored or promoted server, a copy, or a wrong address";
            assert!(server.refusal().contains(text), "{}", server.refusal());
            // Nobody takes over until an operator says so.
            let before = tail_of(&home);
            let mut standby = Server::new("standby", &home);
            assert!(standby.follow(3 * T).is_none());
            assert!(standby.refusal().contains("tenure cluster recover"));
            assert_eq!(tail_of(&home), before);
        }
    }
}
