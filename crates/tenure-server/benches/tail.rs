//! Durable acquires and releases of 64 clients in a closed loop: median and tail of the answers,
//! processor time, and bytes that the device gets. Each client goes through a thousand leases, so each
//! change is of another one.
//!
//! A program whose name begins with `redis-server` is measured beside them: `SET key id NX PX` and the
//! usual script that deletes a key with this id, with `appendfsync always`.
//!
//! The servers are processes of the command `tenure serve` with its defaults, which logs each
//! change. The load runs on the same processors. The command line may name several programs, which
//! are measured in turns. The default is the command in the folder where this benchmark was built.
//!
//! With `--snapshots` the store holds a million other leases, and only the answers count whose
//! operation began while it made a snapshot of them. It goes on until there were twenty snapshots.

mod support;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use support::{
    Child, Connection, Kind, Samples, acquire, cpu, folder, path, per_second, proof, table,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader as AsyncReader};
use tokio::net::TcpStream as TokioStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const CLIENTS: u64 = 64;
const LEASES: u64 = 1_000;
const RUNS: usize = 3;

/// The leases that others hold while snapshots are made, and the number of snapshots.
const HELD: u64 = 1_000_000;
const SNAPSHOTS: usize = 20;

/// The release of a lock in Redis.
const DELETE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

fn main() {
    support::serve_if_asked();
    let named = std::env::args_os().skip(1).map(PathBuf::from);
    let mut programs: Vec<PathBuf> = named
        .filter(|name| !name.to_string_lossy().starts_with("--"))
        .collect();
    if programs.is_empty() {
        programs.push(command());
    }
    if std::env::args().any(|argument| argument == "--snapshots") {
        return during_snapshots(&programs[0]);
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
    let head = TAILS.into_iter().chain([
        "pairs per second",
        "processor time per pair, us",
        "device bytes per pair",
    ]);
    let mut rows = vec![head.map(String::from).collect()];
    for run in 1..=RUNS {
        for (program, server) in programs.iter().zip(&servers) {
            let measured = runtime.block_on(Run::of(server, length));
            rows.push(measured.row(&format!("{}, run {run}", program.display())));
        }
    }
    table(
        "Answers to 64 clients that acquire and release 64,000 leases (target: p99 at most 4 and p99.9 at most 8 times p50, 1 KB per pair)",
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

/// A store with its default settings, or Redis, until this value is dropped.
struct Server {
    process: std::process::Child,
    address: SocketAddr,
    is_redis: bool,
    folder: PathBuf,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("redis-server") {
            return Self::start_redis(program, folder);
        }
        Self::start_store(program, folder, Stdio::null())
    }

    /// Starts a store, which writes all lines of its log. With `Stdio::null()` they cost the load nothing.
    fn start_store(program: &Path, folder: &Path, log: Stdio) -> Self {
        let config = folder.join("config.toml");
        // All leases are in one namespace.
        let limits = format!("[serve]\nmax_leases_per_namespace = {}\n", 2 * HELD);
        std::fs::write(&config, limits).expect("a file");
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a server");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().rsplit('/').next().map(str::parse);
        let address = address.expect("a word").expect("its address");
        Self {
            process,
            address,
            is_redis: false,
            folder: folder.to_owned(),
        }
    }

    fn start_redis(program: &Path, folder: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let address = free.expect("a free port");
        let port = address.port().to_string();
        let process = Command::new(program)
            .args([
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--appendonly",
                "yes",
            ])
            .args(["--appendfsync", "always", "--save", "", "--dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("Redis");
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Self {
            process,
            address,
            is_redis: true,
            folder: folder.to_owned(),
        }
    }

    /// Returns the bytes that the device of the folder has got since the start of the machine.
    fn written(&self) -> u64 {
        let device = std::fs::metadata(&self.folder).expect("a folder").dev();
        let (major, minor) = ((device >> 8) & 0xfff, device & 0xff);
        let counters = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
        let counters = counters.unwrap_or_default();
        let sectors = counters.split_whitespace().nth(6).map(str::parse::<u64>);
        sectors
            .and_then(Result::ok)
            .map_or(0, |sectors| 512 * sectors)
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
    answers: Vec<Answer>,
    length: Duration,
    cpu: Duration,
    written: u64,
}

/// An answer to an acquire or to a release.
struct Answer {
    sent: Instant,
    took: Duration,
}

impl Run {
    async fn of(server: &Server, length: Duration) -> Self {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(match server.is_redis {
                true => Client::Redis(Redis::open(server.address).await),
                false => Client::Store(Connection::open(server.address).await),
            });
        }
        let process = server.process.id();
        let (began, used, written) = (Instant::now(), cpu(process), server.written());
        let mut tasks = JoinSet::new();
        for (number, client) in (0..).zip(clients) {
            tasks.spawn(pairs(number, client, began + length));
        }
        let answers: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        Self {
            length: began.elapsed(),
            cpu: cpu(process) - used,
            written: server.written() - written,
            answers,
        }
    }

    /// The milliseconds of the answers whose operations began at one of these times.
    fn millis(&self, counts: impl Fn(Instant) -> bool) -> impl Iterator<Item = f64> {
        let counted = self.answers.iter().filter(move |it| counts(it.sent));
        counted.map(|it| it.took.as_secs_f64() * 1e3)
    }

    fn row(&self, name: &str) -> Vec<String> {
        let pairs = self.answers.len() as u64 / 2;
        let cpu = self.cpu.as_secs_f64() * 1e6 / pairs as f64;
        let rate = format!("{:.0}", per_second(pairs, self.length));
        let bytes = format!("{}", self.written / pairs.max(1));
        let mut millis = Samples::default();
        millis.extend(self.millis(|_| true));
        let mut cells = tails(name, &millis);
        cells.extend([rate, format!("{cpu:.1}"), bytes]);
        cells
    }
}

/// The heads of the cells of [`tails`].
const TAILS: [&str; 7] = [
    "",
    "p50, ms",
    "p99, ms",
    "p99.9, ms",
    "worst, ms",
    "p99 / p50",
    "p99.9 / p50",
];

fn tails(name: &str, millis: &Samples) -> Vec<String> {
    let [p50, p99, p999, worst] = [0.5, 0.99, 0.999, 1.0].map(|part| millis.quantile(part));
    let numbers = [p50, p99, p999, worst].map(|millis| format!("{millis:.2}"));
    let ratios = [p99, p999].map(|millis| format!("{:.1}", millis / p50));
    let cells = numbers.into_iter().chain(ratios);
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Measures answers while the store makes snapshots of [`HELD`] other leases.
fn during_snapshots(program: &Path) {
    let (held, snapshots) = match support::quick() {
        true => (10_000, 1),
        false => (HELD, SNAPSHOTS),
    };
    let folder = folder();
    let data = folder.path().join("data");
    drop(Child::start(Kind::Folder, held, &data));
    let mut server = Server::start_store(program, folder.path(), Stdio::piped());
    let log = server.process.stderr.take().expect("its log");
    let (made, known) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            let took = line.split("milliseconds=").nth(1);
            let took = took.and_then(|rest| rest.split(' ').next()?.parse().ok());
            if let Some(millis) = took.filter(|_| line.contains("made a snapshot")) {
                let end = Instant::now();
                // The measurement may be over.
                let _ = made.send((end - Duration::from_millis(millis), end));
            }
        }
    });
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (mut periods, mut during, mut all) = (Vec::new(), Samples::default(), Samples::default());
    while periods.len() < snapshots {
        let run = runtime.block_on(Run::of(&server, Duration::from_secs(10)));
        let new: Vec<_> = known.try_iter().collect();
        during.extend(run.millis(|sent| new.iter().any(|(from, to)| (*from..*to).contains(&sent))));
        all.extend(run.millis(|_| true));
        periods.extend(new);
    }
    let seconds: Duration = periods.iter().map(|(from, to)| *to - *from).sum();
    table(
        &format!(
            "{} answers during {} snapshots of {held} leases, which took {:.2} s each (target: p99 at most 4 and \
             p99.9 at most 8 times p50)",
            during.len(),
            periods.len(),
            seconds.as_secs_f64() / periods.len() as f64
        ),
        &[
            TAILS.map(String::from).to_vec(),
            tails("during snapshots", &during),
            tails("at all times", &all),
        ],
    );
}

/// A connection of a client.
enum Client {
    Store(Connection),
    Redis(Redis),
}

impl Client {
    async fn acquire(&mut self, lease: u64, id: u64) {
        match self {
            Self::Store(store) => {
                let path = path(lease, "acquire");
                assert_eq!(store.post(&path, &acquire(id, 0)).await, 200);
            }
            Self::Redis(redis) => {
                let (key, id) = (lease.to_string(), support::id(id));
                let answer = redis.ask(&["SET", &key, &id, "NX", "PX", "15000"]).await;
                assert_eq!(answer, "+OK");
            }
        }
    }

    async fn release(&mut self, lease: u64, id: u64) {
        match self {
            Self::Store(store) => {
                let path = path(lease, "release");
                assert_eq!(store.post(&path, &proof(id)).await, 200);
            }
            Self::Redis(redis) => {
                let (key, id) = (lease.to_string(), support::id(id));
                let answer = redis.ask(&["EVAL", DELETE, "1", &key, &id]).await;
                assert_eq!(answer, ":1");
            }
        }
    }
}

/// A connection to Redis.
struct Redis(AsyncReader<TokioStream>);

impl Redis {
    async fn open(address: SocketAddr) -> Self {
        let stream = TokioStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Self(AsyncReader::new(stream))
    }

    /// Returns the line of the answer.
    async fn ask(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        let stream = self.0.get_mut();
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request");
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("an answer");
        line.trim_end().to_owned()
    }
}

/// Returns the answers of one client, alternately to an acquire and to a release.
async fn pairs(number: u64, mut client: Client, end: Instant) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(10_000);
    for round in 0.. {
        if Instant::now() >= end {
            break;
        }
        let lease = HELD + number * LEASES + round % LEASES;
        let id = support::fresh();
        let sent = Instant::now();
        client.acquire(lease, id).await;
        let acquired = Instant::now();
        client.release(lease, id).await;
        answers.push(Answer {
            sent,
            took: acquired - sent,
        });
        answers.push(Answer {
            sent: acquired,
            took: acquired.elapsed(),
        });
    }
    answers
}
