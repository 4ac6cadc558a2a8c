//! What clients asked, what they were answered, and when: the history that the checker judges.
//!
//! All instants are of one clock, that of this process: the clients of a run live in it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::{LeaseId, State};
use tenure_core::wire::{Code, EventKind, LeaseEvent, LeaseList, LeaseView, Problem, TermView};
use tenure_tests::receiver;

/// How long a request that its client has given up may be under way yet, and be done in the end: a store
/// that was stopped takes up what its sockets have kept, and one that waits is granted late.
const UNDER_WAY: Duration = Duration::from_secs(18);

/// Now, on the one clock of a run.
pub(crate) fn now() -> Instant {
    Instant::default() + receiver::now()
}

/// All that a round of torture has to be judged by.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: Vec<Stream>,
    /// What was done to the store, for the reader of a trace.
    pub(crate) faults: Vec<(Instant, String)>,
    /// Whether the disk was full at times: then an expiry is shown before it can be written.
    pub(crate) disk_was_full: bool,
}

/// One request and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) client: String,
    /// Which of all connections of the round it went over.
    pub(crate) connection: u64,
    /// Empty where all leases are asked for.
    pub(crate) lease: String,
    /// The holder for which it is asked, if it has a lease id. Each attempt to acquire has a holder
    /// of its own, so a holder stands for one lease id and those that it was changed to.
    pub(crate) holder: Option<String>,
    pub(crate) ask: Ask,
    pub(crate) sent: Instant,
    pub(crate) outcome: Outcome,
}

/// What is asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Ask {
    Acquire {
        id: LeaseId,
        duration_ms: u64,
        wait_ms: u64,
    },
    Renew {
        id: LeaseId,
        duration_ms: Option<u64>,
    },
    Change {
        id: LeaseId,
        proposed: LeaseId,
    },
    Metadata {
        id: LeaseId,
    },
    Release {
        id: LeaseId,
    },
    /// Without an id it is an operator's.
    HandOver {
        id: Option<LeaseId>,
        to: String,
        within_ms: u64,
    },
    Break {
        period_ms: Option<u64>,
    },
    Delete,
    Verify {
        epoch: u64,
    },
    View,
    Poll {
        after: u64,
        wait_ms: u64,
    },
    Terms,
    List,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// No answer that says what the store did: it may do it at any time from the sending on.
    Unknown {
        /// When the client gave up, and why.
        at: Instant,
        why: &'static str,
    },
    Answered {
        at: Instant,
        answer: Answer,
    },
}

/// What the store said.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    View(Box<LeaseView>),
    List(LeaseList),
    Terms(Vec<TermView>),
    Verified {
        current: bool,
        epoch: Option<u64>,
    },
    Deleted,
    Refused(Box<Problem>),
    /// Something that no version of this API says.
    Strange {
        status: u16,
        body: String,
    },
}

/// What one reader of events heard, over all its connections.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) client: String,
    /// The lease that it watches; all of them without one.
    pub(crate) lease: Option<String>,
    /// Whether it is told of renewals, too.
    pub(crate) renewed: bool,
    pub(crate) heard: Vec<(Instant, Heard)>,
}

/// What a reader of events heard.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    /// A connection began, resuming after this revision.
    Opened(Option<u64>),
    Reset(u64),
    Event {
        kind: EventKind,
        id: Option<u64>,
        event: Box<LeaseEvent>,
        /// Whether one of the lease ids of this run is in its text.
        has_lease_id: bool,
    },
    /// The text of a block that is no event.
    Strange(String),
    /// The faults are over, and the reader was given time to catch up.
    End,
}

impl Ask {
    /// The lease id under which it is asked.
    pub(crate) const fn id(&self) -> Option<LeaseId> {
        match self {
            Self::Acquire { id, .. }
            | Self::Renew { id, .. }
            | Self::Change { id, .. }
            | Self::Metadata { id }
            | Self::Release { id } => Some(*id),
            Self::HandOver { id, .. } => *id,
            _ => None,
        }
    }
}

impl History {
    /// Whether this may be shown before it is written, at the revision that was before: on a full disk a term is
    /// shown to be over when its time is up.
    pub(crate) const fn may_be_unwritten(&self, view: &LeaseView) -> bool {
        self.disk_was_full && matches!(view.state, State::Expired | State::Broken)
    }
}

impl Ask {
    /// Whether it may end the term of whoever holds.
    pub(crate) const fn may_end_another(&self) -> bool {
        let is_operators = matches!(self, Self::HandOver { id: None, .. });
        is_operators || matches!(self, Self::Break { .. } | Self::Delete)
    }
}

impl Op {
    /// When the answer came, and the answer.
    pub(crate) fn answered(&self) -> Option<(Instant, &Answer)> {
        match &self.outcome {
            Outcome::Answered { at, answer } => Some((*at, answer)),
            Outcome::Unknown { .. } => None,
        }
    }

    /// The view that it was answered with, and when.
    pub(crate) fn view(&self) -> Option<(Instant, &LeaseView)> {
        match self.answered()? {
            (at, Answer::View(view)) => Some((at, view)),
            _ => None,
        }
    }

    /// Why it was refused, and when. An error of the store's own says nothing of the lease.
    pub(crate) fn refused(&self) -> Option<(Instant, Code)> {
        match self.answered()? {
            (at, Answer::Refused(problem)) if matches!(problem.status, 400..=407 | 409..=428) => {
                Some((at, problem.code))
            }
            _ => None,
        }
    }

    /// Whether the store may have done it after `since` and before `until`.
    pub(crate) fn may_act_within(&self, since: Instant, until: Instant) -> bool {
        let last = match self.outcome {
            Outcome::Answered { at, .. } => at,
            Outcome::Unknown { at, .. } => at + UNDER_WAY,
        };
        self.sent < until && since <= last && self.refused().is_none()
    }
}

/// Takes down what clients do.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<History>);

impl Recorder {
    /// A request leaves now. Returns its number.
    pub(crate) fn begin(&self, op: Op) -> usize {
        let mut history = self.history();
        history.ops.push(op);
        history.ops.len() - 1
    }

    /// What came of the request of this number.
    pub(crate) fn end(&self, number: usize, outcome: Outcome) {
        self.history().ops[number].outcome = outcome;
    }

    /// What a reader of events heard.
    pub(crate) fn add_stream(&self, stream: Stream) {
        self.history().streams.push(stream);
    }

    /// Something is done to the store now.
    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.history().faults.push((now(), what.into()));
    }

    /// From now on the disk has been full.
    pub(crate) fn disk_is_full(&self) {
        self.history().disk_was_full = true;
    }

    /// All that was taken down so far.
    pub(crate) fn take(&self) -> History {
        std::mem::take(&mut self.history())
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire {
                duration_ms,
                wait_ms,
                ..
            } => write!(f, "acquire for {duration_ms} ms, waiting {wait_ms} ms"),
            Self::Renew {
                duration_ms: Some(ms),
                ..
            } => write!(f, "renew for {ms} ms"),
            Self::Renew { .. } => f.write_str("renew"),
            Self::Change { .. } => f.write_str("change the lease id"),
            Self::Metadata { .. } => f.write_str("set metadata"),
            Self::Release { .. } => f.write_str("release"),
            Self::HandOver { id, to, within_ms } => {
                let operator = if id.is_none() { "operator: " } else { "" };
                write!(f, "{operator}hand over to {to} within {within_ms} ms")
            }
            Self::Break { period_ms: None } => f.write_str("break"),
            Self::Break {
                period_ms: Some(ms),
            } => write!(f, "break within {ms} ms"),
            Self::Delete => f.write_str("delete"),
            Self::Verify { epoch } => write!(f, "verify {epoch}"),
            Self::View => f.write_str("look"),
            Self::Poll { after, wait_ms } => write!(f, "poll after {after} for {wait_ms} ms"),
            Self::Terms => f.write_str("history"),
            Self::List => f.write_str("list"),
        }
    }
}
