//! Durable acquires and releases per second, compared with the syncs of the disk.
//!
//! The store is measured in three ways: without sockets (requests and answers as JSON through its
//! router), over HTTP, and in memory. In memory nothing waits for a disk, so that result is the cost of
//! the requests alone.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
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
    let store = |config| Local::new(Store::open(config).expect("a store"));
    let local = store(StoreConfig::folder(folders[1].path()));
    let memory = store(StoreConfig::memory());
    let server = Child::start(Kind::Folder, 0, folders[2].path());

    let mut rates: [Samples; 6] = Default::default();
    // The first round is a warm-up.
    for round in 0..=rounds {
        let measured = [
            syncs(folders[0].path(), length),
            runtime.block_on(local_pairs(&local, CLIENTS, length)),
            client_runtime.block_on(remote_pairs(&server, length)),
            runtime.block_on(local_pairs(&memory, CLIENTS, length)),
            runtime.block_on(local_pairs(&local, 1, length)),
            runtime.block_on(hand_overs(&local, length)),
        ];
        if round > 0 {
            for (samples, rate) in rates.iter_mut().zip(measured) {
                samples.push(rate);
            }
        }
    }
    let [syncs, here, behind, memory, single, handed] = rates;
    let row =
        |name: &str, rate: &Samples| vec![name.to_owned(), rate.text(0), rate.over(&syncs).text(2)];
    let head = ["", "per second", "over syncs"].map(String::from).to_vec();
    let rows = [
        head,
        row("a write and a sync alone, one after the other", &syncs),
        row("changes of 64 clients, no sockets", &here),
        row("changes of 64 clients over HTTP", &behind),
        row("changes of 64 clients, in memory", &memory),
        row("changes of one client", &single),
        row("hand-overs of one lease among 64 clients", &handed),
    ];
    table(
        "Durable acquires and releases (target: hand-overs at least 0.75 of the syncs)",
        &rows,
    );
}

/// Returns how many writes of the size of a change the disk makes durable in a second, one after the
/// other, in a file whose space is there.
fn syncs(folder: &Path, length: Duration) -> f64 {
    const SPACE: u64 = 16 << 20;
    let file = File::create(folder.join("alone")).expect("a file");
    file.write_all_at(&vec![0; SPACE as usize], 0)
        .expect("space");
    file.sync_all().expect("a sync");
    let began = Instant::now();
    let mut written: u64 = 0;
    while began.elapsed() < length {
        let at = 300 * written % (SPACE - 300);
        file.write_all_at(&[7; 300], at).expect("a write");
        file.sync_data().expect("a sync");
        written += 1;
    }
    per_second(written, began.elapsed())
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
