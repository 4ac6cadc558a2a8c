//! Scans of watched namespaces, which register the end of each lease with the timer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;

use crate::clock::Clock;
use crate::table::Place;

/// The time for which a namespace is kept after its last watcher left. Browsers reconnect after 3
/// to 5 s.
const KEEP: Duration = Duration::from_secs(10);

/// The text that stands for all namespaces. No namespace has an empty name.
pub(crate) const ALL: &str = "";

/// The namespaces that a client watches or watched recently, and the progress of their scans.
///
/// The timer must know every lease of a watched namespace. While a namespace is registered here,
/// each change of one of its leases arms the timer. A scan finds the leases that do not change. One
/// thread does all scans, a page of each namespace in turn. So clients that open many streams cause
/// neither more threads nor more processor time for scans.
///
/// A scan stops when the last watcher leaves. The namespace is kept for some seconds, so that a
/// client that opens and closes streams does not restart the scan. For the next watcher the timer
/// already knows the scanned leases, and the scan continues where it stopped.
#[derive(Debug)]
pub(crate) struct Scans {
    state: Mutex<State>,
    wake: Condvar,
    /// The number of namespaces. While it is zero, changes do not take the lock.
    count: AtomicUsize,
    keep: Duration,
}

#[derive(Debug, Default)]
struct State {
    namespaces: HashMap<Box<str>, Namespace>,
    /// Namespaces that are watched and not completely scanned, each of them once, in the order of
    /// their turns. The namespace that is being scanned is not among them.
    waiting: VecDeque<Box<str>>,
    /// Namespaces without watchers, and the time at which each is forgotten.
    left: BTreeSet<(Instant, Box<str>)>,
    closing: bool,
}

#[derive(Debug, Default)]
struct Namespace {
    watchers: usize,
    scan: Scan,
    /// Whether the scan has found a lease.
    has_leases: bool,
    /// The time at which to forget the namespace, if no client watches it.
    forget_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Scan {
    /// The scan continues from this place.
    At(Place),
    /// The scanning thread is scanning a page of the namespace.
    InHand,
    /// The timer knows all leases of the namespace.
    Done,
}

impl Default for Scan {
    fn default() -> Self {
        Self::At(Place::default())
    }
}

impl Default for Scans {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            count: AtomicUsize::new(0),
            keep: KEEP,
        }
    }
}

impl Scans {
    /// Adds a watcher of this namespace.
    pub(crate) fn watch(&self, namespace: &str) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let entry = state.namespaces.entry(namespace.into()).or_default();
        entry.watchers += 1;
        if let Some(at) = entry.forget_at.take() {
            state.left.remove(&(at, namespace.into()));
        }
        let is_new = entry.watchers == 1 && matches!(entry.scan, Scan::At(_));
        if is_new {
            state.waiting.push_back(namespace.into());
        }
        self.count.store(state.namespaces.len(), Ordering::Relaxed);
        drop(guard);
        if is_new {
            self.wake.notify_one();
        }
    }

    /// Removes a watcher of this namespace.
    pub(crate) fn leave(&self, namespace: &str, now: Instant) {
        let state = &mut *self.lock();
        let Some(entry) = state.namespaces.get_mut(namespace) else {
            return;
        };
        entry.watchers -= 1;
        if entry.watchers > 0 {
            return;
        }
        state.waiting.retain(|waiting| **waiting != *namespace);
        if entry.has_leases || entry.scan == Scan::InHand {
            let at = now + self.keep;
            entry.forget_at = Some(at);
            state.left.insert((at, namespace.into()));
            self.wake.notify_one();
        } else {
            // The scan registered no lease with the timer, so there is nothing to keep. Namespaces
            // that do not exist then take no memory.
            state.namespaces.remove(namespace);
            self.count.store(state.namespaces.len(), Ordering::Relaxed);
        }
    }

    /// Returns whether changes of this namespace's leases arm the timer.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let state = self.lock();
        [namespace, ALL]
            .iter()
            .any(|watched| state.namespaces.contains_key(*watched))
    }

    /// Blocks until a namespace must be scanned. Returns it with the place to continue from, or
    /// `None` when the scans are closed. Namespaces take turns. The caller scans a page and then
    /// calls [`Scans::scanned`].
    pub(crate) fn next(&self, clock: &Clock) -> Option<(Box<str>, Place)> {
        let mut state = self.lock();
        while !state.closing {
            state.forget(clock.now());
            self.count.store(state.namespaces.len(), Ordering::Relaxed);
            if let Some(turn) = state.take_turn() {
                return Some(turn);
            }
            let forget_in = state.left.first().map(|(at, _)| clock.until(*at));
            let woken = self
                .wake
                .wait_timeout(state, forget_in.unwrap_or(Duration::MAX));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Records that a page of the namespace that [`Scans::next`] returned was scanned. `next` is
    /// the place after the page, or `None` at the end; `found` says whether there was a lease.
    pub(crate) fn scanned(&self, namespace: Box<str>, next: Option<Place>, found: bool) {
        let mut state = self.lock();
        // A namespace that is being scanned is never removed, so all changes meanwhile have armed
        // the timer.
        let Some(entry) = state.namespaces.get_mut(&namespace) else {
            return;
        };
        entry.has_leases |= found;
        entry.scan = next.map_or(Scan::Done, Scan::At);
        if entry.watchers > 0 && entry.scan != Scan::Done {
            state.waiting.push_back(namespace);
        }
    }

    /// Ends the thread that waits in [`Scans::next`].
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes the namespace whose turn it is from the waiting ones.
    fn take_turn(&mut self) -> Option<(Box<str>, Place)> {
        let namespace = self.waiting.pop_front()?;
        let entry = self.namespaces.get_mut(&namespace)?;
        match std::mem::replace(&mut entry.scan, Scan::InHand) {
            Scan::At(place) => Some((namespace, place)),
            Scan::InHand | Scan::Done => None,
        }
    }

    fn forget(&mut self, now: Instant) {
        while self.left.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, namespace)) = self.left.pop_first() {
                self.namespaces.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LeaseKey;

    const NOW: Instant = Instant::from_nanos(0);

    impl Scans {
        /// Returns whether no scan is running or waiting for its turn.
        pub(crate) fn are_at_rest(&self) -> bool {
            let state = self.lock();
            let mut namespaces = state.namespaces.values();
            state.waiting.is_empty() && namespaces.all(|entry| entry.scan != Scan::InHand)
        }
    }

    /// Returns the namespace whose turn it is and its place, if a scan waits.
    fn turn(scans: &Scans) -> Option<(Box<str>, Place)> {
        scans.lock().take_turn()
    }

    /// Returns a place that is not the start of a scan.
    fn behind(lease: &str) -> Place {
        Place::behind(&LeaseKey::of_text(lease))
    }

    #[test]
    fn a_namespace_is_scanned_once_however_many_watch_it() {
        let scans = Scans::default();
        scans.watch("ns");
        scans.watch("ns");
        let (namespace, _) = turn(&scans).unwrap();
        scans.watch("ns");
        assert_eq!(turn(&scans), None);
        scans.scanned(namespace, None, true);
        scans.watch("ns");
        assert_eq!(turn(&scans), None);
    }

    #[test]
    fn a_scan_stops_with_the_last_watcher_and_goes_on_with_the_next() {
        let scans = Scans::default();
        let mut place = Place::default();
        for lease in ["ns/a", "ns/b", "ns/c"] {
            // One of two watchers leaves: the scan continues.
            scans.watch("ns");
            scans.watch("ns");
            scans.leave("ns", NOW);
            let (namespace, at) = turn(&scans).unwrap();
            assert_eq!(at, place);
            place = behind(lease);
            scans.scanned(namespace, Some(place.clone()), true);
            // The last watcher leaves between two pages.
            scans.leave("ns", NOW);
            assert_eq!(turn(&scans), None);
            assert!(scans.has("ns"), "its changes arm the timer");
        }
    }

    #[test]
    fn a_page_that_is_being_scanned_counts_if_the_last_watcher_leaves() {
        let scans = Scans::default();
        scans.watch("ns");
        let (namespace, _) = turn(&scans).unwrap();
        scans.leave("ns", NOW);
        assert!(scans.has("ns"), "its changes arm the timer");
        scans.scanned(namespace, Some(behind("ns/a")), true);
        assert_eq!(turn(&scans), None);
        scans.watch("ns");
        assert_eq!(turn(&scans), Some(("ns".into(), behind("ns/a"))));
    }

    #[test]
    fn a_namespace_is_forgotten_some_time_after_its_last_watcher_left() {
        let scans = Scans::default();
        scans.watch("ns");
        let (namespace, _) = turn(&scans).unwrap();
        scans.scanned(namespace, None, true);
        scans.leave("ns", NOW);
        scans.watch("ns");
        scans.lock().forget(NOW + KEEP * 2);
        assert!(scans.has("ns"), "it is watched");
        scans.leave("ns", NOW + KEEP);
        scans.lock().forget(NOW + KEEP);
        assert!(scans.has("ns"));
        scans.lock().forget(NOW + KEEP * 2);
        assert!(scans.lock().namespaces.is_empty() && scans.lock().left.is_empty());
        // Changes since then did not arm the timer.
        scans.watch("ns");
        assert_eq!(turn(&scans), Some(("ns".into(), Place::default())));
    }

    #[test]
    fn a_namespace_without_leases_leaves_nothing_behind() {
        let scans = Scans::default();
        scans.watch("not scanned");
        scans.leave("not scanned", NOW);
        scans.watch("empty");
        let (namespace, _) = turn(&scans).unwrap();
        scans.scanned(namespace, None, false);
        scans.leave("empty", NOW);
        let state = scans.lock();
        assert!(state.namespaces.is_empty() && state.waiting.is_empty() && state.left.is_empty());
    }

    #[test]
    fn all_namespaces_are_watched_together() {
        let scans = Scans::default();
        scans.watch(ALL);
        assert!(scans.has("ns") && scans.has("other"));
        let (namespace, _) = turn(&scans).unwrap();
        assert_eq!(&*namespace, ALL);
        scans.scanned(namespace, None, true);
        scans.leave(ALL, NOW);
        assert!(scans.has("ns"), "its changes arm the timer for a while");
        scans.lock().forget(NOW + KEEP);
        scans.count.store(0, Ordering::Relaxed);
        assert!(!scans.has("ns"));
    }

    #[test]
    fn namespaces_take_turns() {
        let scans = Scans::default();
        for namespace in ["b", "a", "c"] {
            scans.watch(namespace);
        }
        let turns: Vec<String> = std::iter::repeat_with(|| {
            let (namespace, place) = turn(&scans).unwrap();
            let text = namespace.to_string();
            scans.scanned(namespace, Some(place), true);
            text
        })
        .take(6)
        .collect();
        assert_eq!(turns, ["b", "a", "c", "b", "a", "c"]);
    }

    #[test]
    fn the_scanning_thread_wakes_up_to_scan_to_forget_and_to_end() {
        let scans = Scans {
            keep: Duration::from_millis(20),
            ..Scans::default()
        };
        let clock = Clock::start();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                while let Some((namespace, _)) = scans.next(&clock) {
                    scans.scanned(namespace, None, true);
                }
            });
            let becomes = |is_so: &dyn Fn() -> bool| {
                let until = clock.now() + Duration::from_secs(10);
                while !is_so() && clock.now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
                is_so()
            };
            scans.watch("ns");
            let is_scanned = becomes(&|| scans.are_at_rest());
            scans.leave("ns", clock.now());
            let is_forgotten = becomes(&|| !scans.has("ns"));
            scans.close();
            thread.join().unwrap();
            assert!(is_scanned && is_forgotten);
        });
    }
}
