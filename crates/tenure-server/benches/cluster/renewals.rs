//! The processor time of a renewal through the active server, compared with the embedded store.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout_at};

use super::cluster::Members;
use super::support::programs::etcd::Etcd;
use super::support::{
    Child, Connection, Jumps, Kind, Samples, acquire, folder, path, per_second, proof,
};
use super::{Counts, Row, row, used};

const LEASES: u64 = 1_000;

/// The number of clients that acquire the leases.
const CLIENTS: u64 = 256;

/// Renewals by this number of connections.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    connections: u64,
    /// The renewals per second; `None` if each connection sends the next one after each answer.
    pace: Option<u32>,
}

/// With the default timings a leader renews every 5 s.
const LOADS: [Load; 3] = [
    Load {
        name: "200 a second (1,000 leaders)",
        connections: 64,
        pace: Some(200),
    },
    Load {
        name: "2,000 a second (10,000 leaders)",
        connections: 64,
        pace: Some(2_000),
    },
    // So many that the servers are busy although each answer that is confirmed takes 40 ms.
    Load {
        name: "as many as possible",
        connections: 1_000,
        pace: None,
    },
];

/// The results of one server.
#[derive(Default)]
struct Measured {
    micros: Samples,
    p99: Samples,
    rate: Samples,
    /// The processor time of all members of etcd, in percent of one core.
    etcd: Samples,
}

pub(super) fn measure(runtime: &Runtime, etcd: &Etcd, counts: Counts) -> Vec<Row> {
    let folder = folder();
    let embedded = Child::start(Kind::Embedded, LEASES, folder.path());
    // No standbys: only the active server is measured here.
    let start = |name: &str, confirm| {
        runtime.block_on(async {
            let members = Members::start(etcd, name, 1, confirm).await;
            hold(members.address().await, 0..LEASES).await;
            members
        })
    };
    let [plain, confirming] = [start("plain", false), start("confirming", true)];
    let servers = [
        &embedded,
        plain.servers[0].as_ref().expect("a server"),
        confirming.servers[0].as_ref().expect("a server"),
    ];
    let mut results: [[Measured; 3]; LOADS.len()] = Default::default();
    // The first round is a warm-up.
    for round in 0..=counts.rounds {
        for (load, measured) in LOADS.into_iter().zip(&mut results) {
            for (server, measured) in servers.iter().zip(measured) {
                let (began, before, etcd_before) = (Instant::now(), server.cpu(), used(etcd));
                let until = began + counts.length * 2;
                let times = runtime.block_on(renew(server.address, load, until));
                let micros = (server.cpu() - before).as_secs_f64() * 1e6 / times.len() as f64;
                let of_etcd = (used(etcd) - etcd_before).as_secs_f64();
                let took = began.elapsed();
                if round > 0 {
                    measured.micros.push(micros);
                    measured.p99.push(times.quantile(0.99));
                    measured.rate.push(per_second(times.len() as u64, took));
                    measured.etcd.push(100.0 * of_etcd / took.as_secs_f64());
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (load, measured) in LOADS.iter().zip(&results) {
        let [embedded, plain, confirming] = measured;
        for (name, target, measured) in [
            ("", "at most 1.10", plain),
            (" with confirm", "at most 1.4", confirming),
        ] {
            let figure = format!(
                "processor time of a renewal{name}, {}, over the embedded store ({:.1} us)",
                load.name,
                embedded.micros.median()
            );
            let ratio = measured.micros.over(&embedded.micros).text(2);
            let [p99, base] = [measured, embedded].map(|it| it.p99.median());
            let (rate, etcd) = (measured.rate.median(), measured.etcd.median());
            let measured = format!(
                "{ratio}; p99 {p99:.1} ms, embedded {base:.1} ms; {rate:.0} per second; etcd {etcd:.1} %"
            );
            rows.push(row(&figure, target, measured));
        }
    }
    rows
}

/// Acquires these leases, each for a different holder.
pub(super) async fn hold(address: SocketAddr, leases: std::ops::Range<u64>) {
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let mine = (leases.start + client..leases.end).step_by(CLIENTS as usize);
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            for number in mine {
                let (path, body) = (path(number, "acquire"), acquire(number, 0));
                assert_eq!(connection.post(&path, &body).await, 200);
            }
        });
    }
    tasks.join_all().await;
}

/// Renews leases in random order until this time. Returns the milliseconds of each renewal.
async fn renew(address: SocketAddr, load: Load, until: Instant) -> Samples {
    let connections = load.connections;
    let mut tasks = JoinSet::new();
    for client in 0..connections {
        tasks.spawn(async move {
            let mut times = Vec::new();
            let work = async {
                let mut connection = Connection::open(address).await;
                let mut jumps = Jumps::new(client + 1);
                let period = load
                    .pace
                    .map(|pace| Duration::from_secs(connections) / pace);
                let mut ticks = period.map(|period| {
                    let share = client as f64 / connections as f64;
                    let mut ticks = interval_at(Instant::now() + period.mul_f64(share), period);
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    ticks
                });
                loop {
                    if let Some(ticks) = &mut ticks {
                        ticks.tick().await;
                    }
                    let number = jumps.below(LEASES);
                    let began = Instant::now();
                    let (path, body) = (path(number, "renew"), proof(number));
                    assert_eq!(connection.post(&path, &body).await, 200);
                    times.push(began.elapsed().as_secs_f64() * 1e3);
                }
            };
            let _time_is_up = timeout_at(until, work).await;
            times
        });
    }
    let mut all = Samples::default();
    while let Some(times) = tasks.join_next().await {
        all.extend(times.expect("renewals"));
    }
    all
}
