//! Reads and replaces of slots, as the ring asks for them.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Bytes;
use tenure_core::Instant;
use tenure_core::ownership::{
    AppendOutcome, Found, HomeId, Observation, Ownership, Tail, TailState,
};
use tenure_core::ring::{
    Append, Base, Blocked, Followed, Loaded, LogRing, RingLimits, Slot, SlotRead, SlotReplaced,
};
use tenure_register::{
    Expected, Failure, Identity, Read, Register, RegisterKey, Replaced, Version,
};

use super::SLOTS;
use super::files::{BaseError, FileKind, LogFile, LogFiles, key};
use super::slot::{Draft, SlotValue, checksum, number_of};
use crate::engine::replica::Replica;
use crate::model::HistoryLimits;

/// The greatest number of slots that a server reads at once when there are new entries.
const READ_AHEAD: usize = 32;

/// How often all slots are read again while the log moves on meanwhile.
const ATTEMPTS: usize = 5;

/// How a server sees the state of an entry.
pub(in crate::engine) type Viewer = Box<dyn Fn(&SlotValue) -> TailState + Send>;

/// The log as one server sees it.
pub(in crate::engine) struct RingLog {
    home: Arc<dyn Register>,
    pub(in crate::engine) files: LogFiles,
    /// The place of the log in its home. A copy of the log in another place is another log.
    place: String,
    slots: Vec<RegisterKey>,
    viewer: Viewer,
    ring: LogRing<Version>,
    /// The value that was seen last in each slot.
    values: Vec<Option<SlotValue>>,
    /// Whether the ring has all slots as of some moment.
    is_loaded: bool,
    /// The home that gave the last answer.
    identity: Option<Identity>,
    verify_every: Duration,
    /// The append that is under way, and its bytes.
    sealed: Option<(SlotValue, Bytes)>,
}

/// What is known of an append after an attempt.
#[derive(Debug)]
pub(in crate::engine) struct Appended {
    pub(in crate::engine) outcome: AppendOutcome,
    /// The reason why the attempt was not applied, or why that is not known.
    pub(in crate::engine) failure: Option<Failure>,
}

/// The outcome of an append that was not sent.
type NotSent = (AppendOutcome, Option<Failure>);

fn refused(reason: &str) -> NotSent {
    let failure = Failure::NotApplied(reason.into());
    (AppendOutcome::Refused, Some(failure))
}

impl RingLog {
    /// The log with this name at a home. `place` names the log for people. `verify_every` is zero for a
    /// program that only takes over.
    pub(in crate::engine) fn new(
        home: Arc<dyn Register>,
        name: &RegisterKey,
        place: String,
        viewer: Viewer,
        verify_every: Duration,
    ) -> Self {
        Self {
            files: LogFiles::new(Arc::clone(&home), name),
            slots: (0..SLOTS)
                .map(|slot| key(&format!("{name}/slot-{slot}")))
                .collect(),
            home,
            place,
            viewer,
            ring: LogRing::new(RingLimits::new(SLOTS, verify_every)),
            values: vec![None; SLOTS as usize],
            is_loaded: false,
            identity: None,
            verify_every,
            sealed: None,
        }
    }

    /// Returns the newest entry.
    pub(in crate::engine) fn tail(&self) -> Option<&SlotValue> {
        self.value(self.ring.tail()?.entry.header.sequence)
    }

    /// Returns the entry with this number, if it is in the ring.
    fn value(&self, sequence: u64) -> Option<&SlotValue> {
        self.ring.entry(sequence)?;
        let value = self.values[self.ring.slot_of(sequence) as usize].as_ref();
        value.filter(|it| it.tail.sequence == sequence)
    }

    /// Returns the ring, which decides what is named and overwritten.
    pub(in crate::engine) const fn rules(&self) -> &LogRing<Version> {
        &self.ring
    }

    /// Reads what follows the newest entry, or all slots.
    pub(in crate::engine) async fn look(&mut self) -> Result<Observation, Failure> {
        if !self.is_loaded {
            return self.load().await;
        }
        // Each read of a bucket costs money, and of an idle log there is one new entry.
        let mut count = 1;
        let mut found = 0;
        loop {
            let (slot, known) = self.ring.next_read();
            let reads = match count {
                1 => vec![self.home.read(&self.slots[slot as usize], known).await?],
                _ => {
                    let slots = (slot..slot + count as u64).map(|it| (it % SLOTS) as usize);
                    let keys: Vec<_> = slots.map(|slot| self.slots[slot].clone()).collect();
                    self.home.read_many(&keys).await?
                }
            };
            for read in reads {
                let home = self.saw(&read);
                if let Some(observation) = self.of_another_home(home) {
                    return Ok(observation);
                }
                let slot = self.ring.next_read().0;
                let read = self.slot_read(slot, read);
                match self.ring.handle_read(home, read) {
                    Followed::Next(_) => found += 1,
                    Followed::Silent(observation) => return Ok(observation),
                    Followed::Behind => return self.load().await,
                }
            }
            count = READ_AHEAD.min(found);
        }
    }

    /// Reads all slots.
    pub(in crate::engine) async fn load(&mut self) -> Result<Observation, Failure> {
        for _ in 0..ATTEMPTS {
            let reads = self.home.read_many(&self.slots).await?;
            let mut home = None;
            for read in &reads {
                let before = home.replace(self.saw(read));
                if before.is_some() && before != home {
                    let text = "the answers are of two homes".into();
                    return Err(Failure::NotApplied(text));
                }
            }
            let Some(home) = home else {
                return Err(Failure::Unknown("an answer without slots".into()));
            };
            if let Some(observation) = self.of_another_home(home) {
                return Ok(observation);
            }
            let reads = (0..).zip(reads);
            let reads = reads
                .map(|(slot, read)| self.slot_read(slot, read))
                .collect();
            let Loaded::Seen(observation) = self.ring.load(home, reads) else {
                continue;
            };
            // The ring has these slots only if they are in order. Else it has older ones, or none, and with
            // those a deleted slot would look like the end of the log. And a version is named only in the
            // home that has shown it. So in any other case all slots are read again.
            let tail = self.ring.tail().map(|it| it.entry.header);
            let is_in_ring = tail.map_or(Found::Empty, Found::Tail) == observation.found;
            self.is_loaded = is_in_ring && self.of_another_home(home).is_none();
            return Ok(observation);
        }
        Err(Failure::NotApplied(
            "the log moves on faster than it can be read".into(),
        ))
    }

    /// Forgets everything: the log is read again.
    pub(in crate::engine) fn forget(&mut self) {
        self.ring = LogRing::new(RingLimits::new(SLOTS, self.verify_every));
        self.values.fill(None);
        self.is_loaded = false;
    }

    /// Notes which home gives an answer.
    fn saw(&mut self, read: &Read) -> HomeId {
        let identity = read.identity();
        if self.identity.as_ref() != Some(identity) {
            self.identity = Some(identity.clone());
        }
        self.home_number(identity)
    }

    /// Returns the number of the place of this log in a home.
    pub(in crate::engine) fn home_number(&self, identity: &Identity) -> HomeId {
        let text = format!("{identity}\n{}", self.place);
        HomeId(number_of(digest(&SHA256, text.as_bytes()).as_ref()))
    }

    /// Returns the home that gave the last answer, for people.
    pub(in crate::engine) fn home_text(&self) -> String {
        match &self.identity {
            Some(identity) => format!("{} ({identity})", self.place),
            None => self.place.clone(),
        }
    }

    /// Returns the answer of a home that is not the one of the log. The ring does not see it: a version
    /// is named only in the home that has shown it.
    fn of_another_home(&self, home: HomeId) -> Option<Observation> {
        let tail = self.ring.tail()?.entry.header;
        let found = Found::Tail(tail);
        (tail.home != home).then_some(Observation { home, found })
    }

    fn slot_read(&mut self, slot: u64, read: Read) -> SlotRead<Version> {
        let (version, value) = match read {
            Read::Absent(_) => return SlotRead::Absent,
            Read::Unchanged(_) => return SlotRead::Unchanged,
            Read::Found { version, value, .. } => (version, value),
        };
        let decoded = match SlotValue::decode(&value) {
            Ok(decoded) if decoded.slot() == slot => decoded,
            Ok(_) => return SlotRead::Unreadable(super::slot::BadSlot::NotValid.refusal(slot)),
            Err(bad) => return SlotRead::Unreadable(bad.refusal(slot)),
        };
        let mut entry = decoded.header();
        entry.header.state = (self.viewer)(&decoded);
        let known = &mut self.values[slot as usize];
        // A stale read shows an older one.
        if known
            .as_ref()
            .is_none_or(|it| it.tail.sequence <= decoded.tail.sequence)
        {
            *known = Some(decoded);
        }
        SlotRead::Found(Slot {
            version,
            checksum: checksum(&value),
            entry,
        })
    }

    /// Sends an attempt of the append with the header that the ownership asked for. The entry has the
    /// content `draft`, unless it is another attempt, and names `new_base`.
    pub(in crate::engine) async fn append(
        &mut self,
        ownership: &mut Ownership,
        now: impl Fn() -> Instant + Copy,
        header: Tail,
        draft: Draft<'_>,
        new_base: Option<Base>,
    ) -> Appended {
        let is_again = self
            .sealed
            .as_ref()
            .is_some_and(|(it, _)| it.tail == header);
        let prepared = match self.is_loaded || is_again {
            true => self.prepare(now(), header, draft, new_base).await,
            false => Err(refused("the log is read again")),
        };
        let (append, bytes) = match prepared {
            Ok(prepared) => prepared,
            Err((outcome, failure)) => {
                return Appended {
                    outcome: ownership.handle_appended(now(), outcome),
                    failure,
                };
            }
        };
        let (home, answer, failure) = match self.too_large(&bytes) {
            // It was never sent, because all attempts have the same bytes.
            Some(failure) => (header.home, SlotReplaced::NotApplied, Some(failure)),
            None => self.replace(&append, bytes, header.home).await,
        };
        let outcome = self.ring.handle_replaced(ownership, now(), home, answer);
        match outcome {
            AppendOutcome::Committed => {
                if let Some((value, _)) = self.sealed.take() {
                    let slot = value.slot() as usize;
                    self.values[slot] = Some(value);
                }
            }
            AppendOutcome::Unknown => {}
            AppendOutcome::Refused => self.sealed = None,
            AppendOutcome::Superseded(_) => {
                self.sealed = None;
                self.is_loaded = false;
            }
        }
        Appended { outcome, failure }
    }

    /// Returns why this entry is not written, if it does not fit into a segment: the log could not be
    /// shortened then.
    fn too_large(&self, bytes: &Bytes) -> Option<Failure> {
        let (len, most) = (bytes.len(), self.files.most());
        (len > most).then(|| {
            Failure::NotApplied(format!(
                "a commit has {len} bytes, and an entry of the log at most {most}"
            ))
        })
    }

    /// Returns the append and its bytes; or why nothing is sent. `now` is an instant before the call.
    pub(in crate::engine) async fn prepare(
        &mut self,
        now: Instant,
        header: Tail,
        draft: Draft<'_>,
        new_base: Option<Base>,
    ) -> Result<(Append<Version>, Bytes), NotSent> {
        let tail = self.ring.tail().map(|it| it.entry.header);
        // Argument 9 of the ring.
        let slots = self
            .ring
            .unverified(now, &header)
            .map(|it| self.ring.slot_of(it));
        let slots: Vec<_> = slots.collect();
        let mut reads = Vec::with_capacity(slots.len());
        if let Some(tail) = tail.filter(|_| !slots.is_empty()) {
            let keys: Vec<_> = slots
                .iter()
                .map(|&it| self.slots[it as usize].clone())
                .collect();
            let answers = self.home.read_many(&keys).await;
            let answers = answers.map_err(|failure| (AppendOutcome::Refused, Some(failure)))?;
            for (slot, read) in slots.into_iter().zip(answers) {
                let home = self.saw(&read);
                if home != header.home {
                    let found = Found::Tail(tail);
                    let observation = Observation { home, found };
                    return Err((AppendOutcome::Superseded(observation), None));
                }
                reads.push(self.slot_read(slot, read));
            }
        }
        let before = tail
            .and_then(|it| self.value(it.sequence))
            .map(|it| it.position);
        let mut sealed = None;
        let append = self.ring.append(now, header, reads, new_base, |entry| {
            let value = SlotValue::new(entry, draft, before);
            let bytes = value.encode();
            let checksum = checksum(&bytes);
            sealed = Some((value, bytes));
            checksum
        });
        let append = match append {
            Ok(append) => append,
            Err(Blocked::Behind) => {
                self.is_loaded = false;
                return Err(refused("the log has moved on"));
            }
            Err(Blocked::NeedsBase) => {
                return Err(refused(
                    "the log has no free slot, because no snapshot could be written",
                ));
            }
            Err(Blocked::Moved(observation)) => {
                self.is_loaded = false;
                return Err((AppendOutcome::Superseded(observation), None));
            }
        };
        if sealed.is_some() {
            self.sealed = sealed;
        }
        match &self.sealed {
            Some((_, bytes)) => Ok((append, bytes.clone())),
            None => Err(refused("the entry is gone")),
        }
    }

    /// Sends the replace of a slot, at the home with this number.
    pub(in crate::engine) async fn replace(
        &mut self,
        append: &Append<Version>,
        bytes: Bytes,
        home: HomeId,
    ) -> (HomeId, SlotReplaced<Version>, Option<Failure>) {
        let identity = self.identity.clone();
        let identity = identity.filter(|identity| self.home_number(identity) == home);
        let Some(identity) = identity else {
            let failure = Failure::Unknown("another home has answered meanwhile".into());
            return (home, SlotReplaced::Unknown, Some(failure));
        };
        let expected = Expected {
            version: append.expected.clone(),
            identity,
        };
        let key = self.slots[append.slot as usize].clone();
        match self.home.replace(&key, &expected, bytes).await {
            Ok(Replaced::Done(version)) => (home, SlotReplaced::Done(version), None),
            Ok(Replaced::Changed(read)) => {
                let home = self.saw(&read);
                let read = self.slot_read(append.slot, read);
                (home, SlotReplaced::Changed(read), None)
            }
            Err(failure @ Failure::Unknown(_)) => (home, SlotReplaced::Unknown, Some(failure)),
            Err(failure) => (home, SlotReplaced::NotApplied, Some(failure)),
        }
    }

    /// Brings a replica to the newest entry.
    ///
    /// # Errors
    ///
    /// [`BaseError`]: nothing was changed if a file is missing; all slots are to be read again.
    pub(in crate::engine) async fn bring(
        &mut self,
        replica: &mut Replica,
        history: HistoryLimits,
    ) -> Result<(), BaseError> {
        let Some(tail) = self.tail().cloned() else {
            return Ok(());
        };
        // A restore begins with a base that has more than the entries before it.
        let is_empty = replica.at.sequence == 0 && self.ring.base().is_some();
        let is_behind = replica.at.sequence < tail.tail.sequence;
        if is_empty || is_behind && self.value(replica.at.sequence + 1).is_none() {
            let Some(base) = self.ring.base() else {
                return Err(BaseError::Damaged("the log has no snapshot".into()));
            };
            match self.read_base(base, replica, history).await {
                Err(error @ BaseError::Missing(_)) => {
                    self.is_loaded = false;
                    return Err(match self.ring.handle_missing_file() {
                        true => BaseError::Damaged(error.to_string()),
                        false => error,
                    });
                }
                read => read?,
            }
        }
        while replica.at.sequence < tail.tail.sequence {
            let Some(value) = self.value(replica.at.sequence + 1) else {
                return Err(BaseError::Damaged(format!(
                    "entry {} is missing",
                    replica.at.sequence + 1
                )));
            };
            replica.apply(&value.entry).map_err(BaseError::Damaged)?;
        }
        if replica.at != tail.position {
            return Err(BaseError::Damaged(format!(
                "entry {} is another one than in the log",
                replica.at.sequence
            )));
        }
        replica.note(&tail.about.store, tail.about.is_guarded);
        Ok(())
    }

    async fn read_base(
        &self,
        base: Base,
        replica: &mut Replica,
        history: HistoryLimits,
    ) -> Result<(), BaseError> {
        let files = self.files.read_base(base, replica.at.sequence).await?;
        let is_part = |file: &&LogFile| file.kind == FileKind::Snapshot;
        let parts: Vec<_> = files.iter().take_while(is_part).collect();
        if let Some(last) = parts.last() {
            let name = self.files.key(last.name).to_string();
            let contents: Vec<_> = parts.iter().map(|file| &file.content[..]).collect();
            let read = Replica::read(&name, contents.concat(), history);
            *replica = read.map_err(BaseError::Damaged)?;
        }
        for file in &files[parts.len()..] {
            let damaged =
                |detail| BaseError::Damaged(format!("{}: {detail}", self.files.key(file.name)));
            for entry in file.entries() {
                let entry = entry.map_err(|error| damaged(error.to_string()))?;
                replica.apply(entry).map_err(damaged)?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for RingLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = self.ring.tail().map(|it| it.entry.header);
        f.debug_struct("RingLog")
            .field("place", &self.place)
            .field("tail", &tail)
            .finish()
    }
}
