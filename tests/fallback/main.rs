//! `tenure run` with a store and a fallback: a store and five members as processes, with faults of
//! the store, of the members, and of the networks between them. A fenced receiver checks the actions
//! of their commands.

mod partitions;
mod seen;
mod store_away;
mod store_up;

use std::time::{Duration, Instant};

use tenure_tests::group::{Group, LEASE, Leader};
use tenure_tests::wait_for;

/// The renew interval of the group.
const RENEW_INTERVAL: Duration = LEASE.checked_div(3).unwrap();

/// The longest time without a leader, as members log it at their start: a lease duration, a renew
/// interval, and six message lifetimes of 400 ms. A busy machine adds to it.
const BOUND: Duration = LEASE.saturating_add(Duration::from_millis(3_400));

/// Five members that are not running yet, and a running store. `k` members are enough beside it.
fn group(k: u32) -> Group {
    Group::new(env!("CARGO_BIN_EXE_tenure-test-worker")).with_store(k)
}

/// Returns the leader once its lease is in the store.
fn settled(group: &Group, above: u64) -> Leader {
    wait_for("a leader with a lease", || {
        let leader = group.leaders().pop()?;
        (leader.epoch > above && group.held_epoch() == Some(leader.epoch)).then_some(leader)
    })
}

/// Returns the longest pause of the actions of this leader since `since`.
fn longest_pause(group: &Group, leader: Leader, since: Duration) -> Duration {
    let acts = group.receiver().acts();
    let acts = acts
        .iter()
        .filter(|act| act.epoch == leader.epoch && act.at >= since);
    let times: Vec<Duration> = acts.map(|act| act.at).collect();
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().expect("actions of the leader")
}

/// Returns the time until the store shows the lease under this epoch.
fn shown_again_after(group: &Group, leader: Leader) -> Duration {
    let begin = Instant::now();
    wait_for("the lease under the epoch of the term", || {
        (group.held_epoch() == Some(leader.epoch)).then(|| begin.elapsed())
    })
}
