//! What is refused and what is answered while nothing can be written.

use super::*;
use crate::store::observe::IfMissing;

/// A store whose lease candidate 1 held for a second, which is over.
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

/// The refusal of a request that first tries to write the end of the term.
async fn refused_after_one_try(script: &Script, of: Answer) -> Code {
    on_engine(script, Script::refuse).await;
    let code = refusal(of).await;
    assert!(on_engine(script, Script::is_idle).await, "{code:?}");
    code
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_lapsed_lease_refuses_as_on_any_other() {
    let (store, script) = lapsed().await;
    let described = Metadata::from([("a".into(), "b".into())]);
    let handed_over = |lease_id| Operation::HandOver {
        lease_id,
        to: "candidate-2".parse().unwrap(),
        within: Duration::from_secs(1),
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
        let refused = refused_after_one_try(&script, refused).await;
        assert_eq!(refused, code, "{operation:?}");
    }
    let refused = acquire(&store, 1, Duration::ZERO);
    let refused = refused_after_one_try(&script, refused).await;
    assert_eq!(refused, Code::LeaseIdRetired);
    let renewed = tokio::spawn({
        let store = store.clone();
        let renewals = vec![Ok((key(), Operation::Renew(id(1), None)))];
        async move { store.renew_many(&renewals).await.remove(0) }
    });
    let refused = refused_after_one_try(&script, renewed).await;
    assert_eq!(refused, Code::LeaseExpired);

    // These would change the lease, if there were room.
    for operation in [Operation::Release(id(1)), Operation::Break(None)] {
        let refused = operate(&store, operation.clone());
        let refused = refused_after_one_try(&script, refused).await;
        assert_eq!(refused, Code::DiskFull, "{operation:?}");
    }
    let refused = acquire(&store, 2, Duration::ZERO);
    let refused = refused_after_one_try(&script, refused).await;
    assert_eq!(refused, Code::DiskFull);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_what_is_durable_passes_over_steps_in_flight() {
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
    // Behind those that the engine has.
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
    let epoch = Epoch::new(epoch).unwrap();
    let first = Some("candidate-1");
    for _ in 0..200 {
        let view = store.view(&key()).await.unwrap();
        assert_eq!((view.holder.as_deref(), view.revision), (first, 1));
        let polled = store.poll(&key(), 0, SOON).await.unwrap();
        assert_eq!((polled.holder.as_deref(), polled.revision), (first, 1));
        let list = store.list("ns", "", None, 10).await.unwrap();
        assert_eq!(list.leases[0].holder.as_deref(), first);
        let history = store.history(&key()).await.unwrap();
        assert_eq!(history.terms[0].end, None);
        assert!(store.verify(&key(), epoch).await.unwrap().current);
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
async fn a_poll_that_passed_over_a_step_in_flight_hears_of_its_commit() {
    let (store, script) = lapsed().await;
    let polled = tokio::spawn({
        let store = store.clone();
        async move { store.poll(&key(), 1, SOON).await }
    });
    on_engine(&script, Script::refuse).await;
    // It waits now. The next look is of the timer, which tries to write the end again.
    queue_of(&store, 1).await;
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
