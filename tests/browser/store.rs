//! A real store (`tenure serve`) for the page, with principals, elections and candidates.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::process::{Process, command, output};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

/// The principals of a guarded store, with their roles.
const PRINCIPALS: &[(&str, &str)] = &[("ada", "admin"), ("rita", "read"), ("worker", "candidate")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody has to sign in.
    Open,
    /// The same, without a disk.
    InMemory,
    /// With an access file and an audit log.
    Guarded,
}

/// A store process, which may be killed and started again at its address with its data.
#[derive(Debug)]
pub(crate) struct TestStore {
    folder: TempDir,
    address: SocketAddr,
    process: Process,
    kind: Kind,
    runtime: Runtime,
    http: reqwest::Client,
}

impl TestStore {
    /// Starts a store for which nobody has to sign in.
    pub(crate) fn open() -> Self {
        Self::new(Kind::Open)
    }

    /// Starts such a store that keeps nothing on disk, for very many elections.
    pub(crate) fn in_memory() -> Self {
        Self::new(Kind::InMemory)
    }

    /// Starts a store with an access file and an audit log.
    pub(crate) fn guarded() -> Self {
        Self::new(Kind::Guarded)
    }

    fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        if kind == Kind::Guarded {
            fs::write(folder.path().join("access.toml"), "version = 1\n").expect("a file");
            for (name, role) in PRINCIPALS {
                create(&folder, name, &["--role", role]);
            }
        }
        let any = "127.0.0.1:0".parse().expect("an address");
        let (process, address) = serve(&folder, any, kind);
        let http = tenure_tests::client::plain_http().timeout(Duration::from_secs(60));
        Self {
            folder,
            address,
            process,
            kind,
            runtime: Runtime::new().expect("a runtime"),
            http: http.build().expect("a client"),
        }
    }

    /// The address that the store listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The origin of the page, such as `http://127.0.0.1:7400`.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) const fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Kills the store without a warning.
    pub(crate) fn kill(&mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Starts the store again at its address.
    pub(crate) fn start(&mut self) {
        (self.process, self.address) = serve(&self.folder, self.address, self.kind);
    }

    /// Starts the store at another address, so that no page can reach it, changes elections, and
    /// kills it.
    pub(crate) fn change_unseen(&mut self, change: impl FnOnce(&Self)) {
        let address = self.address;
        let any = "127.0.0.1:0".parse().expect("an address");
        (self.process, self.address) = serve(&self.folder, any, self.kind);
        change(self);
        self.kill();
        self.address = address;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The token of a principal.
    pub(crate) fn token(&self, name: &str) -> String {
        let token = fs::read_to_string(self.path(&format!("{name}.token")));
        token.expect("a token").trim().to_owned()
    }

    /// Adds a principal, and waits until the store knows it.
    pub(crate) fn add_principal(&self, name: &str, options: &[&str]) {
        create(&self.folder, name, options);
        wait_for("the principal", || {
            let (status, _) = self.ask(name, Method::GET, "/v1/whoami", &Value::Null);
            (status == 200).then_some(())
        });
    }

    /// Removes a principal from the access file. The store reads it within a second.
    pub(crate) fn revoke(&self, name: &str) {
        let file = self.path("access.toml");
        let file = file.to_str().expect("a path of text");
        let arguments = ["token", "revoke", "--principal", name, "--file", file];
        let output = output(&mut command(&arguments));
        assert!(output.status.success(), "{output:?}");
    }

    /// Sends a request as this principal, or without a credential to an open store.
    pub(crate) fn ask(
        &self,
        principal: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        self.runtime
            .block_on(self.send(principal, method, path, body))
    }

    async fn send(
        &self,
        principal: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.origin()));
        if self.kind == Kind::Guarded {
            request = request.bearer_auth(self.token(principal));
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// Reads what the administrator may read.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("ada", Method::GET, path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// A code that signs this principal in, once.
    #[track_caller]
    pub(crate) fn code(&self, principal: &str) -> String {
        let (status, answer) = self.ask(principal, Method::POST, "/v1/session/code", &Value::Null);
        assert!(status < 300, "{status} {answer}");
        answer["code"].as_str().expect("a code").to_owned()
    }

    /// Makes this holder the leader. More fields of the request may follow.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value)] // Callers write `json!` in place.
    pub(crate) fn acquire(
        &self,
        election: &str,
        holder: &str,
        duration: Value,
        more: &Value,
    ) -> String {
        let mut body = json!({ "holder": holder, "duration_ms": duration });
        let more = more.as_object().into_iter().flatten();
        let fields = body.as_object_mut().expect("an object");
        fields.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        let path = format!("{}/acquire", lease(election));
        let (status, answer) = self.ask("worker", Method::POST, &path, &body);
        assert_eq!(status, 200, "{election} for {holder}: {answer}");
        answer["lease_id"].as_str().expect("a lease id").to_owned()
    }

    /// Renews a lease for this time. Returns whether the holder still has it.
    pub(crate) fn renew(&self, election: &str, lease_id: &str, duration_ms: u32) -> bool {
        let body = json!({ "lease_id": lease_id, "duration_ms": duration_ms });
        let path = format!("{}/renew", lease(election));
        self.ask("worker", Method::POST, &path, &body).0 == 200
    }

    /// Lets the holder of a lease end its term.
    #[track_caller]
    pub(crate) fn release(&self, election: &str, lease_id: &str, reason: &str) {
        let body = json!({ "lease_id": lease_id, "reason": reason });
        let path = format!("{}/release", lease(election));
        let (status, answer) = self.ask("worker", Method::POST, &path, &body);
        assert_eq!(status, 200, "{election}: {answer}");
    }

    /// Breaks a lease as the administrator.
    #[track_caller]
    pub(crate) fn breaks(&self, election: &str, period_ms: u32, reason: &str) {
        let body = json!({ "break_period_ms": period_ms, "reason": reason });
        let path = format!("{}/break", lease(election));
        let (status, answer) = self.ask("ada", Method::POST, &path, &body);
        assert_eq!(status, 200, "{election}: {answer}");
    }

    /// Lets this candidate wait for the lease, in the background. Its request ends with the store.
    pub(crate) fn let_wait(&self, election: &str, holder: &str, priority: u32) {
        let path = format!("{}{}/acquire", self.origin(), lease(election));
        let body = json!({
            "holder": holder, "duration_ms": 600_000, "wait_ms": 300_000, "priority": priority,
        });
        let mut request = self.http.post(path).json(&body);
        request = request.timeout(Duration::from_secs(310));
        if self.kind == Kind::Guarded {
            request = request.bearer_auth(self.token("worker"));
        }
        self.runtime.spawn(async move { request.send().await });
        wait_for("a waiter", || {
            let waiters = self.get(&format!("{}/waiters", lease(election)));
            let mut waiters = waiters["waiters"].as_array()?.iter();
            waiters
                .any(|waiter| waiter["holder"] == holder)
                .then_some(())
        });
    }

    /// Makes leaders of this number of elections, `job-00001` and so on.
    pub(crate) fn acquire_many(&self, namespace: &str, count: u32) {
        let body = json!({ "holder": "worker-1", "duration_ms": 3_600_000 });
        let body = &body;
        let sent = stream::iter(0..count).map(async |number| {
            let path = format!("{}/acquire", lease(&format!("{namespace}/job-{number:05}")));
            let (status, answer) = self.send("worker", Method::POST, &path, body).await;
            assert_eq!(status, 200, "{path}: {answer}");
        });
        self.runtime
            .block_on(sent.buffer_unordered(64).for_each(async |()| {}));
    }

    /// Starts a real candidate whose command leads until it is stopped, and waits until it leads
    /// or waits.
    pub(crate) fn run(&self, election: &str, candidate: &str, priority: u32) -> Process {
        let (url, priority) = (self.origin(), priority.to_string());
        let mut run = command(&[
            "run",
            "--server",
            &url,
            "--election",
            election,
            "--candidate",
            candidate,
            "--priority",
            &priority,
            "--lease-duration",
            "3s",
        ]);
        if self.kind == Kind::Guarded {
            run.arg("--token-file").arg(self.path("worker.token"));
        }
        let process = Process::spawn(run.args(["--", "sleep", "1000"]));
        wait_for("the candidate", || {
            let (status, view) = self.ask("ada", Method::GET, &lease(election), &Value::Null);
            if status != 200 {
                return None;
            }
            let waiters = self.get(&format!("{}/waiters", lease(election)));
            let mut waiters = waiters["waiters"].as_array()?.iter();
            let waits = waiters.any(|waiter| waiter["holder"] == candidate);
            (waits || view["holder"] == candidate).then_some(())
        });
        process
    }
}

/// The path of the lease of an election, such as `billing/nightly`.
pub(crate) fn lease(election: &str) -> String {
    let (namespace, name) = election.split_once('/').expect("an election");
    format!("/v1/namespaces/{namespace}/leases/{name}")
}

fn create(folder: &TempDir, name: &str, options: &[&str]) {
    let path = |file: &str| folder.path().join(file).to_str().expect("text").to_owned();
    let (file, token) = (path("access.toml"), path(&format!("{name}.token")));
    let mut create = command(&["token", "create", name, "--file", &file, "--output", &token]);
    create.args(options);
    if !options.contains(&"--namespace") {
        create.args(["--namespace", "*"]);
    }
    let output = output(&mut create);
    assert!(output.status.success(), "{output:?}");
}

fn serve(folder: &TempDir, listen: SocketAddr, kind: Kind) -> (Process, SocketAddr) {
    let path = |file: &str| folder.path().join(file);
    let mut serve = command(&["serve", "--listen", &listen.to_string()]);
    match kind {
        Kind::InMemory => serve.args(["--home", "memory"]),
        Kind::Open | Kind::Guarded => serve.arg("--data-dir").arg(path("data")),
    };
    if kind == Kind::Guarded {
        let audit = format!("[audit]\nfile = {:?}\n", path("audit.jsonl"));
        fs::write(path("tenure.toml"), audit).expect("a file");
        serve.arg("--access").arg(path("access.toml"));
        serve.arg("--config").arg(path("tenure.toml"));
    }
    let mut process = Process::spawn(&mut serve);
    let address = wait_for("the start of the store", || {
        let has_ended = process.has_ended();
        assert!(!has_ended, "the store has ended: {}", process.stderr());
        let stdout = process.stdout();
        let line = stdout.lines().next()?;
        line.strip_prefix("listening on http://")?.parse().ok()
    });
    (process, address)
}
