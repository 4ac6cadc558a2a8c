//! Durable grants per second, compared with a file alone in the same folder.
//!
//! The baseline is one thread that writes as many bytes as a store does for as many changes as there
//! are clients, and syncs them.
//!
//! The store also handles requests, decides on grants and wakes the requests that wait for the disk. It
//! is measured in three ways: without sockets (requests and answers as JSON through its router), over
//! HTTP, and in memory. In memory nothing waits for a disk, so that result is the cost of the requests
//! alone.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{
    Child, Connection, Kind, Local, Samples, acquire, folder, fresh, path, per_second, proof, table,
};
use tenure_server::{Store, StoreConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const CLIENTS: u64 = 64;

/// The bytes that a store writes for a change, on average.
const CHANGE: usize = 80;

/// The length of the file of the baseline: as long as a file of the log.
const LENGTH: u64 = 16 << 20;

fn main() {
    support::serve_if_asked();
    let (rounds, length) = match support::quick() {
        true => (2, Duration::from_millis(200)),
        false => (7, Duration::from_millis(700)),
    };
    let folders: Vec<_> = (0..3).map(|_| folder()).collect();
    let runtime = Runtime::new().expect("a runtime");
    let client_runtime = Builder::new_current_thread().enable_all().build();
    let client_runtime = client_runtime.expect("a runtime");
    let mut alone = Alone::new(folders[0].path());
    let store = |config| Local::new(Store::open(config).expect("a store"));
    let local = store(StoreConfig::embedded(folders[1].path()));
    let memory = store(StoreConfig::memory());
    let server = Child::start(Kind::Embedded, 0, folders[2].path());

    let mut rates: [Samples; 7] = Default::default();
    // The first round is a warm-up.
    for round in 0..=rounds {
        let measured = [
            alone.commit(CLIENTS, length),
            runtime.block_on(local_pairs(&local, CLIENTS, length)),
            client_runtime.block_on(remote_pairs(&server, length)),
            runtime.block_on(local_pairs(&memory, CLIENTS, length)),
            alone.commit(1, length),
            runtime.block_on(local_pairs(&local, 1, length)),
            runtime.block_on(hand_overs(&local, length)),
        ];
        if round > 0 {
            for (samples, rate) in rates.iter_mut().zip(measured) {
                samples.push(rate);
            }
        }
    }
    let [
        alone,
        here,
        behind,
        memory,
        single_alone,
        single_here,
        handed,
    ] = rates;
    let row = |name: &str, rate: &Samples, bases: &[&Samples]| {
        let ratios = bases.iter().map(|base| rate.over(base).text(2));
        [name.to_owned(), rate.text(0)]
            .into_iter()
            .chain(ratios)
            .collect::<Vec<_>>()
    };
    let head = |cells: &[&str]| cells.iter().copied().map(String::from).collect();
    let bases = [&alone];
    let rows = [
        head(&["", "durable changes per second", "over a file alone"]),
        row("a file alone, 64 changes per sync", &alone, &bases),
        row("the store, 64 clients, no sockets", &here, &bases),
        row("the store, 64 clients over HTTP", &behind, &bases),
        row("in memory, 64 clients, no sockets", &memory, &bases),
    ];
    table("Acquire and release of 64 leases", &rows);
    let bases = [&single_alone, &single_here];
    let rows = [
        head(&["", "per second", "over a file alone", "over one client"]),
        row("a file alone, one change per sync", &single_alone, &bases),
        row("the store, changes of one client", &single_here, &bases),
        row("the store, hand-overs among 64 clients", &handed, &bases),
    ];
    table("One lease with 64 waiters", &rows);
}

/// A file without a store.
struct Alone {
    file: File,
    at: u64,
}

impl Alone {
    fn new(folder: &Path) -> Self {
        let file = File::create_new(folder.join("alone")).expect("a file");
        file.write_all_at(&vec![0; LENGTH as usize], 0)
            .expect("space");
        file.sync_all().expect("a sync");
        Self { file, at: 0 }
    }

    /// Writes and syncs the bytes of this many changes at a time. Returns the changes per second.
    fn commit(&mut self, changes: u64, length: Duration) -> f64 {
        let bytes = vec![7; CHANGE * changes as usize];
        let began = Instant::now();
        let mut written = 0;
        while began.elapsed() < length {
            if self.at + bytes.len() as u64 > LENGTH {
                self.at = 0;
            }
            self.file.write_all_at(&bytes, self.at).expect("a write");
            self.file.sync_data().expect("a sync");
            self.at += bytes.len() as u64;
            written += changes;
        }
        per_second(written, began.elapsed())
    }
}

/// Returns the changes per second of clients that acquire and release, each its own lease.
async fn local_pairs(local: &Local, clients: u64, length: Duration) -> f64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let mut local = local.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < length {
                let id = fresh();
                let acquired = local.post(&path(client, "acquire"), acquire(id, 0)).await;
                assert_eq!(acquired, 200);
                let released = local.post(&path(client, "release"), proof(id)).await;
                assert_eq!(released, 200);
                done += 2;
            }
            done
        });
    }
    let done = tasks.join_all().await.iter().sum();
    per_second(done, began.elapsed())
}

/// Returns the same over HTTP, with the store in another process.
async fn remote_pairs(server: &Child, length: Duration) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Connection::open(server.address).await);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (client, mut connection) in (0..).zip(connections) {
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < length {
                let id = fresh();
                let acquired = connection
                    .post(&path(client, "acquire"), &acquire(id, 0))
                    .await;
                assert_eq!(acquired, 200);
                let released = connection.post(&path(client, "release"), &proof(id)).await;
                assert_eq!(released, 200);
                done += 2;
            }
            done
        });
    }
    let done = tasks.join_all().await.iter().sum();
    per_second(done, began.elapsed())
}

/// Returns how many times per second a lease passes from its holder to the next waiter.
async fn hand_overs(local: &Local, length: Duration) -> f64 {
    const CONTENDED: u64 = 9_999_999;
    let grants = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut local, grants) = (local.clone(), Arc::clone(&grants));
        tasks.spawn(async move {
            while began.elapsed() < length {
                let id = fresh();
                let acquired = local
                    .post(&path(CONTENDED, "acquire"), acquire(id, 60_000))
                    .await;
                assert_eq!(acquired, 200);
                grants.fetch_add(1, Ordering::Relaxed);
                let released = local.post(&path(CONTENDED, "release"), proof(id)).await;
                assert_eq!(released, 200);
            }
        });
    }
    tasks.join_all().await;
    per_second(grants.load(Ordering::Relaxed), began.elapsed())
}
