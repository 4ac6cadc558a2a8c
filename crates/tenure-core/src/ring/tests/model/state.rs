//! A state of the model, and what the executor of a server does.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use super::super::*;
use super::events::Bounds;
use super::std::hash::DefaultHasher;
use crate::Instant;
use crate::ownership::*;

pub(super) const ENGINE: HomeId = HomeId(7);

/// The sequence of the last change of each of two keys.
pub(super) type Content = [u64; 2];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u64,
    pub(super) slots: Vec<Option<Value>>,
    pub(super) files: Vec<File>,
    pub(super) sent: Vec<Message>,
    pub(super) servers: Vec<Server>,
    pub(super) left: Left,
    /// The newest entry, and the content of the log.
    pub(super) newest: Option<Entry>,
    pub(super) committed: Content,
    pub(super) acknowledged: Content,
    /// Whether the home has lost an entry.
    pub(super) went_back: bool,
    /// The event of the last step.
    pub(super) event: Option<Event>,
    /// A rule that was broken at the last step.
    pub(super) broken: Option<&'static str>,
}

/// The events that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) ticks: u8,
    pub(super) changes: u8,
    pub(super) bases: u8,
    /// Calls that are given up.
    pub(super) losses: u8,
    /// Appends that definitely fail.
    pub(super) failures: u8,
    pub(super) crashes: u8,
    /// Losses of the newest entry by the home.
    pub(super) go_backs: u8,
}

/// An event that a search must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    TookOver,
    TookOverWithBase,
    NeedsBase,
    Behind,
    Again,
    FileMissing,
    Late,
    FoundOwn,
    Undone,
    Lost,
    Deleted,
    WentBack,
}

/// The bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value {
    pub(super) entry: Entry,
    pub(super) key: Option<usize>,
}

impl Value {
    fn checksum(&self) -> Checksum {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        Checksum(u128::from(hasher.finish()))
    }

    fn read(value: Option<Self>) -> SlotRead<Checksum> {
        value.map_or(SlotRead::Absent, |value| {
            let checksum = value.checksum();
            let (version, entry) = (checksum, value.entry);
            SlotRead::Found(Slot {
                version,
                checksum,
                entry,
            })
        })
    }
}

/// A replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    slot: usize,
    expected: Option<Checksum>,
    checksum: Checksum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) key: Key,
    pub(super) value: Value,
}

impl Message {
    pub(super) const fn sequence(&self) -> u64 {
        self.value.entry.header.sequence
    }
}

/// A file that is a whole base. Its id is its place, plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct File {
    pub(super) covered: u64,
    pub(super) chunks: [Option<u64>; 2],
    pub(super) is_deleted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) ownership: Ownership,
    pub(super) ring: LogRing<Checksum>,
    starts: u8,
    /// The ownership has asked for a read.
    pub(super) looks: bool,
    /// The slots that were read; `None` if the content is in memory.
    pub(super) reads: Option<Vec<Option<Value>>>,
    pub(super) sending: Option<Sending>,
    pub(super) content: Content,
    /// The base that this server writes.
    pub(super) writing: Option<usize>,
}

/// The append that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    pub(super) message: Message,
    pub(super) is_in_flight: bool,
    /// An attempt of it was given up.
    is_unknown: bool,
}

pub(super) fn id_of(file: usize) -> FileId {
    FileId(file as u128 + 1)
}

impl Server {
    pub(super) fn new(bounds: &Bounds, id: usize, starts: u8, now: u64) -> Self {
        let ticks = Duration::from_nanos;
        let (duration, tick, none) = (ticks(bounds.ownership), ticks(1), ticks(0));
        let timings = OwnershipTimings::unchecked(duration, tick, none, tick, tick);
        let limits = RingLimits {
            slots: bounds.slots,
            segment: 1,
            changes: bounds.slots,
            resign: bounds.slots,
            verify_every: tick,
        };
        let owner = OwnerId(u128::from(starts) * 4 + id as u128);
        Self {
            ownership: Ownership::new(timings, owner, Instant::from_nanos(now)),
            ring: LogRing::new(limits),
            starts,
            looks: false,
            reads: Some(Vec::new()),
            sending: None,
            content: [0; 2],
            writing: None,
        }
    }

    pub(super) fn serves(&self, now: u64) -> bool {
        let until = self.ownership.serves_until();
        until.is_some_and(|until| Instant::from_nanos(now) < until)
    }

    /// Returns the base that this server has written, if its files are complete.
    pub(super) fn written(&self, files: &[File]) -> Option<Base> {
        let file = self.writing?;
        let is_complete = files[file].chunks.iter().all(Option::is_some);
        is_complete.then_some(Base {
            newest: id_of(file),
            covered: files[file].covered,
        })
    }

    /// Returns the value of a key for a base: without the append that is under way.
    pub(super) fn durable(&self, key: usize) -> u64 {
        self.content[key]
    }

    fn apply(&mut self, value: &Value) {
        if let Some(key) = value.key {
            self.content[key] = self.content[key].max(value.entry.header.sequence);
        }
    }

    fn forget(&mut self) {
        self.reads = Some(Vec::new());
        self.writing = None;
    }
}

impl State {
    pub(super) fn clock(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Executes the outputs of a server.
    pub(super) fn drain(&mut self, id: usize) {
        self.bar(id);
        while let Some(output) = self.servers[id].ownership.poll_output() {
            match output {
                OwnershipOutput::Look => self.servers[id].looks = true,
                OwnershipOutput::Append(header) => self.send(id, header, None),
                OwnershipOutput::Took { generation } => {
                    let now = self.clock();
                    self.servers[id].ownership.handle_loaded(now, generation);
                }
                OwnershipOutput::Deposed => self.servers[id].forget(),
                OwnershipOutput::Lapsed
                | OwnershipOutput::Resumed
                | OwnershipOutput::Refuses(_) => {}
            }
        }
    }

    /// Lets a standby take over only if it could append.
    fn bar(&mut self, id: usize) {
        let server = &mut self.servers[id];
        let needs_base = server.ring.needs_base(server.written(&self.files));
        if needs_base {
            self.event.get_or_insert(Event::NeedsBase);
        }
        server.ownership.bar(needs_base);
    }

    /// Sends an append with a change, or another attempt of an append.
    pub(super) fn send(&mut self, id: usize, header: Tail, key: Option<usize>) {
        let now = self.clock();
        let server = &mut self.servers[id];
        let unverified = server.ring.unverified(now, &header);
        let slots = unverified.map(|it| self.slots[server.ring.slot_of(it) as usize]);
        let reads = slots.map(Value::read).collect();
        let new_base = server.written(&self.files);
        let mut sealed = None;
        let append = server.ring.append(now, header, reads, new_base, |&entry| {
            let value = *sealed.insert(Value { entry, key });
            value.checksum()
        });
        match append {
            Ok(append) => {
                let key = Key {
                    slot: append.slot as usize,
                    expected: append.expected,
                    checksum: append.checksum,
                };
                if let Some(value) = sealed {
                    let message = Message { key, value };
                    server.sending = Some(Sending {
                        message,
                        is_in_flight: true,
                        is_unknown: false,
                    });
                } else if let Some(sending) = &mut server.sending {
                    sending.is_in_flight = true;
                }
                let message = server.sending.expect("an append is under way").message;
                if !self.sent.contains(&message) {
                    self.sent.push(message);
                    self.sent.sort_by_key(|it| it.key);
                }
            }
            Err(blocked) => {
                let outcome = match blocked {
                    Blocked::Behind => {
                        server.forget();
                        AppendOutcome::Refused
                    }
                    Blocked::NeedsBase => AppendOutcome::Refused,
                    Blocked::Moved(observation) => {
                        if self.went_back {
                            self.event = Some(Event::WentBack);
                        }
                        AppendOutcome::Superseded(observation)
                    }
                };
                let _ = server.ownership.handle_appended(now, outcome);
            }
        }
    }

    /// The home handles a replace. Returns whether it was applied.
    pub(super) fn replace(&mut self, message: &Message) -> bool {
        let Key { slot, expected, .. } = message.key;
        let stands = self.slots[slot].map(|it| it.checksum());
        if stands != expected {
            return false;
        }
        let entry = message.value.entry;
        let before = self.newest.map_or(0, |it| it.header.sequence);
        if entry.header.sequence != before + 1 && !self.went_back {
            self.broken = Some("the chain forks");
        }
        self.slots[slot] = Some(message.value);
        self.newest = Some(entry);
        if let Some(key) = message.value.key {
            self.committed[key] = entry.header.sequence;
        }
        true
    }

    /// Hands the answer to the append to its server.
    pub(super) fn answer(&mut self, id: usize, answer: SlotReplaced<Checksum>) {
        let now = self.clock();
        let server = &mut self.servers[id];
        let Some(mut sending) = server.sending.take() else {
            return;
        };
        let value = sending.message.value;
        let is_own = matches!(&answer, SlotReplaced::Changed(SlotRead::Found(it)) if it.entry == value.entry);
        let is_unknown = answer == SlotReplaced::Unknown;
        match server
            .ring
            .handle_replaced(&mut server.ownership, now, ENGINE, answer)
        {
            AppendOutcome::Committed => {
                server.apply(&value);
                if let Some(key) = value.key {
                    self.acknowledged[key] = value.entry.header.sequence;
                }
                let written = server.writing.map(id_of);
                let is_named = written.is_some() && written == value.entry.base.map(|it| it.newest);
                if is_named {
                    server.writing = None;
                }
                let is_take_over =
                    value.entry.header.sequence > 1 && self.event == Some(Event::TookOver);
                self.event = match (is_take_over, is_named, is_own) {
                    (true, true, _) => Some(Event::TookOverWithBase),
                    (_, _, true) => Some(Event::FoundOwn),
                    _ => self.event,
                };
            }
            AppendOutcome::Unknown => {
                sending.is_in_flight = false;
                sending.is_unknown |= is_unknown;
                server.sending = Some(sending);
            }
            AppendOutcome::Refused => self.event = Some(Event::Undone),
            AppendOutcome::Superseded(_) => {
                self.event = Some(Event::Lost);
                server.forget();
            }
        }
        self.drain(id);
    }

    /// Returns the answer to the append of a server, whose attempt reaches the home now.
    pub(super) fn reach(&mut self, id: usize) -> Option<SlotReplaced<Checksum>> {
        let sending = self.servers[id].sending.filter(|it| it.is_in_flight)?;
        let message = sending.message;
        let took_over = self
            .newest
            .is_some_and(|it| it.header.generation < message.value.entry.header.generation);
        Some(match self.replace(&message) {
            true => {
                self.event = took_over.then_some(Event::TookOver);
                SlotReplaced::Done(message.key.checksum)
            }
            false => SlotReplaced::Changed(Value::read(self.slots[message.key.slot])),
        })
    }

    /// The home refuses an append that has not reached it. An earlier attempt of it may.
    pub(super) fn fail(&mut self, id: usize) -> Option<()> {
        let sending = self.servers[id].sending?;
        if !sending.is_unknown {
            let count = self.sent.len();
            self.sent.retain(|it| *it != sending.message);
            if self.sent.len() == count {
                return None;
            }
        }
        self.answer(id, SlotReplaced::NotApplied);
        Some(())
    }

    /// A server reads one slot: the next one, or one of all.
    pub(super) fn read(&mut self, id: usize) {
        let now = self.clock();
        let server = &mut self.servers[id];
        if let Some(reads) = &mut server.reads {
            reads.push(self.slots[reads.len()]);
            return;
        }
        let (slot, _) = server.ring.next_read();
        let value = self.slots[slot as usize];
        match server.ring.handle_read(ENGINE, Value::read(value)) {
            Followed::Behind => {
                self.event = Some(Event::Behind);
                server.forget();
                return;
            }
            Followed::Next(observation) => {
                server.apply(&value.expect("an entry"));
                server.looks = false;
                server.ownership.handle_tail(now, Look::Found(observation));
            }
            Followed::Silent(observation) => {
                server.looks = false;
                server.ownership.handle_tail(now, Look::Found(observation));
            }
        }
        self.drain(id);
    }

    /// A server that has read all slots loads the content.
    pub(super) fn load(&mut self, id: usize) {
        let now = self.clock();
        let server = &mut self.servers[id];
        let Some(reads) = server.reads.replace(Vec::new()) else {
            return;
        };
        let found = reads.iter().copied().map(Value::read).collect();
        let Loaded::Seen(observation) = server.ring.load(ENGINE, found) else {
            self.event = Some(Event::Again);
            return;
        };
        if matches!(observation.found, Found::Unusable(_)) && !self.went_back {
            self.broken = Some("a server refuses a log that is in order");
        }
        let tail = server.ring.tail().map(|it| it.entry.header);
        if observation.found != tail.map_or(Found::Empty, Found::Tail) {
            return;
        }
        server.content = [0; 2];
        if let Some(base) = server.ring.base() {
            let file = self.files[base.newest.0 as usize - 1];
            if file.is_deleted {
                self.event = Some(Event::FileMissing);
                if server.ring.handle_missing_file() {
                    self.broken = Some("a file of the base is missing");
                }
                return;
            }
            server.content = file.chunks.map(|it| it.unwrap_or(0));
        }
        let covered = server.ring.base().map_or(0, |it| it.covered);
        for value in reads.iter().flatten() {
            if value.entry.header.sequence > covered {
                server.apply(value);
            }
        }
        server.reads = None;
        server.looks = false;
        server.ownership.handle_tail(now, Look::Found(observation));
        self.drain(id);
    }

    pub(super) fn crash(&mut self, bounds: &Bounds, id: usize) {
        let starts = self.servers[id].starts + 1;
        self.servers[id] = Server::new(bounds, id, starts, self.now);
        self.drain(id);
    }

    /// The home loses the newest entry, which is one of the first round, and this server starts again.
    pub(super) fn go_back(&mut self, bounds: &Bounds, id: usize) {
        if let Some(newest) = self.newest {
            let left = |it: &&Value| it.entry.header.sequence < newest.header.sequence;
            let values = self.slots.iter().flatten().filter(left);
            let newest_left = values.max_by_key(|it| it.entry.header.sequence);
            self.newest = newest_left.map(|it| it.entry);
            self.slots[self.servers[id].ring.slot_of(newest.header.sequence) as usize] = None;
        }
        self.went_back = true;
        self.crash(bounds, id);
    }

    /// Returns what a server recovers from the home; `None` if it can't.
    fn recovered(&self) -> Option<Content> {
        let Some(newest) = self.newest else {
            return Some([0; 2]);
        };
        let mut content = [0; 2];
        if let Some(base) = newest.base {
            let file = self.files[base.newest.0 as usize - 1];
            if file.is_deleted {
                return None;
            }
            content = [file.chunks[0]?, file.chunks[1]?];
        }
        let first = newest.base.map_or(0, |it| it.covered) + 1;
        for sequence in first..=newest.header.sequence {
            let mut values = self.slots.iter().flatten();
            let value = values.find(|it| it.entry.header.sequence == sequence)?;
            if let Some(key) = value.key {
                content[key] = content[key].max(sequence);
            }
        }
        Some(content)
    }

    /// Returns the promise that this state breaks.
    pub(super) fn violation(&self) -> Option<&'static str> {
        if self.went_back {
            let serving = self.servers.iter().filter(|it| it.serves(self.now));
            return (serving.count() > 1).then_some("two servers answer from memory");
        }
        let lacks = |content: Content| (0..2).any(|key| content[key] < self.acknowledged[key]);
        for server in self.servers.iter().filter(|it| it.serves(self.now)) {
            let known = server.ring.tail().map(|it| it.entry);
            if known.map(|it| it.header.generation) != self.newest.map(|it| it.header.generation) {
                return Some("a server answers from memory after a take-over");
            }
            if lacks(server.content) {
                return Some("a server answers without an acknowledged change");
            }
            if known == self.newest && server.content != self.committed {
                return Some("a server answers with another content than that of the log");
            }
        }
        match self.recovered() {
            None => Some("the log can't be recovered"),
            Some(content) if content != self.committed => Some("another content is recovered"),
            Some(content) if lacks(content) => Some("an acknowledged change is not in the log"),
            Some(_) => None,
        }
    }

    /// Forgets replaces that are refused for ever: the version that they name never returns.
    pub(super) fn forget_refused(&mut self, deletes_slots: bool) {
        let slots = &self.slots;
        self.sent.retain(|it| {
            deletes_slots || slots[it.key.slot].map(|it| it.checksum()) == it.key.expected
        });
    }
}
