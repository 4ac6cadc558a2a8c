//! A server of a cluster answers from its memory only if it may still do so after the look.

use std::sync::atomic::AtomicU64;

use tenure_core::Instant;

use super::*;
use crate::config::ClusterConfig;
use crate::engine::{ClusterStatus, OwnershipClock};
use crate::model::StoreId;
use crate::store::observe::IfMissing;
use crate::store::{Member, OverviewFilter};

/// The instant at which the ownership of the server ends.
const END: u64 = 1_000;

/// A store of an active server, and the clock of its ownership.
fn active() -> (Store, Arc<AtomicU64>) {
    let nanos = Arc::new(AtomicU64::new(END - 1));
    let status = ClusterStatus::new(OwnershipClock::Manual(Arc::clone(&nanos)));
    status.serving.set(Some(Instant::from_nanos(END)));
    let member = Member {
        config: Arc::new(ClusterConfig::in_memory("store-1")),
        status: Arc::new(status),
        start: StoreId::default(),
        orders: channel().0,
    };
    let setup = StoreSetup {
        member: Some(member),
        ..StoreSetup::with_limits(Limits::default())
    };
    let store = Store::start(Loaded::default(), None, setup).unwrap();
    (store, nanos)
}

#[tokio::test]
async fn an_answer_is_refused_if_the_ownership_ended_between_the_look_and_the_answer() {
    let key = LeaseKey::of_text("billing/nightly");
    for (at, is_answered) in [(END - 1, true), (END, false), (END + 1, false)] {
        let (store, nanos) = active();
        // The look is made here, and the answer when the future is awaited.
        let answer = store.execute(&key, IfMissing::Create, |lease| lease.view());
        nanos.store(at, Ordering::SeqCst);
        match answer.await {
            Ok(_) => assert!(is_answered, "at {at}"),
            Err(problem) => {
                assert_eq!((problem.code, is_answered), (Code::HomeUnavailable, false));
            }
        }
    }
}

#[tokio::test]
async fn an_overview_is_refused_if_the_ownership_ended_between_the_look_and_the_answer() {
    let filter = OverviewFilter {
        text: String::new(),
        namespace: None,
        state: None,
        needs_look: false,
        limit: 10,
    };
    for (at, is_answered) in [(END - 1, true), (END, false)] {
        let (store, nanos) = active();
        let key = LeaseKey::of_text("billing/nightly");
        let request = queued(1, Duration::ZERO);
        store.acquire(&key, &request).await.unwrap();
        // The rights of the caller are asked for during the look.
        let readable = |_: &str| {
            nanos.store(at, Ordering::SeqCst);
            vec![""]
        };
        let overview = store.overview(&filter, readable).await;
        let code = overview.map_err(|problem| problem.code).err();
        let refused = (!is_answered).then_some(Code::HomeUnavailable);
        assert_eq!(code, refused, "at {at}");
    }
}
