//! A real Kubernetes API server over etcd, as processes: with RBAC, service accounts, and priority and
//! fairness. Nothing else of a cluster runs, so nothing acts on the objects.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::etcd::Etcd;
use crate::ports::free_address;
use crate::process::is_alive;
use crate::servers::server;
use crate::ticks::boot_time;

/// How long a start or an answer may take. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(90);

/// The issuer of the tokens of service accounts.
const ISSUER: &str = "https://kubernetes.default.svc";

/// A server and its etcd. Both are killed when this is dropped.
#[derive(Debug)]
pub struct ApiServer {
    runtime: Runtime,
    http: Mutex<reqwest::Client>,
    folder: TempDir,
    /// Its etcd, with one member.
    pub etcd: Etcd,
    program: PathBuf,
    address: SocketAddr,
    process: Option<Child>,
    options: Vec<String>,
}

/// The status of an answer, and its body: JSON, or a text.
pub type Answer = (u16, Value);

impl ApiServer {
    /// The token of a person who may do everything.
    pub const ADMIN: &str = "token-of-the-admin";

    /// Starts a server; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let program = server(test, "kube-apiserver")?;
        let etcd = server(test, "etcd-3.6")?;
        let mut server = Self {
            runtime: Runtime::new().expect("a runtime"),
            http: Mutex::default(),
            folder: tempfile::tempdir().expect("a folder"),
            etcd: Etcd::start_program(&etcd),
            program,
            address: free_address(),
            process: None,
            options: Vec::new(),
        };
        let key = KeyPair::generate().expect("a key");
        server.write("accounts.key", key.serialize_pem());
        server.write("accounts.pub", key.public_key_pem());
        server.write(
            "people",
            format!("{},admin,admin,system:masters\n", Self::ADMIN),
        );
        server.replace_authority();
        server.spawn();
        server.wait_until_ready();
        Some(server)
    }

    /// The server that the tests of this program share. It ends with the last test that has it, so no
    /// test may stop it.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn shared(test: &str) -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<ApiServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let server = Arc::new(Self::start(test)?);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes another authority, and a certificate of it. The server has them from its next start on,
    /// and the files of pods that are written then.
    ///
    /// # Panics
    ///
    /// If the files can't be written.
    pub fn replace_authority(&mut self) {
        let params = |name: &str| {
            let names = ["127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).expect("a name");
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            params.use_authority_key_identifier_extension = true;
            params
        };
        let key = || KeyPair::generate().expect("a key");
        let mut authority = params(&format!("authority {}", boot_time().as_nanos()));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, key()).expect("an authority");
        let signing_key = key();
        let certificate = params("server").signed_by(&signing_key, &authority);
        self.write("server.pem", certificate.expect("a certificate").pem());
        self.write("server.key", signing_key.serialize_pem());
        self.write("ca.crt", authority.pem());
        let root = reqwest::Certificate::from_pem(authority.pem().as_bytes());
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE / 9);
        let http = http.tls_certs_only([root.expect("a certificate")]).build();
        *lock(&self.http) = http.expect("a client");
    }

    /// Sets further options, from the next start on.
    pub fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
    }

    /// Starts the server, which does not run.
    ///
    /// # Panics
    ///
    /// If there is no such program.
    pub fn spawn(&mut self) {
        let mut log = File::options();
        let log = log.create(true).append(true).open(self.path("log"));
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        let process = Command::new(&self.program)
            .args([
                format!("--etcd-servers={}", self.etcd.endpoint(0)),
                format!("--secure-port={}", self.address.port()),
                format!("--service-account-issuer={ISSUER}"),
                file("cert-dir", "certificates"),
                file("tls-cert-file", "server.pem"),
                file("tls-private-key-file", "server.key"),
                file("service-account-key-file", "accounts.pub"),
                file("service-account-signing-key-file", "accounts.key"),
                file("token-auth-file", "people"),
            ])
            .args([
                "--bind-address=127.0.0.1",
                // A server on the loopback interface can't be an endpoint of the service `kubernetes`.
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--authorization-mode=RBAC",
            ])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a file"))
            .spawn();
        self.process = Some(process.expect("the server starts"));
    }

    /// Waits until the server says that it is ready.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait_until_ready(&self) {
        let until = Instant::now() + PATIENCE;
        while self.try_admin(Method::GET, "/readyz", None).map(|it| it.0) != Some(200) {
            let log = || fs::read_to_string(self.path("log")).unwrap_or_default();
            let is_over = Instant::now() > until || !is_alive(self.pid().as_raw());
            assert!(!is_over, "no start:\n{}", log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends a signal to the server.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a process to signal");
    }

    fn pid(&self) -> Pid {
        let process = self.process.as_ref().expect("a process");
        Pid::from_raw(process.id().cast_signed())
    }

    /// Ends the server with this signal, and waits for its end.
    pub fn stop(&mut self, signal: Signal) {
        if self.process.is_some() {
            self.signal(signal);
        }
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    /// The address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client that trusts the server.
    #[must_use]
    pub fn client(&self) -> reqwest::Client {
        lock(&self.http).clone()
    }

    /// The runtime of the client, for proxies in front of the server.
    #[must_use]
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The file with the authority of the server's certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// Sends a request; `None` without an answer. The form of the body follows from the method.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let form = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        self.request_as(method, path, token, form, body.map(Value::to_string))
    }

    /// The same with a body of this form.
    pub fn request_as(
        &self,
        method: Method,
        path: &str,
        token: &str,
        form: &str,
        body: Option<String>,
    ) -> Option<Answer> {
        let url = format!("https://{}{path}", self.address);
        let mut request = self.client().request(method, url).bearer_auth(token);
        if let Some(body) = body {
            request = request.header("content-type", form).body(body);
        }
        self.runtime.block_on(answer_to(request))
    }

    /// Sends a request of the administrator; `None` without an answer.
    pub fn try_admin(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        self.request(method, path, Self::ADMIN, body)
    }

    /// The same with a body of this form.
    pub fn admin_as(&self, method: Method, path: &str, form: &str, body: String) -> Option<Answer> {
        self.request_as(method, path, Self::ADMIN, form, Some(body))
    }

    /// Sends a request of the administrator.
    ///
    /// # Panics
    ///
    /// If it is refused.
    #[allow(clippy::must_use_candidate)] // Often only its effect matters.
    pub fn must(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let what = format!("{method} {path}");
        let answer = self.try_admin(method, path, body);
        let (status, answer) = answer.unwrap_or_else(|| panic!("{what}: no answer"));
        assert!((200..300).contains(&status), "{what}: {status} {answer}");
        answer
    }

    /// Creates an object in this collection.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn create(&self, collection: &str, object: &Value) {
        self.must(Method::POST, collection, Some(object));
    }

    /// Creates a namespace with a service account, `worker`.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn create_namespace(&self, name: &str) {
        self.create(
            "/api/v1/namespaces",
            &json!({ "metadata": { "name": name } }),
        );
        self.create_account(name, "worker");
    }

    /// Removes a namespace, as the controller does that does not run here. Its objects stay, except
    /// for those that were deleted.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn end_namespace(&self, path: &str) {
        let mut namespace = self.must(Method::DELETE, path, None);
        if namespace["kind"] == "Namespace" {
            namespace["spec"]["finalizers"] = json!([]);
            self.must(Method::PUT, &format!("{path}/finalize"), Some(&namespace));
        }
    }

    /// Creates a service account.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn create_account(&self, namespace: &str, name: &str) {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.create(&accounts, &json!({ "metadata": { "name": name } }));
    }

    /// Gives a service account these rights in its namespace, as a Role and a RoleBinding with this
    /// name.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn grant(&self, namespace: &str, account: &str, name: &str, rules: &Value) {
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let metadata = json!({ "name": name });
        self.create(
            &format!("{rbac}/roles"),
            &json!({ "metadata": metadata, "rules": rules }),
        );
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
        let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": namespace });
        self.create(
            &format!("{rbac}/rolebindings"),
            &json!({ "metadata": metadata, "roleRef": role, "subjects": [subject] }),
        );
    }

    /// Takes these rights away.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn revoke(&self, namespace: &str, name: &str) {
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        for kind in ["rolebindings", "roles"] {
            self.must(Method::DELETE, &format!("{rbac}/{kind}/{name}"), None);
        }
    }

    /// Asks the server for a token of a service account, as a kubelet does.
    ///
    /// # Panics
    ///
    /// If it is refused.
    #[must_use]
    pub fn token(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.must(Method::POST, &path, Some(&json!({ "spec": {} })));
        let token = answer["status"]["token"].as_str();
        token.expect("a token").into()
    }

    /// Writes the files that a pod with this service account has into a folder.
    ///
    /// # Panics
    ///
    /// If they can't be written.
    pub fn write_pod_files(&self, folder: &Path, namespace: &str, account: &str) {
        fs::create_dir_all(folder).expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        write("token", &self.token(namespace, account));
        write("namespace", namespace);
        fs::copy(self.ca_file(), folder.join("ca.crt")).expect("a file");
    }

    /// Reads a Lease; `None` if it does not exist.
    #[must_use]
    pub fn lease(&self, namespace: &str, name: &str) -> Option<Value> {
        let (status, lease) = self.try_admin(Method::GET, &lease_path(namespace, name), None)?;
        (status == 200).then_some(lease)
    }

    /// Changes a Lease as `kubectl edit` does, in the name of this field manager. Returns whether it
    /// was changed: there is such an object, and the server has answered.
    pub fn edit(
        &self,
        namespace: &str,
        name: &str,
        manager: &str,
        edit: impl Fn(&mut Value),
    ) -> bool {
        let path = lease_path(namespace, name);
        for _ in 0..20 {
            let Some(mut lease) = self.lease(namespace, name) else {
                return false;
            };
            edit(&mut lease);
            let path = format!("{path}?fieldManager={manager}");
            match self.try_admin(Method::PUT, &path, Some(&lease)) {
                Some((200, _)) => return true,
                Some((409, _)) => {}
                _ => return false,
            }
        }
        false
    }

    /// Records all versions of a Lease from now on.
    #[must_use]
    pub fn watch(&self, namespace: &str, name: &str) -> Versions {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let url = format!(
            "https://{}{leases}?fieldSelector=metadata.name={name}",
            self.address
        );
        let http = self.client();
        let versions = Versions::default();
        let seen = versions.0.clone();
        self.runtime.spawn(async move {
            let mut from = None;
            loop {
                let _ = watch_once(&http, &url, &mut from, &seen).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        versions
    }
}

/// Sends a request; `None` without an answer.
pub async fn answer_to(request: RequestBuilder) -> Option<Answer> {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    let text = answer.text().await.ok()?;
    Some((
        status,
        serde_json::from_str(&text).unwrap_or_else(|_| text.into()),
    ))
}

/// Reads all objects if there is no version to go on from, and then changes until an error.
async fn watch_once(
    http: &reqwest::Client,
    url: &str,
    from: &mut Option<String>,
    seen: &Mutex<Vec<Version>>,
) -> Option<()> {
    let version_of = |object: &Value| {
        let version = object["metadata"]["resourceVersion"].as_str();
        version.map(str::to_owned)
    };
    let add = |object: Value| {
        let at = boot_time();
        lock(seen).push(Version { at, object });
    };
    let Some(version) = from.clone() else {
        let list = http
            .get(url)
            .bearer_auth(ApiServer::ADMIN)
            .send()
            .await
            .ok()?;
        let list = list.error_for_status().ok()?.json::<Value>().await.ok()?;
        let last = lock(seen).last().map(|it| it.object.clone());
        let items = list["items"].as_array().into_iter().flatten().cloned();
        items.filter(|it| last.as_ref() != Some(it)).for_each(add);
        *from = version_of(&list);
        return Some(());
    };
    let url = format!("{url}&watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    let request = http
        .get(url)
        .bearer_auth(ApiServer::ADMIN)
        .timeout(Duration::from_secs(300));
    let mut answer = request.send().await.ok()?;
    let mut line = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        for byte in chunk {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let mut event: Value = serde_json::from_slice(&line).ok()?;
            line.clear();
            let object = event["object"].take();
            match event["type"].as_str() {
                Some("ERROR") | None => *from = None,
                Some(kind) => {
                    *from = version_of(&object);
                    if kind != "BOOKMARK" {
                        add(object);
                    }
                }
            }
        }
    }
    Some(())
}

/// The path of a Lease.
#[must_use]
pub fn lease_path(namespace: &str, name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
}

/// A version of an object.
#[derive(Clone, Debug)]
pub struct Version {
    /// When it was seen, by [`boot_time`].
    pub at: Duration,
    /// The object; after its deletion, its last version.
    pub object: Value,
}

impl Version {
    /// The holder; empty if there is none.
    #[must_use]
    pub fn holder(&self) -> &str {
        let holder = self.object["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default()
    }

    /// The mark of the last term of tenure; empty if there is none.
    #[must_use]
    pub fn mark(&self) -> &str {
        let mark = self.object["metadata"]["annotations"]["tenure/term"].as_str();
        mark.unwrap_or_default()
    }

    /// Whether a candidate of tenure wrote this version after that one: each of its writes has another
    /// mark. Changes by other programs keep the mark, remove it or make it unreadable.
    #[must_use]
    pub fn is_of_tenure(&self, before: Option<&Self>) -> bool {
        let is_mark = ["running/", "ended/"]
            .iter()
            .any(|it| self.mark().starts_with(it));
        is_mark && before.is_none_or(|before| before.mark() != self.mark())
    }

    /// The program that wrote last, as the server names it. Of several that wrote in the same second,
    /// it is one of them.
    #[must_use]
    pub fn writer(&self) -> &str {
        let managers = self.object["metadata"]["managedFields"].as_array();
        let last = (managers.into_iter().flatten()).max_by_key(|it| it["time"].as_str());
        last.and_then(|it| it["manager"].as_str())
            .unwrap_or_default()
    }
}

/// The versions of an object, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Versions(Arc<Mutex<Vec<Version>>>);

impl Versions {
    /// Those so far.
    #[must_use]
    pub fn all(&self) -> Vec<Version> {
        lock(&self.0).clone()
    }

    /// The holder in the last one; empty if there is none.
    #[must_use]
    pub fn holder(&self) -> String {
        let versions = lock(&self.0);
        versions.last().map_or("", Version::holder).to_owned()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop(Signal::SIGKILL);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
