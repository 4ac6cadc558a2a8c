//! The snapshots that a running store makes of its log.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{error, info};

use super::folder::Folder;
use super::log_file::{End, LogFile};
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
    /// The size of the last snapshot.
    bytes: u64,
    /// The number and the size of the complete files of the log since then.
    files: usize,
    log_bytes: u64,
    running: Option<Running>,
    /// The time before which no snapshot is made.
    not_before: Option<Instant>,
    /// The size from which a snapshot is made; lower in tests.
    pub(super) least: u64,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<Result<u64, OpenError>>,
    stop: Arc<AtomicBool>,
    /// The files and bytes that it covers.
    files: usize,
    log_bytes: u64,
}

impl Snapshots {
    pub(super) fn new(folder: &Path, history: HistoryLimits) -> Self {
        Self {
            folder: folder.to_owned(),
            history,
            bytes: 0,
            files: 0,
            log_bytes: 0,
            running: None,
            not_before: None,
            least: LEAST,
        }
    }

    /// Counts what a start has found.
    pub(super) fn after_start(&mut self, logs: &[(PathBuf, End)], bytes: u64) {
        self.bytes = bytes;
        for (_, end) in logs {
            self.add_complete(end.at);
        }
    }

    /// Counts a file of the log that gets no further entries.
    pub(super) const fn add_complete(&mut self, bytes: u64) {
        self.files += 1;
        self.log_bytes += bytes;
    }

    /// Begins a snapshot of the files before this one, if it is time for that: they are large, or there
    /// is no space for another file.
    pub(super) fn go_on(&mut self, file: &LogFile, lacks_space: bool) {
        if let Some(running) = self.running.take_if(|it| it.thread.is_finished()) {
            self.finish(running);
        }
        let is_due = self.log_bytes >= self.least.max(self.bytes / 2)
            || self.files >= MOST_FILES
            || lacks_space && self.files > 0;
        let may = self.not_before.is_none_or(|at| Instant::now() >= at);
        if !is_due || !may || self.running.is_some() {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, history, stopped) = (self.folder.clone(), self.history, Arc::clone(&stop));
        let first = file.first;
        let thread = thread::Builder::new().name("tenure-snapshot".into());
        match thread.spawn(move || make(&folder, first, history, &stopped)) {
            Ok(thread) => {
                self.running = Some(Running {
                    thread,
                    stop,
                    files: self.files,
                    log_bytes: self.log_bytes,
                });
            }
            Err(error) => self.failed(&error),
        }
    }

    fn finish(&mut self, running: Running) {
        match running.thread.join() {
            Ok(Ok(bytes)) => {
                self.bytes = bytes;
                self.files -= running.files;
                self.log_bytes -= running.log_bytes;
                self.not_before = None;
            }
            Ok(Err(error)) => self.failed(&error),
            Err(panic) => self.failed(&crate::panics::text(&*panic)),
        }
    }

    fn failed(&mut self, error: &dyn std::fmt::Display) {
        error!(%error, "no snapshot was made; the log grows until one is made. Nothing is lost");
        self.not_before = Some(Instant::now() + RETRY_AFTER);
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
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
            let _ = running.thread.join();
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes a snapshot of the files of the log before the one that begins with the entry `first`, and
/// deletes what it replaces. Returns its size in bytes.
fn make(
    folder: &Path,
    first: u64,
    history: HistoryLimits,
    stop: &AtomicBool,
) -> Result<u64, OpenError> {
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
    let bytes = match folder.write_snapshot(&path, &mut reading.replica, stopped) {
        Ok(bytes) => bytes,
        Err(error) => {
            let _ = fs::remove_file(&path);
            return match stop.load(Ordering::Relaxed) {
                true => Ok(0),
                false => Err(error),
            };
        }
    };
    // The snapshot counts from here on. It has everything that is deleted below.
    let named = folder.snapshot(covers);
    let name = || {
        fs::rename(&path, &named)?;
        folder.sync()
    };
    name().map_err(OpenError::io(&named))?;
    folder.delete_before(covers, first);
    info!(
        entry = covers,
        bytes,
        milliseconds = began.elapsed().as_millis() as u64,
        "made a snapshot of the log"
    );
    Ok(bytes)
}
