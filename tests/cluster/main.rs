//! Several servers over real etcd or PostgreSQL, as processes. Faults of servers, networks, clocks
//! and the engine meet clients that compete for short leases and leaders with the default timings.
//!
//! After each fault three judges check what happened: a fenced receiver, the history of all requests
//! of all clients, and the history of the log in its home.
//!
//! Each check has a short form, which always runs, and a long form:
//!
//! ```text
//! cargo test -p tenure-tests --test cluster -- --ignored --nocapture --test-threads 1
//! ```
//!
//! `TENURE_ROUNDS` changes the number of rounds of the long forms.

mod buckets;
mod certificates;
mod clocks;
mod cuts;
mod engine;
mod kills;
mod load;
mod moving;
mod operators;
mod postgres;
mod promotions;
mod refusals;
mod restarts;
mod starts;
mod stops;
mod streams;
mod unfenced;
mod wrong;

use std::time::Duration;

use tenure_tests::chain::Audited;
use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::receiver::now;

use self::load::{Load, Probe};

/// The ownership duration of short tests.
const SHORT: Duration = Duration::from_secs(1);

/// The default ownership duration.
const DEFAULT: Duration = Duration::from_secs(3);

/// A cluster under load.
struct Bench {
    load: Load,
    cluster: Cluster,
}

impl Bench {
    /// Starts a cluster and its load; `None` if the test cannot run.
    fn start(test: &str, settings: Settings) -> Option<Self> {
        let cluster = Cluster::start(test, settings)?;
        let load = Load::start(&cluster);
        Some(Self { load, cluster })
    }

    /// The same with a cluster that runs already.
    fn over(cluster: Cluster) -> Self {
        let load = Load::start(&cluster);
        Self { load, cluster }
    }

    /// Ends the load and calls the judges. Returns the result of the audit.
    fn verify(self) -> Audited {
        let Self { load, cluster } = self;
        load.verify(&cluster);
        cluster.verify()
    }

    /// The same, where all leaders may lose their terms because the cluster was away for too long.
    fn verify_without_terms(self) -> Audited {
        let Self { load, cluster } = self;
        load.verify_answers(&cluster);
        cluster.verify()
    }

    /// Starts a server that has ended, and waits until it follows.
    fn restart(&mut self, server: usize) {
        self.cluster.servers[server].spawn();
        self.cluster.servers[server].wait_until_ready(&self.cluster.runtime);
    }

    /// The servers that are not active.
    fn standbys(&self, active: usize) -> Vec<usize> {
        let all = 0..self.cluster.servers.len();
        all.filter(|it| *it != active).collect()
    }
}

/// The number of rounds of a long form.
fn rounds(default: usize) -> usize {
    let rounds = std::env::var("TENURE_ROUNDS").ok();
    rounds.map_or(default, |text| {
        text.parse().expect("TENURE_ROUNDS is a number")
    })
}

/// Prints the times of an event: the command that measured them, the median, the 99th percentile and
/// the longest time. Returns the 99th percentile.
fn report(what: &str, ownership: Duration, times: &mut [Duration]) -> Duration {
    times.sort();
    let at = |share: f64| {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let index = ((times.len() as f64 * share).ceil() as usize).saturating_sub(1);
        times[index.min(times.len() - 1)]
    };
    eprintln!(
        "MEASURED {what}, T = {ownership:?}: median {:.2?}, p99 {:.2?}, longest {:.2?} of {} \
         (cargo test -p tenure-tests --test cluster -- --ignored --nocapture)",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
    at(0.99)
}

/// A random part of a duration.
fn part_of(duration: Duration) -> Duration {
    let random = now().subsec_micros() % 1_000;
    duration * random / 1_000
}

/// Waits for as long as a fault shall last.
fn pass(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits for the first renewal of the probe that was sent after this time, and returns the time of
/// its answer since then.
fn renewed_since(probe: &Probe, since: Duration) -> Duration {
    let renewed =
        tenure_tests::wait_for("a renewal at an active server", || probe.first_since(since));
    renewed.answered - since
}
