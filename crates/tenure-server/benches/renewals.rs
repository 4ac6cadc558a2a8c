//! The processor time and the latency of a renewal and of a read, compared with a bare handler with
//! the same bodies.
//!
//! Nearly all requests of a lease store are renewals. The bare handler is plain axum: a route, the
//! `Path` and `Json` extractors, and the same types with texts of the same length. It runs on the
//! same server and allocator, without the store's limits, clocks and tables. The difference is the
//! cost of the store: names, limits, the table, the lock and the rules, minus the cost of
//! axum's router, which the store does not use. This cost must not grow much with the number of
//! leases.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Child, Connection, Jumps, Kind, Samples, folder, path, proof, table};
use tokio::time::{Instant, timeout_at};

const CONNECTIONS: u64 = 64;

struct Measured {
    name: &'static str,
    leases: u64,
    /// Whether the requests are reads.
    reads: bool,
    server: Child,
    micros: Samples,
    rate: Samples,
    p99: Samples,
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
        reads: false,
        server: Child::start(kind, leases.min(most), folder.path()),
        micros: Samples::default(),
        rate: Samples::default(),
        p99: Samples::default(),
    };
    let mut all = [
        measured("bare handler", Kind::Bare, 1_000),
        measured("1 thousand leases, on disk", Kind::Folder, 1_000),
        measured("1 thousand leases", Kind::Memory, 1_000),
        measured("100 thousand leases", Kind::Memory, 100_000),
        measured("1 million leases", Kind::Memory, 1_000_000),
        Measured {
            reads: true,
            ..measured("bare handler, reads", Kind::Bare, 1_000)
        },
        Measured {
            reads: true,
            ..measured("1 thousand leases, reads", Kind::Memory, 1_000)
        },
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // The first round is a warm-up.
    for round in 0..=rounds {
        for one in &mut all {
            let before = one.server.cpu();
            let began = Instant::now();
            let times = runtime.block_on(load(one, began + length));
            let (time, cpu) = (began.elapsed(), one.server.cpu() - before);
            let done = times.len() as u64;
            if round > 0 {
                one.micros.push(cpu.as_secs_f64() * 1e6 / done as f64);
                one.rate.push(support::per_second(done, time));
                one.p99.push(times.quantile(0.99));
            }
        }
    }
    let mut rows = vec![
        [
            "server",
            "processor time per request, us",
            "ratio",
            "requests per second",
            "p99, ms",
            "ratio",
        ]
        .map(String::from)
        .to_vec(),
    ];
    rows.extend(all.iter().map(|one| {
        let bare = if one.reads { &all[5] } else { &all[0] };
        vec![
            one.name.to_owned(),
            one.micros.text(1),
            one.micros.over(&bare.micros).text(2),
            format!("{:.0}", one.rate.median()),
            one.p99.text(1),
            one.p99.over(&bare.p99).text(2),
        ]
    }));
    table(
        "Renewals over HTTP, 64 connections (target: at most 1.25 of the time, reads 1.45; 2 of the p99)",
        &rows,
    );
    let growth = all[4].micros.over(&all[2].micros).text(2);
    println!("  1 million against 1 thousand leases: {growth}");
}

/// Renews or reads leases in random order until `until`. Returns the milliseconds of each request.
async fn load(one: &Measured, until: Instant) -> Samples {
    let (leases, reads) = (one.leases, one.reads);
    let times = Arc::new(Mutex::new(Samples::default()));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CONNECTIONS {
        let (address, times) = (one.server.address, Arc::clone(&times));
        tasks.spawn(timeout_at(until, async move {
            let mut connection = Connection::open(address).await;
            let mut jumps = Jumps::new(client + 1);
            loop {
                let number = jumps.below(leases);
                let began = Instant::now();
                let status = match reads {
                    true => connection.get(path(number, "").trim_end_matches('/')).await,
                    false => {
                        let path = path(number, "renew");
                        connection.post(&path, &proof(number)).await
                    }
                };
                assert_eq!(status, 200);
                let time = began.elapsed().as_secs_f64() * 1e3;
                times.lock().expect("times").push(time);
            }
        }));
    }
    while let Some(task) = tasks.join_next().await {
        // A client ends when the time is up, or when it panics.
        let _time_is_up = task.expect("renewals");
    }
    std::mem::take(&mut *times.lock().expect("times"))
}
