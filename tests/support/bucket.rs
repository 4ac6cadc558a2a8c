//! A bucket of a server of another project, as a process. A recorder in front of it writes down what
//! the bucket has answered to each write of a slot.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, ETAG, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use nix::sys::signal::Signal;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use tenure_register::bucket::BucketAccess;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::chain::Link;
use crate::client::plain_http;
use crate::ports::free_address;
use crate::process::Process;
use crate::servers::server;
use crate::{PATIENCE, wait_for, wait_until};

/// The credential of the owner.
const ID: &str = "owner";
const SECRET: &str = "secret of the owner";

/// The name of the bucket.
const NAME: &str = "bucket";

/// The prefix of the homes of clusters.
const PREFIX: &str = "a/b";

/// The variables of the environment with which programs have access.
pub const ACCESS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET)];

/// The servers of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketServer {
    /// VersityGW, whose objects are files.
    VersityGw,
    /// SeaweedFS, all of its servers in one process.
    SeaweedFs,
}

/// A bucket. Its server is killed when this is dropped.
#[derive(Debug)]
pub struct Bucket {
    runtime: Runtime,
    command: Command,
    process: Option<Process>,
    client: AmazonS3,
    server: SocketAddr,
    recorder: SocketAddr,
    seen: Arc<Mutex<Traffic>>,
    _folder: TempDir,
}

/// What the recorder has seen.
#[derive(Debug, Default)]
struct Traffic {
    /// The writes of slots that were applied, or may have been, in the order of their answers.
    writes: Vec<Write>,
    /// The number of requests by method, or `LIST` for names of objects.
    requests: BTreeMap<String, u64>,
    /// Whether each write of a slot is sent without its condition.
    is_unfenced: bool,
}

/// A write of a slot.
#[derive(Clone, Debug)]
struct Write {
    link: Link,
    cluster: String,
    /// Whether the bucket has said that it was applied. Without an answer it may have been.
    is_acknowledged: bool,
}

impl BucketServer {
    /// The command that runs the server at this address; `None` if the test cannot run.
    fn command(self, test: &str, address: SocketAddr, folder: &FilePath) -> Option<Command> {
        let port = address.port();
        let mut command;
        match self {
            Self::VersityGw => {
                command = Command::new(server(test, "versitygw")?);
                let [data, metadata] = ["data", "metadata"].map(|name| folder.join(name));
                for folder in [&data, &metadata] {
                    std::fs::create_dir(folder).expect("a folder");
                }
                command
                    .arg(format!("--port={address}"))
                    .args(["--access", ID, "--secret", SECRET, "--quiet"])
                    .args(["posix", "--sidecar"])
                    .args([metadata, data]);
            }
            Self::SeaweedFs => {
                command = Command::new(server(test, "seaweedfs")?);
                command
                    .args(["server", "-ip=127.0.0.1", "-s3", "-master.telemetry=false"])
                    .arg(format!("-dir={}", folder.display()))
                    .arg(format!("-s3.port={port}"))
                    .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
                    .envs(ACCESS);
                for port in ["master", "volume", "filer"] {
                    command.arg(format!("-{port}.port={}", free_address().port()));
                    command.arg(format!("-{port}.port.grpc={}", free_address().port()));
                }
                command.arg(format!("-s3.port.grpc={}", free_address().port()));
            }
        }
        Some(command)
    }
}

impl Bucket {
    /// Starts the server and creates the bucket; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(test: &str, server: BucketServer) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let command = server.command(test, address, folder.path())?;
        let runtime = Runtime::new().expect("a runtime");
        let seen = Arc::<Mutex<Traffic>>::default();
        let client = AmazonS3Builder::new()
            .with_endpoint(format!("http://{address}"))
            .with_allow_http(true)
            .with_bucket_name(NAME)
            .with_access_key_id(ID)
            .with_secret_access_key(SECRET);
        let client = client.build().expect("a client");
        let recorder = runtime.block_on(record(address, client.clone(), seen.clone()));
        let mut bucket = Self {
            runtime,
            command,
            process: None,
            client,
            server: address,
            recorder,
            seen,
            _folder: folder,
        };
        bucket.spawn();
        bucket.create();
        Some(bucket)
    }

    /// Creates the bucket.
    fn create(&mut self) {
        let process = self.process.as_mut().expect("a process");
        let hour = Duration::from_secs(3600);
        self.runtime.block_on(async {
            let url = Path::default();
            let url = self.client.signed_url(Method::PUT, &url, hour).await;
            let create = plain_http().build().expect("a client");
            let create = create.put(url.expect("a URL"));
            wait_until("a bucket", async || {
                assert!(!process.has_ended(), "{}", process.stderr());
                let made = create.try_clone().expect("a request").send().await.ok()?;
                made.status().is_success().then_some(())
            })
            .await;
        });
        self.wait_until_ready();
    }

    /// Waits until the bucket stores objects. A server that has just started may have no place for them
    /// yet.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait_until_ready(&self) {
        let place = Path::from("first");
        self.runtime.block_on(wait_until("an object", async || {
            self.client.put(&place, "".into()).await.ok()
        }));
    }

    /// Starts the server, which has ended.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn spawn(&mut self) {
        self.process = Some(Process::spawn(&mut self.command));
    }

    /// Kills the server.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("a process");
        process.signal(Signal::SIGKILL);
        process.wait();
    }

    /// Sends a signal to the server.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("a process").signal(signal);
    }

    /// The access to the home, without the recorder.
    #[must_use]
    pub fn access(&self) -> BucketAccess {
        let mut access = BucketAccess::new(format!("s3://{NAME}/{PREFIX}"));
        access.endpoint = Some(format!("http://{}", self.server));
        access.settings = ACCESS
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        access
    }

    /// The address of the recorder.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.recorder
    }

    /// The URL of the home that is reached at this address.
    #[must_use]
    pub fn home(address: SocketAddr) -> String {
        format!("s3://{NAME}/{PREFIX}?endpoint=http://{address}")
    }

    /// The number of requests so far, by method, or `LIST` for names of objects.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<String, u64> {
        lock(&self.seen).requests.clone()
    }

    /// From now on each write of a slot is sent without its condition.
    pub fn drop_conditions(&self) {
        lock(&self.seen).is_unfenced = true;
    }

    /// The names of all objects below this prefix.
    ///
    /// # Panics
    ///
    /// If the bucket does not answer.
    #[must_use]
    pub fn objects(&self, prefix: &str) -> Vec<String> {
        use futures_util::TryStreamExt;
        let listed = self.client.list(Some(&Path::from(prefix)));
        let listed = listed.map_ok(|object| object.location.to_string());
        let listed = self.runtime.block_on(listed.try_collect());
        listed.expect("the names of objects")
    }

    /// The entries of the cluster with this name, by their numbers. Each slot of the bucket must have the
    /// entry that was written last, as the recorder saw it.
    ///
    /// # Panics
    ///
    /// If it has another one, or the bucket does not answer.
    #[must_use]
    pub fn links(&self, cluster: &str) -> Vec<Link> {
        let of_cluster = || {
            let writes = lock(&self.seen).writes.clone();
            writes.into_iter().filter(|it| it.cluster == cluster)
        };
        let before: Vec<_> = of_cluster().filter(|it| it.is_acknowledged).collect();
        let folder = format!("{PREFIX}/register/{cluster}");
        let mut current = Vec::new();
        for name in self.objects(&folder) {
            let Some((_, slot)) = slot_of(&format!("/{NAME}/{name}")) else {
                continue;
            };
            let read = async {
                let found = self.client.get(&Path::from(name)).await?;
                found.bytes().await
            };
            let bytes = self.runtime.block_on(read).expect("a slot");
            let link = Link::read(0, slot, &bytes);
            current
                .push(link.unwrap_or_else(|violation| panic!("violation of safety: {violation}")));
        }
        for Write { link, .. } in &before {
            let is_kept = |it: &Link| it.slot == link.slot && it.sequence() >= link.sequence();
            assert!(
                current.iter().any(is_kept),
                "violation of safety: the bucket has lost {link:?}"
            );
        }
        // The answer to a write may still be under way.
        wait_for("the writes of all entries in the bucket", || {
            let written: BTreeSet<_> = of_cluster().map(|it| it.link.checksum()).collect();
            let is_written = |it: &Link| written.contains(&it.checksum());
            current.iter().all(is_written).then_some(())
        });
        chain(of_cluster().collect(), &current)
    }
}

/// The entries of these writes, by their numbers. A write without an answer was applied if the bucket
/// still has it, or an entry follows it.
fn chain(writes: Vec<Write>, current: &[Link]) -> Vec<Link> {
    let followed = writes.iter().map(|it| it.link.previous());
    let known: BTreeSet<_> = (current.iter().map(Link::checksum))
        .chain(followed)
        .collect();
    let is_applied = |it: &Write| it.is_acknowledged || known.contains(&it.link.checksum());
    let mut links: Vec<_> = (writes.into_iter().filter(is_applied))
        .map(|it| it.link)
        .collect();
    // The answers may arrive in another order. Two entries with one number are a violation.
    links.sort_by_key(Link::sequence);
    // An attempt without an answer is repeated with the same bytes.
    links.dedup_by(|next, before| next.entry == before.entry);
    links
}

/// The cluster and the number of the slot with this path.
fn slot_of(path: &str) -> Option<(String, u64)> {
    let path = path.strip_prefix(&format!("/{NAME}/{PREFIX}/register/"))?;
    let (cluster, slot) = path.split_once("/slot-")?;
    let number = slot.trim_end_matches("%21").trim_end_matches('!');
    Some((cluster.to_owned(), number.parse().ok()?))
}

/// Starts the recorder in front of this address.
async fn record(target: SocketAddr, bucket: AmazonS3, seen: Arc<Mutex<Traffic>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    // A kept connection would break with a killed server.
    let http = plain_http().pool_max_idle_per_host(0).timeout(PATIENCE);
    let http = http.build().expect("a client");
    let router = axum::Router::new().fallback(move |request: Request| {
        let forwarded = forward(http.clone(), target, bucket.clone(), seen.clone(), request);
        // The recorder waits for the answer also if the client does not.
        let forwarded = tokio::spawn(forwarded);
        async move { forwarded.await.unwrap_or_default() }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn forward(
    http: reqwest::Client,
    target: SocketAddr,
    bucket: AmazonS3,
    seen: Arc<Mutex<Traffic>>,
    request: Request,
) -> Response {
    let failed = |status| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return failed(StatusCode::BAD_REQUEST);
    };
    let slot = slot_of(parts.uri.path()).filter(|_| parts.method == Method::PUT);
    let is_list = parts.uri.query().unwrap_or_default().contains("list-type");
    let method = if is_list {
        "LIST"
    } else {
        parts.method.as_str()
    };
    let method = method.to_owned();
    *lock(&seen).requests.entry(method).or_default() += 1;
    let is_unfenced = slot.is_some() && lock(&seen).is_unfenced;
    let whole = if is_unfenced {
        // The condition is signed, so this is another request.
        let path = parts.uri.path().trim_start_matches(&format!("/{NAME}/"));
        let path = Path::from_url_path(path).expect("the path of an object");
        let put = bucket.put(&path, body.clone().into()).await.ok();
        put.and_then(|put| {
            let version = put.e_tag?.parse().ok()?;
            let headers = HeaderMap::from_iter([(ETAG, version)]);
            Some((StatusCode::OK, headers, Bytes::new()))
        })
    } else {
        // The headers are signed, the name of the host, too.
        let sent = http
            .request(parts.method, format!("http://{target}{}", parts.uri))
            .headers(parts.headers)
            .body(body.clone())
            .send();
        let whole = async {
            let answer = sent.await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        };
        whole.await.ok()
    };
    let status = whole.as_ref().map(|(status, ..)| *status);
    let is_refused = status.is_some_and(|status| status.is_client_error());
    if let Some((cluster, slot)) = slot.filter(|_| !is_refused) {
        let writes = &mut lock(&seen).writes;
        let link = Link::read(writes.len() as u64, slot, &body);
        writes.push(Write {
            link: link.expect("the servers write entries only"),
            cluster,
            is_acknowledged: status.is_some_and(|status| status.is_success()),
        });
    }
    let Some((status, headers, body)) = whole else {
        return failed(StatusCode::BAD_GATEWAY);
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    response
}

fn lock(seen: &Mutex<Traffic>) -> MutexGuard<'_, Traffic> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chain::audit;

    fn write(sequence: u64, checksum: &str, previous: &str, is_acknowledged: bool) -> Write {
        let entry = json!({"sequence": sequence, "generation": 1, "state": "owned", "owner": "a",
            "checksum": checksum, "previous": previous});
        Write {
            link: Link {
                at: 0,
                slot: sequence,
                entry,
            },
            cluster: "c".into(),
            is_acknowledged,
        }
    }

    #[test]
    fn a_write_without_an_answer_counts_if_an_entry_follows_or_the_bucket_has_it() {
        let writes = vec![
            write(1, "one", "", true),
            write(2, "lost", "one", false),
            write(2, "two", "one", false),
            write(2, "two", "one", true),
            write(4, "four", "three", false),
            write(3, "three", "two", true),
            write(5, "late", "four", false),
        ];
        let current = [writes[4].link.clone()];
        let links = chain(writes, &current);
        let found: Vec<_> = links.iter().map(Link::checksum).collect();
        assert_eq!(found, ["one", "two", "three", "four"]);
        assert!(audit(&links).is_ok());
    }

    #[test]
    fn two_writes_of_one_number_are_a_violation() {
        let writes = vec![
            write(1, "one", "", true),
            write(2, "two", "one", true),
            write(2, "other", "one", true),
        ];
        let violation = audit(&chain(writes, &[])).unwrap_err();
        assert!(
            violation.starts_with("the sequence has a gap"),
            "{violation}"
        );
    }
}
