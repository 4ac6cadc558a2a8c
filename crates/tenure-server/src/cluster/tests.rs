//! Servers of a cluster over a log in memory, in real time.

use std::time::Duration;

use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use tower_service::Service as _;

use super::ClusterMember;
use crate::Store;
use crate::access::Access;
use crate::config::{ClusterConfig, Limits};
use crate::engine::{Fault, FaultyHome, OwnershipClock, Standby};
use crate::http::router;
use crate::model::{HistoryLimits, LeaseKey};
use crate::shares::Tenant;

/// Long enough for every step of a test.
const SOON: Duration = Duration::from_secs(60);

/// Long enough for a machine that delays a server.
const T: Duration = Duration::from_secs(3);

/// One server.
struct Member {
    cluster: ClusterMember,
    home: FaultyHome,
}

impl Member {
    fn start(home: &FaultyHome, name: &str, confirm: bool) -> Self {
        Self::start_with(home, name, confirm, T)
    }

    fn start_with(home: &FaultyHome, name: &str, confirm: bool, ownership: Duration) -> Self {
        let config = ClusterConfig {
            ownership,
            confirm,
            ..ClusterConfig::in_memory(name)
        };
        let home = home.for_another();
        let stop = CancellationToken::new();
        let standby = Standby::new(
            home.open(&config),
            &config,
            HistoryLimits::NONE,
            stop.clone(),
            OwnershipClock::System,
        );
        let cluster = ClusterMember::over(standby.unwrap(), &config, Limits::default(), stop);
        let cluster = cluster.unwrap();
        Self { cluster, home }
    }

    fn store(&self) -> Store {
        self.cluster.served().current()
    }

    async fn acquire(&self, number: u64) -> Result<LeaseView, Problem> {
        let queued = Queued {
            request: Acquire {
                lease_id: id(number),
                holder: format!("candidate-{number}").parse().unwrap(),
                duration: LeaseDuration::Fixed(Duration::from_secs(60)),
                lock_delay: Duration::ZERO,
                min_epoch: None,
                by_operator: false,
                metadata: Metadata::new(),
            },
            resume: None,
            wait: Duration::ZERO,
            priority: 100,
        };
        self.store().acquire(&key(), &queued).await
    }

    async fn renew(&self, number: u64) -> Result<LeaseView, Problem> {
        let renew = Operation::Renew(id(number), None);
        self.store().operate(&key(), &renew, None).await
    }

    fn is_active(&self) -> bool {
        self.store().ready().is_ok()
    }
}

fn key() -> LeaseKey {
    LeaseKey::of_text("ns/lease")
}

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, wait).await.expect(what);
}

fn code<T: std::fmt::Debug>(result: Result<T, Problem>) -> Code {
    result.unwrap_err().code
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_names_the_active_server_and_takes_over_when_that_one_is_cut_off() {
    let home = FaultyHome::default();
    let first = Member::start(&home, "first", false);
    until("an active server", || first.is_active()).await;
    let granted = first.acquire(1).await.unwrap();
    let second = Member::start(&home, "second", false);
    until("a standby", || second.store().is_standby()).await;
    let refused = second.acquire(2).await.unwrap_err();
    assert_eq!(refused.code, Code::NotActive);
    assert_eq!(refused.active.as_deref(), Some("http://first"));
    assert_eq!(code(second.renew(1).await), Code::NotActive);
    assert_eq!(
        second.store().id(),
        "",
        "a standby has no leases of the store yet"
    );

    // A probe has no credential. With access control it learns of no other server.
    for (is_guarded, names_it) in [(false, true), (true, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.toml");
        std::fs::write(&path, "version = 1\n").unwrap();
        let access = match is_guarded {
            true => Access::open(&path).unwrap(),
            false => Access::anonymous(),
        };
        let request = Request::get("/active")
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let Ok(answer) = router(second.store(), access).call(request).await;
        assert_eq!(answer.status(), 503);
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(body.into()).unwrap();
        assert!(text.contains("\"not_active\""), "{text}");
        assert_eq!(text.contains("first"), names_it, "{text}");
    }

    // Cut off from the log, the first server answers nothing before the second one does.
    first.home.fail_all(Some(Fault::LoseRequest));
    until("the end of the deadline", || {
        // In this order: an answer of the second server must come after the end.
        let taken_over = second.is_active();
        let ended = !first.is_active();
        assert!(ended || !taken_over);
        ended
    })
    .await;
    assert_eq!(code(first.renew(1).await), Code::HomeUnavailable);
    until("a take-over", || second.is_active()).await;
    let renewed = second.renew(1).await.unwrap();
    assert_eq!(renewed.epoch, granted.epoch);
    assert_eq!(code(second.acquire(2).await), Code::LeaseHeld);

    // Connected again, it follows.
    first.home.fail_all(None);
    until("a standby", || first.store().is_standby()).await;
    let refused = first.renew(1).await.unwrap_err();
    assert_eq!(refused.code, Code::NotActive);
    assert_eq!(refused.active.as_deref(), Some("http://second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_gets_no_answer_that_an_append_did_not_confirm() {
    let home = FaultyHome::default();
    let member = Member::start(&home, "first", false);
    until("an active server", || member.is_active()).await;
    let epoch = member.acquire(1).await.unwrap().epoch.unwrap();
    let verify = Operation::Verify(tenure_core::Epoch::new(epoch).unwrap());
    let store = member.store();
    assert!(store.verify(&key(), &verify).await.unwrap().current);
    member.home.fail_all(Some(Fault::LoseRequest));
    // A renewal is answered until the deadline, and this answer is not.
    member.renew(1).await.unwrap();
    let key = key();
    let waiting = store.verify(&key, &verify);
    tokio::pin!(waiting);
    assert!(timeout(T / 4, &mut waiting).await.is_err());
    member.home.fail_all(None);
    assert!(
        timeout(SOON, waiting)
            .await
            .expect("an answer")
            .unwrap()
            .current
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_are_ended_when_the_server_can_not_append() {
    let home = FaultyHome::default();
    let member = Member::start(&home, "first", false);
    until("an active server", || member.is_active()).await;
    let view = member.acquire(1).await.unwrap();
    let store = member.store();
    let poll = tokio::spawn(async move {
        store
            .poll(&Tenant::Unknown, &key(), view.revision, SOON * 2)
            .await
    });
    sleep(T / 10).await;
    member.home.fail_all(Some(Fault::LoseRequest));
    let ended = timeout(SOON, poll).await.expect("an answer").unwrap();
    assert_eq!(code(ended), Code::HomeUnavailable);
    // The same ownership goes on, without a take-over.
    member.home.fail_all(None);
    until("an active server", || member.is_active()).await;
    assert_eq!(member.store().cluster().unwrap().generation, 1);
    member.renew(1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_whose_take_over_was_refused_is_not_ready_until_a_server_has_appended() {
    let (home, ownership) = (FaultyHome::default(), Duration::from_secs(1));
    let start = |name| Member::start_with(&home, name, false, ownership);
    let first = start("first");
    until("an active server", || first.is_active()).await;
    let second = start("second");
    until("a standby", || second.store().is_standby()).await;
    second.home.fail_replaces([Some(Fault::Full); 10_000]);
    first.home.fail_all(Some(Fault::LoseRequest));
    let reason = || second.store().cluster().unwrap().reason;
    let text = "the last take-over of this server failed: no space";
    until("a refused take-over", || reason().as_deref() == Some(text)).await;
    sleep(ownership / 2).await;
    assert!(!second.store().is_standby());
    let detail = format!("{text}; first was active when this server last read the log");
    until("the reason before the active server", || {
        second.store().ready().unwrap_err().detail == detail
    })
    .await;
    first.home.fail_all(None);
    until("a standby", || second.store().is_standby()).await;
}
