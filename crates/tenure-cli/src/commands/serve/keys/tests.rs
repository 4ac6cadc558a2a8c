//! A Kubernetes cluster with a fake API server: the tokens that it signs, the keys and tokens that
//! it gives to pods, and its replacement and failure.

#[path = "../../../../../tenure-server/tests/common/signer.rs"]
mod signer;

use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Request, Response, StatusCode};
use serde_json::json;
use signer::Signer;
use tempfile::TempDir;
use tenure::store::StoreClient;
use tenure::{Candidate, Config, Credentials, Timings, TimingsOptions};
use tenure_core::wire::Problem;
use tenure_server::{Protocol, Server, Store, StoreConfig, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::*;

fn hangup() -> Signal {
    signal(SignalKind::hangup()).unwrap()
}

const CLUSTER: &str = "https://kubernetes.default.svc.cluster.local";
const SOON: Duration = Duration::from_secs(30);

/// The access file: the service accounts of `billing` may lead in the namespace of that name.
const RULES: &str = "version = 1
[kubernetes]
audience = \"tenure\"
[[match]]
identity = \"k8s:billing/*\"
grants = [{ role = \"candidate\", namespace = \"$namespace\" }]
";

/// The API server, with the functions that the store needs.
#[derive(Clone, Debug)]
struct ApiServer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The token of a pod that the server accepts.
    token: Mutex<String>,
    key_set: Mutex<String>,
    answered: AtomicU32,
    refused: AtomicU32,
    is_gone: Mutex<bool>,
}

impl ApiServer {
    fn answer(&self, head: &Parts) -> (StatusCode, String) {
        let inner = &self.0;
        let expected = format!("Bearer {}", inner.token.lock().unwrap());
        if *inner.is_gone.lock().unwrap() {
            return (StatusCode::SERVICE_UNAVAILABLE, String::new());
        }
        if head.uri.path() != "/openid/v1/jwks" {
            return (StatusCode::NOT_FOUND, String::new());
        }
        match head.headers.get(AUTHORIZATION) {
            Some(token) if *token == expected => {
                inner.answered.fetch_add(1, Ordering::Relaxed);
                (StatusCode::OK, inner.key_set.lock().unwrap().clone())
            }
            _ => {
                inner.refused.fetch_add(1, Ordering::Relaxed);
                (StatusCode::UNAUTHORIZED, String::new())
            }
        }
    }

    fn publish(&self, keys: &[Value]) {
        *self.0.key_set.lock().unwrap() = json!({ "keys": keys }).to_string();
    }
}

/// The listener, the TLS and the HTTP code of a store serve the API server.
impl Protocol for ApiServer {
    fn label(&self) -> &'static str {
        "api_server"
    }

    fn is_renewal(&self, _: &Parts) -> bool {
        false
    }

    fn serve(
        &self,
        request: Request<Body>,
        _: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        let (status, text) = self.answer(&request.into_parts().0);
        let mut response = Response::new(text.into());
        *response.status_mut() = status;
        Box::pin(async { response })
    }

    fn refuse(&self, _: Option<&Parts>, problem: Problem) -> Response<Body> {
        panic!("{}", problem.detail)
    }

    fn needs_tls(&self) -> bool {
        true
    }
}

/// The files of a pod's volume as the kubelet writes them: links into a directory that is a link
/// itself, so that all files change in one step.
struct Volume {
    folder: TempDir,
    versions: AtomicU32,
}

impl Volume {
    fn new(files: &[(&str, &str)]) -> Self {
        let volume = Self {
            folder: TempDir::new().unwrap(),
            versions: AtomicU32::new(0),
        };
        for (name, _) in files {
            symlink(Path::new("..data").join(name), volume.path(name)).unwrap();
        }
        volume.replace(files);
        volume
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn replace(&self, files: &[(&str, &str)]) {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let folder = format!("..version_{version}");
        fs::create_dir(self.path(&folder)).unwrap();
        for (name, text) in files {
            fs::write(self.path(&folder).join(name), text).unwrap();
        }
        symlink(&folder, self.path("..data_tmp")).unwrap();
        fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
        if let Some(before) = version.checked_sub(1) {
            fs::remove_dir_all(self.path(&format!("..version_{before}"))).unwrap();
        }
    }
}

/// A cluster with a store in it.
struct Cluster {
    api_server: ApiServer,
    ca: String,
    /// The volume of the store's pod.
    volume: Volume,
    access: Access,
    /// The address of the store.
    store: String,
    _folder: TempDir,
}

impl Cluster {
    async fn start(signer: &Signer) -> Self {
        let folder = TempDir::new().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (pem, ca) = (folder.path().join("api.pem"), made.cert.pem());
        fs::write(&pem, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::open(&pem, &pem).unwrap();
        let token = pod_token(signer, "tenure", "store", "first");
        let api_server = ApiServer(Arc::new(Inner {
            token: Mutex::new(token.clone()),
            key_set: Mutex::default(),
            answered: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            is_gone: Mutex::default(),
        }));
        api_server.publish(&[signer.key("one")]);
        let listener = server().with_protocol(api_server.clone()).with_tls(tls);
        let address = listener.local_addr().unwrap();
        tokio::spawn(listener.serve(std::future::pending()));

        let path = folder.path().join("access.toml");
        fs::write(&path, RULES).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let access = Access::open(path).unwrap();
        let volume = Volume::new(&[("token", &token), ("ca.crt", &ca)]);
        let fetcher = KeyFetcher {
            pod: Pod {
                folder: volume.folder.path().into(),
                api_server: format!("https://{address}"),
            },
            least_interval: Duration::from_millis(50),
            ..KeyFetcher::new(access.clone())
        };
        fetcher.start(hangup()).await;
        let store = server().with_access(access.clone());
        let address = store.local_addr().unwrap();
        tokio::spawn(store.serve(std::future::pending()));
        Self {
            api_server,
            ca,
            volume,
            access,
            store: format!("http://{address}"),
            _folder: folder,
        }
    }

    /// Replaces the token of the store's pod, and refuses the previous token.
    fn rotate_own_token(&self, token: &str) {
        self.volume
            .replace(&[("token", token), ("ca.crt", &self.ca)]);
        *self.api_server.0.token.lock().unwrap() = token.to_owned();
    }

    fn answered(&self) -> u32 {
        self.api_server.0.answered.load(Ordering::Relaxed)
    }

    /// Returns the status of the response to a request with this token.
    async fn status(&self, token: &str) -> u16 {
        let url = format!("{}/v1/whoami", self.store);
        let request = Client::new().get(url).bearer_auth(token);
        request.send().await.unwrap().status().as_u16()
    }

    async fn wait_until_known(&self, token: &str) {
        wait_for(async || self.status(token).await == 200).await;
    }

    fn config(&self, election: &str, volume: &Volume) -> Config {
        let mut options = TimingsOptions::default();
        options.lease_duration = Some(Duration::from_secs(3));
        let token = Credentials::token_file(volume.path("token")).unwrap();
        Config::new(election.parse().unwrap())
            .with_candidate("worker-1".parse().unwrap())
            .with_servers([self.store.parse().unwrap()])
            .with_credentials(token)
            .with_timings(Timings::new(&options).unwrap())
    }
}

fn server() -> Server {
    let store = Store::open(StoreConfig::memory()).unwrap();
    Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Returns the token of a pod, with the claims that Kubernetes gives it.
fn pod_token(signer: &Signer, namespace: &str, account: &str, number: &str) -> String {
    signer.sign("one", &pod_claims(namespace, account, number))
}

fn pod_claims(namespace: &str, account: &str, number: &str) -> Value {
    let now = signer::now_secs();
    json!({
        "aud": ["tenure"],
        "exp": now + 3607,
        "iat": now,
        "iss": CLUSTER,
        "jti": number,
        "kubernetes.io": {
            "namespace": namespace,
            "pod": {"name": "worker-1", "uid": "5a7d2a34-0c58-4c3c-9d2d-0a5d5c1a7d11"},
            "serviceaccount": {"name": account, "uid": "0c7a3b58-9f0a-4a58-8d3e-3e7f62c1a6b5"},
        },
        "nbf": now,
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}

async fn wait_for(condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, wait).await.expect("the condition");
}

#[tokio::test]
async fn a_pod_leads_in_its_namespace_while_tokens_and_keys_are_rotated() {
    let (one, two) = (Signer::new(), Signer::new());
    let cluster = Cluster::start(&one).await;
    let first = pod_token(&one, "billing", "worker", "first");
    let volume = Volume::new(&[("token", &first)]);
    let config = cluster.config("billing/nightly", &volume);
    let candidate = Candidate::start(config).await.unwrap();
    let leadership = candidate.campaign().await.unwrap();
    let elsewhere = Candidate::start(cluster.config("ops/nightly", &volume)).await;
    let refused = elsewhere.unwrap().campaign().await.unwrap_err();
    assert!(refused.to_string().contains("ops/nightly"), "{refused}");

    // The kubelet replaces the token of the leader, and the API server signs with another key.
    cluster
        .api_server
        .publish(&[one.key("one"), two.key("two")]);
    let second = two.sign("two", &pod_claims("billing", "worker", "second"));
    volume.replace(&[("token", &second)]);
    cluster.wait_until_known(&second).await;
    // The token of the store's own pod is replaced, and the API server withdraws its first key.
    let own = two.sign("two", &pod_claims("tenure", "store", "second"));
    cluster.rotate_own_token(&own);
    cluster.api_server.publish(&[two.key("two")]);
    let unknown = Signer::new().sign("three", &pod_claims("billing", "worker", "third"));
    wait_for(async || {
        // An unknown key makes the store fetch the keys.
        cluster.status(&unknown).await;
        cluster.status(&first).await != 200
    })
    .await;
    assert_eq!(cluster.status(&second).await, 200);

    // A term without renewals would end within the lease duration.
    sleep(Duration::from_secs(4)).await;
    assert!(leadership.is_valid());
    let client = StoreClient::new(&[cluster.store.parse().unwrap()]).unwrap();
    let client = client.with_credentials(Credentials::token(&second).unwrap());
    let lease = client
        .unwrap()
        .lease(&"billing/nightly".parse().unwrap())
        .await;
    let lease = lease.unwrap().unwrap();
    assert_eq!(lease.owner.as_deref(), Some("k8s:billing/worker"));
    assert_eq!(lease.epoch, Some(leadership.epoch().get()));
}

#[tokio::test]
async fn while_the_api_server_is_gone_the_known_keys_stay_in_force() {
    let signer = Signer::new();
    let cluster = Cluster::start(&signer).await;
    let known = pod_token(&signer, "billing", "worker", "first");
    cluster.wait_until_known(&known).await;
    let fetcher = |folder: &Path, api_server: &str| KeyFetcher {
        pod: Pod {
            folder: folder.into(),
            api_server: api_server.into(),
        },
        ..KeyFetcher::new(cluster.access.clone())
    };
    let issuers = cluster.access.issuers();
    let nobody = format!("https://{}", server().local_addr().unwrap());
    *cluster.api_server.0.is_gone.lock().unwrap() = true;
    let empty = TempDir::new().unwrap();
    let answered = cluster.answered();
    // As many failed fetches as in one hour: the server answers with errors, the server is not
    // reachable, and the pod has no token.
    for number in 0..12 {
        let pod = cluster.volume.folder.path();
        fetcher(pod, &nobody).fetch(&issuers).await;
        fetcher(empty.path(), &nobody).fetch(&issuers).await;
        if number < 5 {
            let unknown = Signer::new().sign("two", &pod_claims("billing", "worker", "x"));
            assert_eq!(cluster.status(&unknown).await, 401);
        }
        let fresh = pod_token(&signer, "billing", "worker", &format!("fresh-{number}"));
        cluster.wait_until_known(&fresh).await;
        assert_eq!(cluster.status(&known).await, 200);
    }
    assert_eq!(cluster.answered(), answered);
    // The server is reachable again and has another key.
    let next = Signer::new();
    cluster.api_server.publish(&[next.key("two")]);
    *cluster.api_server.0.is_gone.lock().unwrap() = false;
    let token = next.sign("two", &pod_claims("billing", "worker", "next"));
    cluster.wait_until_known(&token).await;
}

#[tokio::test]
async fn an_api_server_with_another_certificate_is_not_believed() {
    let (signer, impostor) = (Signer::new(), Signer::new());
    let cluster = Cluster::start(&signer).await;
    let known = pod_token(&signer, "billing", "worker", "first");
    cluster.wait_until_known(&known).await;
    let answered = cluster.answered();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let token = fs::read_to_string(cluster.volume.path("token")).unwrap();
    cluster
        .volume
        .replace(&[("token", &token), ("ca.crt", &other.cert.pem())]);
    cluster.api_server.publish(&[impostor.key("two")]);
    let forged = impostor.sign("two", &pod_claims("billing", "worker", "forged"));
    for _ in 0..5 {
        assert_ne!(cluster.status(&forged).await, 200);
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(cluster.answered(), answered);
    assert_eq!(cluster.status(&known).await, 200);
}

#[tokio::test]
async fn an_authority_that_does_not_answer_holds_up_neither_the_start_nor_others() {
    let (folder, signer) = (TempDir::new().unwrap(), Signer::new());
    let keys = folder.path().join("keys.json");
    fs::write(&keys, signer.key_set("one")).unwrap();
    // This server accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let issuer = |name: &str, keys: &str| {
        format!(
            "[[issuer]]\nname = {name:?}\nissuer = {:?}\naudience = \"tenure\"\n{keys}\n",
            signer::ISSUER
        )
    };
    let text = format!(
        "version = 1\n{}{}",
        issuer("silent", &format!("key_set_url = \"https://{address}\"")),
        issuer("ci", &format!("key_set_file = {keys:?}"))
    );
    let path = folder.path().join("access.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let access = Access::open(path).unwrap();
    let store = server().with_access(access.clone());
    let url = format!("http://{}/v1/whoami", store.local_addr().unwrap());
    tokio::spawn(store.serve(std::future::pending()));
    let started = timeout(TIMEOUT, KeyFetcher::new(access).start(hangup())).await;
    started.expect("the start does not wait for all keys");
    let token = signer.sign("one", &signer::claims("x"));
    let request = Client::new().get(url).bearer_auth(token);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[test]
fn the_issuer_is_that_of_the_pods_own_token() {
    let token = pod_token(&Signer::new(), "tenure", "store", "first");
    assert_eq!(issuer_of(&token).as_deref(), Some(CLUSTER));
    for wrong in ["", "a", "a.b", "e30.e30.x", "e30.!.x"] {
        assert_eq!(issuer_of(wrong), None, "{wrong}");
    }
}
