//! Writes to stderr without blocking.
//!
//! The process that reads stderr may not read it: a pipe fills, a terminal is stopped. So lines go
//! to a buffer, and a thread writes the buffer to stderr. If the system starts no thread, they are
//! written at once. Lines that do not fit into the buffer are
//! dropped and counted, and a warning reports their number when the reader continues.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::text;
use tracing::warn;

/// Size of the buffer: some thousand lines, so that a slow reader loses none.
const BUFFER_BYTES: usize = 1 << 20;

/// How long the thread collects lines after a write: a busy store logs thousands of lines a second,
/// and each wake-up of the thread costs more than a line.
const COLLECT_TIME: Duration = Duration::from_millis(5);

static BUFFER: Mutex<Buffer> = Mutex::new(Buffer {
    lines: Vec::new(),
    dropped: 0,
    is_writing: false,
    has_writer: false,
});
static CHANGED: Condvar = Condvar::new();

/// Lines dropped since the start.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// It is locked while a line is copied, and never while one is written to stderr.
struct Buffer {
    lines: Vec<u8>,
    /// Lines dropped since the thread last took the buffer.
    dropped: u64,
    is_writing: bool,
    has_writer: bool,
}

fn buffer() -> MutexGuard<'static, Buffer> {
    BUFFER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a line to the buffer, or drops it if the buffer is full. The line may have texts of other
/// processes.
pub(super) fn write_line(line: &str) {
    let line = text::escape_document(line);
    let line = line.as_bytes();
    let mut buffer = buffer();
    if buffer.lines.len() + line.len() > BUFFER_BYTES {
        buffer.dropped += 1;
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // The thread checks the buffer before it sleeps, and the first line of the buffer wakes it.
    let is_asleep = buffer.lines.is_empty() && !buffer.is_writing;
    buffer.lines.extend_from_slice(line);
    // The thread starts with the first line, because most commands print none.
    if !buffer.has_writer {
        let thread = std::thread::Builder::new().name("log".into());
        buffer.has_writer = thread.spawn(write_buffers).is_ok();
        if !buffer.has_writer {
            // The line may be the error that no thread can be started, and then none comes later.
            let lines = std::mem::take(&mut buffer.lines);
            drop(buffer);
            let _ = io::stderr().write_all(&lines);
            return;
        }
    }
    drop(buffer);
    if is_asleep {
        CHANGED.notify_all();
    }
}

/// Returns the number of lines that were dropped since the start.
pub(crate) fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits until all lines are written, for at most this time.
pub(crate) fn flush(timeout: Duration) {
    let is_pending = |buffer: &mut Buffer| buffer.is_writing || !buffer.lines.is_empty();
    drop(CHANGED.wait_timeout_while(buffer(), timeout, is_pending));
}

fn write_buffers() {
    loop {
        let mut buffer = buffer();
        buffer.is_writing = false;
        CHANGED.notify_all();
        let is_empty = |buffer: &mut Buffer| buffer.lines.is_empty();
        let mut buffer = CHANGED
            .wait_while(buffer, is_empty)
            .unwrap_or_else(PoisonError::into_inner);
        buffer.is_writing = true;
        let lines = std::mem::take(&mut buffer.lines);
        let dropped = std::mem::take(&mut buffer.dropped);
        drop(buffer);
        // If stderr is closed there is no other place to report it.
        let _ = io::stderr().write_all(&lines);
        if dropped > 0 {
            warn!(dropped, "log lines were dropped: stderr was not read");
        }
        // `is_writing` stays set, so lines that come meanwhile wake no thread.
        std::thread::sleep(COLLECT_TIME);
    }
}

/// The writer for the subscriber, which writes a whole line in one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineWriter;

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_line(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
