//! Writes to stderr without blocking.
//!
//! The process that reads stderr may not read it: a pipe fills, a terminal is stopped. So lines go
//! to a queue, and a thread writes them to stderr. Lines that do not fit into the queue are dropped
//! and counted, and a warning reports their number when the reader continues.

use std::io::{self, BufWriter, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::text;
use tracing::warn;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder};

/// Size of the queue, so that a slow reader loses no line. A line has at most some kilobytes.
const QUEUED_LINES: usize = 4_096;

/// How long the thread collects lines after a write: a busy store logs thousands of lines a second,
/// and each wake-up of the thread costs more than a line.
const COLLECT_TIME: Duration = Duration::from_millis(5);

/// `None` if the system starts no thread.
static QUEUE: OnceLock<Option<NonBlocking>> = OnceLock::new();
/// The number of lines that were sent to the thread or dropped.
static SENT: AtomicU64 = AtomicU64::new(0);
/// The number of lines that the thread has written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Returns the number of lines that were dropped since the start.
pub(crate) fn dropped_lines() -> u64 {
    let queue = QUEUE.get().and_then(Option::as_ref);
    queue.map_or(0, |queue| queue.error_counter().dropped_lines() as u64)
}

/// Waits until all lines are written, for at most this time.
pub(crate) fn flush(timeout: Duration) {
    let end = Instant::now() + timeout;
    let is_pending =
        || WRITTEN.load(Ordering::Acquire) + dropped_lines() < SENT.load(Ordering::Acquire);
    while is_pending() && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The writer for log lines. Its caller writes a whole line in one call.
#[derive(Debug)]
pub(super) struct LineWriter;

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The line may have texts of other processes.
        let text = String::from_utf8_lossy(line);
        let text = text::escape_document(&text);
        // The first line starts the thread, because most commands print none.
        match QUEUE.get_or_init(start) {
            Some(queue) => {
                SENT.fetch_add(1, Ordering::Release);
                queue.clone().write_all(text.as_bytes())?;
            }
            // The line may be the error that no thread can be started, and then none comes later.
            None => io::stderr().write_all(text.as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start() -> Option<NonBlocking> {
    // Without a thread the builder would panic.
    thread::Builder::new().spawn(|| ()).ok()?.join().ok()?;
    let queue = NonBlockingBuilder::default().buffered_lines_limit(QUEUED_LINES);
    let (queue, guard) = queue.thread_name("log").finish(Stderr {
        lines: BufWriter::new(io::stderr()),
        taken: 0,
        reported: 0,
    });
    // The end of the guard may take longer than the end of a term may, and may print to stdout.
    std::mem::forget(guard);
    Some(queue)
}

/// The end of the queue, which may block. If stderr is closed there is no other place to report it.
struct Stderr {
    lines: BufWriter<io::Stderr>,
    taken: u64,
    reported: u64,
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.taken += 1;
        let _ = self.lines.write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The queue was just empty, so it has room for the warning.
        let new = dropped_lines() - self.reported;
        if new > 0 {
            self.reported += new;
            warn!(dropped = new, "log lines were dropped: stderr was not read");
        }
        let _ = self.lines.flush();
        WRITTEN.fetch_add(std::mem::take(&mut self.taken), Ordering::Release);
        thread::sleep(COLLECT_TIME);
        Ok(())
    }
}
