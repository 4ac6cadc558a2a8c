//! The history of a run, for the invariants and the measurements.

use std::fmt;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{Epoch, NodeId};

use super::Time;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The true time of the event.
    pub at: Time,
    /// The host of the event. The store is 0.
    pub node: NodeId,
    /// The kind of the event.
    pub kind: HistoryEventKind,
}

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryEventKind {
    /// The process has started.
    Started,
    /// The process has crashed or exited.
    Stopped,
    /// The process is frozen until this time.
    Paused(Time),
    /// The process continues.
    Resumed,
    /// The process leads in its own opinion until this time, unless it renews the term.
    Claims(Option<Epoch>, Time),
    /// The process stops leading before the end of its term.
    Yields,
    /// The task has started.
    TaskStarted(Option<Epoch>),
    /// The task has ended.
    TaskEnded(Option<Epoch>),
    /// The term is over.
    TermEnded(EndReason),
    /// The process sees this leader.
    SeesLeader(Option<NodeId>),
    /// The store has granted the lease, and the grant is durable.
    Granted {
        /// The epoch of the term.
        epoch: Epoch,
        /// The holder.
        to: NodeId,
        /// A number that represents the lease id.
        id: u64,
        /// The time of the grant, which is before it was on disk.
        at: Time,
    },
    /// The store has granted or renewed a lease that lasts for this duration from this time on.
    LeaseRuns(Epoch, Time, Duration),
    /// The log has made a take-over by this generation durable.
    TookOver(u64),
    /// The server of this generation has loaded the content of the log.
    Loaded {
        /// The generation.
        generation: u64,
        /// The revision of the last change in the content.
        revision: u64,
        /// The number of that change.
        change: u64,
    },
    /// The server of this generation has accepted a request.
    Accepted(u64),
    /// A server has acknowledged a change.
    Acknowledged {
        /// Its revision.
        revision: u64,
        /// Its number.
        change: u64,
    },
    /// A server has undone the change with this number.
    Undone(u64),
    /// The holder has released the lease, or an operator has broken it.
    LeaseGivenUp(Epoch),
    /// The receiver, which checks epochs, has accepted or refused a write of the task.
    Wrote {
        /// The epoch of the task.
        epoch: Option<Epoch>,
        /// Whether it was accepted.
        taken: bool,
    },
    /// A fault begins.
    Fault(String),
    /// The hosts and links have changed. From now on a set of voters that can elect a leader is
    /// connected, or none is.
    Connected(bool),
    /// All faults are over.
    FaultsOver,
    /// The process has given up.
    Failed(String),
    /// The run has ended because of too many messages.
    MessageFlood,
    /// The run is over.
    RunEnded,
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} {:>3} ", self.at.to_string(), self.node)?;
        let number = |epoch: &Option<Epoch>| match epoch {
            Some(epoch) => format!("epoch {epoch}"),
            None => "no epoch".into(),
        };
        match &self.kind {
            HistoryEventKind::Started => f.write_str("starts"),
            HistoryEventKind::Stopped => f.write_str("stops"),
            HistoryEventKind::Paused(until) => write!(f, "is frozen until {until}"),
            HistoryEventKind::Resumed => f.write_str("goes on"),
            HistoryEventKind::Claims(epoch, Time::NEVER) => write!(f, "leads, {}", number(epoch)),
            HistoryEventKind::Claims(epoch, until) => {
                write!(f, "leads until {until}, {}", number(epoch))
            }
            HistoryEventKind::Yields => f.write_str("no longer leads"),
            HistoryEventKind::TaskStarted(epoch) => write!(f, "task starts, {}", number(epoch)),
            HistoryEventKind::TaskEnded(epoch) => write!(f, "task ended, {}", number(epoch)),
            HistoryEventKind::TermEnded(reason) => write!(f, "term over: {reason}"),
            HistoryEventKind::SeesLeader(Some(leader)) => write!(f, "sees leader {leader}"),
            HistoryEventKind::SeesLeader(None) => f.write_str("sees no leader"),
            HistoryEventKind::Granted { epoch, to, .. } => {
                write!(f, "grants the lease to {to}, epoch {epoch}")
            }
            HistoryEventKind::LeaseRuns(epoch, from, duration) => {
                write!(
                    f,
                    "lease of epoch {epoch} runs from {from} for {duration:?}"
                )
            }
            HistoryEventKind::TookOver(generation) => {
                write!(f, "generation {generation} begins")
            }
            HistoryEventKind::Loaded {
                generation,
                revision,
                change,
            } => write!(
                f,
                "generation {generation} has loaded revision {revision}, change {change:x}"
            ),
            HistoryEventKind::Accepted(generation) => {
                write!(f, "generation {generation} accepts a request")
            }
            HistoryEventKind::Acknowledged { revision, change } => {
                write!(f, "revision {revision}, change {change:x}, is acknowledged")
            }
            HistoryEventKind::Undone(change) => write!(f, "change {change:x} is undone"),
            HistoryEventKind::LeaseGivenUp(epoch) => {
                write!(f, "lease of epoch {epoch} is released")
            }
            HistoryEventKind::Wrote { epoch, taken: true } => {
                write!(f, "write accepted, {}", number(epoch))
            }
            HistoryEventKind::Wrote { epoch, .. } => write!(f, "write refused, {}", number(epoch)),
            HistoryEventKind::Fault(fault) => write!(f, "FAULT: {fault}"),
            HistoryEventKind::Connected(true) => f.write_str("a quorum is connected"),
            HistoryEventKind::Connected(false) => f.write_str("no quorum is connected"),
            HistoryEventKind::FaultsOver => f.write_str("no more faults"),
            HistoryEventKind::Failed(why) => write!(f, "gives up: {why}"),
            HistoryEventKind::MessageFlood => f.write_str("too many messages"),
            HistoryEventKind::RunEnded => f.write_str("end of the run"),
        }
    }
}
