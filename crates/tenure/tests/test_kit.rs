//! The test kit with a typical task of an application.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::testing::TestStore;
use tenure::{Candidate, Config, EndReason, Leadership};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a configuration that ends the term of a task that reports no progress for one second.
fn config() -> Config {
    let config = Config::new("tests/kit".parse().unwrap());
    let config = config.with_adjusted_timings(|timings| timings.progress_deadline = Some(SECOND));
    config.unwrap()
}

/// Works every 200 ms, and reports progress if `reports`.
async fn work(leadership: Leadership, units: Arc<AtomicU32>, reports: bool) {
    let lost = leadership.cancellation();
    while !lost.is_cancelled() {
        tokio::time::sleep(SECOND / 5).await;
        units.fetch_add(1, Ordering::Relaxed);
        if reports {
            leadership.report_progress();
        }
    }
}

fn spawn(
    candidate: Candidate,
    units: &Arc<AtomicU32>,
    reports: bool,
) -> tokio::task::JoinHandle<tenure::TermSummary> {
    let units = units.clone();
    tokio::spawn(async move {
        let task = |leadership| work(leadership, units, reports);
        let term = candidate.run_one_term(std::future::pending(), task).await;
        term.unwrap().unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn paused_time_advances_with_the_store_s_so_a_task_that_sleeps_stays_healthy() {
    let store = TestStore::start().unwrap();
    let units = Arc::default();
    let mut term = spawn(store.candidate(config()), &units, true);
    let started = tokio::time::Instant::now();
    store.advance(SECOND * 10).await;
    assert_eq!(started.elapsed(), SECOND * 10);
    assert!(!term.is_finished());
    let done = units.load(Ordering::Relaxed);
    assert!((40..=50).contains(&done), "{done} units in 10 s");

    store.set_reachable(false);
    let ended = store.advance_until(&mut term).await.unwrap();
    assert_eq!(ended.reason, EndReason::RenewDeadline);
}

#[tokio::test(start_paused = true)]
async fn paused_time_advances_with_the_store_s_so_a_task_without_progress_ends() {
    let store = TestStore::start().unwrap();
    let units = Arc::default();
    let mut term = spawn(store.candidate(config()), &units, false);
    let ended = store.advance_until(&mut term).await.unwrap();
    assert_eq!(ended.reason, EndReason::Unhealthy);
    let done = units.load(Ordering::Relaxed);
    assert!((3..=7).contains(&done), "{done} units in 1 s");
}

#[tokio::test]
async fn terms_follow_each_other_after_the_cool_down_and_each_is_reported_with_its_causes() {
    let store = TestStore::start().unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let hook = reported.clone();
    let config = config().with_term_hook(move |term| hook.lock().unwrap().push(term.clone()));
    let candidate = store.candidate(config);
    let mut runs = 0;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut stop = Some(stop);
    let shutdown = async {
        let _ = stopped.await;
    };
    let run = candidate.run_while_leader(shutdown, |_| {
        runs += 1;
        if runs == 3 {
            let _ = stop.take().map(|stop| stop.send(()));
        }
        async {
            let error = std::io::Error::other("the disk is gone");
            Err(anyhow::Error::new(error).context("can't read the ledger"))
        }
    });
    store.advance_until(run).await.unwrap();
    let reported = reported.lock().unwrap();
    assert!(reported.len() >= 2, "{reported:?}");
    // The shutdown may start before the last task has failed.
    let reasons = reported.iter().map(|term| term.reason);
    assert!(
        reasons
            .take(2)
            .all(|reason| reason == EndReason::TaskFailed)
    );
    for term in &*reported {
        let error = "can't read the ledger: the disk is gone";
        assert_eq!(term.error.as_deref(), Some(error));
    }
    assert!(
        reported
            .windows(2)
            .all(|pair| pair[0].epoch < pair[1].epoch)
    );
}

#[cfg(feature = "peers")]
#[tokio::test]
#[should_panic(expected = "strategy = \"bully\"")]
async fn a_configuration_with_another_strategy_is_refused() {
    use tenure::config::{Bully, Peer, Strategy};
    let peers = [Peer::new(tenure::NodeId(1), "http://127.0.0.1:1").unwrap()];
    let bully = Bully::new(tenure::NodeId(1), peers);
    let store = TestStore::start().unwrap();
    drop(store.candidate(config().with_strategy(Strategy::Bully(bully))));
}
