//! Servers in their own processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Json;
use axum::Router;
use axum::extract::Path as UrlPath;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use nix::time::ClockId;
use nix::unistd::Pid;
use tenure_core::wire::{LeaseView, RenewRequest};
use tenure_server::{Server, Store, StoreConfig};

use super::Local;

/// The kind of server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No store: a handler that parses a renewal and returns the same answer as the store.
    Bare,
    /// A store in memory.
    Memory,
    /// A store on disk.
    Folder,
}

/// A server that serves until this is dropped.
pub struct Child {
    process: std::process::Child,
    /// The server ends when this is closed, however the benchmark ends.
    _stdin: ChildStdin,
    pub address: SocketAddr,
    /// The growth of its memory while it created its leases, in bytes.
    pub grown: u64,
    /// The time from its start until it was ready, without the creation of leases.
    pub start: Duration,
}

impl Child {
    /// Starts a server with this number of held leases. Blocks until it is ready.
    pub fn start(kind: Kind, leases: u64, folder: &Path) -> Self {
        let folder = folder.to_str().expect("a folder with a name in UTF-8");
        Self::spawn(&["--serve", &format!("{kind:?}"), &leases.to_string(), folder])
    }

    /// Starts this program with the arguments that make it a server. Blocks until it is ready.
    pub fn spawn(arguments: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let stdin = process.stdin.take().expect("its input");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("a server that is ready");
        Self {
            address: word().parse().expect("its address"),
            grown: word().parse().expect("its growth"),
            start: Duration::from_micros(word().parse().expect("its start")),
            process,
            _stdin: stdin,
        }
    }

    /// Returns the processor time that the server has used.
    pub fn cpu(&self) -> Duration {
        cpu(self.process.id())
    }

    /// Returns the server's memory in bytes.
    pub fn resident(&self) -> u64 {
        resident(&self.process.id().to_string())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The data is no longer needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the processor time that a process has used, with all its threads.
pub fn cpu(process: u32) -> Duration {
    let clock = ClockId::pid_cpu_clock_id(pid(process)).expect("a process");
    Duration::from(clock.now().expect("its clock"))
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.cast_signed())
}

/// Serves until its input ends, if this process was started as a server.
pub fn serve_if_asked() {
    serve_if_asked_with(|server, _| server);
}

/// Does the same as [`serve_if_asked`], and `extend` may add another protocol to the server.
pub fn serve_if_asked_with(extend: impl FnOnce(Server, &Store) -> Server) {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, kind, leases, folder] = arguments.as_slice() else {
        return;
    };
    if flag != "--serve" {
        return;
    }
    end_with_input();
    let leases = leases.parse().expect("a number");
    let mut config = match kind.as_str() {
        "Bare" => None,
        "Memory" => Some(StoreConfig::memory()),
        _ => Some(StoreConfig::folder(folder)),
    };
    if let Some(config) = &mut config {
        // All leases are in one namespace.
        config.limits.max_leases_per_namespace = 1_000_000;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match config {
        None => runtime.block_on(serve_bare()),
        Some(config) => runtime.block_on(serve_store(config, leases, extend)),
    }
    std::process::exit(0);
}

/// Ends this process when its input ends, that is, with the benchmark.
pub(super) fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

async fn serve_store(
    config: StoreConfig,
    leases: u64,
    extend: impl FnOnce(Server, &Store) -> Server,
) {
    let began = Instant::now();
    let store = Store::open(config).expect("a store");
    let start = began.elapsed();
    let server = Server::bind(store.clone(), any_port()).expect("a listener");
    let server = extend(server, &store);
    let before = resident("self");
    Local::new(store).hold(leases).await;
    let grown = resident("self").saturating_sub(before);
    ready(server.local_addr().expect("an address"), grown, start);
    server
        .serve(std::future::pending())
        .await
        .expect("to serve");
}

/// Runs a service with the same requests and answers, but without a store.
async fn serve_bare() {
    async fn renew(
        path: UrlPath<(String, String)>,
        Json(request): Json<RenewRequest>,
    ) -> Json<LeaseView> {
        std::hint::black_box(request);
        read(path).await
    }
    async fn read(UrlPath((namespace, lease)): UrlPath<(String, String)>) -> Json<LeaseView> {
        let mut view = LeaseView::new(namespace, lease, tenure_core::lease::State::Leased);
        view.holder = Some("worker-0000001".into());
        view.epoch = Some(1_795_230_310_385);
        view.duration_ms = Some(tenure_core::wire::DurationMs::from(
            tenure_core::lease::LeaseDuration::Fixed(Duration::from_secs(86_400)),
        ));
        view.remaining_ms = Some(86_400_000);
        view.granted_at = Some("2026-11-21T02:05:10.385Z".into());
        view.metadata = Some(std::collections::BTreeMap::new());
        view.revision = 1_000_000;
        Json(view)
    }
    let lease = "/v1/namespaces/{namespace}/leases/{lease}";
    let listener = TcpListener::bind(any_port()).expect("a listener");
    listener.set_nonblocking(true).expect("a listener");
    ready(
        listener.local_addr().expect("an address"),
        0,
        Duration::ZERO,
    );
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket"));
    // The bare server has no store and therefore no rights.
    #[allow(clippy::disallowed_methods)]
    let router = Router::new()
        .route(lease, get(read))
        .route(&format!("{lease}/renew"), post(renew));
    axum::serve(listener, router).await.expect("to serve");
}

pub(super) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Tells the benchmark that this server is ready.
pub(super) fn ready(address: SocketAddr, grown: u64, start: Duration) {
    let mut out = std::io::stdout();
    let line = writeln!(out, "{address} {grown} {}", start.as_micros());
    line.and_then(|()| out.flush())
        .expect("a benchmark that listens");
}

/// Returns the memory of a process in bytes.
fn resident(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.expect("Linux's /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.and_then(|kb| kb.parse().ok()).expect("VmRSS");
    kilobytes * 1024
}
