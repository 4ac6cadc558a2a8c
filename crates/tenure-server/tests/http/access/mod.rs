//! Tests of access control over HTTP: the rights of each caller, and the effect of a withdrawn
//! right.

mod audit;
mod failures;
mod hosts;
mod matrix;
mod owners;
mod races;
mod revocation;
mod rights;
mod scope;
mod sessions;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::wire::Wire;
use crate::common::{Running, SOON, assert_refused, id, served};
use crate::signer::{Signer, claims};
use futures_util::future::join_all;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::access::{Access, Secret};
use tenure_server::audit::{Audit, AuditConfig, AuditTarget, verify};
use tenure_server::{Route, Server, Store, StoreConfig, routes};

const LEASE: &str = "/v1/namespaces/a/leases/job";

/// A server with an access file.
struct Guarded {
    running: Running,
    store: Store,
    access: Access,
    folder: TempDir,
    credentials: Credentials,
}

/// The credentials of the principals. Each principal has a token. The identity `ci:NAME` has a JSON
/// web token and the same grants as the principal `NAME`. `session:NAME` stands for a session of the
/// principal.
struct Credentials {
    tokens: Vec<(String, Secret)>,
    signer: Signer,
    jwts: HashMap<String, String>,
    sessions: HashMap<String, String>,
}

impl Guarded {
    /// Starts a server with these principals and their grants.
    fn start(principals: &[(&str, &str)]) -> Self {
        Self::start_with(StoreConfig::memory(), principals)
    }

    fn start_with(config: StoreConfig, principals: &[(&str, &str)]) -> Self {
        Self::start_audited(config, Audit::none(), principals)
    }

    fn start_audited(config: StoreConfig, audit: Audit, principals: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let credentials = Credentials::of(principals);
        let path = folder.path().join("access.toml");
        write(&path, &credentials.file(principals));
        let access = Access::open(&path).unwrap();
        let keys = credentials.signer.key_set("one");
        access
            .replace_keys(&access.issuers()[0], &keys, None)
            .unwrap();
        let store = Store::open(config).unwrap();
        Self {
            running: served(bind(&store).with_access(access.clone()).with_audit(audit)),
            store,
            access,
            folder,
            credentials,
        }
    }

    /// Starts the server again with the store of another process, for example with the same data
    /// after a restart.
    async fn restart(self, config: StoreConfig) -> Self {
        self.running.stop().await.unwrap();
        drop(self.store);
        let store = Store::open(config).unwrap();
        Self {
            running: served(bind(&store).with_access(self.access.clone())),
            store,
            ..self
        }
    }

    /// Makes a session of this caller, and returns the answer of the store. Requests of
    /// `session:NAME` have the session.
    async fn sign_in(&mut self, name: &str) -> Value {
        let (status, answer) = self.post(name, "/v1/session", json!({})).await;
        assert_eq!(status, 200, "{answer}");
        let session = answer["session"].as_str().unwrap().to_owned();
        let sessions = &mut self.credentials.sessions;
        sessions.insert(format!("session:{name}"), session);
        answer
    }

    /// Puts other grants in force. A principal that is left out is unknown from now on.
    fn change(&self, principals: &[(&str, &str)]) {
        let path = self.folder.path().join("access.toml");
        write(&path, &self.credentials.file(principals));
        assert!(self.access.reload().unwrap());
    }

    async fn send(&self, name: &str, method: Method, path: &str, body: Value) -> Response {
        let request = self.running.api.request(method.clone(), path);
        let request = match self.credentials.find(name) {
            Some(credential) => request.bearer_auth(credential),
            None => request,
        };
        let request = match method {
            Method::POST | Method::PUT => request.json(&body),
            _ => request,
        };
        request.send().await.unwrap()
    }

    async fn post(&self, name: &str, path: &str, body: Value) -> (u16, Value) {
        crate::common::answer(self.send(name, Method::POST, path, body).await).await
    }

    async fn get(&self, name: &str, path: &str) -> (u16, Value) {
        crate::common::answer(self.send(name, Method::GET, path, Value::Null).await).await
    }

    /// Opens a stream of events.
    async fn stream(&self, name: &str, path: &str) -> Response {
        let stream = self.send(name, Method::GET, path, Value::Null).await;
        assert_eq!(stream.status(), 200, "{path}");
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        stream
    }

    /// Returns the header with the credential of this principal.
    fn header(&self, name: &str) -> String {
        let credential = self.credentials.find(name).unwrap();
        format!("authorization: Bearer {credential}\r\n")
    }
}

impl Credentials {
    fn of(principals: &[(&str, &str)]) -> Self {
        let tokens = principals.iter();
        let tokens = tokens.map(|(name, _)| ((*name).to_owned(), Secret::generate()));
        let signer = Signer::new();
        let jwts = principals.iter();
        let jwts = jwts.map(|(name, _)| (format!("ci:{name}"), signer.sign("one", &claims(name))));
        Self {
            tokens: tokens.collect(),
            jwts: jwts.collect(),
            signer,
            sessions: HashMap::new(),
        }
    }

    /// Returns the credential of `NAME`, `ci:NAME` or `session:NAME`; `None` for the empty name.
    fn find(&self, name: &str) -> Option<&str> {
        if name.is_empty() {
            return None;
        }
        Some(
            match self.jwts.get(name).or_else(|| self.sessions.get(name)) {
                Some(jwt) => jwt,
                None => self.token(name).reveal(),
            },
        )
    }

    fn token(&self, name: &str) -> &Secret {
        let token = self.tokens.iter().find(|(known, _)| known == name);
        &token.unwrap().1
    }

    /// Returns an access file with these principals and their grants.
    fn file(&self, principals: &[(&str, &str)]) -> String {
        let principals = principals.iter().map(|(name, grants)| {
            let token = self.token(name);
            format!(
                "[[principal]]\nname = {name:?}\ngrants = [{grants}]\n\
                 [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n\
                 [[match]]\nidentity = \"ci:{name}\"\ngrants = [{grants}]\n",
                token.id(),
                token.hash()
            )
        });
        let issuer = crate::signer::ISSUER;
        format!(
            "version = 1\n[[issuer]]\nname = \"ci\"\nissuer = {issuer:?}\naudience = \"tenure\"\n\
             key_set_file = \"unused\"\n{}",
            principals.collect::<String>()
        )
    }
}

fn bind(store: &Store) -> Server {
    Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap()
}

fn write(path: &PathBuf, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn grant(role: &str, namespace: &str, prefix: &str) -> String {
    let prefix = match prefix {
        "" => String::new(),
        prefix => format!(", prefix = {prefix:?}"),
    };
    match role {
        "metrics" => "{ role = \"metrics\" }".into(),
        role => format!("{{ role = {role:?}, namespace = {namespace:?}{prefix} }}"),
    }
}

/// Returns a path of this route, about a lease or its namespace.
fn path_of(route: &Route, namespace: &str, lease: &str) -> String {
    let path = route.path.replace("{namespace}", namespace);
    path.replace("{lease}", lease).replace("{file}", "app.js")
}

/// Returns the body of a request of the route with this label, by the holder with this lease id.
fn body_of(label: &str, lease_id: &str) -> Value {
    match label {
        "acquire" => json!({"holder": "c1", "duration_ms": 3_600_000, "lease_id": lease_id}),
        "renew" | "release" => json!({"lease_id": lease_id}),
        "change" => json!({"lease_id": lease_id, "proposed_lease_id": id(1_000_000)}),
        "handover" => json!({"lease_id": lease_id, "to": "c2", "within_ms": 1_000, "force": true}),
        "verify" => json!({"epoch": 1}),
        "metadata" => json!({"lease_id": lease_id, "metadata": {}}),
        "renew_many" => json!({"leases": []}),
        _ => json!({}),
    }
}

/// Waits until the condition is true.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON * 3, wait).await.expect(what);
}
