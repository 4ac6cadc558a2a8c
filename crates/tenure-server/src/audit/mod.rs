//! The audit log: who did what to the store, as JSON lines in a file or on stderr.
//!
//! It has operators' changes, refused credentials, reloads, starts and stops. It never stops
//! elections: a line that can't be written is counted and lost. `docs/audit.md` describes the
//! fields.

mod entry;
mod log;
mod refusals;
mod verify;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tenure_core::wire::{Code, Problem};
use tokio::sync::oneshot;
use tracing::error;

use self::log::Log;
use self::refusals::Refusals;

pub use self::entry::{AuditEntry, AuditKind};
pub use self::verify::{Verified, VerifyError, verify};

/// Most lines that wait to be written.
const QUEUE: usize = 4096;

/// The destination of audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// A file, which is made again if it is renamed or deleted.
    File(PathBuf),
    /// Standard error, for containers.
    Stderr,
}

/// An audit log. Clones are handles to the same one.
#[derive(Clone, Debug, Default)]
pub struct Audit(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    lines: SyncSender<Line>,
    /// Whether operators' changes are refused while lines can't be written.
    is_required: bool,
    /// Whether the last line could not be written.
    is_failing: AtomicBool,
    lost: AtomicU64,
    refusals: Refusals,
}

/// A line to write, and who waits until it is on disk.
struct Line {
    entry: AuditEntry,
    written: Option<oneshot::Sender<()>>,
}

impl Audit {
    /// No audit log.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Writes lines to `target`. With `is_required`, operators' changes are refused while lines
    /// can't be written; elections go on in any case.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or its last line is not an audit line.
    pub fn open(target: AuditTarget, is_required: bool) -> io::Result<Self> {
        let log = Log::open(target)?;
        let (lines, received) = sync_channel(QUEUE);
        let shared = Arc::new(Shared {
            lines,
            is_required,
            is_failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            refusals: Refusals::default(),
        });
        let weak = Arc::downgrade(&shared);
        thread::Builder::new().name("audit".into()).spawn(move || {
            write_all(log, &received, |is_written| {
                if let Some(shared) = weak.upgrade() {
                    shared.is_failing.store(!is_written, Ordering::Relaxed);
                    if !is_written {
                        shared.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        })?;
        Ok(Self(Some(shared)))
    }

    /// Refuses an operator's change that could not be recorded, if it must be.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        match &self.0 {
            Some(shared) if shared.is_required && shared.is_failing.load(Ordering::Relaxed) => {
                let detail = "the audit log can't be written, and this change needs it";
                Err(Problem::new(Code::EngineUnavailable, detail))
            }
            _ => Ok(()),
        }
    }

    /// Writes a line when there is time for it.
    pub fn record(&self, entry: AuditEntry) {
        if let Some(shared) = &self.0 {
            shared.send(Line {
                entry,
                written: None,
            });
        }
    }

    /// Writes a line, and waits until it is on disk or lost.
    pub async fn record_now(&self, entry: AuditEntry) {
        let Some(shared) = &self.0 else {
            return;
        };
        let (written, is_written) = oneshot::channel();
        shared.send(Line {
            entry,
            written: Some(written),
        });
        // The thread lives as long as this handle.
        let _ = is_written.await;
    }

    /// Records refused credentials of an address: one line a minute, with their number.
    pub(crate) fn record_refusal(&self, address: Option<IpAddr>, outcome: &'static str) {
        if let Some(shared) = &self.0
            && let Some(count) = shared.refusals.count(address)
        {
            let entry = AuditEntry::new(AuditKind::Credential, outcome);
            self.record(entry.of_address(address).with_count(count));
        }
    }

    /// Returns the number of lines lost since the start.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let shared = self.0.as_ref();
        shared.map_or(0, |shared| shared.lost.load(Ordering::Relaxed))
    }
}

impl Shared {
    fn send(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes lines until no handle is left. Lines that come together are synced together.
fn write_all(mut log: Log, lines: &Receiver<Line>, on_written: impl Fn(bool)) {
    let mut was_failing = false;
    while let Ok(first) = lines.recv() {
        let mut waiting = Vec::new();
        let mut result = Ok(());
        let mut count = 0;
        for line in std::iter::once(first).chain(lines.try_iter().take(QUEUE)) {
            let appended = log.append(&line.entry);
            result = result.and(appended);
            waiting.extend(line.written);
            count += 1;
        }
        let result = result.and_then(|()| log.sync());
        for _ in 0..count {
            on_written(result.is_ok());
        }
        if let (Err(error), false) = (&result, was_failing) {
            error!(%error, "can't write the audit log: lines are lost; elections go on");
        }
        was_failing = result.is_err();
        for written in waiting {
            // The request may have gone.
            let _ = written.send(());
        }
    }
}

#[cfg(test)]
mod tests;
