//! The task that keeps the log short: it writes segments and snapshots while the owner appends.
//!
//! It has a replica of what is committed, so a snapshot needs no lock, contains nothing that is not
//! durable, and repairs files that the home has lost.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Bytes;
use tenure_core::Instant;
use tenure_core::ring::{Base, FileId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::serving::OwnershipClock;
use crate::engine::entry::Position;
use crate::engine::replica::Replica;
use crate::engine::ring::{BaseError, BaseFiles, LogFiles, SlotValue};

/// The size of the segments from which a snapshot is written instead, in bytes, unless half of the
/// last snapshot is larger. So a byte is written at most four times.
const LEAST_SNAPSHOT: usize = 32 << 20;

/// The greatest number of files of a base: the newest one has the list.
const MOST_FILES: usize = 2_048;

/// The interval of the home's own work.
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);

/// The times of the files of a log.
#[derive(Clone, Debug)]
pub(super) struct FileTimes {
    /// How long files are kept that a newer base has replaced, for servers that still read them.
    pub(super) keep: Duration,
    /// The interval at which the files of the base are read again.
    pub(super) check_every: Duration,
    /// The clock that measures them.
    pub(super) clock: OwnershipClock,
}

impl Default for FileTimes {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(600),
            check_every: Duration::from_secs(3_600),
            clock: OwnershipClock::System,
        }
    }
}

/// A base that is complete, or the reason why there is none.
pub(super) type Written = Result<Base, String>;

/// A task that was not started yet. It stays on the thread that starts it.
#[derive(Debug)]
pub(super) struct WriterTask(Writing, UnboundedReceiver<Work>, oneshot::Sender<Replica>);

impl WriterTask {
    pub(super) async fn start(self) {
        let Self(writing, work, replica) = self;
        let _ = replica.send(writing.run(work).await);
    }
}

/// The task, as the owner of the log sees it.
#[derive(Debug)]
pub(super) struct BaseWriter {
    work: UnboundedSender<Work>,
    /// The base that is being written.
    written: Option<oneshot::Receiver<Written>>,
    clock: OwnershipClock,
}

#[derive(Debug)]
enum Work {
    /// An entry was committed.
    Committed(Position, Bytes),
    /// Write a base with everything that was committed.
    Write(oneshot::Sender<Written>),
    /// An entry names the base that was written last.
    Named(Base),
}

/// The state of the task.
#[derive(Debug)]
struct Writing {
    files: LogFiles,
    replica: Replica,
    /// The entries that no named base has.
    entries: VecDeque<(Position, Bytes)>,
    /// The files of the named base. `None` makes the next base a snapshot: the files were written by
    /// another server, or are damaged.
    base: Option<BaseFiles>,
    /// The base that was written and is not named.
    next: Option<(Base, BaseFiles)>,
    /// The bases that were named, with the times.
    named: VecDeque<(Instant, Base, Vec<FileId>)>,
    maintain_at: Instant,
    check_at: Instant,
    times: FileTimes,
}

impl BaseWriter {
    /// Creates the task of a server that has just taken over. It returns its replica when this is dropped.
    pub(super) fn create(
        files: LogFiles,
        replica: Replica,
        times: FileTimes,
    ) -> (Self, WriterTask, oneshot::Receiver<Replica>) {
        let (work, received) = unbounded_channel();
        let (returning, returned) = oneshot::channel();
        let clock = times.clock.clone();
        let writing = Writing {
            files,
            replica,
            entries: VecDeque::new(),
            base: None,
            next: None,
            named: VecDeque::new(),
            maintain_at: clock.now(),
            check_at: clock.now() + times.check_every,
            times,
        };
        let writer = Self {
            work,
            written: None,
            clock,
        };
        (writer, WriterTask(writing, received, returning), returned)
    }

    /// Adds an entry that was committed.
    pub(super) fn committed(&self, value: &SlotValue) {
        let work = Work::Committed(value.position, value.entry.clone());
        let _ = self.work.send(work);
    }

    /// Begins a base, unless one is being written.
    pub(super) fn begin(&mut self) {
        if self.written.is_none() {
            let (answer, written) = oneshot::channel();
            self.written = self.work.send(Work::Write(answer)).ok().map(|()| written);
        }
    }

    /// Returns the base that was written meanwhile, after at most this time.
    pub(super) async fn written(
        &mut self,
        within: Duration,
        stop: &CancellationToken,
    ) -> Option<Written> {
        let written = tokio::select! {
            biased;
            written = self.written.as_mut()? => written,
            () = self.clock.wait(within, stop) => return None,
        };
        self.written = None;
        Some(written.unwrap_or_else(|_| Err("its task has ended".into())))
    }

    /// Notes that an entry names this base.
    pub(super) fn named(&self, base: Base) {
        let _ = self.work.send(Work::Named(base));
    }
}

impl Writing {
    async fn run(mut self, mut work: UnboundedReceiver<Work>) -> Replica {
        let (clock, never) = (self.times.clock.clone(), CancellationToken::new());
        loop {
            let received = tokio::select! {
                biased;
                received = work.recv() => Some(received),
                () = clock.wait(MAINTAIN_EVERY, &never) => None,
            };
            match received {
                Some(Some(Work::Committed(position, entry))) => {
                    if let Err(detail) = self.replica.apply(&entry) {
                        error!(
                            detail,
                            "no snapshot can be written: the copy of the log is wrong"
                        );
                        // The next owner reads the log.
                        return Replica::default();
                    }
                    self.entries.push_back((position, entry));
                }
                Some(Some(Work::Write(answer))) => drop(answer.send(self.write().await)),
                Some(Some(Work::Named(base))) => self.note_named(base),
                Some(None) => return self.replica,
                None => {}
            }
            if clock.now() >= self.maintain_at {
                self.files.home.maintain().await;
                self.maintain_at = clock.now() + MAINTAIN_EVERY;
            }
            self.delete().await;
            self.check().await;
        }
    }

    fn now(&self) -> Instant {
        self.times.clock.now()
    }

    /// Writes a base.
    async fn write(&mut self) -> Written {
        let most = |base: &&BaseFiles| {
            base.segment_bytes < LEAST_SNAPSHOT.max(base.snapshot_bytes / 2)
                && base.names.len() < MOST_FILES
        };
        let (base, files) = match self.base.as_ref().filter(most) {
            Some(base) => {
                let entries = self.entries.make_contiguous();
                let written = self.files.write_segment(base, entries).await;
                written.map_err(|failure| failure.to_string())?
            }
            None => {
                let began = self.now();
                let written = self.files.write_state(&mut self.replica).await;
                let (base, files) = written.map_err(|error| error.to_string())?;
                info!(
                    entry = base.covered,
                    bytes = files.snapshot_bytes,
                    milliseconds = self.now().since(began).as_millis() as u64,
                    "made a snapshot of the log"
                );
                (base, files)
            }
        };
        self.next = Some((base, files));
        Ok(base)
    }

    fn note_named(&mut self, base: Base) {
        let Some((_, files)) = self.next.take_if(|(next, _)| *next == base) else {
            return;
        };
        let covered = base.covered;
        self.entries.retain(|(it, _)| it.sequence > covered);
        let ids = files.names.iter().rev().map(|name| name.id).collect();
        self.named.push_back((self.now(), base, ids));
        self.base = Some(files);
    }

    /// Deletes the files that a base has replaced which was named some time ago.
    async fn delete(&mut self) {
        let (mut passed, now) = (None, self.now());
        let is_due = |(at, ..): &(Instant, _, _)| now.since(*at) >= self.times.keep;
        while self.named.front().is_some_and(is_due) {
            passed = self.named.pop_front();
        }
        let Some((_, base, ids)) = passed else {
            return;
        };
        let deleted = async {
            let mut files = self.files.list().await?;
            files.retain(|file| base.supersedes(&ids, file.id, file.covered));
            self.files.delete(&files).await
        };
        if let Err(failure) = deleted.await {
            warn!(%failure, "old files of the log stay for now");
        }
    }

    /// Reads the files of the base, now and then. If one is missing or damaged, the next base is a
    /// snapshot.
    async fn check(&mut self) {
        let now = self.now();
        let Some((_, base, _)) = self.named.back().filter(|_| now >= self.check_at) else {
            return;
        };
        self.check_at = now + self.times.check_every;
        match self.files.read_base(*base, 0).await {
            Err(error @ (BaseError::Missing(_) | BaseError::Damaged(_))) => {
                error!(%error, "a file of the log can't be used: a new snapshot replaces it");
                self.base = None;
                // A segment that is not named yet has the same files before it.
                self.next = None;
            }
            Ok(_) | Err(BaseError::Home(_)) => {}
        }
    }
}
