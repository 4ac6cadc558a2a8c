//! Faults of hosts, networks and clocks.

use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use super::Link;

/// The hosts that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This host.
    Node(NodeId),
    /// The hosts that lead at that moment.
    Leader,
    /// The best running host that does not lead.
    BestOther,
    /// The store, if there is one.
    Store,
}

/// A fault, or the end of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The process crashes, and starts again after this time, or never if it is `None`. Its machine
    /// refuses connections.
    Crash(Target, Option<Duration>),
    /// The same, but the machine loses power and does not respond.
    PowerCut(Target, Option<Duration>),
    /// The process starts, if it is not running.
    Start(Target),
    /// The process is frozen, while its clock continues.
    Freeze(Target, Duration),
    /// The machine is suspended. Its clock stops unless it counts suspensions.
    Suspend(Target, Duration),
    /// The link from the first to the second is cut.
    CutOneWay(Target, Target),
    /// A partition between these hosts and all others.
    Part(Vec<Target>),
    /// All links are restored.
    Heal,
    /// All links change.
    Links(Link),
    /// All links to and from a host change, or are as all others again.
    HostLinks(Target, Option<Link>),
    /// The link for one kind of message changes.
    Kind {
        /// The kind, as traces name it.
        kind: &'static str,
        /// The sender.
        from: Target,
        /// The recipient.
        to: Target,
        /// The link.
        link: Link,
    },
    /// Every write to this disk takes this time; zero restores the default.
    SlowDisk(Target, Duration),
    /// The monotonic clock gains this many millionths from now on.
    ClockRate(Target, i64),
    /// The wall clock is set forward or back by this many milliseconds.
    WallClock(Target, i64),
    /// The process resigns, and campaigns again.
    Resign(Target),
    /// The process shuts down in order, and starts again after this time.
    Leave(Target, Option<Duration>),
    /// The task ends by itself.
    TaskEnds(Target, TaskEnd),
    /// The host uses the algorithm with this name from its next start on.
    Algorithm(Target, String),
    /// An operator breaks the lease, which lasts for this period.
    Break(Duration),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Leader => f.write_str("the leader"),
            Self::BestOther => f.write_str("the best other host"),
            Self::Store => f.write_str("the store"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = |f: &mut fmt::Formatter<'_>, who: &Target, what, back: &Option<Duration>| {
            write!(f, "{who} {what}")?;
            back.map_or(Ok(()), |back| write!(f, ", back after {back:?}"))
        };
        match self {
            Self::Crash(who, back) => ends(f, who, "is killed", back),
            Self::PowerCut(who, back) => ends(f, who, "loses power", back),
            Self::Start(who) => write!(f, "{who} is started"),
            Self::Freeze(who, time) => write!(f, "{who} is frozen for {time:?}"),
            Self::Suspend(who, time) => write!(f, "{who} is suspended for {time:?}"),
            Self::CutOneWay(from, to) => write!(f, "the link from {from} to {to} is cut"),
            Self::Part(side) => {
                let side: Vec<String> = side.iter().map(ToString::to_string).collect();
                write!(f, "partitioned from the others: {}", side.join(", "))
            }
            Self::Heal => f.write_str("all links are restored"),
            Self::Links(link) => write!(f, "links: {link}"),
            Self::HostLinks(who, Some(link)) => write!(f, "links of {who}: {link}"),
            Self::HostLinks(who, None) => write!(f, "links of {who} are as all others"),
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
            Self::Leave(who, back) => ends(f, who, "is shut down", back),
            Self::TaskEnds(who, end) => write!(f, "the task of {who} ends: {end:?}"),
            Self::Algorithm(who, algorithm) => write!(f, "{who} changes to {algorithm}"),
            Self::Break(period) => write!(f, "the lease is broken and runs on for {period:?}"),
        }
    }
}
