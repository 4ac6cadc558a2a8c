//! The cost of open pages for the store and for renewals. Each page reads the stream of all events,
//! and asks for the overview every five seconds.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use support::{Child, Connection, Kind, Samples, folder, path, proof, table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};

const LEASES: u64 = 1_000;
const PAGES: u64 = 50;
const CHANGES_PER_SECOND: u64 = 50;

/// The interval at which a page asks for the overview.
const REFRESH: Duration = Duration::from_secs(5);

fn main() {
    support::serve_if_asked();
    let time = match support::quick() {
        true => Duration::from_secs(2),
        false => Duration::from_secs(20),
    };
    let folder = folder();
    let server = Child::start(Kind::Embedded, LEASES, folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let changes = load(&stop, change(server.address, Arc::clone(&stop)));
    let without = Run::of(&server, time);
    let read = Arc::new(AtomicU64::new(0));
    let pages = load(&stop, look(server.address, Arc::clone(&read)));
    // All pages are open then, and have read their first overviews.
    thread::sleep(REFRESH);
    let before = read.load(Ordering::Relaxed);
    let with = Run::of(&server, time);
    let bytes = read.load(Ordering::Relaxed) - before;
    stop.store(true, Ordering::Relaxed);
    for load in [changes, pages] {
        load.join().expect("a load");
    }

    let row = |name: &str, run: &Run| {
        let [middle, most] = [0.5, 0.99].map(|part| run.renewals.quantile(part));
        let share = run.cpu.as_secs_f64() / time.as_secs_f64() * 100.0;
        vec![
            name.to_owned(),
            format!("{middle:.2}"),
            format!("{most:.2}"),
            format!("{share:.1} %"),
        ]
    };
    let head = ["", "median, ms", "p99, ms", "processor of the store"];
    let rows = [
        head.map(String::from).to_vec(),
        row("no page", &without),
        row(&format!("{PAGES} pages"), &with),
    ];
    let title = format!(
        "Renewals at {LEASES} leases and {CHANGES_PER_SECOND} changes per second, {time:?} each \
         (target: the pages take below 10 % of one processor)"
    );
    table(&title, &rows);
    let cost = with.cpu.saturating_sub(without.cpu).as_secs_f64() / time.as_secs_f64() * 100.0;
    let rate = bytes as f64 / time.as_secs_f64() / 1024.0;
    println!("  the pages cost {cost:.1} % of one processor, and read {rate:.0} KiB per second");
}

/// Runs clients on a thread of their own until they end, or until `stop`.
fn load(
    stop: &Arc<AtomicBool>,
    clients: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let stopped = async {
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        runtime.expect("a runtime").block_on(async {
            tokio::select! {
                () = clients => {}
                () = stopped => {}
            }
        });
    })
}

/// The renewals of some seconds, and the processor time that the server used meanwhile.
struct Run {
    renewals: Samples,
    cpu: Duration,
}

impl Run {
    fn of(server: &Child, time: Duration) -> Self {
        let cpu = server.cpu();
        let runtime = Builder::new_current_thread().enable_all().build();
        let renewals = renewals(server.address, time);
        Self {
            renewals: runtime.expect("a runtime").block_on(renewals),
            cpu: server.cpu() - cpu,
        }
    }
}

/// Changes the metadata of one lease after the other.
async fn change(server: SocketAddr, stop: Arc<AtomicBool>) {
    let mut connection = Connection::open(server).await;
    let mut ticks = interval(Duration::from_secs(1) / CHANGES_PER_SECOND as u32);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        ticks.tick().await;
        let lease = number % LEASES;
        let id = support::id(lease);
        let body = format!(r#"{{"lease_id":"{id}","metadata":{{"number":"{number}"}}}}"#);
        let status = connection.put(&path(lease, "metadata"), &body).await;
        assert!(status == 200 || stop.load(Ordering::Relaxed), "{status}");
    }
}

/// Opens the pages, and counts the bytes that they read.
async fn look(server: SocketAddr, read: Arc<AtomicU64>) {
    let mut pages = JoinSet::new();
    for page in 0..PAGES {
        pages.spawn(events(server, Arc::clone(&read)));
        pages.spawn(overviews(server, page, Arc::clone(&read)));
    }
    pages.join_all().await;
}

async fn events(server: SocketAddr, read: Arc<AtomicU64>) {
    const REQUEST: &[u8] =
        b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    let mut stream = TcpStream::connect(server).await.expect("a connection");
    let sent = stream.write_all(REQUEST).await;
    sent.expect("a request that is sent");
    let mut buffer = [0; 16 * 1024];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
        read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

async fn overviews(server: SocketAddr, page: u64, read: Arc<AtomicU64>) {
    let mut connection = Connection::open(server).await;
    // The pages were not opened at the same moment.
    let first = Instant::now() + REFRESH * page as u32 / PAGES as u32;
    let mut ticks = interval_at(first, REFRESH);
    loop {
        ticks.tick().await;
        assert_eq!(connection.get("/v1/overview?limit=200").await, 200);
        read.fetch_add(connection.body().len() as u64, Ordering::Relaxed);
    }
}

/// Returns the milliseconds of renewals, one after the other, for this time.
async fn renewals(server: SocketAddr, time: Duration) -> Samples {
    let mut connection = Connection::open(server).await;
    let mut samples = Samples::default();
    let until = Instant::now() + time;
    for lease in (0..LEASES).cycle() {
        let sent = Instant::now();
        if sent > until {
            break;
        }
        let status = connection.post(&path(lease, "renew"), &proof(lease)).await;
        assert_eq!(status, 200);
        samples.push(sent.elapsed().as_secs_f64() * 1e3);
        sleep(Duration::from_millis(2)).await;
    }
    samples
}
