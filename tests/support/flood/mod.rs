//! A client that does all it can to a store, and what the store answers.

mod acts;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

pub use self::acts::{ACCOUNT, sas};
use crate::wire::{Endpoint, Wire, tcp};

/// The longest time of one act. The store's own limits are shorter, or the act is repeated.
const ACT: Duration = Duration::from_secs(15);

/// The pause after an act that failed: the store may be down.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// The last digits of a lease id that is another one in each request: an id is granted once.
const NUMBER: &str = "NNNNNNNNNNNN";
static NEXT_ID: AtomicU64 = AtomicU64::new(1 << 42);

/// The store that is attacked, and what the attacker has there.
#[derive(Clone, Debug)]
pub struct Target {
    /// The store.
    pub store: Endpoint,
    /// The token of a principal with the role `candidate` for the namespace `other` alone.
    pub token: String,
    /// The number of leases that the principal holds, `l0` and so on.
    pub stored: u64,
}

/// The kind of an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attacker {
    /// The principal of the [`Target`], also with a [shared access signature](sas).
    Candidate,
    /// A client without any credential.
    Stranger,
}

/// A running attack.
#[derive(Debug)]
pub struct Attack {
    runtime: Runtime,
    counts: Arc<Mutex<Counts>>,
    stop: Arc<AtomicBool>,
}

/// The requests by kind, and the answers by their codes.
#[derive(Clone, Debug, Default)]
pub struct Counts {
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
    /// Starts it over this number of connections.
    ///
    /// # Panics
    ///
    /// If there is no thread for it.
    #[must_use]
    pub fn start(target: &Target, attacker: Attacker, connections: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let counts = Arc::<Mutex<Counts>>::default();
        let stop = Arc::<AtomicBool>::default();
        let (acts, from) = match attacker {
            Attacker::Candidate => (acts::of_candidate(target), 2),
            Attacker::Stranger => (acts::of_stranger(), 3),
        };
        let acts: Arc<[Act]> = acts.into();
        for number in 0..connections {
            let (store, acts) = (target.store.clone(), Arc::clone(&acts));
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
                    if matches!(result, Ok(Err(_))) {
                        sleep(AFTER_FAILURE).await;
                    }
                }
            });
        }
        Self {
            runtime,
            counts,
            stop,
        }
    }

    /// Ends the attack and closes its connections.
    #[must_use]
    pub fn stop(self) -> Counts {
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
    async fn run(&self, store: &Endpoint, from: u8, counts: &Mutex<Counts>) -> io::Result<()> {
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
    #[must_use]
    pub fn requests(&self) -> u64 {
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
