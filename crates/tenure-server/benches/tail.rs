//! The latency of answers to 64 clients: median and tail. Each client acquires and releases its own
//! lease in a closed loop.
//!
//! The servers are processes of the command `tenure serve` with its defaults, which logs each
//! change. The load runs on the same processors. The command line may name several programs, which
//! are measured in turns. The default is the command in the folder where this benchmark was built.

mod support;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Connection, Samples, acquire, cpu, folder, path, per_second, proof, table};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const CLIENTS: u64 = 64;
const RUNS: usize = 3;

fn main() {
    let named = std::env::args_os().skip(1).map(PathBuf::from);
    let mut programs: Vec<PathBuf> = named
        .filter(|name| !name.to_string_lossy().starts_with("--"))
        .collect();
    if programs.is_empty() {
        programs.push(command());
    }
    let (warm_up, length) = match support::quick() {
        true => (Duration::from_millis(200), Duration::from_millis(500)),
        false => (Duration::from_secs(2), Duration::from_secs(8)),
    };
    let folders: Vec<_> = programs.iter().map(|_| folder()).collect();
    let servers = programs.iter().zip(&folders);
    let servers: Vec<_> = servers
        .map(|(program, folder)| Server::start(program, folder.path()))
        .collect();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for server in &servers {
        runtime.block_on(Run::of(server, warm_up));
    }
    let head = [
        "",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "worst, ms",
        "p99 / p50",
        "p99.9 / p50",
        "pairs per second",
        "processor time per pair, us",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for run in 1..=RUNS {
        for (program, server) in programs.iter().zip(&servers) {
            let measured = runtime.block_on(Run::of(server, length));
            rows.push(measured.row(&format!("{}, run {run}", program.display())));
        }
    }
    table(
        "Answers to 64 clients that acquire and release (target: p99 at most 6 and p99.9 at most 15 times p50)",
        &rows,
    );
}

/// Returns the command, which cargo puts one folder above this benchmark.
fn command() -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let command = this.ancestors().nth(2).map(|folder| folder.join("tenure"));
    let command = command.filter(|command| command.exists());
    command.expect("the command; build it with: cargo build --release --bin tenure")
}

/// A store with its default settings, until this value is dropped.
struct Server {
    process: std::process::Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Self {
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            // The store writes all lines of its log, but they cost the load nothing.
            .stderr(Stdio::null())
            .spawn()
            .expect("a server");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().rsplit('/').next().map(str::parse);
        let address = address.expect("a word").expect("its address");
        Self { process, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data is no longer needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measurements of a server over one period.
struct Run {
    millis: Samples,
    length: Duration,
    cpu: Duration,
    pairs: u64,
}

impl Run {
    async fn of(server: &Server, length: Duration) -> Self {
        let mut connections = Vec::new();
        for _ in 0..CLIENTS {
            connections.push(Connection::open(server.address).await);
        }
        let process = server.process.id();
        let (began, used) = (Instant::now(), cpu(process));
        let mut tasks = JoinSet::new();
        for (client, connection) in (0..).zip(connections) {
            tasks.spawn(pairs(client, connection, began + length));
        }
        let samples = tasks.join_all().await;
        let mut run = Self {
            millis: Samples::default(),
            length: began.elapsed(),
            cpu: cpu(process) - used,
            pairs: 0,
        };
        for samples in samples {
            run.pairs += samples.len() as u64 / 2;
            run.millis.extend(samples);
        }
        run
    }

    fn row(&self, name: &str) -> Vec<String> {
        let [p50, p99, p999, worst] =
            [0.5, 0.99, 0.999, 1.0].map(|part| self.millis.quantile(part));
        let cpu = self.cpu.as_secs_f64() * 1e6 / self.pairs as f64;
        let numbers = [p50, p99, p999, worst].map(|millis| format!("{millis:.2}"));
        let ratios = [p99, p999].map(|millis| format!("{:.1}", millis / p50));
        let rate = format!("{:.0}", per_second(self.pairs, self.length));
        let cells = numbers.into_iter().chain(ratios);
        let cells = cells.chain([rate, format!("{cpu:.1}")]);
        std::iter::once(name.to_owned()).chain(cells).collect()
    }
}

/// Returns the milliseconds until each answer of one client, alternately to an acquire and to a
/// release.
async fn pairs(client: u64, mut connection: Connection, end: Instant) -> Vec<f64> {
    let mut samples = Vec::with_capacity(10_000);
    let (acquired, released) = (path(client, "acquire"), path(client, "release"));
    while Instant::now() < end {
        let id = support::fresh();
        for (path, body) in [(&acquired, acquire(id, 0)), (&released, proof(id))] {
            let sent = Instant::now();
            assert_eq!(connection.post(path, &body).await, 200);
            samples.push(sent.elapsed().as_secs_f64() * 1e3);
        }
    }
    samples
}
