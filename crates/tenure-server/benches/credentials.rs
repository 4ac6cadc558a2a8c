//! The cost of metrics and of a credential: the processor time and the latency of a renewal with
//! metrics, with a token, with a JSON web token, over TLS, and with a client certificate, compared
//! with a store without metrics and without access control.
//!
//! All connections are persistent and the store has checked all web tokens before, as for leaders
//! that renew their leases. Each lease is owned by the principal that renews it.

#[path = "../tests/common/authority.rs"]
#[allow(dead_code, unreachable_pub)]
mod authority;
#[path = "../tests/common/signer.rs"]
mod signer;
mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use authority::Authority;
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::json;
use signer::Signer;
use support::{
    Child, Connection, Jumps, Kind, Samples, Stream, acquire, folder, path, proof, table,
};
use tempfile::TempDir;
use tenure_server::access::{Access, Secret};
use tenure_server::{MetricsConfig, Server, Store, Tls};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const CONNECTIONS: u64 = 64;
const LEASES: u64 = 1_000;
const WORKER: &str = "spiffe://bench/worker";

/// The names of the files of a store below its directory. A missing file is not used.
const ACCESS: &str = "access.toml";
const KEYS: &str = "keys.json";
const CERTIFICATE: &str = "store.pem";
const KEY: &str = "store.key";
const AUTHORITY: &str = "ca.pem";
const NO_METRICS: &str = "no-metrics";

/// The credential of the clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    None,
    /// None, for a store that does not count its requests.
    NoMetrics,
    Token,
    WebToken,
    Certificate,
}

struct Measured {
    name: &'static str,
    server: Child,
    client: Arc<Client>,
    /// The directory with the files of the server, kept until the server ends.
    _folder: TempDir,
    micros: Samples,
    rate: Samples,
    p99: Samples,
}

/// The connection settings of a client.
struct Client {
    tls: Option<TlsConnector>,
    header: String,
}

fn main() {
    support::serve_if_asked_with(|server, _: &Store| with_files(server));
    let (rounds, length) = match support::quick() {
        true => (2, Duration::from_millis(300)),
        false => (8, Duration::from_secs(1)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let measured = |name, uses_tls, proof| {
        let folder = folder();
        let client = Arc::new(prepare(folder.path(), uses_tls, proof));
        let server = Child::start(Kind::Memory, 0, folder.path());
        runtime.block_on(hold(&server, &client));
        Measured {
            name,
            server,
            client,
            _folder: folder,
            micros: Samples::default(),
            rate: Samples::default(),
            p99: Samples::default(),
        }
    };
    let mut all = [
        measured("open store without metrics", false, Proof::NoMetrics),
        measured("open store", false, Proof::None),
        measured("token", false, Proof::Token),
        measured("JSON web token of 1 KiB", false, Proof::WebToken),
        measured("TLS, open store", true, Proof::None),
        measured("TLS and token", true, Proof::Token),
        measured("TLS and client certificate", true, Proof::Certificate),
    ];
    // The first round is a warm-up.
    for round in 0..=rounds {
        for one in &mut all {
            let before = one.server.cpu();
            let began = Instant::now();
            let times = runtime.block_on(load(&one.server, &one.client, began + length));
            let (time, cpu) = (began.elapsed(), one.server.cpu() - before);
            let done = times.len() as u64;
            if round > 0 {
                one.micros.push(cpu.as_secs_f64() * 1e6 / done as f64);
                one.rate.push(support::per_second(done, time));
                one.p99.push(times.quantile(0.99));
            }
        }
    }
    let mut rows = vec![
        [
            "credential",
            "processor time per renewal, us",
            "ratio",
            "over TLS alone",
            "renewals per second",
            "p99, ms",
            "ratio",
        ]
        .map(String::from)
        .to_vec(),
    ];
    rows.extend(all.iter().enumerate().map(|(index, one)| {
        vec![
            one.name.to_owned(),
            one.micros.text(1),
            one.micros.over(&all[0].micros).text(2),
            match index {
                5.. => one.micros.over(&all[4].micros).text(2),
                _ => String::new(),
            },
            format!("{:.0}", one.rate.median()),
            one.p99.text(1),
            one.p99.over(&all[0].p99).text(2),
        ]
    }));
    table(
        "Renewals with metrics and a credential, 64 connections, 1,000 leases (target: open store at \
         most 1.05, token 1.15, web token 1.3, TLS and token 1.5; certificate at most 1.1 over TLS \
         alone)",
        &rows,
    );
}

/// Writes the files of a store, and returns the connection settings of its clients.
fn prepare(folder: &Path, uses_tls: bool, proof: Proof) -> Client {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    let grants = r#"grants = [{ role = "candidate", namespace = "bench", prefix = "lease-" }]"#;
    let (secret, signer) = (Secret::generate(), Signer::new());
    let clients = Authority::new("clients");
    let access = match proof {
        Proof::None => None,
        Proof::NoMetrics => {
            write(NO_METRICS, "");
            None
        }
        Proof::Token => {
            let (id, hash) = (secret.id(), secret.hash());
            Some(format!(
                "[[principal]]\nname = \"worker\"\n{grants}\n[[principal.secret]]\nid = \"{id}\"\n\
                 sha256 = \"{hash}\"\n"
            ))
        }
        Proof::WebToken => Some(format!(
            "[[issuer]]\nname = \"ci\"\nissuer = \"{}\"\naudience = \"{}\"\nkey_set_file = \"{KEYS}\"\n\
             [[match]]\nidentity = \"ci:worker\"\n{grants}\n",
            signer::ISSUER,
            signer::AUDIENCE
        )),
        Proof::Certificate => Some(format!(
            "[certificates]\nca_file = \"{}\"\n[[match]]\nidentity = \"{WORKER}\"\n{grants}\n",
            folder.join(AUTHORITY).display()
        )),
    };
    if let Some(access) = access {
        write(KEYS, &signer.key_set("one"));
        write(AUTHORITY, &clients.pem);
        write(ACCESS, &format!("version = 1\n{access}"));
    }
    let header = match proof {
        Proof::None | Proof::NoMetrics | Proof::Certificate => String::new(),
        Proof::Token => format!("authorization: Bearer {}\r\n", secret.reveal()),
        Proof::WebToken => format!("authorization: Bearer {}\r\n", web_token(&signer)),
    };
    let tls = uses_tls.then(|| {
        let stores = Authority::new("stores");
        let issued = stores.issue_with(|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = vec![authority::dns("localhost")];
        });
        write(CERTIFICATE, &issued.certificate.pem());
        write(KEY, &issued.key.serialize_pem());
        let own = (proof == Proof::Certificate).then(|| clients.issue(WORKER).pem());
        connector(&stores.pem, own.as_deref())
    });
    Client { tls, header }
}

/// Returns a token of 1 KiB, the size of a Kubernetes token.
fn web_token(signer: &Signer) -> String {
    let mut claims = signer::claims("worker");
    let mut token = signer.sign("one", &claims);
    while token.len() < 1024 {
        claims["pad"] = json!("x".repeat((1024 - token.len()).max(4) * 3 / 4 + 1));
        let longer = signer.sign("one", &claims);
        if longer.len() <= token.len() {
            break;
        }
        token = longer;
    }
    token
}

fn connector(roots: &str, own: Option<&str>) -> TlsConnector {
    let mut known = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(roots.as_bytes()).expect("PEM");
    known.add(authority).expect("an authority");
    let config = ClientConfig::builder().with_root_certificates(known);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("PEM");
            let config = config.with_client_auth_cert(vec![certificate], key);
            config.expect("a certificate and its key")
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// Configures the store with the files in its directory.
fn with_files(server: Server) -> Server {
    let folder = std::env::args().next_back().expect("a directory");
    let folder = Path::new(&folder);
    let file = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
    let server = match file(ACCESS) {
        None => server,
        Some(path) => {
            let access = Access::open(path).expect("an access file");
            for issuer in access.issuers() {
                let keys = std::fs::read_to_string(folder.join(KEYS)).expect("keys");
                access.replace_keys(&issuer, &keys, None).expect("keys");
            }
            server.with_access(access)
        }
    };
    let server = match file(NO_METRICS) {
        None => server,
        Some(_) => server.with_metrics(MetricsConfig::default().without_requests()),
    };
    match file(CERTIFICATE) {
        None => server,
        Some(certificate) => {
            server.with_tls(Tls::open(certificate, folder.join(KEY)).expect("a certificate"))
        }
    }
}

impl Client {
    async fn connect(&self, server: &Child) -> Connection<Box<dyn Stream>> {
        let stream = TcpStream::connect(server.address)
            .await
            .expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from("localhost").expect("a name");
                Box::new(tls.connect(name, stream).await.expect("a handshake"))
            }
        };
        Connection::over(stream).with_header(&self.header)
    }
}

/// Acquires all leases.
async fn hold(server: &Child, client: &Client) {
    let mut connection = client.connect(server).await;
    for number in 0..LEASES {
        let status = connection
            .post(&path(number, "acquire"), &acquire(number, 0))
            .await;
        assert_eq!(status, 200);
    }
}

/// Renews leases in random order until `until`. Returns the milliseconds of each renewal.
async fn load(server: &Child, client: &Arc<Client>, until: Instant) -> Samples {
    let times = Arc::new(Mutex::new(Samples::default()));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(client.connect(server).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (index, mut connection) in connections.into_iter().enumerate() {
        let times = Arc::clone(&times);
        tasks.spawn(timeout_at(until, async move {
            let mut jumps = Jumps::new(index as u64 + 1);
            loop {
                let number = jumps.below(LEASES);
                let began = Instant::now();
                let status = connection
                    .post(&path(number, "renew"), &proof(number))
                    .await;
                assert_eq!(status, 200);
                let time = began.elapsed().as_secs_f64() * 1e3;
                times.lock().expect("times").push(time);
            }
        }));
    }
    while let Some(task) = tasks.join_next().await {
        // A client ends when the time is over or when the client panics.
        let _time_is_up = task.expect("renewals");
    }
    std::mem::take(&mut *times.lock().expect("times"))
}
