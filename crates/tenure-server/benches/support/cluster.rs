//! The servers of a cluster over etcd, each in its own process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_server::{ClusterConfig, ClusterMember, EtcdConfig, Limits, Server, SharedEngine};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::process::{any_port, end_with_input, ready};
use super::programs::etcd::Etcd;
use super::{Child, Connection};

/// The limit for every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The limit for one answer. A renewal that is confirmed takes longer than others.
const ANSWER: Duration = Duration::from_millis(500);

/// The processes of a cluster.
pub struct Members {
    name: String,
    endpoints: String,
    confirm: bool,
    pub servers: Vec<Option<Child>>,
}

impl Members {
    /// Starts a cluster with this name and number of servers, and waits until all of them are ready.
    pub async fn start(etcd: &Etcd, name: &str, servers: usize, confirm: bool) -> Self {
        let mut members = Self {
            name: name.to_owned(),
            endpoints: etcd.endpoints().join(","),
            confirm,
            servers: Vec::new(),
        };
        members.servers.resize_with(servers, || None);
        for server in 0..servers {
            members.spawn(server);
        }
        members.settle().await;
        members
    }

    /// Starts a server.
    pub fn spawn(&mut self, server: usize) {
        let name = format!("server-{server}");
        let confirm = self.confirm.to_string();
        self.servers[server] = Some(Child::spawn(&[
            "--serve-member",
            &self.name,
            &name,
            &self.endpoints,
            &confirm,
        ]));
    }

    /// Returns the server that is active.
    pub async fn active(&self) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            for (number, address) in self.addresses() {
                if let Some((200, _)) = ask(address, "GET /active", "").await {
                    return number;
                }
            }
            assert!(Instant::now() < until, "no active server of {}", self.name);
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a server is active, and all others have a copy of all leases. Returns the active
    /// server.
    pub async fn settle(&self) -> usize {
        let active = self.active().await;
        let until = Instant::now() + PATIENCE;
        for (number, address) in self.addresses() {
            while number != active && !is_up_to_date(address).await {
                assert!(Instant::now() < until, "server {number} does not follow");
                sleep(Duration::from_millis(20)).await;
            }
        }
        active
    }

    /// Returns the address of the server that is active.
    pub async fn address(&self) -> SocketAddr {
        let active = self.active().await;
        self.servers[active].as_ref().expect("a server").address
    }

    fn addresses(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let servers = self.servers.iter().enumerate();
        servers.filter_map(|(number, server)| Some((number, server.as_ref()?.address)))
    }
}

async fn is_up_to_date(address: SocketAddr) -> bool {
    let Some((200, body)) = ask(address, "GET /v1/cluster", "").await else {
        return false;
    };
    let view: Value = serde_json::from_slice(&body).expect("a view");
    view["role"] == "following" && view["behind"] == 0
}

/// Sends one request on a connection of its own. Returns the status and the body, if there is an
/// answer.
async fn ask(address: SocketAddr, line: &str, body: &str) -> Option<(u16, Vec<u8>)> {
    let asked = timeout(ANSWER, async {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let mut connection = Connection::over(stream);
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let status = connection.ask(request.as_bytes()).await.ok()?;
        Some((status, connection.body().to_vec()))
    });
    asked.await.ok().flatten()
}

/// Serves until SIGTERM, if this process was started as a server of a cluster.
pub fn serve_if_asked() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, name, server, endpoints, confirm] = arguments.as_slice() else {
        return;
    };
    if flag != "--serve-member" {
        return;
    }
    end_with_input();
    let began = Instant::now();
    let endpoints = endpoints.split(',').map(String::from).collect();
    let engine = SharedEngine::Etcd(EtcdConfig::new(endpoints));
    // The benchmark knows the addresses of all servers.
    let mut config = ClusterConfig::new(server, "http://localhost:7878", engine);
    config.name.clone_from(name);
    config.confirm = confirm == "true";
    let limits = Limits {
        // All leases are in one namespace.
        max_leases_per_namespace: 1_000_000,
        ..Limits::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate()).expect("a signal");
        let cluster = ClusterMember::start(&config, limits).expect("a cluster");
        let server = Server::bind_cluster(cluster, any_port()).expect("a listener");
        ready(server.local_addr().expect("an address"), 0, began.elapsed());
        let terminated = async move {
            terminated.recv().await;
        };
        server.serve(terminated).await.expect("to serve");
    });
    std::process::exit(0);
}
