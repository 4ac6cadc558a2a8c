//! The audit log: the acts of operators and administrators, as JSON lines in a file or on stderr.
//!
//! The log contains operators' changes, refused credentials, reloads, starts, stops and restores,
//! and optionally the grants and ends of all terms. It never stops elections: a line that can't be
//! written is counted and lost. `docs/audit.md` describes the fields.
//!
//! ```text
//! requests, commit thread --> bounded queue --> writer (a thread) --> log (file, chain of hashes)
//! ```

mod entry;
mod log;
mod repeats;
mod verify;
mod writer;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::wire::{Code, Problem};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::error;

use self::log::Log;
use self::repeats::Repeats;
use self::writer::Writer;
use crate::metrics::{Exposition, Sample};
use crate::model::{LeaseChange, Sink};
use crate::shares::{Share, Shares, Tenant};

pub use self::entry::{AuditEntry, AuditKind};
pub use self::verify::{CutLine, Verified, VerifyError, verify};

/// The maximum number of queued lines about changes of leases, and also of all other queued lines.
/// The two limits are separate, so grants that come faster than the disk writes cost no line of an
/// operator. Principals share the lines about changes, and each of them leaves as many to others.
const QUEUE: usize = 4096;

/// The maximum number of operators' acts at a time, which principals share. Each of them needs one
/// line of the queue for other lines, and half of that queue is left for lines without a share.
const ACTS: usize = QUEUE / 2;

/// The number of sign-ins of a principal in a minute that have lines of their own, and of refused
/// acts: more than a person makes, and few for the disk.
const BURST: u32 = 10;

/// The time for which an answer waits for its line. A disk that takes longer is broken. The command
/// waits five seconds for an answer, so it still learns that the change is done.
const WRITE_TIME: Duration = Duration::from_secs(3);

/// The destination of audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// A file, which is created again if it is renamed or deleted.
    File(PathBuf),
    /// Standard error, for containers.
    Stderr,
}

/// The acts that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Operators' changes, refused credentials, reloads, starts, stops and restores.
    Operators,
    /// All of the above, and the grants and ends of all terms.
    Changes,
}

/// The settings of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The destination of the lines.
    pub target: AuditTarget,
    /// The acts that are recorded.
    pub level: AuditLevel,
    /// `true` if operators' changes are refused while lines can't be written. Elections continue in
    /// any case.
    pub is_required: bool,
}

impl AuditConfig {
    /// Creates the configuration of a log that records operators' acts and is not required.
    #[must_use]
    pub const fn new(target: AuditTarget) -> Self {
        Self {
            target,
            level: AuditLevel::Operators,
            is_required: false,
        }
    }

    /// Checks that the log can be opened, without creating its file.
    ///
    /// # Errors
    ///
    /// The errors of [`Audit::open`].
    pub fn check(&self) -> io::Result<()> {
        match &self.target {
            AuditTarget::Stderr => Ok(()),
            AuditTarget::File(path) => log::check(path),
        }
    }
}

/// An audit log. Clones are handles to the same log.
#[derive(Clone, Debug, Default)]
pub struct Audit(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    lines: SyncSender<Line>,
    level: AuditLevel,
    is_required: bool,
    state: Arc<State>,
}

/// The state that the writer shares with the handles.
#[derive(Debug)]
struct State {
    /// `true` if the last line could not be written.
    is_failing: AtomicBool,
    /// The numbers of lines that were written and that were lost since the start.
    written: AtomicU64,
    lost: AtomicU64,
    /// The queued lines about changes.
    changes: Shares<Tenant>,
    /// `true` if the queue had no room for the last change.
    is_behind: AtomicBool,
    /// The operators' acts, until their lines are written.
    acts: Shares<Tenant>,
    /// The refused credentials by address, and the sign-ins and refused acts by principal.
    refusals: Repeats,
    sign_ins: Repeats,
    refused_acts: Repeats,
}

impl Default for State {
    fn default() -> Self {
        Self {
            is_failing: AtomicBool::default(),
            written: AtomicU64::default(),
            lost: AtomicU64::default(),
            changes: Shares::new(QUEUE),
            is_behind: AtomicBool::default(),
            acts: Shares::new(ACTS),
            refusals: Repeats::with_burst(1),
            sign_ins: Repeats::with_burst(BURST),
            refused_acts: Repeats::with_burst(BURST),
        }
    }
}

/// A line to write.
#[derive(Debug)]
struct Line {
    entry: AuditEntry,
    /// The place in the queue or among the acts, which is free again when the line is written.
    place: Option<AuditPlace>,
    /// The answer that waits until the line is on disk. It gets whether the line is on disk.
    answer: Option<oneshot::Sender<bool>>,
}

/// The place of a principal's line.
pub(crate) type AuditPlace = Share<Tenant>;

impl Audit {
    /// Creates a handle that records nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Opens the audit log, and starts the thread that writes it.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or its end contains no audit line.
    pub fn open(config: AuditConfig) -> io::Result<Self> {
        let log = Log::open(config.target)?;
        let (lines, received) = sync_channel(2 * QUEUE);
        let state = Arc::<State>::default();
        let writer = Writer::new(log, received, Arc::clone(&state));
        thread::Builder::new()
            .name("tenure-audit".into())
            .spawn(|| writer.run())?;
        Ok(Self(Some(Arc::new(Shared {
            lines,
            level: config.level,
            is_required: config.is_required,
            state,
        }))))
    }

    /// Refuses an operator's change that cannot be recorded, if the log is required.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        match &self.0 {
            Some(shared)
                if shared.is_required && shared.state.is_failing.load(Ordering::Relaxed) =>
            {
                let detail = "the audit log can't be written, and this change needs it";
                Err(Problem::new(Code::HomeUnavailable, detail))
            }
            _ => Ok(()),
        }
    }

    /// Takes the place of an operator's line before the act, so that an act that is done has a line.
    pub(crate) fn begin_act(&self, client: &Tenant) -> Result<Option<AuditPlace>, Problem> {
        let shared = self.0.as_ref();
        let place = shared.map(|shared| shared.state.acts.admit(client, "acts of operators"));
        place.transpose()
    }

    /// Queues a line and does not wait until it is written.
    pub fn record(&self, entry: AuditEntry) {
        if let Some(shared) = &self.0 {
            shared.send(Line::of(entry));
        }
    }

    /// Writes a line, and waits until it is on disk or lost, for three seconds at most. Returns
    /// whether the line is on disk.
    pub async fn record_now(&self, entry: AuditEntry) -> bool {
        self.record_act(entry, None).await
    }

    /// Like [`record_now`](Self::record_now), with the place of the line.
    pub(crate) async fn record_act(&self, entry: AuditEntry, place: Option<AuditPlace>) -> bool {
        let Some(shared) = &self.0 else {
            return false;
        };
        let (written, is_written) = oneshot::channel();
        shared.send(Line {
            place,
            answer: Some(written),
            ..Line::of(entry)
        });
        match timeout(WRITE_TIME, is_written).await {
            Ok(Ok(is_written)) => is_written,
            Ok(Err(_)) => false,
            Err(_) => {
                shared.state.is_failing.store(true, Ordering::Relaxed);
                error!(
                    "the audit log takes longer than {WRITE_TIME:?} for a line; elections go on"
                );
                false
            }
        }
    }

    /// Returns whether grants and ends of terms are recorded.
    fn has_changes(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| shared.level == AuditLevel::Changes)
    }

    /// Records refused credentials of an address: one line a minute, with the number of refusals.
    /// `request` is the id of one of the refused requests.
    pub(crate) fn record_refusal(
        &self,
        address: Option<IpAddr>,
        outcome: &'static str,
        request: impl FnOnce() -> String,
    ) {
        if let Some(shared) = &self.0 {
            let entry = || {
                AuditEntry::new(AuditKind::Credential, outcome)
                    .of_address(address)
                    .of_request(Some(request()))
                    .with_count(1)
            };
            let (client, refusals) = (Tenant::of(None, address), &shared.state.refusals);
            let line = refusals.line(&client, Instant::now(), entry);
            line.into_iter().for_each(|line| self.record(line));
        }
    }

    /// Records a sign-in of a principal. Beyond a few, one line a minute has the number of them.
    pub(crate) fn record_sign_in(&self, client: &Tenant, entry: AuditEntry) {
        if let Some(shared) = &self.0 {
            let line = shared.state.sign_ins.line(client, Instant::now(), || entry);
            line.into_iter().for_each(|line| self.record(line));
        }
    }

    /// Records a refused act of an operator. Beyond a few, one line a minute has the number of them.
    pub(crate) async fn record_refused_act(&self, client: &Tenant, entry: AuditEntry) {
        if let Some(shared) = &self.0 {
            let refused = &shared.state.refused_acts;
            if let Some(line) = refused.line(client, Instant::now(), || entry) {
                self.record_now(line).await;
            }
        }
    }

    /// Adds the numbers of lines.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let state = self.0.as_ref().map(|shared| &shared.state);
        let written = state.map_or(0, |state| state.written.load(Ordering::Relaxed));
        out.counter(
            "tenure_audit_lines_total",
            "Lines that were written to the audit log.",
            [Sample::count(written)],
        );
        out.counter(
            "tenure_audit_lost_total",
            "Lines of the audit log that were lost because they could not be written.",
            [Sample::count(self.lost())],
        );
    }

    /// Returns the number of lines lost since the start.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let shared = self.0.as_ref();
        shared.map_or(0, |shared| shared.state.lost.load(Ordering::Relaxed))
    }
}

/// The log is opened after the store.
impl Sink for OnceLock<Audit> {
    /// Queues lines for the grants and ends of terms. The function never blocks.
    fn committed(&self, changes: &[LeaseChange]) {
        let audit = self.get().filter(|audit| audit.has_changes());
        let Some(shared) = audit.and_then(|audit| audit.0.as_ref()) else {
            return;
        };
        for change in changes {
            if let Some(entry) = AuditEntry::of_change(change) {
                let owner = change.grant().and_then(|grant| grant.owner.as_ref());
                shared.send_change(&Tenant::of(owner, None), entry);
            }
        }
    }
}

impl Line {
    /// A line without a place, for which no answer waits.
    const fn of(entry: AuditEntry) -> Self {
        Self {
            entry,
            place: None,
            answer: None,
        }
    }
}

impl Shared {
    fn send(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.state.lost.fetch_add(1, Ordering::Relaxed);
            if !self.state.is_failing.swap(true, Ordering::Relaxed) {
                error!("the audit log is {QUEUE} lines behind: lines are lost; elections go on");
            }
        }
    }

    /// Queues the line of a change by this client.
    fn send_change(&self, client: &Tenant, entry: AuditEntry) {
        let state = &self.state;
        let place = state.changes.admit(client, "queued lines of changes");
        let queued = place.and_then(|place| {
            let line = Line {
                place: Some(place),
                ..Line::of(entry)
            };
            let full = |_| Problem::new(Code::OverLimit, "the writer has ended");
            self.lines.try_send(line).map_err(full)
        });
        let Err(Problem { detail, .. }) = queued else {
            return state.is_behind.store(false, Ordering::Relaxed);
        };
        state.lost.fetch_add(1, Ordering::Relaxed);
        if !state.is_behind.swap(true, Ordering::Relaxed) {
            error!("the audit log is behind: {detail}; lines are lost; elections go on");
        }
    }
}

#[cfg(test)]
mod tests;
