//! Candidates with the lease of a blob, on a store with the Azure API, and on Azurite if it is
//! installed (`TENURE_AZURITE` names it). Azure's shortest lease lasts 15 seconds, so these tests
//! are slow.

mod azurite;
mod command;
mod faults;
mod front;
mod given_up;
mod terms;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure::backend::LeaseService;
use tenure::config::{AzureAccount, AzureBlob, Strategy};
use tenure::store::LeaseView;
use tenure::{Candidate, Config, ElectionName, Leadership, OnOverrun};
use tenure_tests::Limit;
use tenure_tests::store::LocalStore;

/// The election of the tests: the blob `job` in the container `tests`.
const ELECTION: &str = "tests/job";

const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn election() -> ElectionName {
    ELECTION.parse().expect("a name")
}

/// The connection string of the development account at this address.
fn connection_string(address: SocketAddr) -> String {
    format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=http://{address}/{ACCOUNT}")
}

fn blob(account: AzureAccount) -> AzureBlob {
    let election = election();
    let (container, blob) = (election.namespace, election.name);
    AzureBlob::new(account, container.as_str(), blob.as_str()).expect("a blob")
}

fn blob_at(address: SocketAddr) -> AzureBlob {
    let account = AzureAccount::with_connection_string(&connection_string(address));
    blob(account.expect("an account"))
}

/// Azure's shortest lease, with renewals every 5 s and a renew deadline of 10 s.
fn config(name: &str, blob: AzureBlob) -> Config {
    let cool_down = Some(Duration::from_millis(300));
    Config::new(election())
        .with_candidate(name.parse().expect("an id"))
        .with_adjusted_timings(|timings| timings.cool_down = cool_down)
        .expect("timings")
        .with_strategy(Strategy::AzureBlob(blob))
        // The tests keep guards of lost terms.
        .with_on_overrun(OnOverrun::Report)
}

/// A client of the blob's lease.
fn client(address: SocketAddr) -> LeaseService {
    let service = LeaseService::from_config(&config("observer", blob_at(address)));
    service.expect("a client").expect("a lease service")
}

async fn candidate(name: &str, address: SocketAddr) -> Candidate {
    let candidate = Candidate::start(config(name, blob_at(address))).await;
    candidate.expect("a candidate")
}

/// A store, and a client for its blobs without faults.
struct World {
    store: LocalStore,
    client: LeaseService,
    _limit: Limit,
}

impl World {
    fn start() -> Self {
        let store = LocalStore::start_with_azure();
        let client = client(store.address());
        Self {
            store,
            client,
            _limit: Limit::start(),
        }
    }

    async fn candidate(&self, name: &str) -> Candidate {
        candidate(name, self.store.address()).await
    }

    async fn lease(&self) -> Option<LeaseView> {
        self.client.lease().await.expect("an answer")
    }
}

/// The terms: their epochs and times.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    epoch: u64,
    began: Instant,
    ended: Option<Instant>,
}

impl Journal {
    fn entries(&self) -> Vec<Entry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Works for this long, or until the leadership is lost.
    async fn work(self, leadership: Leadership, time: Duration) {
        let epoch = leadership.epoch().get();
        let begun = Entry {
            epoch,
            began: Instant::now(),
            ended: None,
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lock().push(begun);
        tokio::select! {
            _ = leadership.lost() => {}
            () = tokio::time::sleep(time) => {}
        }
        let mut entries = lock();
        let entry = entries.iter_mut().find(|entry| entry.epoch == epoch);
        entry.expect("an entry").ended = Some(Instant::now());
    }

    /// Fails if two terms overlapped, or an epoch did not increase.
    fn assert_one_at_a_time(&self) {
        for pair in self.entries().windows(2) {
            assert!(pair[0].epoch < pair[1].epoch, "{pair:?}");
            let ended = pair[0].ended;
            assert!(
                ended.is_some_and(|ended| ended <= pair[1].began),
                "{pair:?}"
            );
        }
    }
}

/// Leads with a blob whose name needs escapes in a URL.
async fn lead_by_odd_name(address: SocketAddr) {
    let account = AzureAccount::with_connection_string(&connection_string(address));
    let odd = AzureBlob::new(account.expect("an account"), "tests", "of me/a b+ä%2F?#~");
    let candidate = Candidate::start(config("odd", odd.expect("a blob"))).await;
    let candidate = candidate.expect("a candidate");
    let leadership = candidate.campaign().await.expect("a term");
    assert!(leadership.is_valid());
    leadership.resign().await;
}

/// Three candidates lead one after the other, until there were this many terms.
async fn lead_in_turns(address: SocketAddr, terms: usize) -> Journal {
    let journal = Journal::default();
    let (stop, _) = tokio::sync::watch::channel(false);
    let mut candidates = tokio::task::JoinSet::new();
    for name in ["first", "second", "third"] {
        let (candidate, journal) = (candidate(name, address).await, journal.clone());
        let mut stopped = stop.subscribe();
        candidates.spawn(async move {
            let shutdown = async {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let ran = candidate.run_while_leader(shutdown, |leadership| {
                journal.clone().work(leadership, Duration::from_millis(300))
            });
            ran.await.expect("no refusal");
        });
    }
    tenure_tests::wait_until("the terms", async || {
        (journal.entries().len() >= terms).then_some(())
    })
    .await;
    stop.send_replace(true);
    while candidates.join_next().await.is_some() {}
    journal
}
