//! A connection to a shared log together with the machine that decides who owns it.
//!
//! The machine decides; this module sends what the machine asks for, byte by byte the same in each
//! attempt, and reports the outcomes. It remembers the bytes of the newest head, because an append
//! replaces a head by its exact bytes.

mod report;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tenure_core::lease::LeaseId;
use tenure_core::ownership::{
    AppendOutcome, Found, Look, Observation, OwnerId, Ownership, OwnershipOutput, OwnershipTimings,
    Refusal, Tail, TailState,
};
use tenure_core::{Instant, Random};
use tracing::{info, warn};

use self::report::Away;
use super::follow::FollowError;
use super::head::{Closed, ContentRecord, HeadError, HeadRecord, ServerRecord};
use super::leftover::{Leftover, leftover};
use super::log::{self, Append, Appended, Connect, Edit, LogError, LoggedBatch, SharedLog};
use super::serving::{OwnershipClock, Serving};
use super::status::ClusterStatus;
use super::stop::Stop;
use crate::clock;
use crate::config::ClusterAccess;
use crate::engine::AppendError;
use crate::model::StoreId;
use crate::random::OsRandom;

pub(super) use self::report::seconds;

/// The longest sleep while an append is to be repeated. A test clock advances by waits only.
const NAP: Duration = Duration::from_secs(60);

/// How long a server that starts waits for the first answer of the service. Without one it starts.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// A connection to the log, and the state of its ownership.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) log: Box<dyn SharedLog>,
    pub(super) machine: Ownership,
    pub(super) shell: Shell,
    /// The newest head: its bytes and their content.
    known: Option<(Bytes, HeadRecord)>,
    /// The last append, from its first attempt until its outcome is known.
    sent: Option<Sent>,
    /// This start of the server.
    owner: OwnerId,
    /// The number of heads in a row that another server with the same name has written.
    namesakes: u32,
    /// The store of a head that is not one of the chain.
    other_store: Option<StoreId>,
    /// The reason why the machine is barred from taking the log over, if it is.
    barred: Option<String>,
    /// The messages of the last minute, with their times: see [`Chain::is_news`].
    logged: Vec<(String, Instant)>,
    /// The failure of the last reads, if the last one failed.
    away: Option<Away>,
}

/// The surroundings of a chain.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) clock: OwnershipClock,
    pub(super) serving: Arc<Serving>,
    pub(super) status: Arc<ClusterStatus>,
    pub(super) stop: Arc<Stop>,
    /// This server, with the time of its last take-over.
    pub(super) server: ServerRecord,
    /// The service, for messages.
    pub(super) connect: Arc<dyn Connect>,
    /// The name of the server to which the log is left, if an operator named one.
    pub(super) successor: Arc<Mutex<Option<String>>>,
    pub(super) access: ClusterAccess,
}

impl Shell {
    fn take_successor(&self) -> Option<String> {
        let successor = self.successor.lock();
        successor.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the name of the service, for messages.
    pub(super) fn service(&self) -> &'static str {
        self.connect.name()
    }
}

/// An append whose outcome is not known.
#[derive(Debug)]
struct Sent {
    record: HeadRecord,
    bytes: Bytes,
    parts: Parts,
}

/// The content of an append besides the head.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The bytes of a batch.
    pub(super) batch: Option<Bytes>,
    pub(super) edits: Vec<Edit>,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) enum Attempted {
    /// The append was applied.
    Applied,
    /// The outcome is unknown; the machine asks for the same append again.
    Repeated,
    /// The append was not applied and never will be, for this reason.
    Undone(LogError),
    /// The ownership is over.
    Lost,
}

impl Chain {
    pub(super) fn new(log: Box<dyn SharedLog>, timings: OwnershipTimings, shell: Shell) -> Self {
        let random = [OsRandom.next_u64(), OsRandom.next_u64()];
        let owner = LeaseId::from_random_bits(random[0], random[1]).to_bytes();
        let owner = OwnerId(u128::from_be_bytes(owner));
        let machine = Ownership::new(timings, owner, shell.clock.now());
        Self {
            log,
            machine,
            shell,
            known: None,
            sent: None,
            owner,
            namesakes: 0,
            other_store: None,
            barred: None,
            logged: Vec::new(),
            away: None,
        }
    }

    /// Returns the newest head.
    pub(super) fn record(&self) -> Option<&HeadRecord> {
        self.known.as_ref().map(|(_, record)| record)
    }

    pub(super) fn now(&self) -> Instant {
        self.shell.clock.now()
    }

    /// Reads the head for the first time, for a server that starts. Before an operator has changed
    /// something, a server that is refused here could only wait.
    ///
    /// # Errors
    ///
    /// The service, or the content of the log, definitely permits no server of this configuration.
    pub(super) fn look_first(&mut self) -> Result<(), FollowError> {
        // The machine asks for a read when it is created.
        if self.machine.poll_output() != Some(OwnershipOutput::Look) {
            return Ok(());
        }
        let until = self.now() + FIRST_LOOK;
        let (sent, sighted) = loop {
            let sent = self.now();
            let sighted = self.log.head();
            let is_definite = matches!(sighted, Ok(_) | Err(LogError::Misconfigured(_)));
            if is_definite || self.now() >= until || self.shell.stop.is_set() {
                break (sent, sighted);
            }
            // A connection may take longer than one attempt.
            self.wait_a_poll();
        };
        let sighted = match sighted.and_then(|it| Ok((self.leftover(&it)?, it))) {
            Ok((Some(leftover), _)) => return Err(refused(leftover.to_string())),
            other => other.map(|(_, sighting)| sighting),
        };
        match &sighted {
            Err(error @ LogError::Misconfigured(_)) => return Err(error.clone().into()),
            Ok(log::Sighting {
                head: Some(head), ..
            }) => {
                let record =
                    HeadRecord::decode(head).map_err(|error| refused(error.to_string()))?;
                match self.closed(&record) {
                    Some(Closed::Guarded) => return Err(FollowError::Guarded),
                    Some(reason @ Closed::Retired) => return Err(refused(reason.to_string())),
                    // It may end at any time.
                    Some(Closed::Restoring) | None => {}
                }
            }
            _ => {}
        }
        self.saw(sent, sighted);
        match self.machine.refusal() {
            Some(refusal) => Err(refused(self.remedy(&refusal))),
            None => Ok(()),
        }
    }

    /// Takes nothing over for this reason, or again if there is none.
    pub(super) fn bar(&mut self, reason: Option<String>) {
        self.machine.bar(reason.is_some());
        self.barred = reason;
    }

    /// Reads the head for the machine.
    pub(super) fn look(&mut self) {
        let sent = self.now();
        let sighted = self.log.head().and_then(|it| match self.leftover(&it)? {
            None => Ok(it),
            Some(leftover) => Err(LogError::Misconfigured(leftover.to_string())),
        });
        self.saw(sent, sighted);
    }

    /// Returns what a log without a head still has, if this server has never seen a head.
    fn leftover(&mut self, seen: &log::Sighting) -> Result<Option<Leftover>, LogError> {
        if seen.head.is_some() || self.known.is_some() {
            return Ok(None);
        }
        let Some(leftover) = leftover(&mut *self.log)? else {
            return Ok(None);
        };
        // Another server may have begun the log meanwhile. Then the machine learns of its head at
        // the next read, or by an append that is refused.
        let again = self.log.head()?;
        Ok(again.head.is_none().then_some(leftover))
    }

    /// Handles the answer to a read of the head, which was sent at this instant.
    fn saw(&mut self, sent: Instant, sighted: Result<log::Sighting, LogError>) {
        // The instant of the answer: argument 4 of the ownership counts from here.
        let now = self.now();
        let read = sighted.and_then(|sighting| {
            let record = parse(&sighting)?;
            Ok((sighting, record))
        });
        match read {
            Err(error) => {
                let is_logged = self.note_error(Some(&error));
                self.note_away(now, &error, is_logged);
                self.machine.handle_tail(now, Look::Failed);
            }
            Ok((sighting, found)) => {
                self.note_error(None);
                self.note_back(now);
                let took = now.since(sent);
                self.shell.status.change(|view| view.note_call(took));
                let look = Look::Found(self.core_observation(&sighting, &found));
                self.note_store(&found);
                self.machine.handle_tail(now, look);
                self.note_head(sighting, found);
            }
        }
    }

    /// Begins an append with this head, which the machine returned.
    pub(super) fn prepare(&mut self, head: Tail, content: ContentRecord, parts: Parts) {
        let server = self.shell.server.clone();
        let record = HeadRecord {
            head,
            content,
            server,
            successor: match head.state {
                TailState::Vacant => self.shell.take_successor(),
                _ => None,
            },
            note: None,
        };
        // The bytes have the time of the first attempt, and stay the same in each further one.
        let bytes = record.encode(clock::wall());
        self.sent = Some(Sent {
            record,
            bytes,
            parts,
        });
    }

    /// Returns whether this is the head of the append that was prepared last, whose outcome is not
    /// known.
    pub(super) fn is_prepared(&self, head: Tail) -> bool {
        self.sent
            .as_ref()
            .is_some_and(|sent| sent.record.head == head)
    }

    /// Sends the prepared append once.
    pub(super) fn attempt(&mut self) -> Attempted {
        let Some(sent) = &self.sent else {
            return Attempted::Lost;
        };
        let sequence = sent.record.head.sequence;
        debug_assert_eq!(
            self.record().map(|it| self.head_for_machine(it)),
            self.machine.known()
        );
        let append = Append {
            expected: self.known.as_ref().map(|(bytes, _)| bytes.as_ref()),
            head: &sent.bytes,
            batch: sent
                .parts
                .batch
                .clone()
                .map(|bytes| LoggedBatch { sequence, bytes }),
            edits: &sent.parts.edits,
            keep_from: sent.record.content.kept,
        };
        let began = self.now();
        let answer = self.log.append(&append);
        let now = self.now();
        let mut refused_by = None;
        let mut failure = None;
        let outcome = match answer {
            Ok(Appended::Done) => AppendOutcome::Committed,
            Ok(Appended::Refused(sighting)) => match parse(&sighting) {
                Ok(found) => {
                    let outcome =
                        AppendOutcome::Superseded(self.core_observation(&sighting, &found));
                    self.note_store(&found);
                    refused_by = Some((sighting, found));
                    outcome
                }
                // Another program has replaced the head, so this proves nothing about this append.
                Err(error) => {
                    failure = Some(error);
                    AppendOutcome::Unknown
                }
            },
            Err(error) => {
                let is_unknown = matches!(error, LogError::Unknown(_));
                failure = Some(error);
                match is_unknown {
                    true => AppendOutcome::Unknown,
                    false => AppendOutcome::Refused,
                }
            }
        };
        self.note_error(failure.as_ref());
        self.count(&outcome, now.since(began));
        let fate = self.machine.handle_appended(now, outcome);
        let attempted = match fate {
            AppendOutcome::Committed => {
                self.namesakes = 0;
                self.known = self.sent.take().map(|sent| (sent.bytes, sent.record));
                Attempted::Applied
            }
            AppendOutcome::Unknown => Attempted::Repeated,
            AppendOutcome::Refused => {
                self.sent = None;
                let error = LogError::NotApplied("the service refused".into());
                Attempted::Undone(failure.unwrap_or(error))
            }
            AppendOutcome::Superseded(_) => {
                self.sent = None;
                if let Some((sighting, found)) = refused_by {
                    self.note_head(sighting, found);
                }
                Attempted::Lost
            }
        };
        self.publish();
        attempted
    }

    /// Sends the prepared append until its outcome is known, as the owner.
    ///
    /// # Errors
    ///
    /// The append was not applied, the ownership is over, or the server stops meanwhile.
    pub(super) fn append(&mut self) -> Result<(), AppendError> {
        loop {
            match self.attempt() {
                Attempted::Applied => {
                    self.drain();
                    return Ok(());
                }
                Attempted::Undone(error) => {
                    self.drain();
                    return Err(match error {
                        LogError::Full(detail) => AppendError::DiskFull(detail),
                        other => AppendError::Busy(other.to_string()),
                    });
                }
                Attempted::Lost => return Err(self.not_owner()),
                Attempted::Repeated => self.wait_for_repeat()?,
            }
        }
    }

    /// Waits until the machine asks for the append again.
    fn wait_for_repeat(&mut self) -> Result<(), AppendError> {
        loop {
            self.machine.handle_timeout(self.now());
            if let Some(head) = self.drain() {
                debug_assert!(self.is_prepared(head), "another append: {head:?}");
                return Ok(());
            }
            if self.shell.stop.is_set() {
                let detail = "the server stops, and the outcome of an append is unknown";
                return Err(AppendError::Unknown(detail.into()));
            }
            self.wait();
        }
    }

    /// Handles the outputs of the machine of an owner. Returns the head of an append that it asks
    /// for.
    pub(super) fn drain(&mut self) -> Option<Tail> {
        let mut append = None;
        while let Some(output) = self.machine.poll_output() {
            match output {
                OwnershipOutput::Append(head) => append = Some(head),
                OwnershipOutput::Lapsed => self.lapsed(),
                OwnershipOutput::Resumed => {
                    self.forget(self.now());
                    info!("an append to {} succeeded again", self.shell.service());
                }
                OwnershipOutput::Deposed => self.deposed(),
                // These concern a server that follows.
                OwnershipOutput::Look | OwnershipOutput::Took { .. } => {}
                OwnershipOutput::Refuses(refusal) => self.refuse(&refusal),
            }
        }
        self.publish();
        append
    }

    /// Waits until the machine has something to do, or the server stops.
    pub(super) fn wait(&self) {
        let until = self.machine.next_timeout();
        let now = self.now();
        let left = until.map_or(NAP, |until| until.since(now)).min(NAP);
        self.shell.clock.wait(left, &self.shell.stop);
    }

    /// Gives the log to the other servers. Nothing that the store acknowledged is lost: the caller
    /// has appended everything.
    pub(super) fn leave(&mut self) {
        self.machine.resign();
        self.publish();
        let until = self.now() + self.machine.timings().ownership();
        loop {
            // An append may be under way, or a take-over.
            if self.sent.is_none() {
                let Some(head) = self.machine.vacate(self.now()) else {
                    return;
                };
                let Some(content) = self.record().map(|record| record.content.clone()) else {
                    return;
                };
                self.prepare(head, content, Parts::default());
            }
            match self.attempt() {
                Attempted::Applied
                    if self
                        .record()
                        .is_some_and(|it| it.head.state == TailState::Vacant) =>
                {
                    let to = self.record().and_then(|it| it.successor.as_deref());
                    let to = to.unwrap_or("any server");
                    info!("handed the leases over: {to} may take over at once");
                    self.drain();
                    return;
                }
                Attempted::Lost => return,
                Attempted::Applied => drop(self.drain()),
                Attempted::Undone(_) => self.wait_a_poll(),
                Attempted::Repeated => {
                    while self.drain().is_none() && self.now() < until && !self.shell.stop.is_set()
                    {
                        self.wait();
                        self.machine.handle_timeout(self.now());
                    }
                }
            }
            if self.now() >= until || self.shell.stop.is_set() {
                warn!(
                    "{} does not answer, so the leases were not handed over: another server takes \
                     over after the ownership duration",
                    self.shell.service()
                );
                return;
            }
        }
    }

    /// Returns the head of a record as the machine gets it. A vacant head that is left to another
    /// server is like one of an owner: this server takes over only if no other server does for T.
    fn head_for_machine(&self, record: &HeadRecord) -> Tail {
        let me = &self.shell.server.name;
        let is_for_another = record.successor.as_ref().is_some_and(|it| it != me);
        match record.head.state {
            // To the machine, a log that this server must not own is like one that was moved.
            _ if self.closed(record) == Some(Closed::Guarded) => Tail {
                state: TailState::Retired,
                ..record.head
            },
            TailState::Vacant if is_for_another && record.server.name != *me => Tail {
                state: TailState::Owned,
                ..record.head
            },
            _ => record.head,
        }
    }

    /// Returns a sighting as the machine gets it.
    fn core_observation(&self, sighting: &log::Sighting, parsed: &Parsed) -> Observation {
        Observation {
            engine: sighting.engine,
            found: match parsed {
                Parsed::Empty => Found::Empty,
                Parsed::Head(record) => Found::Tail(self.head_for_machine(record)),
                Parsed::NewerFormat(found) => {
                    Found::Unusable(Refusal::NewerFormat { found: *found })
                }
            },
        }
    }

    fn wait_a_poll(&self) {
        let poll = self.machine.timings().poll();
        self.shell.clock.wait(poll, &self.shell.stop);
    }

    pub(super) fn not_owner(&self) -> AppendError {
        AppendError::NotOwner(self.owner())
    }

    /// Returns which server owns the log, or why none does.
    fn owner(&self) -> String {
        match self.record() {
            Some(record) => match record.closed() {
                Some(reason) => reason.to_string(),
                None => format!(
                    "{} is active as generation {}",
                    record.server.name, record.head.generation
                ),
            },
            None => "the log is empty".into(),
        }
    }

    /// Returns why this server does not take over the log with this head, if that is so.
    fn closed(&self, record: &HeadRecord) -> Option<Closed> {
        let opens = self.shell.access == ClusterAccess::Anonymous && record.content.is_guarded;
        record.closed().or_else(|| opens.then_some(Closed::Guarded))
    }

    /// Notes whether a head is of another store than the known one.
    fn note_store(&mut self, found: &Parsed) {
        let known = self.record().map(|known| &known.content.store);
        self.other_store = match (found, known) {
            (Parsed::Head(record), Some(known)) if record.content.store != *known => {
                Some(record.content.store.clone())
            }
            _ => None,
        };
    }

    /// Remembers the bytes of a head, if it is the one that the machine knows.
    fn note_head(&mut self, sighting: log::Sighting, found: Parsed) {
        let (Some(bytes), Parsed::Head(record)) = (sighting.head, found) else {
            return;
        };
        if self.machine.known() == Some(self.head_for_machine(&record)) {
            self.note_namesake(&bytes, &record);
            if let Some(reason) = self.closed(&record)
                && self.record().and_then(|it| self.closed(it)) != Some(reason)
            {
                warn!("taking nothing over: {reason}");
            }
            self.known = Some((bytes, *record));
        }
    }
}

/// The content of a sighting.
enum Parsed {
    Empty,
    Head(Box<HeadRecord>),
    NewerFormat(u32),
}

fn parse(sighting: &log::Sighting) -> Result<Parsed, LogError> {
    let Some(bytes) = &sighting.head else {
        return Ok(Parsed::Empty);
    };
    match HeadRecord::decode(bytes) {
        Ok(record) => Ok(Parsed::Head(record.into())),
        Err(HeadError::Newer { found }) => Ok(Parsed::NewerFormat(found)),
        Err(error @ HeadError::NotValid(_)) => Err(LogError::Misconfigured(error.to_string())),
    }
}

fn refused(reason: String) -> FollowError {
    FollowError::Refused(reason)
}

/// Returns the reason of a refusal with its remedy. The head may be of another store than before.
fn remedy(connect: &dyn Connect, refusal: &Refusal, other_store: Option<&StoreId>) -> String {
    match (refusal, other_store) {
        (Refusal::OtherEngine { written, answering }, _) => {
            connect.other_engine(*written, *answering)
        }
        (Refusal::WentBack { .. }, Some(store)) => format!(
            "the log has another store now, {}: a restored backup, or the log of another cluster. If \
             that is right, restart this server",
            store.as_str()
        ),
        (Refusal::WentBack { found: None, .. }, _) => format!(
            "{refusal}. Stop all servers, and restore a backup into another prefix, schema or cluster \
             name"
        ),
        (Refusal::WentBack { .. }, None) => {
            format!("{refusal}. Stop all servers, then: tenure cluster recover")
        }
        (Refusal::NewerFormat { found }, _) => HeadError::Newer { found: *found }.to_string(),
        (Refusal::SlotDeleted { .. } | Refusal::SlotDamaged { .. }, _) => refusal.to_string(),
    }
}
