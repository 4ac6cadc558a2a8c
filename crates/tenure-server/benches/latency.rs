//! The latency of grants to waiters, and the effect of waiters on renewals of other leases.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use support::{Child, Connection, Kind, Samples, acquire, acquire_for, folder, path, proof, table};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The time for which requests wait: longer than the benchmark takes.
const WAIT_MS: u64 = 300_000;

/// The lease that the waiters want. Its holder has it from the start, under the lease id of the
/// same number.
const CONTENDED: u64 = 0;

fn main() {
    support::serve_if_asked();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(support::quick()));
}

async fn measure(quick: bool) {
    let folders = [folder(), folder()];
    let idle = Child::start(Kind::Embedded, 1_000, folders[0].path());
    let loaded = Child::start(Kind::Embedded, 1_000, folders[1].path());
    let count = if quick { 20 } else { 300 };

    let released = releases(idle.address, count).await;
    let expired = expiries(idle.address, count).await;
    let cells = |cells: [&str; 4]| cells.map(String::from).to_vec();
    let quantiles = |name: &str, samples: &Samples, more: &str| {
        let [middle, most] = [0.5, 0.99].map(|part| format!("{:.2}", samples.quantile(part)));
        cells([name, &middle, &most, more])
    };
    let rows = [
        cells(["after", "median, ms", "p99, ms", "target for the median"]),
        quantiles("a release", &released, "10"),
        quantiles("an expiry", &expired, "20"),
    ];
    table(
        "Time until the next waiter holds the lease, over HTTP",
        &rows,
    );

    let (waiters, watchers) = if quick { (200, 20) } else { (5_000, 500) };
    let crowd = Crowd::gather(loaded.address, waiters, watchers).await;
    let mut quiet = Samples::default();
    let mut crowded = Samples::default();
    let mut changing = Samples::default();
    for _ in 0..if quick { 2 } else { 8 } {
        quiet.extend(renewals(idle.address, count * 3, None).await);
        crowded.extend(renewals(loaded.address, count * 3, None).await);
        let every = Duration::from_millis(100);
        changing.extend(renewals(loaded.address, count * 3, Some(every)).await);
    }
    let base = quiet.quantile(0.99);
    let ratio = |samples: &Samples| format!("{:.1}", samples.quantile(0.99) / base);
    let rows = [
        cells(["", "median, ms", "p99, ms", "ratio of the p99"]),
        quantiles("without waiters", &quiet, "1"),
        quantiles("with waiters and watchers", &crowded, &ratio(&crowded)),
        quantiles(
            "while each watcher gets 10 events per second",
            &changing,
            &ratio(&changing),
        ),
    ];
    let title = format!(
        "A renewal with {waiters} waiters and {watchers} watchers (target: ratio below 10)"
    );
    table(&title, &rows);
    let each = crowd.heard.load(Ordering::Relaxed) / watchers;
    println!("  each watcher got {each} events");
}

/// Returns the milliseconds from sending a release until the next waiter has its grant.
async fn releases(server: SocketAddr, count: u64) -> Samples {
    const LEASE: u64 = 8_000_000;
    let mut samples = Samples::default();
    let mut holder = Connection::open(server).await;
    let mut next = Connection::open(server).await;
    let status = holder
        .post(&path(LEASE, "acquire"), &acquire(LEASE, 0))
        .await;
    assert_eq!(status, 200);
    for number in LEASE..LEASE + count {
        let waiting = tokio::spawn(async move {
            let body = acquire(number + 1, WAIT_MS);
            assert_eq!(next.post(&path(LEASE, "acquire"), &body).await, 200);
            (Instant::now(), next)
        });
        // No event shows that the request waits. After this time it does.
        sleep(Duration::from_millis(3)).await;
        let sent = Instant::now();
        let status = holder.post(&path(LEASE, "release"), &proof(number)).await;
        assert_eq!(status, 200);
        let (granted, connection) = waiting.await.expect("a grant");
        samples.push(millis(granted - sent));
        next = holder;
        holder = connection;
    }
    samples
}

/// Returns the milliseconds from the expiry of a lease of one second until the next waiter has its
/// grant. The second counts from sending the first acquire, which was granted later, so the result
/// is slightly too large.
async fn expiries(server: SocketAddr, count: u64) -> Samples {
    const LEASE: u64 = 9_000_000;
    let mut tasks = JoinSet::new();
    for number in LEASE..LEASE + count {
        tasks.spawn(async move {
            let mut holder = Connection::open(server).await;
            let mut next = Connection::open(server).await;
            let body = acquire_for(1_000, number, 0);
            // The leases expire at different times, as in production.
            sleep(Duration::from_millis(10) * (number - LEASE) as u32).await;
            let sent = Instant::now();
            assert_eq!(holder.post(&path(number, "acquire"), &body).await, 200);
            let body = acquire(number + count, WAIT_MS);
            assert_eq!(next.post(&path(number, "acquire"), &body).await, 200);
            millis(sent.elapsed()) - 1_000.0
        });
    }
    let mut samples = Samples::default();
    samples.extend(tasks.join_all().await);
    samples
}

/// Many waiters and watchers of one lease, on another thread, until this value is dropped.
struct Crowd {
    /// The number of events that all watchers received.
    heard: Arc<AtomicU64>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    async fn gather(server: SocketAddr, waiters: u64, watchers: u64) -> Self {
        let heard = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&heard);
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let mut tasks = JoinSet::new();
                for number in 0..waiters {
                    let mut connection = Connection::open(server).await;
                    tasks.spawn(async move {
                        let body = acquire(1_000_000 + number, WAIT_MS);
                        connection.post(&path(CONTENDED, "acquire"), &body).await;
                    });
                }
                for _ in 0..watchers {
                    tasks.spawn(watch(server, Arc::clone(&counted)));
                }
                let _ = ended.await;
            });
        });
        let mut connection = Connection::open(server).await;
        let path = path(CONTENDED, "");
        let everybody = format!("\"waiters\":{waiters},");
        // Each stream begins with a reset.
        while heard.load(Ordering::Relaxed) < watchers || {
            assert_eq!(connection.get(path.trim_end_matches('/')).await, 200);
            !String::from_utf8_lossy(connection.body()).contains(&everybody)
        } {
            sleep(Duration::from_millis(20)).await;
        }
        Self {
            heard,
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Crowd {
    /// Ends the clients before their server.
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().map(JoinHandle::join);
        ended.expect("a thread").expect("a crowd");
    }
}

/// Reads the lease's events until the stream ends, and counts them.
async fn watch(server: SocketAddr, heard: Arc<AtomicU64>) {
    let mut stream = TcpStream::connect(server).await.expect("a connection");
    let path = path(CONTENDED, "events");
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.expect("a request that is sent");
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with("data:") {
            heard.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the milliseconds of renewals, one after the other, alternately of the lease with the
/// crowd and of another lease. The watched lease changes at the interval `every`.
async fn renewals(server: SocketAddr, count: u64, every: Option<Duration>) -> Vec<f64> {
    let changes = every.map(|every| {
        tokio::spawn(async move {
            let mut connection = Connection::open(server).await;
            for change in 0.. {
                let id = support::id(CONTENDED);
                let body = format!(r#"{{"lease_id":"{id}","metadata":{{"change":"{change}"}}}}"#);
                assert_eq!(
                    connection.put(&path(CONTENDED, "metadata"), &body).await,
                    200
                );
                sleep(every).await;
            }
        })
    });
    let mut connection = Connection::open(server).await;
    let mut samples = Vec::new();
    for number in 0..count {
        let lease = if number % 2 == 0 {
            CONTENDED
        } else {
            1 + number % 999
        };
        let sent = Instant::now();
        let status = connection.post(&path(lease, "renew"), &proof(lease)).await;
        assert_eq!(status, 200);
        samples.push(millis(sent.elapsed()));
        sleep(Duration::from_micros(500)).await;
    }
    if let Some(changes) = changes {
        changes.abort();
    }
    samples
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
