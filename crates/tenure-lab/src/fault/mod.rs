//! What goes wrong: [`Fault`]s of machines, networks and clocks, and [`Storm`]s of them by chance.

mod mutation;
mod schedule;

use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use crate::contestant::Algorithm;
use crate::sim::Link;

pub use mutation::{Mutation, UnknownMutation};
pub use schedule::{FaultProfile, FaultSchedule};

/// To whom something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This machine.
    Node(NodeId),
    /// Whoever leads at that moment; nobody, if nobody does.
    Leader,
    /// The best one that runs and does not lead.
    BestOther,
    /// The store, where there is one.
    Store,
}

/// What goes wrong, or right again.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The process is gone at once. Its machine refuses connections; or it is gone too, and silent.
    Crash {
        /// Whose.
        who: Target,
        /// Whether the whole machine is.
        machine: bool,
        /// After how long the process starts again; `None`: it does not.
        back_after: Option<Duration>,
    },
    /// It starts, if it does not run.
    Start(Target),
    /// The process stands still; the clock goes on.
    Freeze(Target, Duration),
    /// The machine is suspended; a clock that does not count that stands still, too.
    Suspend(Target, Duration),
    /// The task keeps its process's runtime busy for so long, and goes on acting.
    Block(Target, Duration),
    /// Nothing gets from the first to the second.
    CutOneWay(Target, Target),
    /// Nothing gets from these to the others, or back.
    Part(Vec<Target>),
    /// Everything gets everywhere again.
    Heal,
    /// All ways are like this from now on.
    Links(Link),
    /// Messages of one kind go this way from the first to the second from now on.
    Kind {
        /// Which kind, as traces name it.
        kind: &'static str,
        /// Whose.
        from: Target,
        /// To whom.
        to: Target,
        /// The way.
        link: Link,
    },
    /// Every write to this disk takes so long for now.
    SlowDisk(Target, Duration),
    /// The clock that only goes forward gains so many millionths from now on.
    ClockRate(Target, i64),
    /// The wall clock is set by so many milliseconds.
    WallClock(Target, i64),
    /// The leader resigns, and competes again.
    Resign(Target),
    /// It is told to stop, in an orderly way; it comes back after so long.
    Leave(Target, Option<Duration>),
    /// The task ends by itself.
    TaskEnds(Target, TaskEnd),
    /// The host elects by this algorithm from its next start on.
    Algorithm(Target, Algorithm),
    /// Somebody breaks the lease and lets it run for so long.
    Break(Duration),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Leader => f.write_str("the leader"),
            Self::BestOther => f.write_str("the best of the others"),
            Self::Store => f.write_str("the store"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash {
                who,
                machine,
                back_after,
            } => {
                let what = if *machine { "loses power" } else { "is killed" };
                match back_after {
                    Some(back) => write!(f, "{who} {what}, back after {back:?}"),
                    None => write!(f, "{who} {what}"),
                }
            }
            Self::Start(who) => write!(f, "{who} is started"),
            Self::Freeze(who, time) => write!(f, "{who} is frozen for {time:?}"),
            Self::Suspend(who, time) => write!(f, "{who} is suspended for {time:?}"),
            Self::Block(who, time) => write!(f, "the task of {who} blocks for {time:?}"),
            Self::CutOneWay(from, to) => write!(f, "nothing gets from {from} to {to}"),
            Self::Part(side) => {
                let side: Vec<String> = side.iter().map(ToString::to_string).collect();
                write!(f, "cut off from the others: {}", side.join(", "))
            }
            Self::Heal => f.write_str("everything gets everywhere again"),
            Self::Links(link) => write!(f, "links: {link}"),
            Self::Kind {
                kind,
                from,
                to,
                link,
            } => write!(f, "each {kind} from {from} to {to}: {link}"),
            Self::SlowDisk(who, time) => write!(f, "a write of {who} takes {time:?}"),
            Self::ClockRate(who, ppm) => write!(f, "the clock of {who} gains {ppm} millionths"),
            Self::WallClock(who, ms) => write!(f, "the wall clock of {who} is set by {ms} ms"),
            Self::Resign(who) => write!(f, "{who} resigns"),
            Self::Leave(who, back) => match back {
                Some(back) => write!(f, "{who} is stopped, back after {back:?}"),
                None => write!(f, "{who} is stopped"),
            },
            Self::TaskEnds(who, end) => write!(f, "the task of {who} ends: {end:?}"),
            Self::Algorithm(who, algorithm) => write!(f, "{who} changes to {}", algorithm.name()),
            Self::Break(period) => write!(f, "the lease is broken, with {period:?} left"),
        }
    }
}
