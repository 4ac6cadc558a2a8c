//! The snapshots that a running store makes of its log.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{error, info};

use super::folder::{Files, Folder, size};
use super::reading::Reading;
use crate::engine::OpenError;
use crate::engine::replica::LeaseOf;
use crate::model::HistoryLimits;

/// The size of the complete files of the log from which a snapshot is made, in bytes. Above it, they
/// have half of the size of the last snapshot. So each byte is written three times in all, and a start
/// reads at most one and a half snapshots.
const LEAST: u64 = 32 << 20;

/// The number of complete files of the log from which a snapshot is made: each start begins a new one.
const MOST_FILES: usize = 16;

/// The time after a failed snapshot until the next one.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Makes snapshots in a thread, one at a time.
#[derive(Debug)]
pub(super) struct Snapshots {
    folder: PathBuf,
    history: HistoryLimits,
    running: Option<JoinHandle<Result<(), OpenError>>>,
    /// Ends the thread early.
    stop: Arc<AtomicBool>,
    /// When to find out whether a snapshot is due; `None` until another file of the log is complete.
    look_at: Option<Instant>,
    /// The size from which a snapshot is made; lower in tests.
    pub(super) least: u64,
}

impl Snapshots {
    pub(super) fn new(folder: &Path, history: HistoryLimits) -> Self {
        Self {
            folder: folder.to_owned(),
            history,
            running: None,
            stop: Arc::default(),
            look_at: Some(Instant::now()),
            least: LEAST,
        }
    }

    /// Notes that a snapshot may be due: a file of the log is complete, or there is no space for another
    /// one.
    pub(super) fn look(&mut self) {
        self.look_at = Some(Instant::now());
    }

    /// Begins a snapshot of the files before the one that begins with the entry `first`, if it is time for
    /// that: they are large, or there is no space for another file.
    pub(super) fn go_on(&mut self, first: u64, lacks_space: bool) {
        if let Some(running) = self.running.take_if(|it| it.is_finished()) {
            self.finish(running);
        }
        let may = self.look_at.is_some_and(|at| Instant::now() >= at);
        if !may || self.running.is_some() {
            return;
        }
        self.look_at = None;
        if !self.is_due(first, lacks_space) {
            return;
        }
        let (folder, history, stop) = (self.folder.clone(), self.history, Arc::clone(&self.stop));
        let thread = thread::Builder::new().name("tenure-snapshot".into());
        match thread.spawn(move || make(&folder, first, history, &stop)) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => self.failed(&error),
        }
    }

    fn is_due(&self, first: u64, lacks_space: bool) -> bool {
        let Files {
            snapshots,
            mut logs,
        } = Folder::peek(&self.folder).files().unwrap_or_default();
        logs.retain(|(it, _)| *it < first);
        size(&logs) >= self.least.max(size(&snapshots) / 2)
            || logs.len() >= MOST_FILES
            || lacks_space && !logs.is_empty()
    }

    fn finish(&mut self, running: JoinHandle<Result<(), OpenError>>) {
        match running.join() {
            Ok(Ok(())) => self.look(),
            Ok(Err(error)) => self.failed(&error),
            Err(panic) => self.failed(&crate::panics::text(&*panic)),
        }
    }

    fn failed(&mut self, error: &dyn std::fmt::Display) {
        error!(%error, "no snapshot was made; the log grows until one is made. Nothing is lost");
        self.look_at = Some(Instant::now() + RETRY_AFTER);
    }

    /// Waits for the snapshot that is being made.
    #[cfg(test)]
    pub(super) fn wait(&mut self) {
        if let Some(running) = self.running.take() {
            self.finish(running);
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its outcome does not count any more.
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes a snapshot of the files of the log before the one that begins with the entry `first`, and
/// deletes what it replaces.
fn make(
    folder: &Path,
    first: u64,
    history: HistoryLimits,
    stop: &AtomicBool,
) -> Result<(), OpenError> {
    let began = Instant::now();
    // The directory stays locked by the log, which outlives this thread.
    let folder = Folder::peek(folder);
    let Some(mut reading) = Reading::before(&folder, first, history)? else {
        return Err(OpenError::damaged(&folder.snapshot(0), "it is missing"));
    };
    let covers = reading.replica.at.sequence;
    let path = folder.unfinished_snapshot();
    let stopped = |_: LeaseOf<'_>| match stop.load(Ordering::Relaxed) {
        true => Err(OpenError::io(&path)(ErrorKind::Interrupted.into())),
        false => Ok(()),
    };
    let written = folder.write_snapshot(&path, &mut reading.replica, stopped);
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
    let bytes = written?;
    let named = folder.name_snapshot(&path, covers);
    named.map_err(OpenError::io(folder.snapshot(covers)))?;
    // The snapshot has everything that is deleted here.
    folder.delete_before(covers, first);
    info!(
        entry = covers,
        bytes,
        milliseconds = began.elapsed().as_millis() as u64,
        "made a snapshot of the log"
    );
    Ok(())
}
