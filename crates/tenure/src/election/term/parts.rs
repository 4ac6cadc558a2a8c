//! The parts of a term's task: the task itself, and the work that it has started. The lease is
//! released only after all of them have ended.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::election::term::{DriverHandle, TermCommand, TermState};

/// The time in which a future that is polled while its term is aborted may return from that poll,
/// and the interval of checks. It is not polled again, so only a part that blocks runs for longer.
const LAST_POLL: Duration = Duration::from_millis(5);

/// The longest time for the destructors of aborted futures. With short leases it is the abort
/// allowance.
const DESTRUCTION: Duration = Duration::from_millis(100);

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartKind {
    /// The task of [`Candidate::run_while_leader`](crate::Candidate::run_while_leader).
    Task,
    /// The guard of [`Candidate::campaign`](crate::Candidate::campaign).
    Guard,
    /// A hold, of [`Leadership::hold`](crate::Leadership::hold).
    Hold,
    /// A future, of [`Leadership::spawn`](crate::Leadership::spawn).
    Future,
    /// A closure, of [`Leadership::spawn_blocking`](crate::Leadership::spawn_blocking).
    Closure,
}

/// The place in the application's code where a part began, if it is known.
type Place = Option<&'static Location<'static>>;

/// The running parts of a term.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    running: Mutex<Running>,
    /// The number of futures that are being polled.
    polled: AtomicUsize,
    /// The number of aborted futures that are being dropped.
    dropped: AtomicUsize,
}

#[derive(Debug, Default)]
struct Running {
    /// Keeps the candidate alive from the first part of its term to the end of the last one.
    driver: Option<Arc<DriverHandle>>,
    counts: BTreeMap<(PartKind, Place), usize>,
}

/// A part of a term's task, until it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) term: Arc<TermState>,
    key: (PartKind, Place),
}

impl Part {
    /// Begins the first part of a term.
    pub(crate) fn first(term: Arc<TermState>, driver: Arc<DriverHandle>) -> Self {
        let key = (PartKind::Guard, None);
        let mut running = term.parts.lock();
        running.driver = Some(driver);
        running.counts.insert(key, 1);
        drop(running);
        Self { term, key }
    }

    /// Begins another part. Returns `None` if no part is running, because the last one ends the
    /// use of the term.
    pub(crate) fn begin(
        term: &Arc<TermState>,
        kind: PartKind,
        place: &'static Location<'static>,
    ) -> Option<Self> {
        let key = (kind, Some(place));
        let mut running = term.parts.lock();
        running.driver.as_ref()?;
        *running.counts.entry(key).or_default() += 1;
        drop(running);
        let term = term.clone();
        Some(Self { term, key })
    }

    /// Makes the first part a task, which an abort stops.
    pub(crate) fn become_task(&mut self) {
        let mut running = self.term.parts.lock();
        running.remove(self.key);
        self.key = (PartKind::Task, None);
        running.counts.insert(self.key, 1);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut running = self.term.parts.lock();
        running.remove(self.key);
        if !running.counts.is_empty() {
            return;
        }
        let driver = running.driver.take();
        drop(running);
        // The handle is dropped after the command, because its drop also sends one.
        self.term.command(TermCommand::PartsEnded);
        drop(driver);
    }
}

impl Parts {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether any part has not ended.
    pub(crate) fn exist(&self) -> bool {
        self.lock().driver.is_some()
    }

    /// Returns whether code of the application still runs although the term was aborted: a hold, a
    /// closure, a future that does not return from its last poll, or a destructor that takes
    /// longer than `allowance`. A future that waits is not polled any more, so its code does not
    /// run.
    pub(crate) fn outlive_abort(&self, allowance: Duration) -> bool {
        let checks = DESTRUCTION.min(allowance).as_millis() / LAST_POLL.as_millis();
        for _ in 0..=checks {
            if !self.run() && self.dropped.load(Ordering::SeqCst) == 0 {
                return false;
            }
            thread::sleep(LAST_POLL);
            if self.run() {
                return true;
            }
        }
        self.dropped.load(Ordering::SeqCst) > 0
    }

    fn run(&self) -> bool {
        let is_aborted = |kind| matches!(kind, PartKind::Task | PartKind::Future);
        let running = self.lock();
        let mut kinds = running.counts.keys().map(|(kind, _)| *kind);
        self.polled.load(Ordering::SeqCst) > 0 || kinds.any(|kind| !is_aborted(kind))
    }

    /// Names the parts for the log: `the task, hold at src/main.rs:12:30 (2 times)`.
    pub(crate) fn names(&self) -> String {
        let running = self.lock();
        let names = running.counts.iter().map(|((kind, place), count)| {
            let place = place.map_or_else(String::new, |place| format!(" at {place}"));
            let times = if *count > 1 {
                format!(" ({count} times)")
            } else {
                String::new()
            };
            format!("{}{place}{times}", kind.name())
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Counts until it is dropped.
struct Count<'a>(&'a AtomicUsize);

impl<'a> Count<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Running {
    fn remove(&mut self, key: (PartKind, Place)) {
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }
}

impl PartKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Task => "the task",
            Self::Guard => "the guard of campaign()",
            Self::Hold => "hold()",
            Self::Future => "spawn()",
            Self::Closure => "spawn_blocking()",
        }
    }
}

/// Runs a future until it ends, or returns `None` when the term aborts it.
///
/// At every possible end of this function, the future is dropped before the part, so it has ended
/// before the driver is told.
pub(crate) async fn run_part<F: Future>(future: F, part: Part) -> Option<F::Output> {
    until_aborted(future, &part).await
}

/// As [`run_part`], for a caller that keeps the part.
pub(crate) async fn until_aborted<F: Future>(future: F, part: &Part) -> Option<F::Output> {
    let (term, parts) = (&part.term, &part.term.parts);
    let mut future = Some(Box::pin(future));
    let mut aborted = pin!(term.aborted.cancelled());
    poll_fn(|cx| {
        // The poll is counted before the abort is checked. So if the term is aborted and this poll
        // is not counted then, the future is not polled any more.
        let polled = Count::new(&parts.polled);
        // The abort is checked first, because a future that is always ready would hide it.
        if aborted.as_mut().poll(cx).is_ready() {
            let _dropped = Count::new(&parts.dropped);
            drop(polled);
            future = None;
            return Poll::Ready(None);
        }
        match &mut future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    })
    .await
}
