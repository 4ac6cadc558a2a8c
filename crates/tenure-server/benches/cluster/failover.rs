//! The time until a successor renews, after the active server is killed or stops.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::cluster::Members;
use super::renewals::hold;
use super::support::programs::etcd::Etcd;
use super::support::{Child, Jumps, Samples};
use super::{Counts, Row, row, runtime, used};

/// The number of clusters whose servers are killed at the same time. They mostly wait.
const AT_ONCE: usize = 4;

/// The default ownership duration.
const OWNERSHIP: Duration = Duration::from_secs(3);

/// The number of large take-overs of each kind.
const LARGE: usize = 3;

pub(super) fn measure(runtime: &Runtime, etcd: &Etcd, counts: Counts) -> Vec<Row> {
    let [killed, left] = [Signal::SIGKILL, Signal::SIGTERM].map(|signal| {
        let each = counts.failovers.div_ceil(AT_ONCE);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_ONCE)
                .map(|number| {
                    let name = format!("failover-{signal}-{number}");
                    scope.spawn(move || {
                        let seed = number as u64 + 1;
                        fail_over(etcd, &name, signal, each, seed)
                    })
                })
                .collect();
            let mut all = Samples::default();
            for thread in threads {
                all.extend(thread.join().expect("fail-overs"));
            }
            all
        })
    });
    let few = runtime.block_on(large(etcd, "few", 1));
    let many = runtime.block_on(large(etcd, "many", counts.leases));
    let t = OWNERSHIP.as_secs_f64();
    let text = |samples: &Samples| {
        let [median, p99, most] = [0.5, 0.99, 1.0].map(|part| samples.quantile(part));
        let count = samples.len();
        format!("median {median:.2} s, p99 {p99:.2} s, longest {most:.2} s, of {count}")
    };
    let added = |few: &Samples, many: &Samples| {
        let added = many.median() - few.median();
        format!(
            "{added:+.2} s; {} s, with one lease {} s",
            many.text(2),
            few.text(2)
        )
    };
    let leases = counts.leases;
    vec![
        row(
            "from kill -9 of the active server to the first renewal at the successor, T = 3 s",
            &format!("median {:.1} s, p99 {:.1} s", t + 0.4, t + 1.0),
            text(&killed),
        ),
        row(
            "from SIGTERM to the same",
            "median 0.3 s, p99 0.6 s",
            text(&left),
        ),
        row(
            &format!("the same with {leases} leases, over one lease"),
            "+0.1 s",
            added(&few.warm, &many.warm),
        ),
        row(
            &format!("from a start with {leases} leases to the first renewal, over one lease"),
            "+2 s",
            format!(
                "{}; processor time {} s, of etcd {} s",
                added(&few.cold, &many.cold),
                many.cold_cpu.text(2),
                many.cold_etcd.text(2)
            ),
        ),
    ]
}

/// Ends the active server of a cluster this number of times by this signal. Returns the seconds
/// until another server renews.
fn fail_over(etcd: &Etcd, name: &str, signal: Signal, count: usize, seed: u64) -> Vec<f64> {
    let mut jumps = Jumps::new(seed);
    runtime().block_on(async {
        let mut members = Members::start(etcd, name, 2, false).await;
        members.hold_probe().await;
        let mut times = Vec::new();
        for _ in 0..count {
            let active = members.settle().await;
            // A standby takes over at once only after its reads have succeeded for T / 3. Each
            // signal comes at another time between two beats.
            let pause = OWNERSHIP / 3 + Duration::from_millis(200 + jumps.below(500));
            sleep(pause).await;
            times.push(end(&mut members, active, signal).await);
            members.spawn(active);
        }
        times
    })
}

/// Ends the active server by this signal. Returns the seconds until another server renews.
async fn end(members: &mut Members, active: usize, signal: Signal) -> f64 {
    let server = members.servers[active].take().expect("a server");
    let began = Instant::now();
    server.signal(signal);
    members.renewed().await;
    let took = began.elapsed();
    server.wait();
    took.as_secs_f64()
}

/// The results with one number of leases.
#[derive(Default)]
struct Large {
    /// The seconds from SIGTERM to the active server, if a standby has a copy of all leases.
    warm: Samples,
    /// The seconds from the start of a server.
    cold: Samples,
    /// The seconds of processor time that this server has used by then.
    cold_cpu: Samples,
    /// The same of all members of etcd.
    cold_etcd: Samples,
}

/// Measures the time until the first renewal with this number of leases.
async fn large(etcd: &Etcd, name: &str, leases: u64) -> Large {
    let mut members = Members::start(etcd, name, 2, false).await;
    hold(members.address().await, 0..leases).await;
    let mut results = Large::default();
    for _ in 0..LARGE {
        let active = members.settle().await;
        rest(&members).await;
        let took = end(&mut members, active, Signal::SIGTERM).await;
        results.warm.push(took);
        members.spawn(active);
    }
    for _ in 0..LARGE {
        for server in [1, 0] {
            if let Some(server) = members.servers[server].take() {
                server.signal(Signal::SIGTERM);
                server.wait();
            }
        }
        let (began, before) = (Instant::now(), used(etcd));
        members.spawn(0);
        members.renewed().await;
        results.cold.push(began.elapsed().as_secs_f64());
        let cpu = members.servers[0].as_ref().expect("a server").cpu();
        results.cold_cpu.push(cpu.as_secs_f64());
        results.cold_etcd.push((used(etcd) - before).as_secs_f64());
    }
    results
}

/// Waits until the servers have nothing to do: a standby that was just started reads all leases.
async fn rest(members: &Members) {
    let used = || -> Duration { members.servers.iter().flatten().map(Child::cpu).sum() };
    sleep(OWNERSHIP / 2).await;
    for _ in 0..60 {
        let before = used();
        sleep(OWNERSHIP / 6).await;
        if used() - before < OWNERSHIP / 300 {
            return;
        }
    }
    panic!("the servers do not rest");
}
