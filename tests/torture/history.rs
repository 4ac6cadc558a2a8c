//! The requests of clients, their answers, and the times of both: the history that the checker
//! verifies.
//!
//! All instants are from one clock, that of this process: all clients of a run are in it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::{LeaseId, State};
use tenure_core::wire::{Code, EventKind, LeaseEvent, LeaseList, LeaseView, Problem, TermView};
use tenure_tests::receiver;

/// The longest time after which a request takes effect although its client has given it up: a
/// resumed store handles the requests in its sockets, and a waiting request may be granted late.
const LATE_EFFECT: Duration = Duration::from_secs(18);

/// The time of an event that has not happened.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The current time on the clock of the run.
pub(crate) fn now() -> Instant {
    Instant::default() + receiver::now()
}

/// The data for the checks of a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) removals: Vec<Removal>,
    /// The faults, for the reader of a trace.
    pub(crate) faults: Vec<(Instant, String)>,
    /// Whether the disk was full at any time: then an expiry is visible before it is written.
    pub(crate) disk_was_full: bool,
}

/// A time without a valid token of a principal. Times that have not come are [`NEVER`].
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) principal: &'static str,
    /// When the access file without the token was about to be written.
    pub(crate) begin: Instant,
    /// From then on the store refuses all requests.
    pub(crate) in_force: Instant,
    /// From then on all waits and streams have ended.
    pub(crate) settled: Instant,
    /// When the access file with the token was about to be written.
    pub(crate) give_back: Instant,
    /// From then on the token is valid again.
    pub(crate) end: Instant,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) client: String,
    pub(crate) principal: &'static str,
    /// Whether the credential is a session, which ends with the store's process, and not a token.
    pub(crate) by_session: bool,
    /// The number of its connection in the round.
    pub(crate) connection: u64,
    /// Empty for requests about all leases.
    pub(crate) lease: String,
    /// The holder of the request's lease id, if it has one. Each attempt to acquire has a holder of
    /// its own, so a holder identifies one lease id and the ids that it was changed to.
    pub(crate) holder: Option<String>,
    pub(crate) ask: Ask,
    pub(crate) sent: Instant,
    pub(crate) outcome: Outcome,
}

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Ask {
    Acquire {
        id: LeaseId,
        duration_ms: u64,
        wait_ms: u64,
        lock_delay_ms: u64,
        min_epoch: Option<u64>,
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
    /// Without an id it is an operator's request.
    HandOver {
        id: Option<LeaseId>,
        to: String,
        within_ms: u64,
        force: bool,
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
    /// For a session.
    SignIn,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// No conclusive answer: the request may take effect at any time after the sending.
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

/// An answer of the store.
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
    /// The session.
    SignedIn(String),
    Refused(Box<Problem>),
    /// An answer that is not part of the API.
    Unexpected {
        status: u16,
        body: String,
    },
}

/// The events that a watcher received, over all its connections.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) client: String,
    pub(crate) principal: &'static str,
    /// The watched lease; all leases if `None`.
    pub(crate) lease: Option<String>,
    /// Whether it receives renewals, too.
    pub(crate) renewed: bool,
    pub(crate) received: Vec<(Instant, Received)>,
}

/// An event that a watcher received.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    /// A connection that resumes after this revision, and was requested at this time.
    Opened(Option<u64>, Instant),
    Reset(u64),
    Event {
        kind: EventKind,
        id: Option<u64>,
        event: Box<LeaseEvent>,
        /// Whether the text contains a lease id of this run.
        has_lease_id: bool,
    },
    /// The text of an unexpected block.
    Unexpected(String),
    /// The end of the round: the faults are over, and the watcher has had time to catch up.
    End,
}

impl Ask {
    /// The lease id of the request.
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
    /// Whether this state may be visible before it is written, under the revision before it: on a
    /// full disk a term is shown as ended when its time is up.
    pub(crate) const fn may_be_unwritten(&self, view: &LeaseView) -> bool {
        self.disk_was_full && matches!(view.state, State::Expired | State::Broken)
    }
}

impl Ask {
    /// Whether it may end the term of another client.
    pub(crate) const fn may_end_another(&self) -> bool {
        let is_operators = matches!(self, Self::HandOver { id: None, .. });
        is_operators || matches!(self, Self::Break { .. } | Self::Delete)
    }
}

impl Op {
    /// The answer, and when it arrived.
    pub(crate) fn answered(&self) -> Option<(Instant, &Answer)> {
        match &self.outcome {
            Outcome::Answered { at, answer } => Some((*at, answer)),
            Outcome::Unknown { .. } => None,
        }
    }

    /// The view in the answer, and when it arrived.
    pub(crate) fn view(&self) -> Option<(Instant, &LeaseView)> {
        match self.answered()? {
            (at, Answer::View(view)) => Some((at, view)),
            _ => None,
        }
    }

    /// Whether a wait ended because the client's credential was removed. The lease may have been
    /// granted at that moment, and given back.
    pub(crate) fn is_ended_wait(&self) -> bool {
        let is_wait = matches!(self.ask, Ask::Acquire { wait_ms: 1.., .. });
        let refused = self.answered().is_some_and(|(_, answer)| {
            matches!(answer, Answer::Refused(problem) if problem.code == Code::Forbidden)
        });
        is_wait && refused
    }

    /// The reason for a refusal, and the time of its arrival. An internal error of the store
    /// contains no information about the lease.
    pub(crate) fn refused(&self) -> Option<(Instant, Code)> {
        match self.answered()? {
            _ if self.is_ended_wait() => None,
            (at, Answer::Refused(problem)) if matches!(problem.status, 400..=407 | 409..=428) => {
                Some((at, problem.code))
            }
            _ => None,
        }
    }

    /// Whether the request may have taken effect after `since` and before `until`.
    pub(crate) fn may_act_within(&self, since: Instant, until: Instant) -> bool {
        let last = match self.outcome {
            Outcome::Answered { at, .. } => at,
            Outcome::Unknown { at, .. } => at + LATE_EFFECT,
        };
        self.sent < until && since <= last && self.refused().is_none()
    }
}

/// Records the requests and events of clients.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<History>);

impl Recorder {
    /// Records a request that is sent now. Returns its number.
    pub(crate) fn begin(&self, op: Op) -> usize {
        let mut history = self.history();
        history.ops.push(op);
        history.ops.len() - 1
    }

    /// Records the outcome of the request with this number.
    pub(crate) fn end(&self, number: usize, outcome: Outcome) {
        self.history().ops[number].outcome = outcome;
    }

    /// Records the events of a watcher.
    pub(crate) fn add_stream(&self, stream: Stream) {
        self.history().streams.push(stream);
    }

    /// Records a fault that begins now.
    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.history().faults.push((now(), what.into()));
    }

    /// Records that the access file is about to be written without the tokens of these principals.
    pub(crate) fn removing(&self, principals: &[&'static str]) {
        let begin = now();
        let removals = principals.iter().map(|principal| Removal {
            principal,
            begin,
            in_force: NEVER,
            settled: NEVER,
            give_back: NEVER,
            end: NEVER,
        });
        self.history().removals.extend(removals);
    }

    /// Records that this time of all removals has come.
    pub(crate) fn mark(&self, time: impl Fn(&mut Removal) -> &mut Instant) {
        for time in self.history().removals.iter_mut().map(time) {
            *time = (*time).min(now());
        }
    }

    /// Records that the disk has been full.
    pub(crate) fn disk_is_full(&self) {
        self.history().disk_was_full = true;
    }

    /// Returns the history and clears the recorder.
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
            Self::HandOver {
                id, to, within_ms, ..
            } => {
                let operator = if id.is_none() { "operator: " } else { "" };
                write!(f, "{operator}hand over to {to} within {within_ms} ms")
            }
            Self::Break { period_ms: None } => f.write_str("break"),
            Self::Break {
                period_ms: Some(ms),
            } => write!(f, "break within {ms} ms"),
            Self::Delete => f.write_str("delete"),
            Self::Verify { epoch } => write!(f, "verify {epoch}"),
            Self::View => f.write_str("view"),
            Self::Poll { after, wait_ms } => write!(f, "poll after {after} for {wait_ms} ms"),
            Self::Terms => f.write_str("history"),
            Self::List => f.write_str("list"),
            Self::SignIn => f.write_str("sign in"),
        }
    }
}
