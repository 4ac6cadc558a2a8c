//! A client that does all it can, and what the store answers.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::client::id;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::store::{ACCOUNT, Scale, Store};
use crate::wire::{Wire, request, tcp};

/// The longest time of one act. The store's own limits are shorter, or the act is repeated.
const ACT: Duration = Duration::from_secs(15);

/// The last digits of a lease id that is another one in each request: an id is granted once.
const NUMBER: &str = "NNNNNNNNNNNN";
static NEXT_ID: AtomicU64 = AtomicU64::new(1 << 42);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attacker {
    /// A principal with the role `candidate` for a namespace of its own, and with a shared access
    /// signature, over 64 connections.
    Candidate,
    /// A client without any credential.
    Stranger,
}

/// A running attack.
pub(crate) struct Attack {
    runtime: Runtime,
    counts: Arc<Mutex<Counts>>,
    stop: Arc<AtomicBool>,
}

/// The requests by kind, and the answers by their codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    requests: BTreeMap<&'static str, u64>,
    answers: BTreeMap<String, u64>,
    /// The connections that the store closed, or that this client closed after some time.
    ended: u64,
}

/// One act: its name, and what it does over one connection.
#[derive(Clone, Debug)]
enum Act {
    /// Sends a request and reads the answer, as often as it can.
    Ask(&'static str, String),
    /// Sends a request many times and reads nothing.
    Deaf(&'static str, String),
    /// Sends a request, and takes a few bytes of the answer now and then.
    Sip(&'static str, String),
    /// Sends the beginning of a request, and a byte now and then.
    Drip(&'static str, String),
    /// Sends bytes over TCP, below TLS.
    Raw(&'static str, Vec<u8>),
}

impl Attack {
    pub(crate) fn start(store: &Arc<Store>, attacker: Attacker, scale: Scale) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let counts = Arc::<Mutex<Counts>>::default();
        let stop = Arc::<AtomicBool>::default();
        let (acts, connections, from) = match attacker {
            Attacker::Candidate => (acts_of_candidate(store, scale), 64, 2),
            Attacker::Stranger => (acts_of_stranger(store), scale.strangers(), 3),
        };
        let acts: Arc<[Act]> = acts.into();
        for number in 0..connections {
            let (store, acts) = (Arc::clone(store), Arc::clone(&acts));
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            runtime.spawn(async move {
                // Every connection does something else, and all do everything.
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let act = &acts[(number + turn) % acts.len()];
                    let result = timeout(ACT, act.run(&store, from, &counts)).await;
                    lock(&counts).ended += u64::from(!matches!(result, Ok(Ok(()))));
                }
            });
        }
        Self {
            runtime,
            counts,
            stop,
        }
    }

    pub(crate) fn stop(self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        self.runtime.shutdown_background();
        lock(&self.counts).clone()
    }
}

impl Act {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ask(name, _)
            | Self::Deaf(name, _)
            | Self::Sip(name, _)
            | Self::Drip(name, _)
            | Self::Raw(name, _) => name,
        }
    }

    /// Does this over a new connection.
    async fn run(&self, store: &Arc<Store>, from: u8, counts: &Mutex<Counts>) -> io::Result<()> {
        let sent = |count: u64| *lock(counts).requests.entry(self.name()).or_default() += count;
        match self {
            Self::Ask(_, request) => {
                let mut wire = Wire::connect(store, from).await?;
                loop {
                    let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
                    let requests = request.replace(NUMBER, &format!("{number:012x}"));
                    let count = requests.matches(" HTTP/1.1\r\n").count();
                    sent(count as u64);
                    wire.send(&requests).await?;
                    for _ in 0..count {
                        let (status, body) = wire.answer().await?;
                        lock(counts).answered(status, &body);
                    }
                }
            }
            Self::Deaf(_, request) => {
                let mut wire = Wire::connect(store, from).await?;
                sent(20);
                wire.send(request.repeat(20)).await?;
                loop {
                    sleep(Duration::from_secs(1)).await;
                    sent(1);
                    wire.send(request).await?;
                }
            }
            Self::Sip(_, request) => {
                let mut wire = Wire::connect(store, from).await?;
                sent(1);
                wire.send(request).await?;
                let (status, length) = wire.head().await?;
                if status != 200 {
                    let body = wire.body(length).await?;
                    lock(counts).answered(status, &body);
                    return Ok(());
                }
                loop {
                    wire.take().await?;
                    sleep(Duration::from_millis(500)).await;
                }
            }
            Self::Drip(_, begin) => {
                let mut wire = Wire::connect(store, from).await?;
                sent(1);
                wire.send(begin).await?;
                loop {
                    sleep(Duration::from_secs(1)).await;
                    wire.send("x").await?;
                }
            }
            Self::Raw(_, bytes) => {
                let mut tcp = tcp(store, from).await?;
                sent(1);
                tcp.write_all(bytes).await?;
                loop {
                    sleep(Duration::from_secs(1)).await;
                    tcp.write_all(b"x").await?;
                }
            }
        }
    }
}

/// A head and TLS records that have no end.
fn endless() -> Vec<Act> {
    let head = format!(
        "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {}",
        "x".repeat(31_000)
    );
    let hello = |length: u16| {
        let [high, low] = length.to_be_bytes();
        let mut record = vec![0x16, 3, 1, high, low, 1, 0, 0xff, 0];
        record.resize(usize::from(length), 0);
        record
    };
    vec![
        Act::Drip("head without an end", head.clone()),
        Act::Drip("short head without an end", head[..8_000].into()),
        Act::Raw("bytes below TLS", head.into()),
        Act::Raw("record without an end", hello(16_000)),
        Act::Raw("nothing", Vec::new()),
    ]
}

fn acts_of_candidate(store: &Store, scale: Scale) -> Vec<Act> {
    let token = store.bearer(&store.candidate);
    let get = |path: &str| request("GET", path, &token, None);
    let post = |path: &str, body: &str| request("POST", path, &token, Some(body));
    let azure = |path: &str| request("GET", &format!("/{ACCOUNT}{path}&{}", store.sas), "", None);
    let leases = "/v1/namespaces/other/leases";
    let batch: Vec<_> = (0..scale.stored().min(1_000))
        .map(|number| json!({"lease": format!("l{number}"), "lease_id": id(number)}))
        .collect();
    let batch = post(
        "/v1/namespaces/other/renew",
        &json!({ "leases": batch }).to_string(),
    );
    let acquire = |lease: &str, lease_id: &str, wait: u64| {
        let body = json!({"lease_id": lease_id, "holder": "c", "duration_ms": 2_000,
            "wait_ms": wait, "metadata": {"k": "x".repeat(4_000)}});
        post(&format!("{leases}/{lease}/acquire"), &body.to_string())
    };
    let fresh = format!("00000000-0000-4000-8000-{NUMBER}");
    let release = json!({"lease_id": fresh, "reason": "r".repeat(500)}).to_string();
    let churn = acquire("churn", &fresh, 0) + &post(&format!("{leases}/churn/release"), &release);
    let list = get(&format!("{leases}?limit=1000"));
    let overview = get("/v1/overview");
    let history = get(&format!("{leases}/churn/history"));
    let azure_list = azure("/stored?restype=container&comp=list&include=metadata&maxresults=5000");
    let stream = request(
        "GET",
        "/v1/events?renewed=true",
        &format!("{token}accept: text/event-stream\r\n"),
        None,
    );
    let poll = get(&format!("{leases}/l0?after=9007199254740991&wait_ms=60000"));
    let half = |length: usize| {
        let body = "x".repeat(length);
        let whole = post(&format!("{leases}/l0/acquire"), &body);
        whole[..whole.len() - 1].to_owned()
    };
    let upload = format!("/{ACCOUNT}/stored/upload?{}", store.sas);
    let blob = "x-ms-blob-type: BlockBlob\r\n";
    let upload = request("PUT", &upload, blob, Some(&"x".repeat(1 << 20)));
    let mut acts = vec![
        Act::Ask("list", list.clone()),
        Act::Deaf("list, unread", list.clone()),
        Act::Sip("list, sipped", list),
        Act::Ask("overview", overview.clone()),
        Act::Deaf("overview, unread", overview),
        Act::Ask("history", history.clone()),
        Act::Deaf("history, unread", history),
        Act::Ask("waiters", get(&format!("{leases}/l0/waiters"))),
        Act::Ask("namespaces", get("/v1/namespaces")),
        Act::Ask("batch", batch.clone()),
        Act::Deaf("batch, unread", batch.clone()),
        Act::Sip("batch, sipped", batch),
        Act::Ask("acquire and release", churn.clone()),
        Act::Deaf("acquire and release, unread", churn),
        Act::Deaf("wait", acquire("l0", &id(1 << 41), 60_000)),
        Act::Deaf("long poll", poll),
        Act::Deaf("stream, unread", stream.clone()),
        Act::Sip("stream, sipped", stream),
        Act::Ask("code", post("/v1/session/code", "")),
        Act::Ask("sign-in", post("/v1/session", "{}")),
        Act::Drip("half a body", half(16_000)),
        Act::Ask("azure list", azure_list.clone()),
        Act::Deaf("azure list, unread", azure_list.clone()),
        Act::Sip("azure list, sipped", azure_list),
        Act::Ask("azure containers", azure("/?comp=list&include=metadata")),
        Act::Ask("azure upload", upload.clone()),
        Act::Drip("azure upload, half", upload[..upload.len() - 100].into()),
        Act::Deaf("azure blob, unread", azure("/stored/upload?x=y")),
    ];
    acts.extend(endless());
    acts
}

fn acts_of_stranger(store: &Store) -> Vec<Act> {
    let get = |path: &str| request("GET", path, "", None);
    let wrong = store.bearer("tnr1_aaaaaaaa_wrong");
    let azure = get(&format!("/{ACCOUNT}/stored?restype=container&comp=list"));
    let body = request(
        "POST",
        "/v1/namespaces/led/renew",
        "",
        Some(&"x".repeat(200_000)),
    );
    let mut acts = vec![
        Act::Ask("page", get("/")),
        Act::Ask("file", get("/ui/app.js")),
        Act::Deaf("file, unread", get("/ui/app.js")),
        Act::Sip("file, sipped", get("/ui/style.css")),
        Act::Ask("description", get("/openapi.json")),
        Act::Deaf("description, unread", get("/openapi.json")),
        Act::Ask("probe", get("/readyz")),
        Act::Ask("active", get("/active")),
        Act::Ask("list", get("/v1/namespaces/led/leases?limit=1000")),
        Act::Deaf("list, unread", get("/v1/namespaces/led/leases?limit=1000")),
        Act::Ask("metrics", get("/metrics")),
        Act::Ask("wrong token", request("GET", "/v1/overview", &wrong, None)),
        Act::Ask(
            "wrong code",
            request("POST", "/v1/session", "", Some(r#"{"code":"x"}"#)),
        ),
        Act::Ask("body", body.clone()),
        Act::Drip("half a body", body[..body.len() - 1].into()),
        Act::Ask("azure", azure.clone()),
        Act::Deaf("azure, unread", azure),
    ];
    acts.extend(endless());
    acts
}

impl Counts {
    fn answered(&mut self, status: u16, body: &[u8]) {
        let problem = (status >= 400).then(|| serde_json::from_slice::<Value>(body).ok());
        let code = problem
            .flatten()
            .and_then(|it| Some(it["code"].as_str()?.to_owned()));
        let code = code.map_or_else(|| status.to_string(), |code| format!("{status} {code}"));
        *self.answers.entry(code).or_default() += 1;
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.requests {
            writeln!(f, "  {kind}: {count}")?;
        }
        write!(
            f,
            "answers that were read: {:?}; connections that ended: {}",
            self.answers, self.ended
        )
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
