//! The servers of a cluster as processes, over an engine. In front of each server is a tap, which
//! records the requests of all clients in one history. Between each server and each member of the
//! engine is a proxy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bucket::{Bucket, BucketServer};
use crate::chain::{Audited, audit};
use crate::client::{Answer, Client};
use crate::engine::{Databases, Engine, Kind};
use crate::etcd::{Etcd, Host};
use crate::ports::free_address;
use crate::process::{Process, command_of, tenure};
use crate::proxy::{Proxy, ProxyMode};
use crate::tap::Tap;
use crate::{wait_for, wait_until};

/// How long a client waits for an answer: longer than a request waits in a store.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// The settings of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of servers.
    pub servers: usize,
    /// The engine.
    pub kind: Kind,
    /// The number of members of the engine.
    pub members: usize,
    /// The hosts of the members of etcd, one for each; none if all run on this machine.
    pub hosts: Vec<Host>,
    /// The ownership duration.
    pub ownership: Duration,
    /// Parameters of the URL of the home.
    pub parameters: String,
    /// The file with the password of the user `tenure` of etcd.
    pub password_file: Option<PathBuf>,
    /// More lines of the table `[cluster]`.
    pub cluster: String,
    /// Options of the members of etcd.
    pub options: Vec<String>,
    /// The lease duration of leaders that must keep their terms.
    pub lease: Duration,
}

impl Settings {
    /// The settings of a short test: three servers over one member of etcd. Leaders have at least
    /// twice the default timings, because a busy machine delays a fail-over.
    #[must_use]
    pub fn short(ownership: Duration) -> Self {
        Self {
            servers: 3,
            kind: Kind::Etcd,
            members: 1,
            hosts: Vec::new(),
            ownership,
            parameters: String::new(),
            password_file: None,
            cluster: String::new(),
            options: Vec::new(),
            lease: Duration::from_secs(30).max(10 * ownership),
        }
    }

    /// The settings of a long test: three servers over three members of etcd, and leaders with the
    /// default timings.
    #[must_use]
    pub fn long(ownership: Duration) -> Self {
        let mut settings = Self::short(ownership);
        settings.members = 3;
        settings.lease = Duration::from_secs(15);
        settings
    }

    /// The same settings over PostgreSQL: one server, or a primary and a synchronous standby if
    /// there are more members.
    #[must_use]
    pub fn over_postgres(self) -> Self {
        Self {
            kind: Kind::Postgres,
            members: self.members.min(2),
            ..self
        }
    }

    /// The same settings over a bucket of this server.
    #[must_use]
    pub fn over_bucket(self, server: BucketServer) -> Self {
        Self {
            kind: Kind::Bucket(server),
            members: 1,
            ..self
        }
    }
}

/// A cluster on this machine. All its processes are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Runs the taps and the proxies.
    pub runtime: Runtime,
    /// A folder for files of the test.
    pub folder: TempDir,
    /// The engine.
    pub engine: Engine,
    /// The servers.
    pub servers: Vec<Server>,
    /// The settings.
    pub settings: Settings,
}

/// A server of a cluster.
#[derive(Debug)]
pub struct Server {
    /// The name.
    pub name: String,
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// The proxy that clients use.
    pub tap: Tap,
    /// The proxies between this server and each member of the engine.
    pub engine: Vec<Proxy>,
    /// More variables of the environment of the process.
    pub environment: Vec<(String, PathBuf)>,
    /// The `tenure` that it runs.
    pub binary: PathBuf,
    /// A client without the tap.
    direct: Client,
    config: PathBuf,
    process: Option<Process>,
    /// The log of the processes that have ended.
    log: String,
}

impl Cluster {
    /// Starts the engine and the servers; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn start(test: &str, settings: Settings) -> Option<Self> {
        let mut cluster = Self::prepare(test, settings)?;
        cluster.run();
        Some(cluster)
    }

    /// Starts the servers, after [`Cluster::prepare`].
    ///
    /// # Panics
    ///
    /// If they do not start.
    pub fn run(&mut self) {
        for server in &mut self.servers {
            server.spawn();
        }
        self.active();
        self.engine.prepare();
        for server in &self.servers {
            server.wait_until_ready(&self.runtime);
        }
    }

    /// Starts the engine, and no server; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn prepare(test: &str, settings: Settings) -> Option<Self> {
        let engine = Engine::start(test, &settings)?;
        let mut cluster = Self {
            runtime: Runtime::new().expect("a runtime"),
            folder: tempfile::tempdir().expect("a folder"),
            engine,
            servers: Vec::new(),
            settings,
        };
        for number in 1..=cluster.settings.servers {
            let ownership = cluster.settings.ownership;
            cluster.add(&format!("s{number}"), "c", ownership);
        }
        Some(cluster)
    }

    /// Adds a server with this name to the cluster with this name. It does not run yet.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn add(&mut self, name: &str, cluster: &str, ownership: Duration) {
        let address = free_address();
        let members = self.engine.addresses();
        let (tap, engine) = self.runtime.block_on(async {
            let tap = match self.servers.first() {
                Some(first) => first.tap.beside(address).await,
                None => Tap::start(address).await,
            };
            let mut engine = Vec::new();
            for member in members {
                let proxy = Proxy::start(member).await;
                engine.push(proxy.expect("a free port"));
            }
            (tap, engine)
        });
        let config = self.folder.path().join(format!("{cluster}-{name}.toml"));
        let addresses: Vec<_> = engine.iter().map(Proxy::address).collect();
        let text = format!(
            "[serve]\nlisten = \"{address}\"\n{}\n\
             [cluster]\nname = \"{cluster}\"\nserver = \"{name}\"\n\
             advertise = \"http://{}\"\nownership = \"{}ms\"\n{}\n",
            self.engine.home(&addresses, &config, &self.settings),
            tap.address(),
            ownership.as_millis(),
            self.settings.cluster,
        );
        fs::write(&config, text).expect("a file");
        self.servers.push(Server {
            name: name.to_owned(),
            address,
            tap,
            engine,
            environment: self.engine.environment(),
            binary: tenure(),
            direct: Client::of(&[address], TIMEOUT),
            config,
            process: None,
            log: String::new(),
        });
    }

    /// Waits until exactly one of the servers says that it is active, and returns it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn active(&self) -> usize {
        wait_for("an active server", || {
            let is_active = |it: &usize| self.servers[*it].role(&self.runtime) == "active";
            let active: Vec<_> = (0..self.servers.len()).filter(is_active).collect();
            (active.len() == 1).then(|| active[0])
        })
    }

    /// The same, with the generation of that server.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn ownership(&self) -> (usize, u64) {
        wait_for("an active server", || {
            let active = self.active();
            let view = self.servers[active].view(&self.runtime)?;
            let generation = view["generation"].as_u64()?;
            (view["role"] == "active").then_some((active, generation))
        })
    }

    /// Waits until another server than this one is active, and returns it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn active_beside(&self, old: usize) -> usize {
        wait_for("another active server", || {
            (0..self.servers.len())
                .filter(|it| *it != old)
                .find(|it| self.servers[*it].role(&self.runtime) == "active")
        })
    }

    /// The generation that this server has seen.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn generation(&self, server: usize) -> u64 {
        let server = &self.servers[server];
        let view = wait_for("a view", || server.view(&self.runtime));
        view["generation"].as_u64().expect("a number")
    }

    /// Waits until this server has seen a take-over after this generation, and has its part in the
    /// cluster again: it follows, or has taken over itself since then.
    ///
    /// # Panics
    ///
    /// If it does not; the message contains its log.
    pub fn wait_until_deposed(&self, server: usize, generation: u64) {
        let server = &self.servers[server];
        server.wait_for_view(&self.runtime, "no take-over seen", |view| {
            let is_later = view["generation"].as_u64() > Some(generation);
            is_later
                && ["following", "active"]
                    .iter()
                    .any(|role| view["role"] == *role)
        });
    }

    /// A client of all servers.
    #[must_use]
    pub fn client(&self) -> Client {
        let taps: Vec<_> = self.servers.iter().map(|it| it.tap.address()).collect();
        Client::of(&taps, TIMEOUT)
    }

    /// A client of one server.
    #[must_use]
    pub fn client_of(&self, server: usize) -> Client {
        Client::of(&[self.servers[server].tap.address()], TIMEOUT)
    }

    /// The URLs of all taps, for the library.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        (self.servers.iter())
            .map(|it| format!("http://{}", it.tap.address()))
            .collect()
    }

    /// The members of etcd.
    ///
    /// # Panics
    ///
    /// If the engine is another one.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        match &self.engine {
            Engine::Etcd(etcd) => etcd,
            _ => panic!("the engine is not etcd"),
        }
    }

    /// The same, for changes.
    ///
    /// # Panics
    ///
    /// If the engine is another one.
    pub fn etcd_mut(&mut self) -> &mut Etcd {
        match &mut self.engine {
            Engine::Etcd(etcd) => etcd,
            _ => panic!("the engine is not etcd"),
        }
    }

    /// The servers of PostgreSQL.
    ///
    /// # Panics
    ///
    /// If the engine is another one.
    pub fn databases(&mut self) -> &mut Databases {
        match &mut self.engine {
            Engine::Postgres(databases) => databases,
            _ => panic!("the engine is not PostgreSQL"),
        }
    }

    /// The bucket.
    ///
    /// # Panics
    ///
    /// If the engine is another one.
    pub fn bucket(&mut self) -> &mut Bucket {
        match &mut self.engine {
            Engine::Bucket(bucket) => bucket,
            _ => panic!("the engine is not a bucket"),
        }
    }

    /// Cuts this server from the engine, or connects it again.
    pub fn cut(&self, server: usize, mode: ProxyMode) {
        for proxy in &self.servers[server].engine {
            proxy.set(mode);
        }
    }

    /// Checks all answers that clients got, and the chain of heads.
    ///
    /// # Panics
    ///
    /// With the violation.
    pub fn verify(&self) -> Audited {
        self.verify_answers();
        self.audit("c")
    }

    /// Checks all answers that clients got. Every lease is read once more before, so that a lost
    /// change is found.
    ///
    /// # Panics
    ///
    /// With the violation.
    pub fn verify_answers(&self) {
        let client = self.client();
        let mut leases: Vec<_> = self.servers[0].tap.calls();
        leases.sort_by(|one, other| one.lease.cmp(&other.lease));
        leases.dedup_by(|one, other| one.lease == other.lease);
        self.runtime.block_on(async {
            for call in leases {
                wait_until("a view", async || {
                    let answer = client.view(&call.lease).await;
                    answer.filter(|(status, _)| *status < 500)
                })
                .await;
            }
        });
        self.servers[0].tap.assert_possible();
    }

    /// Checks the chain of heads of the cluster with this name.
    ///
    /// # Panics
    ///
    /// With the violation.
    #[must_use]
    pub fn audit(&self, cluster: &str) -> Audited {
        let audited = audit(&self.engine.links(cluster));
        audited.unwrap_or_else(|violation| panic!("violation of safety: {violation}"))
    }
}

/// A failed test shows the logs of the servers, without the lines about leases.
impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for server in &self.servers {
                let log = server.log();
                let lines = log.lines().filter(|line| !line.contains(" election="));
                let lines: Vec<_> = lines.collect();
                let last = &lines[lines.len().saturating_sub(40)..];
                eprintln!("the log of {}:\n{}", server.name, last.join("\n"));
            }
        }
    }
}

impl Server {
    /// Starts the process.
    ///
    /// # Panics
    ///
    /// If it runs already.
    pub fn spawn(&mut self) {
        assert!(self.process.is_none(), "{} runs", self.name);
        let config = self.config.to_str().expect("a path in UTF-8");
        let mut command = command_of(&self.binary, &["serve", "--config", config]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::spawn(&mut command));
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    ///
    /// If it does not run, or does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("a process");
        let status = process.wait();
        self.log += &process.stderr();
        status
    }

    /// Whether the process ends by itself within this time.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let process = self.process.as_mut().expect("a process");
        let until = Instant::now() + time;
        while !process.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        process.has_ended()
    }

    /// The log of all its processes so far.
    #[must_use]
    pub fn log(&self) -> String {
        let now = self.process.as_ref().map(Process::stderr);
        format!("{}{}", self.log, now.unwrap_or_default())
    }

    /// Waits for a line of the log with this text.
    ///
    /// # Panics
    ///
    /// If there is none; the message contains the log.
    pub fn wait_for_line(&self, text: &str) {
        let since = Instant::now();
        while !self.log().contains(text) {
            let late = since.elapsed() > crate::PATIENCE;
            assert!(!late, "no line with {text:?} in:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The answer of a server that runs, without the tap. A busy machine may delay it, so the
    /// request is repeated.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn must_get(&self, runtime: &Runtime, path: &str) -> (u16, Value) {
        wait_for(path, || self.get(runtime, path))
    }

    /// Sends a request to the server, without the tap.
    pub fn get(&self, runtime: &Runtime, path: &str) -> Answer {
        runtime.block_on(self.direct.request(Method::GET, path, None))
    }

    /// The server's view of the cluster.
    pub fn view(&self, runtime: &Runtime) -> Option<Value> {
        let (status, view) = self.get(runtime, "/v1/cluster")?;
        (status == 200).then_some(view)
    }

    /// The role of the server; empty if it does not answer.
    pub fn role(&self, runtime: &Runtime) -> String {
        let view = self.process.is_some().then(|| self.view(runtime)).flatten();
        let view = view.unwrap_or_default();
        view["role"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the server has this role.
    ///
    /// # Panics
    ///
    /// If it does not get it; the message contains its log.
    pub fn wait_for_role(&self, runtime: &Runtime, role: &str) {
        self.wait_for_view(runtime, &format!("not {role}"), |view| view["role"] == role);
    }

    fn wait_for_view(&self, runtime: &Runtime, what: &str, is_so: impl Fn(&Value) -> bool) {
        let since = Instant::now();
        loop {
            let view = self.view(runtime).unwrap_or_default();
            if is_so(&view) {
                return;
            }
            let late = since.elapsed() > crate::PATIENCE;
            assert!(!late, "{}: {what}: {view}:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the server is active, or could take over.
    ///
    /// # Panics
    ///
    /// If it does not; the message contains its log.
    pub fn wait_until_ready(&self, runtime: &Runtime) {
        let since = Instant::now();
        while self
            .get(runtime, "/readyz")
            .is_none_or(|(status, _)| status != 200)
        {
            let late = since.elapsed() > crate::PATIENCE;
            assert!(!late, "{} is not ready:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("a process")
    }
}
