//! A fenced receiver: it refuses smaller epochs, and records who acted when, on one clock that all
//! processes of a machine share.
//!
//! It is written apart from the library's own fence, so that it may judge it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::wait_for;

/// The clock of everything that is recorded: it is the same in all processes, and no test makes it
/// jump.
///
/// # Panics
///
/// If the system has none.
#[must_use]
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .expect("a clock")
        .into()
}

/// One attempt to act as the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Who acted.
    pub candidate: String,
    /// Under which epoch.
    pub epoch: u64,
    /// Read before the leader asked whether it leads.
    pub before: Duration,
    /// Read after it was told that it does.
    pub after: Duration,
    /// When the receiver got it.
    pub at: Duration,
    /// Whether the fence let it pass.
    pub accepted: bool,
}

/// Something that a candidate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Who says it.
    pub candidate: String,
    /// What.
    pub text: String,
    /// When the receiver got it.
    pub at: Duration,
}

/// The receiver, on threads of its own.
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
    /// Starts one on a free port.
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

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that was attempted so far.
    #[must_use]
    pub fn acts(&self) -> Vec<Act> {
        lock(&self.table).acts.clone()
    }

    /// Everything that candidates said so far.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        lock(&self.table).notes.clone()
    }

    /// Waits for the first act under an epoch above this one.
    #[must_use]
    pub fn next_leader(&self, above: u64) -> Act {
        wait_for("the next leader to act", || {
            let acts = self.acts();
            acts.into_iter()
                .find(|act| act.epoch > above && act.accepted)
        })
    }

    /// The last act of this candidate under this epoch.
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

    /// Waits for a note that begins so.
    #[must_use]
    pub fn note(&self, candidate: &str, start: &str) -> Note {
        wait_for(&format!("{candidate} to say {start}"), || {
            let mut notes = self.notes().into_iter();
            notes.find(|note| note.candidate == candidate && note.text.starts_with(start))
        })
    }

    /// Fails if two leaders took themselves for the leader at once, or if the fence has let a stale
    /// write pass.
    ///
    /// # Panics
    ///
    /// With who did.
    pub fn assert_one_at_a_time(&self) {
        if let Some(overlap) = overlap(&self.acts()) {
            panic!("{overlap}");
        }
    }

    /// Fails if the fence has let a stale write pass, whoever led meanwhile.
    ///
    /// # Panics
    ///
    /// With its epoch.
    pub fn assert_fence_held(&self) {
        if let Some(stale) = let_pass(&self.acts()) {
            panic!("{stale}");
        }
    }
}

/// A stale write that the fence has let pass.
#[must_use]
pub fn let_pass(acts: &[Act]) -> Option<String> {
    let mut greatest = 0;
    for act in acts {
        if act.accepted && act.epoch < greatest {
            return Some(format!("the fence let epoch {} pass", act.epoch));
        }
        greatest = greatest.max(act.epoch);
    }
    None
}

/// Two candidates that took themselves for the leader at once, as far as is certain: a reign was
/// believed in at least from the end of its first check to the begin of its last one. What was
/// begun rightly and came late is no overlap: the fence is there for it.
#[must_use]
pub fn overlap(acts: &[Act]) -> Option<String> {
    let mut reigns: BTreeMap<u64, (String, Duration, Duration)> = BTreeMap::new();
    for act in acts {
        let reign = reigns
            .entry(act.epoch)
            .or_insert_with(|| (act.candidate.clone(), act.after, act.before));
        if reign.0 != act.candidate {
            let (one, other) = (&reign.0, &act.candidate);
            return Some(format!("{one} and {other} act under epoch {}", act.epoch));
        }
        reign.1 = reign.1.min(act.after);
        reign.2 = reign.2.max(act.before);
    }
    if let Some(stale) = let_pass(acts) {
        return Some(stale);
    }
    let mut until: Option<(u64, &String, Duration)> = None;
    for (epoch, (candidate, first, last)) in &reigns {
        if let Some((old, holder, believed)) = until
            && believed > *first
        {
            let by = believed - *first;
            return Some(format!(
                "{holder} acts under {old} {by:?} after {candidate} began under {epoch}"
            ));
        }
        if until.is_none_or(|(.., believed)| believed < *last) {
            until = Some((*epoch, candidate, *last));
        }
    }
    None
}

fn serve(connection: &TcpStream, table: &Mutex<Table>) {
    let mut writer = connection;
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        let at = now();
        let accepted = lock(table).take(&line, at);
        let answer: &[u8] = if accepted { b"ok\n" } else { b"stale\n" };
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

impl Table {
    fn take(&mut self, line: &str, at: Duration) -> bool {
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
            panic!("no act: {line}");
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

    /// Acts; `false` if the fence refuses.
    ///
    /// # Panics
    ///
    /// If the receiver is gone.
    pub fn act(&mut self, epoch: u64, before: Duration, after: Duration) -> bool {
        let (before, after) = (before.as_nanos(), after.as_nanos());
        let candidate = &self.candidate;
        let line = format!("act {candidate} {epoch} {before} {after}\n");
        self.say(&line) == "ok\n"
    }

    /// Says something.
    ///
    /// # Panics
    ///
    /// If the receiver is gone.
    pub fn note(&mut self, text: &str) {
        let line = format!("note {} {text}\n", self.candidate);
        self.say(&line);
    }

    fn say(&mut self, line: &str) -> String {
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
    fn reigns_one_after_another_are_fine_and_so_is_a_late_write_that_is_refused() {
        let late = Act {
            at: MS * 900,
            ..act("a", 1, 20, false)
        };
        let acts = [act("a", 1, 0, true), act("b", 2, 500, true), late];
        assert_eq!(overlap(&acts), None);
    }

    #[test]
    fn an_old_leader_that_still_believes_in_itself_is_found() {
        let acts = [
            act("a", 1, 0, true),
            act("b", 2, 500, true),
            act("c", 3, 600, true),
            act("a", 1, 502, false),
        ];
        assert!(overlap(&acts).unwrap().contains("a acts under 1 1ms after"));
    }

    #[test]
    fn one_epoch_for_two_is_found() {
        let acts = [act("a", 1, 0, true), act("b", 1, 500, true)];
        assert!(
            overlap(&acts)
                .unwrap()
                .contains("a and b act under epoch 1")
        );
    }

    #[test]
    fn a_stale_write_that_passes_is_found() {
        let acts = [act("a", 2, 0, true), act("b", 1, 500, true)];
        assert!(overlap(&acts).unwrap().contains("let epoch 1 pass"));
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
