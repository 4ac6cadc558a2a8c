//! The listener for metrics.

use super::*;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use tempfile::TempDir;
use tenure_server::access::Secret;

/// A server with an access file and a listener for metrics.
struct Listening {
    running: Running,
    metrics: Api,
    secret: Secret,
    _folder: TempDir,
}

impl Listening {
    fn on(ip: IpAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("access.toml");
        let secret = Secret::generate();
        let text = format!(
            "version = 1\n[[principal]]\nname = \"all\"\ngrants = [{{ role = \"admin\", namespace = \"*\" }}]\n\
             [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
            secret.id(),
            secret.hash()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let store = Store::open(StoreConfig::memory()).unwrap();
        let server = bind(&store).with_access(Access::open(path).unwrap());
        let server = server
            .with_metrics_listener(SocketAddr::new(ip, 0))
            .unwrap();
        let address = server.metrics_addr().unwrap().unwrap();
        let running = served(server);
        let metrics = Api {
            origin: format!("http://{address}"),
            http: running.api.http.clone(),
        };
        Self {
            running,
            metrics,
            secret,
            _folder: folder,
        }
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        let request = self.metrics.request(method, path);
        request.send().await.unwrap().status().as_u16()
    }

    /// Sends a request with the credential. Returns the code of the problem that answers it.
    async fn problem(&self, method: Method, path: &str) -> serde_json::Value {
        let request = self.metrics.request(method, path);
        let request = request.bearer_auth(self.secret.reveal());
        let request = request.json(&json!({"lease_id": id(1)}));
        let answer = request.send().await.unwrap().json::<serde_json::Value>();
        answer.await.unwrap()["code"].take()
    }
}

/// Returns an address of this machine that is not loopback, if the machine has one.
fn beyond_loopback() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only chooses the address.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

#[tokio::test]
async fn on_loopback_it_serves_metrics_and_probes_without_a_credential_and_nothing_else() {
    let listening = Listening::on([127, 0, 0, 1].into());
    let metrics = Metrics::of(&listening.metrics).await;
    assert_eq!(metrics.count("tenure_build_info{"), 1);
    for path in ["/livez", "/readyz"] {
        assert_eq!(listening.status(Method::GET, path).await, 200, "{path}");
    }
    for route in tenure_server::routes() {
        let path = route
            .path
            .replace("{namespace}", "ns")
            .replace("{lease}", "a");
        if !["/livez", "/readyz", "/metrics"].contains(&&*path) {
            let code = listening.problem(route.method.clone(), &path).await;
            assert_eq!(code, "unknown_route", "{path}");
        }
    }
    // The server itself asks for a credential.
    let scrape = listening.running.api.request(Method::GET, "/metrics");
    assert_eq!(scrape.send().await.unwrap().status(), 401);
    // A page that a browser shows on this machine does not get the metrics by a name of its own.
    let request = listening.metrics.request(Method::GET, "/metrics");
    let rebound = request.header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), 403);
}

#[tokio::test]
async fn beyond_loopback_it_needs_the_role() {
    let Some(ip) = beyond_loopback() else {
        eprintln!("this machine has no address beyond loopback");
        return;
    };
    let listening = Listening::on(ip);
    assert_eq!(listening.status(Method::GET, "/metrics").await, 401);
    assert_eq!(listening.status(Method::GET, "/livez").await, 200);
    let request = listening.metrics.request(Method::GET, "/metrics");
    let request = request.bearer_auth(listening.secret.reveal());
    assert_eq!(request.send().await.unwrap().status(), 200);
    let renew = "/v1/namespaces/ns/leases/a/renew";
    let code = listening.problem(Method::POST, renew).await;
    assert_eq!(code, "unknown_route");
}

#[tokio::test]
async fn it_answers_while_the_store_has_too_many_connections_and_ends_with_the_store() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let config = StoreConfig::memory().with_limits(limits);
    let store = Store::open(config).unwrap();
    let server = bind(&store).with_metrics_listener("127.0.0.1:0".parse().unwrap());
    let server = server.unwrap();
    let address = server.metrics_addr().unwrap().unwrap();
    let running = served(server);
    let mut only = common::wire::Wire::connect(&running.api).await;
    assert_eq!(only.get("/v1/limits").await.answer.0, 200);
    let url = format!("http://{address}/metrics");
    let metrics = Metrics::at(&url, &running.api).await;
    metrics.assert("tenure_connections_limit{place=\"seat\"}", 1.0);
    drop(only);
    let http = running.api.http.clone();
    running.stop().await.unwrap();
    assert!(http.get(url).send().await.is_err());
}
