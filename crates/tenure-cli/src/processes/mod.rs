//! This command as real processes: a store, candidates, and a network between them that fails on demand.

mod interrupt;
mod network;
mod process;
mod store;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tenure::Config;
use tenure::config::Strategy;

pub(crate) use interrupt::{Interrupted, Second, failure, notice};
pub(crate) use network::{Carried, Network, NetworkKind, STORE};
pub(crate) use process::{Process, adopt_orphans, below, end_all, this_program};
pub(crate) use store::start_store;

/// A clock that all processes of this machine share, and that only goes forward.
pub(crate) fn now() -> Duration {
    // The system has this clock, or no program would run.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::MAX, Duration::from)
}

/// The longest time without a leader after one that could not say good-bye.
pub(crate) fn worst_without_leader(config: &Config) -> anyhow::Result<Duration> {
    let timings = config.timings();
    let lease = timings.worst_without_leader();
    let Some(bully) = config.strategy().bully() else {
        return Ok(lease);
    };
    let peers = bully
        .plan(timings)?
        .settings
        .timings()
        .worst_without_leader();
    Ok(match config.strategy() {
        // It needs both, and both run out at the same time.
        Strategy::Both(_) => peers.max(lease),
        _ => peers,
    })
}
