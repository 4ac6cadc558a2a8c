//! The cost of clients that repeatedly open and close streams of a large namespace, for the store
//! and for renewals.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use support::{Child, Connection, Kind, Samples, folder, path, proof, table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

fn main() {
    support::serve_if_asked();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(support::quick()));
}

async fn measure(quick: bool) {
    let (leases, time) = if quick {
        (10_000, Duration::from_secs(1))
    } else {
        (100_000, Duration::from_secs(5))
    };
    let folder = folder();
    let server = Child::start(Kind::Memory, leases, folder.path());
    sleep(Duration::from_secs(1)).await;
    let idle = renewals(server.address, time).await;
    let (memory, cpu) = (server.resident(), server.cpu());

    let flapping = Flapping::start(server.address);
    let meanwhile = renewals(server.address, time).await;
    let opened = flapping.end();
    let grown = server.resident().saturating_sub(memory) as f64 / f64::from(1 << 20);
    let used = (server.cpu() - cpu).as_secs_f64();
    sleep(Duration::from_secs(2)).await;
    let cpu = server.cpu();
    let afterwards = renewals(server.address, time).await;
    let still_used = (server.cpu() - cpu).as_secs_f64();

    let row = |name: &str, samples: &Samples, used: &str| {
        let [middle, most] = [0.5, 0.99].map(|part| samples.quantile(part));
        let ratio = most / idle.quantile(0.99);
        let [middle, most] = [middle, most].map(|ms| format!("{ms:.2}"));
        vec![
            name.into(),
            middle,
            most,
            format!("{ratio:.1}"),
            used.into(),
        ]
    };
    let head = [
        "",
        "median, ms",
        "p99, ms",
        "ratio of the p99",
        "processor, s",
    ];
    let rows = [
        head.map(String::from).to_vec(),
        row("no stream", &idle, ""),
        row(
            "streams are opened and closed",
            &meanwhile,
            &format!("{used:.1}"),
        ),
        row("2 s later", &afterwards, &format!("{still_used:.1}")),
    ];
    let seconds = time.as_secs();
    let title = format!(
        "A renewal while a client opens and closes streams of {leases} leases, {seconds} s each (target: ratio below 10)"
    );
    table(&title, &rows);
    println!("  {opened} streams were opened; memory grew by {grown:.0} MiB (target: below 100)");
}

/// A client that repeatedly opens a stream of the namespace, reads its first event and closes the
/// stream.
struct Flapping {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Flapping {
    fn start(server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let mut opened = 0;
                while !is_stopped.load(Ordering::Relaxed) {
                    open_and_close(server).await;
                    opened += 1;
                }
                opened
            })
        });
        Self { stop, thread }
    }

    /// Ends the client. Returns the number of streams that it opened.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a client")
    }
}

async fn open_and_close(server: SocketAddr) {
    const REQUEST: &[u8] = b"GET /v1/namespaces/bench/leases/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    let mut stream = TcpStream::connect(server).await.expect("a connection");
    let sent = stream.write_all(REQUEST).await;
    sent.expect("a request that is sent");
    let mut answer = [0; 1024];
    let read = stream.read(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{read:?}");
}

/// Returns the milliseconds of renewals, one after the other, for this time.
async fn renewals(server: SocketAddr, time: Duration) -> Samples {
    let mut connection = Connection::open(server).await;
    let mut samples = Samples::default();
    let until = Instant::now() + time;
    for lease in (0..1_000).cycle() {
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
