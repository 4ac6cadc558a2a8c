//! `tenure` as several processes: a store, candidates, and a network between them with faults.

mod interrupt;
mod network;
mod process;
mod set;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tenure::Config;
use tenure::config::Strategy;

pub(crate) use interrupt::Interrupt;
pub(crate) use network::Network;
pub(crate) use process::{adopt_orphans, descendants, kill_all};
pub(crate) use set::{ProcessSet, STORE};

/// A monotonic clock that all processes of this machine share.
pub(crate) fn now() -> Duration {
    // The system has this clock, or no program would run.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::MAX, Duration::from)
}

/// The longest time without a leader after a leader that could not release its lease.
pub(crate) fn worst_without_leader(config: &Config) -> anyhow::Result<Duration> {
    let timings = config.timings();
    let lease = timings.worst_without_leader();
    let Some(plan) = config.election_plan()? else {
        return Ok(lease);
    };
    let timings = plan.settings.timings();
    if plan.settings.quorums().with_store().is_some() {
        return Ok(timings.worst_with_fallback());
    }
    let peers = timings.worst_without_leader();
    Ok(match &config.strategy {
        Strategy::Bully(_) => peers,
        // A leader needs both, and both expire at the same time; or either of them is enough.
        _ => peers.max(lease),
    })
}
