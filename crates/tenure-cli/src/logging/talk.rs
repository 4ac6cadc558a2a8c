//! The way to stderr, on which nobody waits.
//!
//! Whoever has given this process its stderr may not read it: a pipe fills, a terminal is stopped. Lines
//! are put in a buffer, and a thread of its own writes them. What does not fit is dropped and counted,
//! and that is told when somebody reads again.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::warn;

/// Most that waits to be written, in bytes: some thousand lines, which a reader that is only slow catches
/// up with.
const ROOM: usize = 1 << 20;

/// How long lines are gathered after some were written: a busy store has thousands a second.
const GATHER: Duration = Duration::from_millis(5);

static TALK: Mutex<Talk> = Mutex::new(Talk {
    waiting: Vec::new(),
    dropped: 0,
    is_writing: false,
    has_writer: false,
});
static CHANGED: Condvar = Condvar::new();

/// Locked for as long as it takes to copy a line, and never while one is written.
struct Talk {
    waiting: Vec<u8>,
    /// Lines since the last that were taken to be written.
    dropped: u64,
    is_writing: bool,
    has_writer: bool,
}

fn talk() -> MutexGuard<'static, Talk> {
    TALK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says a line, without waiting for anybody.
pub(super) fn say(line: &[u8]) {
    let mut talk = talk();
    if talk.waiting.len() + line.len() > ROOM {
        talk.dropped += 1;
        return;
    }
    // The writer looks again before it sleeps, and the first line has woken it for those behind it.
    let sleeps = talk.waiting.is_empty() && !talk.is_writing;
    talk.waiting.extend_from_slice(line);
    // With the first line, because most commands say nothing.
    if !talk.has_writer {
        let thread = std::thread::Builder::new().name("log".into());
        talk.has_writer = thread.spawn(write).is_ok();
    }
    drop(talk);
    if sleeps {
        CHANGED.notify_all();
    }
}

/// Waits until all that was said is written, but no longer than this.
pub(crate) fn finish(patience: Duration) {
    let is_unsaid = |talk: &mut Talk| talk.is_writing || !talk.waiting.is_empty();
    drop(CHANGED.wait_timeout_while(talk(), patience, is_unsaid));
}

fn write() {
    loop {
        let mut talk = talk();
        talk.is_writing = false;
        CHANGED.notify_all();
        let is_silent = |talk: &mut Talk| talk.waiting.is_empty();
        let mut talk = CHANGED
            .wait_while(talk, is_silent)
            .unwrap_or_else(PoisonError::into_inner);
        talk.is_writing = true;
        let lines = std::mem::take(&mut talk.waiting);
        let dropped = std::mem::take(&mut talk.dropped);
        drop(talk);
        // Nobody is left to tell if nobody will ever read.
        let _ = io::stderr().write_all(&lines);
        if dropped > 0 {
            warn!(dropped, "log lines were dropped: nobody read stderr");
        }
        // Lines that come meanwhile are written at once, without a wake for each.
        std::thread::sleep(GATHER);
    }
}

/// For the subscriber, which writes a whole line in one go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        say(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
