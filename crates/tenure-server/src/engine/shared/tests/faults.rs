//! Faults of the service: answers that are lost, appends that arrive late, refusals.

use std::thread;

use super::*;

/// A service with an owner that has committed one lease.
fn owned() -> (Arc<MemoryService>, Server, Owner) {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    (service, server, owner)
}

/// Returns the number of leases in the log.
fn leases(service: &Arc<MemoryService>) -> u64 {
    head_of(&service.content()).content.leases
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
        let service = MemoryService::new();
        let mut server = Server::new("first", &service);
        let fail = |server: &Server| {
            server
                .connect
                .fail_appends(faults.iter().copied().map(Some));
        };
        // The append that takes over.
        fail(&server);
        let mut owner = server.own();
        assert_eq!(owner.generation, 1, "{of}");
        // A commit.
        fail(&server);
        owner.write().unwrap();
        assert_eq!(leases(&service), 1, "{of}");
        service.deliver_late();
        owner.write().unwrap();
        assert_eq!(leases(&service), 2, "{of}");
        // Places.
        fail(&server);
        owner.rest();
        assert_eq!(service.content().places.len(), 2, "{of}");
        service.deliver_late();
        // A beat.
        server.advance(T / 6);
        fail(&server);
        owner.engine.checkpoint(Load::Idle).unwrap();
        assert!(server.serving().check(), "{of}");
        // The hand-over.
        fail(&server);
        owner.engine.close().unwrap();
        service.deliver_late();
        drop(owner);
        let mut next = Server::new("next", &service);
        let next = next.own();
        assert_eq!((next.generation, next.loaded.leases.len()), (2, 2), "{of}");
        check_chain(&service.content());
    }
}

#[test]
fn a_batch_is_undone_only_if_no_attempt_of_it_can_be_applied() {
    let (service, server, mut owner) = owned();
    for (fault, is_full) in [
        (Fault::Full, true),
        (Fault::NotApplied, false),
        (Fault::Misconfigured, false),
    ] {
        server.connect.fail_appends([Some(fault)]);
        match owner.write() {
            Err(AppendError::DiskFull(_)) => assert!(is_full),
            Err(AppendError::Busy(_)) => assert!(!is_full),
            other => panic!("{fault:?}: {other:?}"),
        }
        assert_eq!(leases(&service), 1);
        // The reign goes on with another batch after the same revision.
        let mut batch = Batch::default();
        let revision = owner.revision + 1;
        batch.encode(owner.revision, &[alone(delete(revision, 900, 1))]);
        let sets = [alone(delete(revision, 900, 1))];
        owner.engine.append(&batch, &sets).unwrap();
        owner.revision = revision;
    }
    // After an unknown outcome a definite refusal proves nothing about the first attempt.
    let faults = [Fault::LoseAnswer, Fault::Full, Fault::NotApplied];
    server.connect.fail_appends(faults.map(Some));
    owner.write().unwrap();
    assert_eq!(leases(&service), 2);
    check_chain(&service.content());
}

#[test]
fn an_append_that_was_applied_in_spite_of_a_definite_refusal_is_never_taken_for_another_one() {
    let (service, server, mut owner) = owned();
    server.connect.fail_appends([Some(Fault::FullButApplied)]);
    let refused = owner.write();
    assert!(
        matches!(refused, Err(AppendError::DiskFull(_))),
        "{refused:?}"
    );
    // The next batch has the same number. It is not in the log, so it is not acknowledged.
    let mut batch = Batch::default();
    let revision = owner.revision + 1;
    let sets = [alone(delete(revision, 900, 1))];
    batch.encode(owner.revision, &sets);
    let refused = owner.engine.append(&batch, &sets);
    assert!(
        matches!(refused, Err(AppendError::NotOwner(_))),
        "{refused:?}"
    );
    drop(owner);
    let mut next = Server::new("next", &service);
    assert_eq!(next.own().loaded.leases.len(), 2);
    check_chain(&service.content());
}

#[test]
fn a_server_that_is_deposed_in_the_middle_of_a_commit_appends_nothing_more() {
    for (fault, is_loaded) in [(Fault::LoseAnswer, true), (Fault::Late, false)] {
        let (service, server, mut owner) = owned();
        let mut standby = Server::new("standby", &service);
        assert!(standby.follower.step().unwrap().is_none());
        server.connect.fail_appends([Some(fault)]);
        server.connect.fail_all(Some(Fault::LoseRequest));
        let serving = server.serving();
        let commit = thread::spawn(move || (owner.write(), owner));
        while server.connect.has_planned_faults() {
            thread::yield_now();
        }
        let next = standby.own();
        assert_eq!(next.generation, 2);
        assert_eq!(
            next.loaded.leases.len(),
            1 + usize::from(is_loaded),
            "{fault:?}"
        );
        service.deliver_late();
        server.connect.fail_all(None);
        let (outcome, mut owner) = commit.join().unwrap();
        assert!(
            matches!(outcome, Err(AppendError::NotOwner(_))),
            "{outcome:?}"
        );
        assert!(!serving.check());
        assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
        assert!(matches!(
            owner.engine.checkpoint(Load::Idle),
            Err(AppendError::NotOwner(_))
        ));
        assert_eq!(leases(&service), 1 + u64::from(is_loaded), "{fault:?}");
        check_chain(&service.content());
    }
}

#[test]
fn a_stop_ends_an_append_whose_outcome_stays_unknown() {
    let service = MemoryService::new();
    let clock = Arc::new(AtomicU64::new(0));
    let system = OwnershipClock::System;
    let mut server = Server::with_clock("first", &service, T, clock, system);
    let mut owner = server.own();
    server.connect.fail_all(Some(Fault::LoseRequest));
    let stop = Arc::clone(&server.stop);
    let commit = thread::spawn(move || {
        let outcome = owner.write();
        drop(owner);
        outcome
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!commit.is_finished());
    stop.set();
    let outcome = commit.join().unwrap();
    assert!(
        matches!(outcome, Err(AppendError::Unknown(_))),
        "{outcome:?}"
    );
    assert!(!server.serving().check());
    assert_eq!(
        server.follower.run_until_owner().unwrap_err(),
        Ended::Stopped
    );
}
