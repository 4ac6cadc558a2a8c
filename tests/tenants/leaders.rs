//! The leaders. They run on threads of their own, because real ones are other processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tenure_tests::client::id;
use tenure_tests::wire::{Wire, bearer};
use tokio::time::{sleep, timeout};

use crate::store::{Scale, Store};

/// The default timings of a candidate: the lease duration, and the time after the last renewal at
/// which it gives up. The interval of renewals is shorter in the short form.
const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct Leaders(JoinHandle<Renewals>);

/// All renewals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Renewals {
    pub(crate) count: u64,
    pub(crate) slowest: Duration,
}

impl Leaders {
    /// Starts a hundred leaders, and returns when they lead.
    pub(crate) fn start(store: Arc<Store>, stop: Arc<AtomicBool>, scale: Scale) -> Self {
        let interval = match scale {
            Scale::Short => Duration::from_secs(1),
            Scale::Long => Duration::from_secs(5),
        };
        let (led, leads) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(async {
                    let leaders = (0..100).map(|number| {
                        let begin = interval * u32::try_from(number).unwrap_or(0) / 100;
                        lead(
                            Arc::clone(&store),
                            number,
                            begin,
                            interval,
                            Arc::clone(&stop),
                            led.clone(),
                        )
                    });
                    let all = join_all(leaders).await;
                    all.into_iter()
                        .fold(Renewals::default(), |all, one| Renewals {
                            count: all.count + one.count,
                            slowest: all.slowest.max(one.slowest),
                        })
                })
        });
        for _ in 0..100 {
            leads.recv().expect("a leader");
        }
        Self(thread)
    }

    /// Waits for the end of all leaders.
    ///
    /// # Panics
    ///
    /// If one has lost its term.
    pub(crate) fn join(self) -> Renewals {
        self.0.join().expect("leaders that have kept their terms")
    }
}

/// Leads until `stop`. A renewal that fails is sent again over a new connection.
async fn lead(
    store: Arc<Store>,
    number: u64,
    begin: Duration,
    interval: Duration,
    stop: Arc<AtomicBool>,
    led: std::sync::mpsc::Sender<()>,
) -> Renewals {
    let token = bearer(&store.leader);
    let lease = format!("/v1/namespaces/led/leases/job-{number}");
    let (acquire_path, renew_path) = (format!("{lease}/acquire"), format!("{lease}/renew"));
    let mut wire = Wire::connect(&store.endpoint, 1)
        .await
        .expect("a connection");
    let acquire = json!({"lease_id": id(number), "holder": "leader",
        "duration_ms": u64::try_from(LEASE.as_millis()).unwrap_or(0)});
    let acquire = acquire.to_string();
    let granted = wire.ask_for_body("POST", &acquire_path, &token, Some(&acquire));
    let (status, granted) = granted.await.expect("an answer");
    let granted: Value = serde_json::from_slice(&granted).expect("JSON");
    assert_eq!(status, 200, "{granted}");
    led.send(()).expect("a test that waits");
    sleep(begin).await;
    let body = json!({"lease_id": id(number)}).to_string();
    let mut renewals = Renewals::default();
    let mut renewed_at = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = loop {
            let renewal = wire.ask_for_body("POST", &renew_path, &token, Some(&body));
            if let Ok(Ok(answer)) = timeout(DEADLINE, renewal).await {
                break answer;
            }
            assert!(renewed_at.elapsed() < DEADLINE, "leader {number} gives up");
            if let Ok(connected) = Wire::connect(&store.endpoint, 1).await {
                wire = connected;
            }
        };
        let view: Value = serde_json::from_slice(&answer.1).expect("JSON");
        assert_eq!(
            (answer.0, &view["epoch"]),
            (200, &granted["epoch"]),
            "{view}"
        );
        let since = renewed_at.elapsed();
        assert!(since < DEADLINE, "leader {number} gives up after {since:?}");
        renewed_at = began;
        renewals.count += 1;
        renewals.slowest = renewals.slowest.max(began.elapsed());
        sleep(interval.saturating_sub(began.elapsed())).await;
    }
    renewals
}
