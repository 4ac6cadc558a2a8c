//! Tests of the audit log of a store over HTTP: all kinds of acts, with the fields that
//! `docs/audit.md` lists.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Running, SOON, id, served};
use reqwest::{Method, Response};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tenure_server::access::{Access, Secret, TrustedProxies};
use tenure_server::audit::{Audit, AuditConfig, AuditEntry, AuditKind, AuditLevel, AuditTarget};
use tenure_server::audit::{Verified, verify};
use tenure_server::{Server, Store, StoreConfig};

const OPERATORS: [&str; 2] = ["ada", "grace"];
const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];

/// A store with access control behind a proxy, and with its audit log.
struct Audited {
    running: Running,
    audit: Audit,
    folder: TempDir,
    tokens: BTreeMap<&'static str, Secret>,
}

impl Audited {
    fn start(level: AuditLevel, is_required: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let named = |role: &str, names: &[&'static str]| {
            let grants = format!("grants = [{{ role = {role:?}, namespace = \"a\" }}]");
            let named = names.iter().map(|name| (*name, grants.clone()));
            named.collect::<Vec<_>>()
        };
        let principals = [named("operator", &OPERATORS), named("candidate", &WORKERS)].concat();
        let mut tokens = BTreeMap::new();
        let mut text = "version = 1\n".to_owned();
        for (name, grants) in principals {
            let token = Secret::generate();
            text += &format!(
                "[[principal]]\nname = {name:?}\n{grants}\n\
                 [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
                token.id(),
                token.hash()
            );
            tokens.insert(name, token);
        }
        let path = folder.path().join("access.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let target = AuditTarget::File(folder.path().join("audit.jsonl"));
        let audit = Audit::open(AuditConfig {
            target,
            level,
            is_required,
        });
        let audit = audit.unwrap();
        let store = Store::open(StoreConfig::memory()).unwrap();
        let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        let server = server
            .with_access(Access::open(path).unwrap())
            .with_trusted_proxies(TrustedProxies::new(["127.0.0.1"]).unwrap())
            .with_audit(audit.clone());
        Self {
            running: served(server),
            audit,
            folder,
            tokens,
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// Sends a request of this principal, or with a wrong token.
    async fn send(
        &self,
        name: &str,
        from: &str,
        (method, lease, verb): (Method, &str, &str),
        body: Value,
    ) -> Response {
        let wrong = Secret::generate();
        let token = self.tokens.get(name).unwrap_or(&wrong);
        let path = format!("/v1/namespaces/a/leases/{lease}{verb}");
        let request = self.running.api.request(method.clone(), &path);
        let request = request
            .bearer_auth(token.reveal())
            .header("x-forwarded-for", from)
            .header("x-request-id", format!("{name}:{lease}{verb}"))
            .header(
                "traceparent",
                format!("00-{}-00f067aa0ba902b7-01", trace_of(name)),
            );
        let request = match method {
            Method::POST => request.json(&body),
            _ => request,
        };
        request.send().await.unwrap()
    }

    async fn post(&self, name: &str, lease: &str, verb: &str, body: Value) -> u16 {
        let verb = format!("/{verb}");
        let response = self.send(name, "192.0.2.7", (Method::POST, lease, &verb), body);
        response.await.status().as_u16()
    }

    async fn acquire(&self, name: &str, lease: &str, number: u32, duration: u64) -> u16 {
        let body = json!({"holder": name, "duration_ms": duration, "lease_id": id(number)});
        self.post(name, lease, "acquire", body).await
    }

    async fn release(&self, name: &str, lease: &str, number: u32) -> u16 {
        let body = json!({"lease_id": id(number)});
        self.post(name, lease, "release", body).await
    }

    async fn delete(&self, name: &str, lease: &str) -> u16 {
        let request = (Method::DELETE, lease, "");
        let response = self.send(name, "192.0.2.7", request, Value::Null).await;
        response.status().as_u16()
    }

    /// Returns all lines, as soon as the queued lines are written.
    async fn lines(&self) -> Vec<Map<String, Value>> {
        self.audit
            .record_now(AuditEntry::new(AuditKind::Stop, "done"))
            .await;
        let text = fs::read_to_string(self.log()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }
}

/// The trace of all requests of this principal.
fn trace_of(name: &str) -> String {
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex:0>32}")
}

#[tokio::test]
async fn a_line_has_the_client_behind_the_proxy_and_the_id_of_the_request() {
    let audited = Audited::start(AuditLevel::Operators, false);
    let breaks = (Method::POST, "job", "/break");
    for (from, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, 192.0.2.2", "192.0.2.2"),
        ("192.0.2.3, 127.0.0.1", "192.0.2.3"),
        ("nonsense", "127.0.0.1"),
    ] {
        let answer = audited.send("ada", from, breaks.clone(), json!({})).await;
        assert_eq!(answer.headers()["tenure-request-id"], "ada:job/break");
        let lines = audited.lines().await;
        let line = &lines[lines.len() - 2];
        assert_eq!(line["address"], expected);
        assert_eq!(line["request"], "ada:job/break");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_operators_of_a_required_log_and_stops_no_election() {
    for is_required in [true, false] {
        let audited = Audited::start(AuditLevel::Changes, is_required);
        assert_eq!(audited.acquire("worker-0", "job", 1, 60_000).await, 200);
        let before = audited.lines().await.len();
        let aside = audited.folder.path().join("aside");
        fs::rename(audited.log(), &aside).unwrap();
        std::os::unix::fs::symlink("/dev/full", audited.log()).unwrap();
        // The store detects the full disk when a line can't be written.
        assert_eq!(audited.release("worker-0", "job", 1).await, 200);
        let wait_until_lost = async {
            while audited.audit.lost() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, wait_until_lost)
            .await
            .expect("a lost line");
        for number in 2..10 {
            let worker = WORKERS[number as usize % WORKERS.len()];
            assert_eq!(audited.acquire(worker, "job", number, 60_000).await, 200);
            let renew = json!({"lease_id": id(number)});
            assert_eq!(audited.post(worker, "job", "renew", renew).await, 200);
            let now = json!({"break_period_ms": 0});
            let expected = if is_required { 503 } else { 200 };
            assert_eq!(audited.post("ada", "job", "break", now).await, expected);
            if is_required {
                assert_eq!(audited.release(worker, "job", number).await, 200);
            }
        }
        // A line for which an answer waits is written after all previous lines.
        let last = AuditEntry::new(AuditKind::Reload, "done");
        assert!(!audited.audit.record_now(last).await);
        let lost = audited.audit.lost();
        // Each term has a grant, an act and an end. The first release and the last line are added.
        assert_eq!(lost, 8 * 3 + 2);
        fs::rename(&aside, audited.log()).unwrap();
        // The refused act is recorded, which shows that the log works again.
        let first = audited.delete("ada", "job").await;
        assert_eq!(first, if is_required { 503 } else { 204 });
        assert_eq!(
            audited.delete("ada", "job").await,
            if is_required { 204 } else { 404 }
        );
        let lines = audited.lines().await;
        assert_eq!(lines[before]["lost"], lost);
        let verified = verify(&[audited.log()]).unwrap().unwrap();
        let expected = Verified {
            first: 1,
            last: lines.len() as u64,
            lost,
            cut: Vec::new(),
        };
        assert_eq!(verified, expected);
    }
}

#[tokio::test]
async fn refused_acts_of_an_operator_get_a_few_lines_and_then_one_a_minute() {
    let audited = Audited::start(AuditLevel::Operators, false);
    assert_eq!(audited.acquire("worker-0", "job", 1, 60_000).await, 200);
    for number in 0..40 {
        let missing = format!("missing-{number}");
        let status = match number % 2 {
            0 => audited.post("ada", &missing, "break", json!({})).await,
            _ => audited.delete("ada", &missing).await,
        };
        assert_eq!(status, 404);
    }
    // Neither the acts that are done nor those of another operator are concerned.
    assert_eq!(audited.delete("grace", "missing").await, 404);
    assert_eq!(audited.post("ada", "job", "break", json!({})).await, 200);
    let lines = audited.lines().await;
    let of = |name: &str, outcome: &str| {
        let is_of = |line: &&Map<String, Value>| {
            line.get("principal") == Some(&json!(name)) && line["outcome"] == outcome
        };
        lines.iter().filter(is_of).count()
    };
    assert_eq!(of("ada", "unknown_lease"), 10);
    assert_eq!(of("grace", "unknown_lease"), 1);
    assert_eq!(of("ada", "done"), 1);
}
