//! What happened, for those who judge it.

use std::fmt;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{Epoch, NodeId};

use super::Time;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in true time.
    pub at: Time,
    /// On which machine; the store's is 0.
    pub node: NodeId,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The process starts.
    Starts,
    /// The process is gone, by a crash or by itself.
    Stops,
    /// The process stands still until then.
    Freezes(Time),
    /// It goes on.
    Thaws,
    /// It holds itself to lead, until then if nothing comes in.
    Claims(Option<Epoch>, Time),
    /// It does not hold itself to lead any more.
    Yields,
    /// Its task is going from now on.
    Acts(Option<Epoch>),
    /// Its task is gone.
    Rests(Option<Epoch>),
    /// Its term is over.
    Ended(EndReason),
    /// Whom it sees to lead.
    Sees(Option<NodeId>),
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
    Counts(Epoch, Time, Duration),
    /// The store was told that the term is over, or to break it.
    GivenUp(Epoch),
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
    Calm,
    /// The process can't go on.
    Failed(String),
    /// There are more messages than anybody can mean.
    Flood,
    /// The run is over.
    End,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} {:>3} ", self.at.to_string(), self.node)?;
        let number = |epoch: &Option<Epoch>| match epoch {
            Some(epoch) => format!("epoch {epoch}"),
            None => "no epoch".into(),
        };
        match &self.what {
            What::Starts => f.write_str("starts"),
            What::Stops => f.write_str("stops"),
            What::Freezes(until) => write!(f, "stands still until {until}"),
            What::Thaws => f.write_str("goes on"),
            What::Claims(epoch, Time::NEVER) => write!(f, "leads, {}", number(epoch)),
            What::Claims(epoch, until) => write!(f, "leads until {until}, {}", number(epoch)),
            What::Yields => f.write_str("leads no more"),
            What::Acts(epoch) => write!(f, "task begins, {}", number(epoch)),
            What::Rests(epoch) => write!(f, "task gone, {}", number(epoch)),
            What::Ended(reason) => write!(f, "term over: {reason}"),
            What::Sees(Some(leader)) => write!(f, "sees {leader} lead"),
            What::Sees(None) => f.write_str("sees nobody lead"),
            What::Granted { epoch, to, .. } => write!(f, "grants the lease to {to}, epoch {epoch}"),
            What::Counts(epoch, from, duration) => {
                write!(
                    f,
                    "counts the lease of epoch {epoch} from {from} for {duration:?}"
                )
            }
            What::GivenUp(epoch) => write!(f, "epoch {epoch} is given up"),
            What::Wrote { epoch, taken: true } => write!(f, "write taken, {}", number(epoch)),
            What::Wrote { epoch, .. } => write!(f, "write refused, {}", number(epoch)),
            What::Fault(fault) => write!(f, "FAULT: {fault}"),
            What::Calm => f.write_str("no more faults"),
            What::Failed(why) => write!(f, "gives up: {why}"),
            What::Flood => f.write_str("nothing but messages"),
            What::End => f.write_str("the end"),
        }
    }
}
