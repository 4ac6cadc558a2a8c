//! What a renewal costs the server in processor time, against a bare handler with the same bodies.
//!
//! Renewals are what a lease store does all day. The bare handler is plain axum: a route, the `Path` and
//! `Json` extractors, the same types with texts as long, on the same server and allocator, and none of
//! the store's limits, clocks and tables. So what is above it is the store's own: names, limits, the
//! table, the lock, the rules; less what the store saves by going past axum's router. It must not grow
//! much with the number of leases.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Child, Connection, Jumps, Kind, Samples, folder, path, proof, table};
use tokio::time::{Instant, timeout_at};

const CONNECTIONS: u64 = 64;

struct Measured {
    name: &'static str,
    leases: u64,
    server: Child,
    micros: Samples,
    rate: Samples,
}

fn main() {
    support::serve_if_asked();
    let (rounds, length) = match support::quick() {
        true => (2, Duration::from_millis(300)),
        false => (5, Duration::from_secs(1)),
    };
    let most = if support::quick() { 10_000 } else { 1_000_000 };
    let folder = folder();
    let measured = |name, kind, leases: u64| Measured {
        name,
        leases: leases.min(most),
        server: Child::start(kind, leases.min(most), folder.path()),
        micros: Samples::default(),
        rate: Samples::default(),
    };
    let mut all = [
        measured("bare handler", Kind::Bare, 1_000),
        measured("1 thousand leases, on disk", Kind::Embedded, 1_000),
        measured("1 thousand leases", Kind::Memory, 1_000),
        measured("100 thousand leases", Kind::Memory, 100_000),
        measured("1 million leases", Kind::Memory, 1_000_000),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // The first round warms up.
    for round in 0..=rounds {
        for one in &mut all {
            let before = one.server.cpu();
            let began = Instant::now();
            let done = runtime.block_on(load(&one.server, one.leases, began + length));
            let (time, cpu) = (began.elapsed(), one.server.cpu() - before);
            if round > 0 {
                one.micros.push(cpu.as_secs_f64() * 1e6 / done as f64);
                one.rate.push(support::per_second(done, time));
            }
        }
    }
    let mut rows = vec![
        [
            "server",
            "processor time of one, us",
            "ratio",
            "renewals a second",
        ]
        .map(String::from)
        .to_vec(),
    ];
    rows.extend(all.iter().map(|one| {
        vec![
            one.name.to_owned(),
            one.micros.text(1),
            one.micros.over(&all[0].micros).text(2),
            format!("{:.0}", one.rate.median()),
        ]
    }));
    table(
        "Renewals over HTTP, 64 connections (target: ratio at most 1.3)",
        &rows,
    );
    let growth = all[4].micros.over(&all[2].micros).text(2);
    println!("  1 million against 1 thousand leases: {growth}");
}

/// Renews leases here and there until then. Returns how many.
async fn load(server: &Child, leases: u64, until: Instant) -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CONNECTIONS {
        let (address, done) = (server.address, Arc::clone(&done));
        tasks.spawn(timeout_at(until, async move {
            let mut connection = Connection::open(address).await;
            let mut jumps = Jumps::new(client + 1);
            loop {
                let number = jumps.below(leases);
                let status = connection
                    .post(&path(number, "renew"), &proof(number))
                    .await;
                assert_eq!(status, 200);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    while let Some(task) = tasks.join_next().await {
        // A client ends because the time is up, or it panicked.
        let _time_is_up = task.expect("renewals");
    }
    done.load(Ordering::Relaxed)
}
