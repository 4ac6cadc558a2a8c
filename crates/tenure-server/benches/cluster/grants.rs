//! Acquires, releases and hand-overs, compared with etcd's own way and with bare appends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::cluster::Members;
use super::support::etcd::{EtcdHead, EtcdLock};
use super::support::programs::etcd::Etcd;
use super::support::{Connection, Samples, acquire, fresh, path, per_second, proof};
use super::{Counts, MEMBERS, Row, row, used};

const CLIENTS: u64 = 64;

/// The bytes of a batch with one change, compressed.
const BATCH: usize = 200;

/// The lease that all clients want.
const CONTENDED: u64 = 9_999_999;

/// The results of one kind of load.
#[derive(Default)]
struct Measured {
    rate: Samples,
    /// The processor time of etcd for each operation, in microseconds.
    micros: Samples,
}

pub(super) fn measure(runtime: &Runtime, etcd: &Etcd, counts: Counts) -> Vec<Row> {
    // One standby follows, as in every cluster.
    let members = runtime.block_on(Members::start(etcd, "grants", 2, false));
    let address = runtime.block_on(members.address());
    let length = counts.length;
    let mut measured: [Measured; 5] = Default::default();
    // The first round is a warm-up.
    for round in 0..=counts.rounds {
        for (index, measured) in measured.iter_mut().enumerate() {
            let (began, before) = (Instant::now(), used(etcd));
            let count = runtime.block_on(async {
                match index {
                    0 => own_way(etcd, length).await,
                    1 => pairs(address, CLIENTS, length).await,
                    2 => appends(etcd, length).await,
                    // Each acquire and each release is a commit.
                    3 => 2 * pairs(address, 1, length).await,
                    _ => hand_overs(address, length).await,
                }
            });
            if round > 0 {
                let micros = (used(etcd) - before).as_secs_f64() * 1e6;
                measured.rate.push(per_second(count, began.elapsed()));
                measured.micros.push(micros / count as f64);
            }
        }
    }
    let [own_way, pairs, appends, single, handed] = &measured;
    let rate = |measured: &Measured, base: &Measured| {
        let [rate, base_rate] = [measured, base].map(|it| it.rate.median());
        let ratio = measured.rate.over(&base.rate).text(2);
        format!("{ratio}; {rate:.0} per second, {base_rate:.0}")
    };
    let [micros, base] = [pairs, own_way].map(|it| it.micros.median());
    let ratio = pairs.micros.over(&own_way.micros).text(2);
    vec![
        row(
            "acquires and releases by 64 clients, over etcd's own way",
            "at least 5",
            rate(pairs, own_way),
        ),
        row(
            "processor time of etcd for each, over etcd's own way",
            "at most 0.33",
            format!("{ratio}; {micros:.0} us, {base:.0} us"),
        ),
        row(
            "changes by one client, over bare appends",
            "at least 0.8",
            rate(single, appends),
        ),
        row(
            "hand-overs of one lease with 64 waiters, over bare appends",
            "at least 0.8",
            rate(handed, appends),
        ),
    ]
}

/// Acquires and releases locks in etcd's own way, each client its own. Returns the number.
async fn own_way(etcd: &Etcd, length: Duration) -> u64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let address = etcd.address(client as usize % MEMBERS);
        tasks.spawn(async move {
            let mut lock = EtcdLock::open(address, &format!("lock-{client}")).await;
            let mut count = 0;
            while began.elapsed() < length {
                let lease = lock.acquire("worker-0000001").await;
                lock.release(&lease.expect("a free lock")).await;
                count += 1;
            }
            count
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Appends one small batch after the other. Returns the number.
async fn appends(etcd: &Etcd, length: Duration) -> u64 {
    let began = Instant::now();
    let mut head = EtcdHead::open(etcd.address(0), &format!("head-{}", fresh())).await;
    let mut count = 0;
    while began.elapsed() < length {
        head.append(BATCH).await;
        count += 1;
    }
    count
}

/// Acquires and releases leases, each client its own. Returns the number.
async fn pairs(address: SocketAddr, clients: u64, length: Duration) -> u64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            let mut count = 0;
            while began.elapsed() < length {
                acquire_and_release(&mut connection, client, 0).await;
                count += 1;
            }
            count
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Returns how many times one lease passes to the next waiter.
async fn hand_overs(address: SocketAddr, length: Duration) -> u64 {
    let grants = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let grants = Arc::clone(&grants);
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            while began.elapsed() < length {
                acquire_and_release(&mut connection, CONTENDED, 60_000).await;
                grants.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tasks.join_all().await;
    grants.load(Ordering::Relaxed)
}

async fn acquire_and_release(connection: &mut Connection, lease: u64, wait_ms: u64) {
    let id = fresh();
    for (verb, body) in [("acquire", acquire(id, wait_ms)), ("release", proof(id))] {
        let answer = connection.post(&path(lease, verb), &body).await;
        assert_eq!(answer, 200, "{verb}");
    }
}
