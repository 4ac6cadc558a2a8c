//! A fenced receiver: it refuses smaller epochs, and records all actions on one clock that all
//! processes of a machine share.
//!
//! It has a fence of its own, so that it can check that of the library.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::wait_for;

/// The clock of all records: it is the same in all processes, and no test makes it jump.
///
/// # Panics
///
/// If the system has no such clock.
#[must_use]
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .expect("a clock")
        .into()
}

/// An attempt to act as the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The candidate.
    pub candidate: String,
    /// Its epoch.
    pub epoch: u64,
    /// The time before the candidate checked whether it leads.
    pub before: Duration,
    /// The time after that check succeeded.
    pub after: Duration,
    /// The time at which the receiver got the attempt.
    pub at: Duration,
    /// Whether the fence accepted it.
    pub accepted: bool,
}

/// A message of a candidate about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The candidate.
    pub candidate: String,
    /// The text.
    pub text: String,
    /// The time at which the receiver got it.
    pub at: Duration,
}

/// The receiver, on its own threads.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    greatest: u64,
    acts: Vec<Act>,
    notes: Vec<Note>,
}

impl Receiver {
    /// Starts a receiver on a free port.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let table = Arc::<Mutex<Table>>::default();
        let shared = table.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let table = shared.clone();
                thread::spawn(move || serve(&connection, &table));
            }
        });
        Self { address, table }
    }

    /// The address that the receiver listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All attempts so far.
    #[must_use]
    pub fn acts(&self) -> Vec<Act> {
        lock(&self.table).acts.clone()
    }

    /// All notes so far.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        lock(&self.table).notes.clone()
    }

    /// Waits for the first attempt under an epoch above this one.
    #[must_use]
    pub fn next_leader(&self, above: u64) -> Act {
        wait_for("the next leader", || {
            let acts = self.acts();
            acts.into_iter()
                .find(|act| act.epoch > above && act.accepted)
        })
    }

    /// The last attempt of this candidate under this epoch.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn last_of(&self, candidate: &str, epoch: u64) -> Act {
        let acts = self.acts();
        let mut of = acts
            .into_iter()
            .filter(|act| act.candidate == candidate && act.epoch == epoch);
        of.next_back().expect("it has acted")
    }

    /// Waits for a note with this beginning.
    #[must_use]
    pub fn note(&self, candidate: &str, start: &str) -> Note {
        wait_for(
            &format!("a note of {candidate} that starts with {start}"),
            || {
                let mut notes = self.notes().into_iter();
                notes.find(|note| note.candidate == candidate && note.text.starts_with(start))
            },
        )
    }

    /// Checks that no two terms overlapped, and that the fence accepted no stale write.
    ///
    /// # Panics
    ///
    /// With the violation.
    pub fn assert_one_at_a_time(&self) {
        if let Some(overlap) = overlap(&self.acts()) {
            panic!("violation of safety: {overlap}");
        }
    }

    /// Checks that the fence accepted no stale write, even if terms overlapped.
    ///
    /// # Panics
    ///
    /// With the epoch of the violation.
    pub fn assert_fence_held(&self) {
        if let Some(stale) = accepted_stale(&self.acts()) {
            panic!("violation of safety: {stale}");
        }
    }
}

/// A stale write that the fence accepted.
#[must_use]
pub fn accepted_stale(acts: &[Act]) -> Option<String> {
    let mut greatest = 0;
    for act in acts {
        if act.accepted && act.epoch < greatest {
            return Some(format!("the fence accepted epoch {}", act.epoch));
        }
        greatest = greatest.max(act.epoch);
    }
    None
}

/// Two candidates that certainly considered themselves the leader at the same time. A term lasts at
/// least from the end of its first check to the begin of its last one. A write whose check was
/// before the next term, but which arrived late, is no overlap: the fence refuses it.
#[must_use]
pub fn overlap(acts: &[Act]) -> Option<String> {
    let mut terms: BTreeMap<u64, (String, Duration, Duration)> = BTreeMap::new();
    for act in acts {
        let term = terms
            .entry(act.epoch)
            .or_insert_with(|| (act.candidate.clone(), act.after, act.before));
        if term.0 != act.candidate {
            let (one, other) = (&term.0, &act.candidate);
            return Some(format!("{one} and {other} act under epoch {}", act.epoch));
        }
        term.1 = term.1.min(act.after);
        term.2 = term.2.max(act.before);
    }
    if let Some(stale) = accepted_stale(acts) {
        return Some(stale);
    }
    let mut until: Option<(u64, &String, Duration)> = None;
    for (epoch, (candidate, first, last)) in &terms {
        if let Some((old, holder, end)) = until
            && end > *first
        {
            let by = end - *first;
            return Some(format!(
                "{holder} acts under {old} {by:?} after the begin of {candidate} under {epoch}"
            ));
        }
        if until.is_none_or(|(.., end)| end < *last) {
            until = Some((*epoch, candidate, *last));
        }
    }
    None
}

fn serve(connection: &TcpStream, table: &Mutex<Table>) {
    let mut writer = connection;
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        let at = now();
        let accepted = lock(table).handle_line(&line, at);
        let answer: &[u8] = if accepted { b"ok\n" } else { b"stale\n" };
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

impl Table {
    fn handle_line(&mut self, line: &str, at: Duration) -> bool {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (kind, candidate, rest) = (word(), word().to_owned(), word());
        if kind == "note" {
            let text = rest.to_owned();
            self.notes.push(Note {
                candidate,
                text,
                at,
            });
            return true;
        }
        let numbers: Vec<u64> = rest.split(' ').flat_map(str::parse).collect();
        let [epoch, before, after] = numbers[..] else {
            panic!("invalid line: {line}");
        };
        let accepted = epoch >= self.greatest;
        self.greatest = self.greatest.max(epoch);
        self.acts.push(Act {
            candidate,
            epoch,
            before: Duration::from_nanos(before),
            after: Duration::from_nanos(after),
            at,
            accepted,
        });
        accepted
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A candidate's connection to the receiver.
#[derive(Debug)]
pub struct Link {
    candidate: String,
    reader: BufReader<TcpStream>,
}

impl Link {
    /// Connects.
    ///
    /// # Panics
    ///
    /// If the receiver is gone.
    #[must_use]
    pub fn connect(receiver: SocketAddr, candidate: &str) -> Self {
        let stream = TcpStream::connect(receiver).expect("a receiver");
        stream.set_nodelay(true).expect("a socket");
        Self {
            candidate: candidate.into(),
            reader: BufReader::new(stream),
        }
    }

    /// Attempts to act; `false` if the fence refuses.
    ///
    /// # Panics
    ///
    /// If the receiver is gone.
    pub fn act(&mut self, epoch: u64, before: Duration, after: Duration) -> bool {
        let (before, after) = (before.as_nanos(), after.as_nanos());
        let candidate = &self.candidate;
        let line = format!("act {candidate} {epoch} {before} {after}\n");
        self.send(&line) == "ok\n"
    }

    /// Sends a note.
    ///
    /// # Panics
    ///
    /// If the receiver is gone.
    pub fn note(&mut self, text: &str) {
        let line = format!("note {} {text}\n", self.candidate);
        self.send(&line);
    }

    fn send(&mut self, line: &str) -> String {
        let mut answer = String::new();
        let mut stream = self.reader.get_ref();
        stream.write_all(line.as_bytes()).expect("a receiver");
        self.reader.read_line(&mut answer).expect("a receiver");
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn act(candidate: &str, epoch: u64, checked: u32, accepted: bool) -> Act {
        Act {
            candidate: candidate.into(),
            epoch,
            before: MS * checked,
            after: MS * (checked + 1),
            at: MS * (checked + 2),
            accepted,
        }
    }

    #[test]
    fn consecutive_terms_and_a_refused_late_write_are_no_overlap() {
        let late = Act {
            at: MS * 900,
            ..act("a", 1, 20, false)
        };
        let acts = [act("a", 1, 0, true), act("b", 2, 500, true), late];
        assert_eq!(overlap(&acts), None);
    }

    #[test]
    fn an_overlap_of_two_terms_is_found() {
        let acts = [
            act("a", 1, 0, true),
            act("b", 2, 500, true),
            act("c", 3, 600, true),
            act("a", 1, 502, false),
        ];
        assert!(overlap(&acts).unwrap().contains("a acts under 1 1ms after"));
    }

    #[test]
    fn two_candidates_with_one_epoch_are_found() {
        let acts = [act("a", 1, 0, true), act("b", 1, 500, true)];
        assert!(
            overlap(&acts)
                .unwrap()
                .contains("a and b act under epoch 1")
        );
    }

    #[test]
    fn a_stale_write_that_is_accepted_is_found() {
        let acts = [act("a", 2, 0, true), act("b", 1, 500, true)];
        assert!(overlap(&acts).unwrap().contains("accepted epoch 1"));
    }

    #[test]
    fn the_fence_refuses_smaller_epochs_only() {
        let receiver = Receiver::start();
        let mut link = Link::connect(receiver.address(), "a");
        assert!(link.act(2, MS, MS));
        assert!(!link.act(1, MS, MS));
        assert!(link.act(2, MS, MS));
        link.note("good bye");
        assert_eq!(receiver.notes()[0].text, "good bye");
        assert_eq!(receiver.acts().len(), 3);
    }
}
