//! What happened, for those who judge it.

use std::fmt;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{Epoch, NodeId};

use super::Time;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// When, in true time.
    pub at: Time,
    /// On which machine; the store's is 0.
    pub node: NodeId,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The process starts.
    Started,
    /// The process is gone, by a crash or by itself.
    Stopped,
    /// The process stands still until then.
    Paused(Time),
    /// It goes on.
    Resumed,
    /// It holds itself to lead, until then if nothing comes in.
    Claims(Option<Epoch>, Time),
    /// It does not hold itself to lead any more.
    Yields,
    /// Its task is going from now on.
    TaskStarted(Option<Epoch>),
    /// Its task is gone.
    TaskEnded(Option<Epoch>),
    /// Its term is over.
    TermEnded(EndReason),
    /// Whom it sees to lead.
    SeesLeader(Option<NodeId>),
    /// The store has granted the lease, and will not forget it.
    Granted {
        /// The number of the term.
        epoch: Epoch,
        /// To whom.
        to: NodeId,
        /// Stands for the lease id.
        id: u64,
        /// When: before it was on its disk.
        at: Time,
    },
    /// The store counts a lease of this duration from then on, again or for the first time.
    LeaseRuns(Epoch, Time, Duration),
    /// The store was told that the term is over, or to break it.
    LeaseGivenUp(Epoch),
    /// The receiver that checks epochs has taken the task's write, or refused it.
    Wrote {
        /// The task's epoch.
        epoch: Option<Epoch>,
        /// Whether it was taken.
        taken: bool,
    },
    /// A fault begins.
    Fault(String),
    /// No fault is on any more, and none comes.
    FaultsOver,
    /// The process can't go on.
    Failed(String),
    /// There are more messages than anybody can mean.
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
            EventKind::Started => f.write_str("starts"),
            EventKind::Stopped => f.write_str("stops"),
            EventKind::Paused(until) => write!(f, "stands still until {until}"),
            EventKind::Resumed => f.write_str("goes on"),
            EventKind::Claims(epoch, Time::NEVER) => write!(f, "leads, {}", number(epoch)),
            EventKind::Claims(epoch, until) => write!(f, "leads until {until}, {}", number(epoch)),
            EventKind::Yields => f.write_str("leads no more"),
            EventKind::TaskStarted(epoch) => write!(f, "task begins, {}", number(epoch)),
            EventKind::TaskEnded(epoch) => write!(f, "task gone, {}", number(epoch)),
            EventKind::TermEnded(reason) => write!(f, "term over: {reason}"),
            EventKind::SeesLeader(Some(leader)) => write!(f, "sees {leader} lead"),
            EventKind::SeesLeader(None) => f.write_str("sees nobody lead"),
            EventKind::Granted { epoch, to, .. } => {
                write!(f, "grants the lease to {to}, epoch {epoch}")
            }
            EventKind::LeaseRuns(epoch, from, duration) => {
                write!(
                    f,
                    "counts the lease of epoch {epoch} from {from} for {duration:?}"
                )
            }
            EventKind::LeaseGivenUp(epoch) => write!(f, "epoch {epoch} is given up"),
            EventKind::Wrote { epoch, taken: true } => write!(f, "write taken, {}", number(epoch)),
            EventKind::Wrote { epoch, .. } => write!(f, "write refused, {}", number(epoch)),
            EventKind::Fault(fault) => write!(f, "FAULT: {fault}"),
            EventKind::FaultsOver => f.write_str("no more faults"),
            EventKind::Failed(why) => write!(f, "gives up: {why}"),
            EventKind::MessageFlood => f.write_str("nothing but messages"),
            EventKind::RunEnded => f.write_str("the end"),
        }
    }
}
