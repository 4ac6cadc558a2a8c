//! The processor time of a cluster without requests.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::cluster::Members;
use super::support::programs::etcd::Etcd;
use super::support::{Child, Samples};
use super::{Counts, MEMBERS, Row, row, used};

const SERVERS: usize = 3;

pub(super) fn measure(runtime: &Runtime, etcd: &Etcd, counts: Counts) -> Vec<Row> {
    let mut alone = Samples::default();
    for _ in 0..2 * counts.rounds {
        let (began, before) = (Instant::now(), used(etcd));
        thread::sleep(counts.length);
        alone.push(percent(used(etcd) - before, began) / MEMBERS as f64);
    }
    let members = runtime.block_on(Members::start(etcd, "idle", SERVERS, false));
    let active = runtime.block_on(members.settle());
    let of_servers = || -> Vec<Duration> {
        let servers = members.servers.iter().flatten();
        servers.map(Child::cpu).collect()
    };
    let [mut owner, mut standbys, mut etcds] = [(); 3].map(|()| Samples::default());
    for _ in 0..2 * counts.rounds {
        let (began, before, etcd_before) = (Instant::now(), of_servers(), used(etcd));
        thread::sleep(counts.length);
        let (after, etcd_after) = (of_servers(), used(etcd));
        for (server, (after, before)) in after.iter().zip(&before).enumerate() {
            let samples = if server == active {
                &mut owner
            } else {
                &mut standbys
            };
            samples.push(percent(*after - *before, began));
        }
        etcds.push(percent(etcd_after - etcd_before, began) / MEMBERS as f64);
    }
    let text = |samples: &Samples| format!("{} %", samples.text(2));
    vec![
        row(
            "processor time of the idle active server, of one core",
            "at most 1 %",
            text(&owner),
        ),
        row(
            "the same of an idle standby",
            "at most 1 %",
            text(&standbys),
        ),
        row(
            "the same of each member of etcd",
            "at most 3 %",
            format!("{}; without a cluster {}", text(&etcds), text(&alone)),
        ),
    ]
}

/// Returns a processor time in percent of the time since `began`.
fn percent(used: Duration, began: Instant) -> f64 {
    100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64()
}
