//! A cluster over three members of etcd on this machine: renewals compared with an embedded store,
//! and grants compared with etcd's own way and with bare appends.
//!
//! All figures are of one run. Rates and processor times alternate with what they are compared
//! with, round by round. `TENURE_ROUNDS` changes the number of rounds.

#[path = "../support/mod.rs"]
mod support;

mod grants;
mod renewals;

use std::time::Duration;

use support::cluster;
use support::programs::etcd::Etcd;
use tokio::runtime::{Builder, Runtime};

/// The number of members of etcd.
const MEMBERS: usize = 3;

/// The numbers of a run.
#[derive(Clone, Copy, Debug)]
struct Counts {
    rounds: usize,
    length: Duration,
}

/// A row: the figure, its target, and the measured values.
type Row = [String; 3];

/// Measures one part of the rows.
type Measure = fn(&Runtime, &Etcd, Counts) -> Vec<Row>;

fn main() {
    support::serve_if_asked();
    cluster::serve_if_asked();
    let quick = support::quick();
    let rounds = std::env::var("TENURE_ROUNDS").ok();
    let rounds = rounds.map(|text| text.parse().expect("TENURE_ROUNDS must be a number"));
    let counts = Counts {
        rounds: rounds.unwrap_or(if quick { 1 } else { 3 }),
        length: Duration::from_millis(if quick { 300 } else { 1_000 }),
    };
    let parts: [(&str, Measure); 2] =
        [("renewals", renewals::measure), ("grants", grants::measure)];
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    wanted.retain(|argument| !argument.starts_with("--"));
    for name in &wanted {
        let is_known = parts.iter().any(|part| part.0 == name);
        assert!(is_known, "no part is named {name}");
    }
    let Some(etcd) = Etcd::start("the benchmark of a cluster", MEMBERS) else {
        return;
    };
    let runtime = runtime();
    let mut rows: Vec<Row> = vec![["", "target", "measured"].map(String::from)];
    for (name, measure) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            rows.extend(measure(&runtime, &etcd, counts));
        }
    }
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    support::table(
        "A cluster over three members of etcd: median (least to most)",
        &rows,
    );
}

fn row(figure: &str, target: &str, measured: String) -> Row {
    [figure.into(), target.into(), measured]
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Returns the processor time that all members of etcd have used.
fn used(etcd: &Etcd) -> Duration {
    let members = (0..MEMBERS).map(|member| etcd.pid(member).as_raw().unsigned_abs());
    members.map(support::cpu).sum()
}
