//! Tests of client certificates over TLS: the clients that are accepted, the credential that counts
//! beside a token, and the connections that end when a certificate is no longer accepted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::authority::{Authority, HOUR, Issued, dns, set_validity, uri};
use crate::common::wire::{Wire, head};
use crate::common::{Api, Running, SOON, answer, assert_ok, id, served};
use rcgen::{CertifiedKey, ExtendedKeyUsagePurpose, KeyPair};
use reqwest::{Certificate, Client, Identity, Method};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, SignatureScheme};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::access::{Access, Secret};
use tenure_server::audit::{Audit, AuditConfig, AuditTarget};
use tenure_server::{Server, Store, StoreConfig, Tls, routes};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const WORKER: &str = "spiffe://example.org/worker";

/// The rule for the worker: it may lead in namespace `ns`.
const RULE: &str = "[[match]]\nidentity = \"spiffe://example.org/*\"\n\
                    grants = [{ role = \"candidate\", namespace = \"ns\" }]\n";

/// A store over TLS that asks clients for certificates of an authority.
struct Place {
    running: Running,
    access: Access,
    folder: TempDir,
    own: CertifiedKey<KeyPair>,
    authority: Authority,
}

impl Place {
    fn start(rules: &str) -> Self {
        Self::start_audited(rules, Audit::none())
    }

    fn start_audited(rules: &str, audit: Audit) -> Self {
        let folder = TempDir::new().unwrap();
        let (own, authority) = (
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap(),
            Authority::new("clients"),
        );
        let path = |name: &str| folder.path().join(name);
        fs::write(path("own.pem"), own.cert.pem()).unwrap();
        fs::write(path("own.key"), own.signing_key.serialize_pem()).unwrap();
        fs::write(path("clients.pem"), &authority.pem).unwrap();
        write_rules(&folder, rules);
        let access = Access::open(path("access.toml")).unwrap();
        let store = Store::open(StoreConfig::memory()).unwrap();
        let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        let server = server
            .with_tls(Tls::open(path("own.pem"), path("own.key")).unwrap())
            .with_access(access.clone())
            .with_audit(audit);
        let mut running = served(server);
        running.api.origin = running.api.origin.replace("http:", "https:");
        Self {
            running,
            access,
            folder,
            own,
            authority,
        }
    }

    fn change(&self, rules: &str) {
        write_rules(&self.folder, rules);
        assert!(self.access.reload().unwrap());
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("clients.pem")
    }

    /// Replaces the content of the authorities' file.
    fn replace_ca(&self, text: &str) {
        replace(&self.ca_file(), text);
    }

    /// Creates a client with its own connections and this certificate.
    fn client(&self, issued: Option<&Issued>) -> Api {
        let root = Certificate::from_pem(self.own.cert.pem().as_bytes()).unwrap();
        let client = Client::builder().http1_only().tls_certs_only([root]);
        let client = match issued {
            Some(issued) => client.identity(Identity::from_pem(issued.pem().as_bytes()).unwrap()),
            None => client,
        };
        Api {
            origin: self.running.api.origin.clone(),
            http: client.build().unwrap(),
        }
    }

    async fn whoami(&self, issued: Option<&Issued>) -> (u16, Value) {
        whoami(&self.client(issued), "").await
    }

    /// Creates the configuration of a client that controls its handshakes.
    fn config(&self, certificate: &Issued, key: &KeyPair) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.own.cert.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let chain = vec![certificate.certificate.der().clone()];
        // Unlike the usual constructor this one does not check that the key matches the
        // certificate.
        let certified = rustls::sign::CertifiedKey::new(chain, key);
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_webpki_verifier(verifier.build().unwrap())
            .with_client_cert_resolver(Arc::new(Always(Arc::new(certified))))
    }

    async fn connect(&self, config: &Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
        let address = self.running.api.origin.strip_prefix("https://").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = TlsConnector::from(Arc::clone(config));
        connector.connect(name, stream).await
    }

    /// Opens one connection with this certificate.
    async fn wire(&self, issued: &Issued) -> Wire<TlsStream<TcpStream>> {
        let config = self.config(issued, &issued.key).into();
        Wire::over(self.connect(&config).await.unwrap())
    }
}

/// A resolver that presents this certificate to every server.
#[derive(Debug)]
struct Always(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for Always {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn write_rules(folder: &TempDir, rules: &str) {
    let ca_file = folder.path().join("clients.pem");
    let text = format!("version = 1\n[certificates]\nca_file = {ca_file:?}\n{rules}");
    replace(&folder.path().join("access.toml"), &text);
}

fn replace(path: &PathBuf, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

/// Requests the caller as the store identifies it, with this header if it is not empty.
async fn whoami(api: &Api, authorization: &str) -> (u16, Value) {
    let request = api.request(Method::GET, "/v1/whoami");
    let request = match authorization {
        "" => request,
        value => request.header("authorization", value),
    };
    answer(request.send().await.unwrap()).await
}

/// Creates a principal of the access file that reads namespace `ns`, and its token.
fn reader() -> (String, Secret) {
    let token = Secret::generate();
    let text = format!(
        "[[principal]]\nname = \"reader\"\n\
         grants = [{{ role = \"read\", namespace = \"ns\" }}]\n[[principal.secret]]\n\
         id = \"{}\"\nsha256 = \"{}\"\n",
        token.id(),
        token.hash()
    );
    (text, token)
}

fn deny(identity: &str) -> String {
    format!("[[deny]]\nidentity = {identity:?}\n")
}

#[tokio::test]
async fn a_certificate_proves_an_identity_and_the_rules_give_it_rights() {
    let (principal, token) = reader();
    let place = Place::start(&format!("{principal}{RULE}"));
    let worker = place.authority.issue(WORKER);
    let api = place.client(Some(&worker));
    let (status, own) = whoami(&api, "").await;
    assert_eq!(status, 200, "{own}");
    let grants = json!([{"role": "candidate", "namespace": "ns"}]);
    let expected = json!({"principal": WORKER, "kind": "certificate", "secret": null,
        "expires": own["expires"], "grants": grants});
    assert_eq!(own, expected);
    let end = own["expires"].as_str().unwrap();
    let end = chrono::DateTime::parse_from_rfc3339(end).unwrap();
    let left = end.to_utc() - chrono::Utc::now();
    assert!((3_000..=3_600).contains(&left.num_seconds()), "{left}");
    let acquired = api.acquire("job", 1).await;
    assert_ok(&acquired);
    assert_eq!(acquired.1["owner"], WORKER);
    assert_ok(&api.renew("job", 1).await);
    // The rights of the worker end at the limits of the rule.
    let other = api.request(Method::GET, "/v1/namespaces/other/leases");
    assert_eq!(other.send().await.unwrap().status(), 403);
    let break_lease = api.post("job", "break", json!({})).await;
    assert_eq!(break_lease.0, 403);
    // No rule exists for certificates with other names.
    let by_dns = place
        .authority
        .issue_with(|params| params.subject_alt_names = vec![dns("Worker.lan")]);
    let (status, caller) = place.whoami(Some(&by_dns)).await;
    assert_eq!(
        (status, &caller["principal"]),
        (200, &json!("cert:worker.lan"))
    );
    assert_eq!(caller["grants"], json!([]));
    // The store still accepts clients without a certificate by their tokens.
    let bearer = format!("Bearer {}", token.reveal());
    let (status, caller) = whoami(&place.client(None), &bearer).await;
    assert_eq!((status, &caller["principal"]), (200, &json!("reader")));
    assert_eq!(place.whoami(None).await.0, 401);
}

#[tokio::test]
async fn a_wrong_certificate_gets_the_answer_of_a_wrong_token_and_no_reuse_of_its_connection() {
    let place = Place::start(&format!("{RULE}{}", deny("spiffe://example.org/old")));
    let authority = &place.authority;
    let valid_from_to = |from: i64, to: i64| {
        authority.issue_with(|params| {
            params.subject_alt_names = vec![uri(WORKER)];
            set_validity(params, from, to);
        })
    };
    let of_server = authority.issue_with(|params| {
        params.subject_alt_names = vec![uri(WORKER)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let two_ids = authority.issue_with(|params| {
        params.subject_alt_names = vec![uri(WORKER), uri("spiffe://example.org/other")];
    });
    // An authority with the same name has another key.
    let namesake = Authority::new("clients");
    let without = whoami(&place.client(None), "").await;
    assert_eq!(
        (without.0, &without.1["code"]),
        (401, &json!("unauthenticated"))
    );
    for (name, issued) in [
        ("another authority", Authority::new("others").issue(WORKER)),
        ("a namesake", namesake.issue(WORKER)),
        ("expired", valid_from_to(-2 * HOUR, -HOUR)),
        ("not yet valid", valid_from_to(HOUR, 2 * HOUR)),
        ("not for clients", of_server),
        ("denied", authority.issue("spiffe://example.org/old")),
        ("two ids", two_ids),
        ("no identity", authority.issue_with(|_| {})),
    ] {
        let api = place.client(Some(&issued));
        let request = api.request(Method::GET, "/v1/whoami");
        let response = request.send().await.unwrap();
        let closes = response.headers().get("connection").cloned();
        assert_eq!(closes.unwrap(), "close", "{name}");
        assert_eq!(answer(response).await, without, "{name}");
        // The health checks need no credential.
        let alive = api.request(Method::GET, "/livez").send().await.unwrap();
        assert_eq!(alive.status(), 200, "{name}");
    }
    assert_eq!(place.whoami(Some(&authority.issue(WORKER))).await.0, 200);
}

#[tokio::test]
async fn a_request_with_a_header_is_judged_by_the_header_alone() {
    let (principal, token) = reader();
    let place = Place::start(&format!("{principal}{RULE}"));
    let bearer = format!("Bearer {}", token.reveal());
    let wrong = format!("Bearer {}", Secret::generate().reveal());
    let worker = place.client(Some(&place.authority.issue(WORKER)));
    let stranger = place.client(Some(&Authority::new("others").issue(WORKER)));
    for (api, header, expected) in [
        (&worker, "", Some(WORKER)),
        (&worker, &*bearer, Some("reader")),
        (&worker, &*wrong, None),
        (&worker, "Bearer", None),
        (&worker, "Basic d29ya2VyOng=", None),
        (&stranger, &*bearer, Some("reader")),
        (&stranger, "", None),
    ] {
        let (status, caller) = whoami(api, header).await;
        assert_eq!(status == 200, expected.is_some(), "{header}: {caller}");
        assert_eq!(caller["principal"].as_str(), expected, "{header}");
    }
    // The rights are those of the token, too: the worker may lead, and the reader may not.
    let acquire = worker.request(Method::POST, "/v1/namespaces/ns/leases/job/acquire");
    let acquire = acquire.header("authorization", bearer);
    let acquire = acquire
        .json(&crate::common::minute(1))
        .send()
        .await
        .unwrap();
    assert_eq!(acquire.status(), 403);
    assert_ok(&worker.acquire("job", 1).await);
}

#[tokio::test]
async fn the_key_of_a_certificate_is_needed_to_present_it() {
    let place = Place::start(RULE);
    let (worker, thief) = (
        place.authority.issue(WORKER),
        Authority::new("x").issue("x:y"),
    );
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let stolen = place.config(&worker, &thief.key);
        let own = place.config(&worker, &worker.key);
        for (config, expected) in [(stolen, false), (own, true)] {
            // The configuration is the same, but with this TLS version only.
            let provider = Arc::clone(config.crypto_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let mut roots = RootCertStore::empty();
            roots.add(place.own.cert.der().clone()).unwrap();
            let only = builder.with_protocol_versions(&[version]).unwrap();
            let only = only
                .with_root_certificates(roots)
                .with_client_cert_resolver(Arc::clone(&config.client_auth_cert_resolver));
            let Ok(stream) = place.connect(&only.into()).await else {
                assert!(!expected, "{version:?}");
                continue;
            };
            let mut wire = Wire::over(stream);
            let sent = wire.send(head("GET", "/v1/whoami", "")).await;
            let reply = match sent {
                Ok(()) => wire.reply().await,
                Err(_) => None,
            };
            let status = reply.map(|reply| reply.answer.0);
            assert_eq!(status, expected.then_some(200), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_deny_ends_what_is_open_within_a_second_and_an_open_connection_is_refused() {
    let place = Place::start(RULE);
    let holder = place.client(Some(&place.authority.issue("spiffe://example.org/holder")));
    let worker_certificate = place.authority.issue(WORKER);
    let worker = place.client(Some(&worker_certificate));
    let other = place.client(Some(&place.authority.issue("spiffe://example.org/other")));
    let held = holder.acquire("job", 1).await;
    assert_ok(&held);
    let stream_of = async |api: &Api| {
        let request = api.request(Method::GET, "/v1/namespaces/ns/leases/job/events");
        let request = request.header("accept", "text/event-stream");
        let stream = request.send().await.unwrap();
        assert_eq!(stream.status(), 200);
        stream
    };
    let mut ends = stream_of(&worker).await;
    let mut stays = stream_of(&other).await;
    stays.chunk().await.unwrap();
    let mut wire = place.wire(&worker_certificate).await;
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    let waiting = worker.waiting("job", 2, &json!({}));
    holder.queue_of("job", 1).await;

    place.change(&format!("{RULE}{}", deny(WORKER)));
    let denied = Instant::now();
    let ended = async { while let Ok(Some(_)) = ends.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    let (waited, _) = crate::common::outcome(waiting).await;
    assert_eq!(waited.0, 403, "{waited:?}");
    assert!(denied.elapsed() < Duration::from_secs(1), "{denied:?}");
    let reply = wire.get("/v1/whoami").await;
    assert_eq!(reply.answer.0, 401, "{reply:?}");
    assert!(wire.closes_within(SOON).await);
    // Other streams continue.
    let more = tokio::time::timeout(Duration::from_millis(50), stays.chunk()).await;
    assert!(more.is_err(), "{more:?}");
    assert_ok(&holder.renew("job", 1).await);

    // The rule is withdrawn.
    place.change(RULE);
    assert_eq!(place.whoami(Some(&worker_certificate)).await.0, 200);
}

#[tokio::test]
async fn a_certificate_that_ends_no_longer_counts_on_an_open_connection() {
    let place = Place::start(RULE);
    let worker = place.authority.issue_with(|params| {
        params.subject_alt_names = vec![uri(WORKER)];
        set_validity(params, -HOUR, 5);
    });
    let mut wire = place.wire(&worker).await;
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    let api = place.client(Some(&worker));
    let stream = api.request(Method::GET, "/v1/namespaces/ns/leases/events");
    let stream = stream.header("accept", "text/event-stream");
    let mut stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 401);
}

#[tokio::test]
async fn a_wrong_file_of_authorities_leaves_those_before_in_force_and_delays_no_revocation() {
    let (principal, token) = reader();
    let place = Place::start(&format!("{principal}{RULE}"));
    let worker = place.authority.issue(WORKER);
    let mut wire = place.wire(&worker).await;
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    let bearer = format!("Bearer {}", token.reveal());
    let reader = place.client(None);
    assert_eq!(whoami(&reader, &bearer).await.0, 200);

    // The cases: half of a file, a missing file, the certificate of a server, and a file that other
    // users may write.
    let half = &place.authority.pem[..place.authority.pem.len() / 2];
    let own = place.own.cert.pem();
    let break_file: [(&dyn Fn(), &str); 4] = [
        (&|| place.replace_ca(half), "END"),
        (&|| place.replace_ca(&own), "not that of an authority"),
        (&|| fs::remove_file(place.ca_file()).unwrap(), "can't read"),
        (
            &|| {
                place.replace_ca(&place.authority.pem);
                let mode = fs::Permissions::from_mode(0o646);
                fs::set_permissions(place.ca_file(), mode).unwrap();
            },
            "chmod go-w",
        ),
    ];
    for (break_file, part) in break_file {
        break_file();
        let error = place.access.reload().unwrap_err().to_string();
        assert!(error.contains("access.toml:3: ca_file = "), "{error}");
        assert!(
            error.contains("clients.pem") && error.contains(part),
            "{error}"
        );
        assert!(!place.access.reload().unwrap(), "it is reported once");
        assert_eq!(wire.get("/v1/whoami").await.answer.0, 200, "{part}");
        assert_eq!(place.whoami(Some(&worker)).await.0, 200, "{part}");
    }
    // A revocation in the access file is nevertheless in force.
    write_rules(&place.folder, RULE);
    place.access.reload().unwrap_err();
    assert_eq!(whoami(&reader, &bearer).await.0, 401);
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    place.replace_ca(&place.authority.pem);
    assert!(place.access.reload().unwrap());
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);

    // A store does not start with such a file.
    place.replace_ca(half);
    let error = Access::open(place.folder.path().join("access.toml")).unwrap_err();
    assert!(error.to_string().contains("access.toml:3: ca_file = "));
}

#[tokio::test]
async fn an_authority_that_is_taken_away_no_longer_counts_on_open_connections_and_in_sessions() {
    let place = Place::start(RULE);
    let worker = place.authority.issue(WORKER);
    let mut wire = place.wire(&worker).await;
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    let mut config = place.config(&worker, &worker.key);
    config.resumption = Resumption::in_memory_sessions(16);
    let config = Arc::new(config);
    let kind_and_status = async || {
        let stream = place.connect(&config).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        let status = Wire::over(stream).get("/v1/whoami").await.answer.0;
        (kind, status)
    };
    let full = kind_and_status().await;
    assert_eq!(full, (HandshakeKind::Full, 200));
    // A resumed session has the certificate of its first handshake.
    let resumed = kind_and_status().await;
    assert_eq!(resumed, (HandshakeKind::Resumed, 200));

    let next = Authority::new("next");
    let both = format!("{}{}", place.authority.pem, next.pem);
    place.replace_ca(&both);
    assert!(place.access.reload().unwrap());
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    assert_eq!(place.whoami(Some(&next.issue(WORKER))).await.0, 200);
    assert_eq!(kind_and_status().await.1, 200);

    let api = place.client(Some(&worker));
    let stream = api.request(Method::GET, "/v1/namespaces/ns/leases/events");
    let stream = stream.header("accept", "text/event-stream");
    let mut stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);

    place.replace_ca(&next.pem);
    assert!(place.access.reload().unwrap());
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 401);
    assert_eq!(kind_and_status().await.1, 401);
    assert_eq!(place.whoami(Some(&worker)).await.0, 401);
    assert_eq!(place.whoami(Some(&next.issue(WORKER))).await.0, 200);

    // Without the table the store asks no client for a certificate and accepts none.
    let mut wire = place.wire(&next.issue(WORKER)).await;
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 200);
    replace(&place.folder.path().join("access.toml"), "version = 1\n");
    assert!(place.access.reload().unwrap());
    assert_eq!(wire.get("/v1/whoami").await.answer.0, 401);
    let late = place.client(Some(&next.issue(WORKER)));
    assert_eq!(whoami(&late, "").await.0, 401);
    // With the table again, the store closes the connection of a client without a certificate after
    // a refusal, and the client opens another one.
    place.change(RULE);
    assert_eq!(whoami(&late, "").await.0, 401);
    assert_eq!(whoami(&late, "").await.0, 200);
}

/// The requests that a candidate may send for a lease within its scope, written by hand.
const OF_CANDIDATE: [&str; 25] = [
    "active",
    "cluster",
    "livez",
    "readyz",
    "openapi",
    "page",
    "page_file",
    "limits",
    "whoami",
    "session",
    "session_code",
    "overview",
    "all_events",
    "namespaces",
    "waiters",
    "list",
    "renew_many",
    "view",
    "events",
    "history",
    "verify",
    "acquire",
    "renew",
    "change",
    "release",
];

#[tokio::test]
async fn every_route_asks_for_the_right_of_the_certificates_identity() {
    let place = Place::start(RULE);
    let worker = place.client(Some(&place.authority.issue(WORKER)));
    let without_rule = place
        .authority
        .issue_with(|params| params.subject_alt_names = vec![dns("a")]);
    let without_rule = place.client(Some(&without_rule));
    for route in routes() {
        let status = async |api: &Api| {
            let path = route.path.replace("{namespace}", "ns");
            let request = api.request(route.method.clone(), &path.replace("{lease}", "job"));
            let request = match route.method {
                Method::POST | Method::PUT => request.json(&json!({})),
                _ => request,
            };
            request.send().await.unwrap().status().as_u16()
        };
        let label = route.label;
        let is_allowed = OF_CANDIDATE.contains(&label) || matches!(label, "metadata" | "handover");
        assert_eq!(status(&worker).await != 403, is_allowed, "{label}");
        let needs_none = [
            "page",
            "page_file",
            "livez",
            "readyz",
            "active",
            "cluster",
            "openapi",
            "limits",
            "whoami",
            "session",
            "session_code",
        ];
        let needs_none = needs_none.contains(&label);
        assert_eq!(status(&without_rule).await != 403, needs_none, "{label}");
    }
}

#[tokio::test]
async fn wrong_certificates_are_counted_and_recorded_like_wrong_tokens() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let rule = RULE.replace("candidate", "admin");
    let place = Place::start_audited(&rule, audit);
    let worker = place.client(Some(&place.authority.issue(WORKER)));
    let stranger = place.client(Some(&Authority::new("others").issue(WORKER)));
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(whoami(&stranger, "").await.0);
        assert_eq!(whoami(&worker, "").await.0, 200);
    }
    let refused = statuses.iter().filter(|status| **status == 401).count();
    assert!((10..=20).contains(&refused), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 401 | 429)));
    assert_ok(&worker.acquire("job", 1).await);
    assert_ok(
        &worker
            .post("job", "break", json!({"break_period_ms": 0}))
            .await,
    );
    let lines = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str::<Value>);
        lines.collect::<Result<Vec<_>, _>>().unwrap_or_default()
    };
    let waited = async {
        while lines().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited).await.expect("two lines");
    let lines = lines();
    let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap();
    assert_eq!(of("credential")["outcome"], "unauthenticated", "{lines:?}");
    let by = of("break");
    assert_eq!(
        (&by["principal"], &by["via"]),
        (&json!(WORKER), &json!("certificate"))
    );
    assert!(!lines.iter().any(|line| line.to_string().contains(&id(1))));
}
