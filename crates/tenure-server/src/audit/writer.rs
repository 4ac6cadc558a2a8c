//! The thread that writes audit lines.

use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::log::Log;
use super::{AuditEntry, Line, State};

/// The maximum number of lines between two syncs. An answer waits for no more lines than these.
const BATCH: usize = 256;

/// The interval of the looks for repeated acts without a line.
const PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Writer {
    log: Log,
    lines: Receiver<Line>,
    state: Arc<State>,
    /// The number of lost lines that the log has reported.
    reported: u64,
    was_failing: bool,
    /// The time of the last look for repeated acts without a line.
    looked_at: Instant,
}

impl Writer {
    pub(super) fn new(log: Log, lines: Receiver<Line>, state: Arc<State>) -> Self {
        Self {
            log,
            lines,
            state,
            reported: 0,
            was_failing: false,
            looked_at: Instant::now(),
        }
    }

    /// Writes lines until no handle is left.
    pub(super) fn run(mut self) {
        loop {
            match self.lines.recv_timeout(PAUSE) {
                Ok(first) => {
                    let others = self.lines.try_iter().take(BATCH - 1);
                    let batch = iter::once(first).chain(others).collect();
                    self.write(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.write_repeated(None),
            }
            let now = Instant::now();
            if now >= self.looked_at + PAUSE {
                self.looked_at = now;
                self.write_repeated(Some(now));
            }
        }
    }

    /// Writes the numbers of repeated acts that have no line yet, although no further act caused one.
    fn write_repeated(&mut self, now: Option<Instant>) {
        let state = Arc::clone(&self.state);
        let repeated = [&state.refusals, &state.sign_ins, &state.refused_acts];
        let due = repeated.into_iter().flat_map(|repeats| repeats.due(now));
        let due: Vec<_> = due.map(Line::of).collect();
        if !due.is_empty() {
            self.write(due);
        }
    }

    /// Writes lines. They are synced if an answer waits for one of them: a sync for every grant
    /// would slow the commits of a store on the same disk.
    fn write(&mut self, batch: Vec<Line>) {
        let mut waiting = Vec::new();
        let (mut result, mut unsynced) = (Ok(()), 0);
        for line in batch {
            result = self.append(&line.entry);
            let is_written = result.is_ok();
            unsynced += u64::from(is_written);
            drop(line.place);
            waiting.extend(line.answer.map(|answer| (answer, is_written)));
        }
        if !waiting.is_empty() {
            let synced = self.log.sync();
            if synced.is_err() {
                self.state.lost.fetch_add(unsynced, Ordering::Relaxed);
                waiting
                    .iter_mut()
                    .for_each(|(_, is_written)| *is_written = false);
            }
            result = result.and(synced);
        }
        self.state
            .is_failing
            .store(result.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&result, self.was_failing) {
            error!(%error, "can't write the audit log: lines are lost; elections go on");
        }
        self.was_failing = result.is_err();
        for (answer, is_written) in waiting {
            // The request may have ended.
            let _ = answer.send(is_written);
        }
    }

    /// Appends a line, with the number of the lines that were lost before it.
    fn append(&mut self, entry: &AuditEntry) -> io::Result<()> {
        let lost = self.state.lost.load(Ordering::Relaxed);
        let unreported = lost - self.reported;
        let appended = self.log.append(entry, unreported);
        if appended.is_ok() {
            self.state.written.fetch_add(1, Ordering::Relaxed);
        }
        if appended.is_err() {
            self.state.lost.fetch_add(1, Ordering::Relaxed);
        } else if unreported > 0 {
            self.reported = lost;
            warn!(
                lost = unreported,
                "the audit log is written again; lines were lost"
            );
        }
        appended
    }
}
