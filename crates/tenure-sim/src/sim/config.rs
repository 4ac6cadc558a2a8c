//! The behaviour of a simulation without faults.

use std::time::Duration;

/// The behaviour of tasks and hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldConfig {
    /// The time that a task takes to stop.
    pub task: TaskStop,
    /// The mean interval between the writes of a task to the receiver; `None` if it never writes.
    pub writes_every: Option<Duration>,
    /// The largest deviation of a clock's rate, in millionths.
    pub drift: u64,
    /// The longest delay of a wake-up, because threads are never exactly punctual.
    pub late: Duration,
    /// Whether to count bytes and to log the traffic, which slows the simulation down.
    pub count_bytes: bool,
    /// Whether to record when a quorum is connected.
    pub watches_quorums: bool,
    /// The number of messages after which the run ends, because further messages would only cause
    /// more messages.
    pub most_messages: u64,
}

/// The time that a task takes to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStop {
    /// A random time, sometimes so long that the task is aborted.
    Any,
    /// The longest possible time: the task is always aborted, and uses up its abort allowance.
    Slowest,
    /// A fixed time.
    Takes(Duration),
}

impl Default for WorldConfig {
    /// Returns a configuration with tasks that stop after 100 ms and with exact clocks.
    fn default() -> Self {
        Self {
            task: TaskStop::Takes(Duration::from_millis(100)),
            writes_every: Some(Duration::from_millis(500)),
            drift: 0,
            late: Duration::from_millis(1),
            count_bytes: false,
            watches_quorums: false,
            most_messages: u64::MAX,
        }
    }
}
