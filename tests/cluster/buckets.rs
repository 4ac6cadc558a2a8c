//! The requests by which a register checks a bucket, at servers of other projects: conditional
//! creates and replaces, each of them also from four clients at once. No server of tenure takes part.

use std::fmt::Write;
use std::net::SocketAddr;
use std::process::Command;

use aws_lc_rs::{digest, hmac};
use futures_util::future::join_all;
use reqwest::Method;
use reqwest::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use tenure_tests::client::plain_http;
use tenure_tests::needs::output_of;
use tenure_tests::ports::free_address;
use tenure_tests::process::Process;
use tenure_tests::servers::server;
use tenure_tests::wait_until;
use tokio::runtime::Runtime;

/// The number of races of each kind, and of clients in each of them.
const RACES: usize = 40;
const CLIENTS: usize = 4;

/// The credential of the owner.
const ID: &str = "owner";
const SECRET: &str = "secret of the owner";

/// What must hold for a write to be done.
enum Condition<'a> {
    Absent,
    Version(&'a str),
}

/// An answer: its status, its version, and its body.
#[derive(Debug)]
struct Answer {
    status: u16,
    version: String,
    body: String,
}

impl Answer {
    fn is_done(&self) -> bool {
        self.status == 200
    }

    /// Whether the condition did not hold, or another write was under way.
    fn is_refused(&self) -> bool {
        self.status == 412 || self.status == 409
    }
}

/// A client with a connection of its own.
struct Client {
    http: reqwest::Client,
    server: SocketAddr,
    /// The time at the start, as signatures have it. Servers accept it for some minutes.
    date: String,
}

impl Client {
    fn new(server: SocketAddr) -> Self {
        let date = output_of(Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]));
        Self {
            http: plain_http().build().unwrap(),
            server,
            date: date.unwrap(),
        }
    }

    async fn write(&self, key: &str, condition: Condition<'_>, value: &str) -> Answer {
        let (name, value_of_it) = match condition {
            Condition::Absent => (IF_NONE_MATCH, "*"),
            Condition::Version(version) => (IF_MATCH, version),
        };
        let request = self.request(Method::PUT, &format!("/bucket/{key}"));
        let request = request.header(name, value_of_it).body(value.to_owned());
        answer(request).await.expect("an answer")
    }

    /// A request that is signed by version 4 of the signatures of AWS, without its body.
    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let (server, date, day) = (self.server, &self.date, &self.date[..8]);
        let names = "host;x-amz-content-sha256;x-amz-date";
        let body = "UNSIGNED-PAYLOAD";
        let canonical = format!(
            "{method}\n{path}\n\nhost:{server}\nx-amz-content-sha256:{body}\nx-amz-date:{date}\n\n\
             {names}\n{body}"
        );
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let signed = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}");
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for text in scope.split('/').chain([signed.as_str()]) {
            let sign = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
            key = sign.as_ref().to_vec();
        }
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={ID}/{scope}, SignedHeaders={names}, Signature={}",
            hex(&key)
        );
        (self.http.request(method, format!("http://{server}{path}")))
            .header("x-amz-content-sha256", body)
            .header("x-amz-date", date)
            .header("authorization", authorization)
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Option<Answer> {
    let answer = request.send().await.ok()?;
    let version = answer.headers().get(ETAG);
    let version = version.map(|it| it.to_str().unwrap().to_owned());
    Some(Answer {
        status: answer.status().as_u16(),
        version: version.unwrap_or_default(),
        body: answer.text().await.ok()?,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Starts the server that this command runs, and checks it.
fn check(command: &mut Command, address: SocketAddr) {
    let mut process = Process::spawn(command);
    let runtime = Runtime::new().unwrap();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(address)).collect();
    runtime.block_on(async {
        wait_until("a bucket", async || {
            assert!(!process.has_ended(), "{}", process.stderr());
            let made = answer(clients[0].request(Method::PUT, "/bucket")).await?;
            made.is_done().then_some(())
        })
        .await;
        // A server that has just started may have no place for objects yet.
        wait_until("an object", async || {
            let made = clients[0].write("first", Condition::Absent, "").await;
            (made.is_done() || made.is_refused()).then_some(())
        })
        .await;
        conditions(&clients[0]).await;
        for race in 0..RACES {
            races(&clients, &format!("races/{race}")).await;
        }
    });
}

/// Requests of one client.
async fn conditions(client: &Client) {
    let created = client.write("one", Condition::Absent, "1").await;
    assert!(
        created.is_done() && !created.version.is_empty(),
        "{created:?}"
    );
    let again = client.write("one", Condition::Absent, "2").await;
    assert!(again.is_refused(), "{again:?}");
    let first = Condition::Version(&created.version);
    let replaced = client.write("one", first, "3").await;
    assert!(replaced.is_done(), "{replaced:?}");
    assert_ne!(replaced.version, created.version);
    let first = Condition::Version(&created.version);
    let late = client.write("one", first, "4").await;
    assert!(late.is_refused(), "{late:?}");
    let read = async |known: &str| {
        let request = client.request(Method::GET, "/bucket/one");
        answer(request.header(IF_NONE_MATCH, known)).await.unwrap()
    };
    let found = read("\"another\"").await;
    assert_eq!(
        (found.body.as_str(), &found.version),
        ("3", &replaced.version)
    );
    assert_eq!(read(&replaced.version).await.status, 304);
    let missing = Condition::Version(&replaced.version);
    let missing = client.write("missing", missing, "5").await;
    assert!(missing.is_refused() || missing.status == 404, "{missing:?}");
    let deleted = answer(client.request(Method::DELETE, "/bucket/one")).await;
    assert_eq!(deleted.unwrap().status, 204);
    let created = client.write("one", Condition::Absent, "6").await;
    assert!(created.is_done(), "{created:?}");
}

/// All clients create a key at once, and then all replace the same version.
async fn races(clients: &[Client], key: &str) {
    let mut version = None;
    for kind in ["create", "replace"] {
        let values: Vec<_> = (0..clients.len())
            .map(|it| format!("{kind} {it}"))
            .collect();
        let writes = clients.iter().zip(&values).map(|(client, value)| {
            let condition = version
                .as_deref()
                .map_or(Condition::Absent, Condition::Version);
            client.write(key, condition, value)
        });
        let answers = join_all(writes).await;
        let done = |it: &usize| answers[*it].is_done();
        let won: Vec<usize> = (0..answers.len()).filter(done).collect();
        assert_eq!(won.len(), 1, "{kind} of {key}: {answers:?}");
        let lost = answers.iter().filter(|it| it.is_refused()).count();
        assert_eq!(lost, clients.len() - 1, "{kind} of {key}: {answers:?}");
        let read = clients[0].request(Method::GET, &format!("/bucket/{key}"));
        assert_eq!(answer(read).await.unwrap().body, values[won[0]]);
        version = Some(answers[won[0]].version.clone());
    }
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn versitygw_does_one_of_four_conditional_writes() {
    let test = "versitygw_does_one_of_four_conditional_writes";
    let Some(program) = server(test, "versitygw") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let [data, metadata] = ["data", "metadata"].map(|name| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    });
    let mut command = Command::new(program);
    command
        .args([
            "--port",
            &address.to_string(),
            "--access",
            ID,
            "--secret",
            SECRET,
        ])
        .args(["posix", "--sidecar"])
        .args([metadata, data]);
    check(&mut command, address);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn seaweedfs_does_one_of_four_conditional_writes() {
    let test = "seaweedfs_does_one_of_four_conditional_writes";
    let Some(program) = server(test, "seaweedfs") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut command = Command::new(program);
    command
        .args(["server", "-ip=127.0.0.1", "-s3", "-master.telemetry=false"])
        .arg(format!("-dir={}", folder.path().display()))
        .arg(format!("-s3.port={}", address.port()))
        .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    for port in ["master", "volume", "filer"] {
        command.arg(format!("-{port}.port={}", free_address().port()));
        command.arg(format!("-{port}.port.grpc={}", free_address().port()));
    }
    command.arg(format!("-s3.port.grpc={}", free_address().port()));
    check(&mut command, address);
}
