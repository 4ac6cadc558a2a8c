//! Locks in etcd's own way, and appends to a log in etcd: the rates, and the processor time of all
//! members. There are three members on this machine.
//!
//! In etcd's own way a client grants a lease, creates a key with it if the key is missing, and
//! revokes the lease: three commits for each acquire and release.

mod support;

use std::time::{Duration, Instant};

use support::etcd::{EtcdHead, EtcdLock};
use support::programs::etcd::Etcd;
use support::{Samples, cpu, per_second, table};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const MEMBERS: usize = 3;

/// The bytes of a batch with 64 changes.
const BATCH: usize = 16 * 1024;

fn main() {
    let (rounds, length) = match support::quick() {
        true => (1, Duration::from_millis(500)),
        false => (5, Duration::from_secs(4)),
    };
    let Some(etcd) = Etcd::start("the benchmark of etcd", MEMBERS) else {
        return;
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let own_way = |clients| locks(&runtime, &etcd, clients, length);
    let appends = |bytes| appends(&runtime, &etcd, bytes, length);
    let mut results: [(&str, Samples, Samples); 4] = [
        (
            "etcd's own way, 1 client",
            Samples::default(),
            Samples::default(),
        ),
        (
            "etcd's own way, 64 clients",
            Samples::default(),
            Samples::default(),
        ),
        ("append of a head", Samples::default(), Samples::default()),
        (
            "append of a batch of 64 changes",
            Samples::default(),
            Samples::default(),
        ),
    ];
    for _ in 0..rounds {
        let round = [own_way(1), own_way(64), appends(0), appends(BATCH)];
        for ((_, rates, times), (rate, time)) in results.iter_mut().zip(round) {
            rates.push(rate);
            times.push(time.as_secs_f64() * 1e6);
        }
    }
    let mut rows = vec![
        ["", "per second", "processor time of etcd, us"]
            .map(String::from)
            .to_vec(),
    ];
    for (name, rates, times) in &results {
        rows.push(vec![(*name).to_owned(), rates.text(0), times.text(0)]);
    }
    table("Three members of etcd, median (least to most)", &rows);
}

/// Acquires and releases locks for this time, each client its own. Returns the rate, and the
/// processor time of etcd for each.
fn locks(runtime: &Runtime, etcd: &Etcd, clients: usize, length: Duration) -> (f64, Duration) {
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let (began, before) = (Instant::now(), used(etcd));
        for client in 0..clients {
            let address = etcd.address(client % MEMBERS);
            tasks.spawn(async move {
                let mut lock = EtcdLock::open(address, &format!("lock-{client}")).await;
                let mut count = 0_u64;
                while began.elapsed() < length {
                    let lease = lock.acquire("worker-0000001").await;
                    lock.release(&lease.expect("a free lock")).await;
                    count += 1;
                }
                count
            });
        }
        let count = tasks.join_all().await.into_iter().sum();
        result(etcd, count, began, before)
    })
}

/// Appends one batch after the other for this time.
fn appends(runtime: &Runtime, etcd: &Etcd, bytes: usize, length: Duration) -> (f64, Duration) {
    runtime.block_on(async {
        let name = format!("head-{}", support::fresh());
        let mut head = EtcdHead::open(etcd.address(0), &name).await;
        let (began, before) = (Instant::now(), used(etcd));
        let mut count = 0;
        while began.elapsed() < length {
            head.append(bytes).await;
            count += 1;
        }
        result(etcd, count, began, before)
    })
}

fn result(etcd: &Etcd, count: u64, began: Instant, before: Duration) -> (f64, Duration) {
    let rate = per_second(count, began.elapsed());
    (rate, (used(etcd) - before).div_f64(count as f64))
}

/// The processor time of all members.
fn used(etcd: &Etcd) -> Duration {
    let members = (0..MEMBERS).map(|member| etcd.pid(member).as_raw().unsigned_abs());
    members.map(cpu).sum()
}
