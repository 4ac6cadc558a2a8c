//! Answers and refusals while the disk is full, and changes that are undone.

use super::*;
use crate::store::observe::IfMissing;

/// Returns a store with a lease that candidate 1 held for a second. That second is over.
async fn lapsed() -> (Store, Script) {
    let (store, script) = scripted();
    let mut queued = queued(1, Duration::ZERO);
    queued.request.duration = LeaseDuration::Fixed(Duration::from_secs(1));
    let granted = tokio::spawn({
        let store = store.clone();
        async move { store.acquire(&key(), &queued).await }
    });
    on_engine(&script, Script::commit).await;
    answer(granted).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    (store, script)
}

/// Returns the refusal of a request that first tries to write the end of the term.
async fn refused_after_a_try(script: &Script, of: Answer) -> Code {
    assert!(refuse_until(script, || of.is_finished()).await > 0);
    refusal(of).await
}

/// Refuses batches until something is done, and returns their number. The timer tries to write the end
/// of the term, too.
async fn refuse_until(script: &Script, is_done: impl Fn() -> bool) -> usize {
    let (mut tries, until) = (0, tokio::time::Instant::now() + SOON);
    while !is_done() {
        assert!(tokio::time::Instant::now() < until);
        if script.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else {
            script.decide(Err(AppendError::DiskFull("no space".into())));
            tries += 1;
        }
    }
    tries
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_lapsed_lease_gives_the_same_refusals() {
    let (store, script) = lapsed().await;
    let described = Metadata::from([("a".into(), "b".into())]);
    let handed_over = |lease_id| Operation::HandOver {
        lease_id,
        to: "candidate-2".parse().unwrap(),
        within: Duration::from_secs(1),
        forced: true,
    };
    let changed = Operation::Change {
        lease_id: id(1),
        proposed: id(2),
    };
    for (operation, code) in [
        (Operation::Renew(id(1), None), Code::LeaseExpired),
        (Operation::Renew(id(2), None), Code::LeaseIdMismatch),
        (Operation::Release(id(2)), Code::LeaseIdMismatch),
        (handed_over(id(1)), Code::LeaseExpired),
        (handed_over(id(2)), Code::LeaseIdMismatch),
        (Operation::SetMetadata(id(1), described), Code::LeaseExpired),
        (changed, Code::LeaseNotHeld),
    ] {
        let refused = operate(&store, operation.clone());
        let refused = refused_after_a_try(&script, refused).await;
        assert_eq!(refused, code, "{operation:?}");
    }
    let refused = acquire(&store, 1, Duration::ZERO);
    let refused = refused_after_a_try(&script, refused).await;
    assert_eq!(refused, Code::LeaseIdRetired);
    let renewed = tokio::spawn({
        let store = store.clone();
        let renewals = vec![Ok((key(), Operation::Renew(id(1), None)))];
        async move { store.renew_many(&renewals).await.remove(0) }
    });
    let refused = refused_after_a_try(&script, renewed).await;
    assert_eq!(refused, Code::LeaseExpired);

    // These operations would change the lease if the disk had space.
    for operation in [Operation::Release(id(1)), Operation::Break(None)] {
        let refused = operate(&store, operation.clone());
        let refused = refused_after_a_try(&script, refused).await;
        assert_eq!(refused, Code::DiskFull, "{operation:?}");
    }
    let refused = acquire(&store, 2, Duration::ZERO);
    let refused = refused_after_a_try(&script, refused).await;
    assert_eq!(refused, Code::DiskFull);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_read_skips_changes_in_flight() {
    let (store, script) = held().await;
    let look = || {
        let seen = store
            .inner
            .read_durable(&key(), |transaction| transaction.view())
            .unwrap();
        assert!(seen.ticket.is_none());
        let holder = seen.value.and_then(|view| view.holder);
        (holder, seen.revision)
    };
    let first = (Some("candidate-1".to_owned()), 1);
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    // This change is queued behind the changes that the engine is committing.
    let described = Operation::SetMetadata(id(2), Metadata::from([("a".into(), "b".into())]));
    let described = operate(&store, described);
    revision_of(&store, 4).await;
    assert_eq!(look(), first);
    script.decide(Ok(()));
    answer(released).await.unwrap();
    answer(next).await.unwrap();
    on_engine(&script, Script::batch).await;
    assert_eq!(look(), (Some("candidate-2".to_owned()), 3));
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(described).await, Code::DiskFull);
    assert_eq!(look(), (Some("candidate-2".to_owned()), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_renewals_are_answered_while_changes_of_others_are_undone_again_and_again() {
    let (store, script) = held().await;
    let refusing = std::thread::spawn(move || {
        while script.batches.recv().is_ok() {
            let full = AppendError::DiskFull("no space".into());
            if script.verdicts.send(Err(full)).is_err() {
                break;
            }
        }
    });
    let others: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                loop {
                    let broken = Operation::Break(Some(Duration::from_secs(1)));
                    let undone = store.operate(&key(), &broken, None).await;
                    assert_eq!(undone.unwrap_err().code, Code::DiskFull);
                }
            })
        })
        .collect();
    let epoch = answer(view(&store)).await.unwrap().epoch.unwrap();
    let verify = Operation::Verify(Epoch::new(epoch).unwrap());
    let first = Some("candidate-1");
    for _ in 0..200 {
        let view = store.view(&key()).await.unwrap();
        assert_eq!((view.holder.as_deref(), view.revision), (first, 1));
        let polled = store.poll(&Tenant::Unknown, &key(), 0, SOON).await.unwrap();
        assert_eq!((polled.holder.as_deref(), polled.revision), (first, 1));
        let list = store.list("ns", "", None, 10).await.unwrap();
        assert_eq!(list.leases[0].holder.as_deref(), first);
        let history = store.history(&key(), None).await.unwrap();
        assert_eq!(history[0].end, None);
        assert!(store.verify(&key(), &verify).await.unwrap().current);
        let renewed = Operation::Renew(id(1), None);
        store.operate(&key(), &renewed, None).await.unwrap();
        let refused = store.acquire(&key(), &queued(2, Duration::ZERO)).await;
        assert_eq!(refused.unwrap_err().code, Code::LeaseHeld);
    }
    for other in others {
        other.abort();
        assert!(other.await.unwrap_err().is_cancelled());
    }
    tokio::task::block_in_place(|| store.close());
    drop(store);
    refusing.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_that_skipped_a_change_in_flight_returns_after_its_commit() {
    let (store, script) = lapsed().await;
    let polled = tokio::spawn({
        let store = store.clone();
        async move { store.poll(&Tenant::Unknown, &key(), 1, SOON).await }
    });
    refuse_until(&script, || store.inner.waiting.taken() == 1).await;
    // The poll waits now. Next, the timer reads the lease and tries again to write the end.
    let seen = store
        .inner
        .transact(&key(), IfMissing::Refuse, |_| ())
        .unwrap();
    on_engine(&script, Script::batch).await;
    tokio::time::sleep(A_MOMENT).await;
    assert!(!polled.is_finished());
    script.decide(Ok(()));
    let polled = timeout(SOON / 2, answer(polled)).await.expect("no timeout");
    let polled = polled.unwrap();
    assert_eq!(
        (polled.state, polled.revision),
        (State::Expired, seen.revision)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_changes_are_undone_and_renewals_succeed() {
    let (store, script) = held().await;
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;

    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::refuse).await;
    assert_eq!(refusal(released).await, Code::DiskFull);
    assert_eq!(refusal(next).await, Code::DiskFull);
    // The first candidate still holds it and may renew.
    let renewed = answer(operate(&store, Operation::Renew(id(1), None))).await;
    assert_eq!(renewed.unwrap().revision, 1);
    assert_eq!(
        answer(view(&store)).await.unwrap().holder.as_deref(),
        Some("candidate-1")
    );

    // When there is space again, changes succeed, and revisions and epochs continue.
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    assert_eq!(answer(released).await.unwrap().revision, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_an_expired_lease_is_shown_as_expired_and_is_not_changed() {
    let (store, script) = scripted();
    let brief = LeaseDuration::Fixed(Duration::from_secs(1));
    let granted = tokio::spawn({
        let (store, mut queued) = (store.clone(), queued(1, Duration::ZERO));
        queued.request.duration = brief;
        async move { store.acquire(&key(), &queued).await }
    });
    let epoch = epoch_of(&on_engine(&script, Script::commit).await[0]);
    answer(granted).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let (has_space, mut refused) = (Arc::new(AtomicBool::default()), 0);
    let disk = tokio::task::spawn_blocking({
        let has_space = Arc::clone(&has_space);
        move || {
            while !has_space.load(Ordering::SeqCst) {
                if script.batches.recv_timeout(A_MOMENT).is_ok() {
                    script.decide(Err(AppendError::DiskFull("no space".into())));
                    refused += 1;
                }
            }
            (script, refused)
        }
    });

    let seen = view(&store);
    let seen = answer(seen).await.unwrap();
    // The end has no revision yet, and nothing was granted.
    assert_eq!((seen.state, seen.revision), (State::Expired, 1));
    let polled = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .poll(&Tenant::Unknown, &key(), 1, Duration::from_millis(300))
                .await
        }
    });
    let polled = answer(polled).await.unwrap();
    assert_eq!((polled.state, polled.revision), (State::Expired, 1));
    let verified = tokio::spawn({
        let store = store.clone();
        let verify = Operation::Verify(Epoch::new(epoch).unwrap());
        async move { store.verify(&key(), &verify).await }
    });
    assert!(!verified.await.unwrap().unwrap().current);
    let listed = tokio::spawn({
        let store = store.clone();
        let namespace = key().namespace().to_owned();
        async move { store.list(&namespace, "", None, 10).await }
    });
    assert_eq!(listed.await.unwrap().unwrap().leases, [seen]);
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key(), None).await }
    });
    let terms = told.await.unwrap().unwrap();
    let terms: Vec<_> = terms
        .iter()
        .map(|term| (term.epoch, term.end, &term.ended_at))
        .collect();
    assert_eq!(
        terms,
        [(epoch, None, &None)],
        "the history shows no end that is not durable"
    );

    has_space.store(true, Ordering::SeqCst);
    let (script, refused) = disk.await.unwrap();
    // One for each request, and one a second of the timer.
    assert!(refused < 20, "{refused}: a poll does not try in a loop");
    // When there is space again, the end is a change like any other, published once.
    let seen = view(&store);
    let noted = on_engine(&script, Script::commit).await[0].term.clone();
    assert_eq!(
        noted.unwrap().ended.map(|(end, _)| end),
        Some(TermEnd::Expired)
    );
    assert!(answer(seen).await.unwrap().revision > 1);
    let terms = store.history(&key(), None).await.unwrap();
    assert_eq!(terms.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_term_is_committed_or_undone_with_the_change_that_ends_it() {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    let batch = on_engine(&script, Script::batch).await;
    let noted = batch[0].term.as_ref().unwrap();
    assert_eq!(
        (noted.epoch.get(), noted.ended.map(|(end, _)| end)),
        (epoch_of(&batch[0]), Some(TermEnd::Released))
    );
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key(), None).await }
    });
    tokio::time::sleep(A_MOMENT).await;
    assert!(!told.is_finished());
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(released).await, Code::DiskFull);
    // The term continues, also in the history.
    let history = told.await.unwrap().unwrap();
    let terms: Vec<_> = history.iter().map(|term| term.end).collect();
    assert_eq!(terms, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_undone_changes_of_all_leases_are_undone_from_the_last_to_the_first() {
    let (store, script) = held().await;
    let metadata = Metadata::from([("a".into(), "b".into())]);
    let described = operate(&store, Operation::SetMetadata(id(1), metadata));
    on_engine(&script, Script::batch).await;
    let released = operate(&store, Operation::Release(id(1)));
    let other = LeaseKey::of_text("ns/other");
    let acquired = tokio::spawn({
        let (store, other) = (store.clone(), other.clone());
        async move { store.acquire(&other, &queued(9, Duration::ZERO)).await }
    });
    revision_of(&store, 4).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(described).await, Code::DiskFull);
    assert_eq!(refusal(released).await, Code::DiskFull);
    assert_eq!(refusal(acquired).await, Code::DiskFull);

    let view = answer(view(&store)).await.unwrap();
    assert_eq!(
        (view.holder.as_deref(), view.revision),
        (Some("candidate-1"), 1)
    );
    assert_eq!(view.metadata, Some(Metadata::new()));
    assert_eq!(
        store.view(&other).await.unwrap_err().code,
        Code::UnknownLease
    );
}

fn epoch_of(write: &LeaseChange) -> u64 {
    match &write.content {
        Content::Lease(stored) => stored.grant.as_ref().unwrap().epoch.get(),
        Content::Deleted(_) => 0,
    }
}
