//! How a simulation behaves where no fault says otherwise.

use std::time::Duration;

/// How tasks and hosts behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldConfig {
    /// How long a task takes to stop.
    pub task: TaskStop,
    /// The mean interval between the writes of a task to the receiver; `None`: it never writes.
    pub writes_every: Option<Duration>,
    /// The largest deviation of a clock's rate, in millionths.
    pub drift: u64,
    /// The longest delay of a wake-up, since threads are never quite punctual.
    pub late: Duration,
    /// Whether to count bytes and to log the traffic. It takes time.
    pub count_bytes: bool,
    /// The run ends after this number of messages: they only cause more messages.
    pub most_messages: u64,
}

/// How long a task takes to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStop {
    /// A random time, sometimes so long that the task is aborted.
    Any,
    /// As long as it may: it is always aborted, and uses up the allowance for that.
    Slowest,
    /// This time.
    Takes(Duration),
}

impl Default for WorldConfig {
    /// Tasks that stop after 100 ms, and exact clocks.
    fn default() -> Self {
        Self {
            task: TaskStop::Takes(Duration::from_millis(100)),
            writes_every: Some(Duration::from_millis(500)),
            drift: 0,
            late: Duration::from_millis(1),
            count_bytes: false,
            most_messages: u64::MAX,
        }
    }
}
