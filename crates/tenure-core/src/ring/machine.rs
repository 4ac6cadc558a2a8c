//! The state machine: appends, their answers, limits and files.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Append, Base, Checksum, Entry, Pressure, RingLimits, Slot, SlotRead, SlotReplaced};
use crate::Instant;
use crate::ownership::{AppendOutcome, Found, HomeId, Observation, Ownership, Refusal, Tail};

/// The log in a ring of slots, as one server sees it; see the [module](super). `V` is the type of the
/// versions of the home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogRing<V> {
    pub(super) limits: RingLimits,
    /// The entry that this server has seen last in each slot.
    pub(super) slots: Vec<Option<Slot<V>>>,
    /// The sequence of the newest entry of the chain; 0 if the log is empty.
    pub(super) tail: u64,
    /// The append that is under way.
    pending: Option<Append<V>>,
    /// The tail when the [entries](Self::unverified) were read last that this server appends after.
    verified: u64,
    /// An instant before that read; `None` if the home has failed since.
    verified_at: Option<Instant>,
    /// The newest entry of the last read of all slots that had a gap.
    pub(super) gap_at: Option<Checksum>,
    /// The tail when a file was missing last.
    pub(super) missing_at: Option<Checksum>,
}

/// The reason why an append must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocked {
    /// This server does not know the entry before, or the entry that is overwritten. It reads all
    /// slots again. The append is [`AppendOutcome::Refused`].
    Behind,
    /// [`LogRing::needs_base`]: the append is [`AppendOutcome::Refused`].
    NeedsBase,
    /// An entry that this server knows is not in its slot, or the slot of the next entry was deleted:
    /// [`AppendOutcome::Superseded`] with this observation.
    Moved(Observation),
}

#[allow(clippy::result_large_err)] // There is one append at a time.
impl<V: Clone + Eq> LogRing<V> {
    /// Creates the machine of a server that has read nothing.
    #[must_use]
    pub fn new(limits: RingLimits) -> Self {
        Self {
            limits,
            slots: (0..limits.slots).map(|_| None).collect(),
            tail: 0,
            pending: None,
            verified: 0,
            verified_at: None,
            gap_at: None,
            missing_at: None,
        }
    }

    /// Returns the newest entry that the server knows; `None` if the log is empty.
    #[must_use]
    pub fn tail(&self) -> Option<&Slot<V>> {
        self.entry(self.tail)
    }

    /// Returns the entry with this sequence, if it is in the ring as far as the server knows.
    #[must_use]
    pub fn entry(&self, sequence: u64) -> Option<&Slot<V>> {
        let slot = self.slots[self.index(sequence)].as_ref();
        slot.filter(|it| it.entry.header.sequence == sequence)
    }

    /// Returns the base that the tail names.
    #[must_use]
    pub fn base(&self) -> Option<Base> {
        self.tail()?.entry.base
    }

    /// Returns the slot of the entry with this sequence.
    #[must_use]
    pub const fn slot_of(&self, sequence: u64) -> u64 {
        sequence % self.limits.slots
    }

    #[allow(clippy::cast_possible_truncation)] // The remainder is below the length of a vector.
    pub(super) const fn index(&self, sequence: u64) -> usize {
        self.slot_of(sequence) as usize
    }

    /// Returns what the owner does for the entries that the base does not contain.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        match self.tail - self.covered() {
            uncovered if uncovered >= self.limits.resign => Pressure::Resign,
            uncovered if uncovered >= self.limits.changes => Pressure::RefuseChanges,
            uncovered if uncovered >= self.limits.segment => Pressure::WriteSegment,
            _ => Pressure::Low,
        }
    }

    fn covered(&self) -> u64 {
        self.tail().map_or(0, |it| it.entry.covered())
    }

    /// Returns the entry that a base contains which is written from now on, from what is durable;
    /// `None` if the named base contains it already.
    #[must_use]
    pub fn begin_base(&self) -> Option<u64> {
        Some(self.tail).filter(|&tail| tail > self.covered())
    }

    /// Returns the entry that the next one overwrites; 0 in the first round.
    pub(super) const fn overwritten(&self) -> u64 {
        (self.tail + 1).saturating_sub(self.limits.slots)
    }

    /// Returns whether the next entry would overwrite one that no base contains, also if it names
    /// `new_base`. While it would, a standby is [barred](Ownership::bar) and writes a base.
    #[must_use]
    pub fn needs_base(&self, new_base: Option<Base>) -> bool {
        // Argument 5.
        self.overwritten() > self.next_base(new_base).map_or(0, |it| it.covered)
    }

    /// Returns the entries whose slots are read before an attempt of the append with this header: all
    /// entries in the ring before each attempt of a take-over, and from time to time those that an owner
    /// has appended since the last of these reads. `now` is an instant before the reads are sent.
    #[must_use]
    pub fn unverified(&self, now: Instant, header: &Tail) -> Range<u64> {
        let end = self.tail + 1;
        // The append names the version of the entry that it overwrites.
        let oldest = (end + 1).saturating_sub(self.limits.slots).max(1);
        let is_recent = |at| now.since(at) < self.limits.verify_every;
        let start = match self.tail() {
            Some(tail) if tail.entry.header.generation != header.generation => oldest,
            Some(_) if !self.verified_at.is_some_and(is_recent) => self.verified.max(oldest),
            _ => end,
        };
        start..end
    }

    /// Returns the append of an entry with the header that the ownership asked for, or another attempt
    /// of the append that is under way.
    ///
    /// The entry names `new_base`, if that contains more than the base before. `seal` encodes the
    /// entry with its changes and returns the checksum; it is not called for another attempt.
    ///
    /// `reads` are the answers to reads of the slots of the entries that [`unverified`](Self::unverified)
    /// returns for the same `now`.
    ///
    /// # Errors
    ///
    /// [`Blocked`], if the append must not be sent.
    pub fn append(
        &mut self,
        now: Instant,
        header: Tail,
        reads: Vec<SlotRead<V>>,
        new_base: Option<Base>,
        seal: impl FnOnce(&Entry) -> Checksum,
    ) -> Result<Append<V>, Blocked> {
        if header.sequence != self.tail + 1 {
            return Err(Blocked::Behind);
        }
        // Argument 9.
        let unverified = self.unverified(now, &header);
        let mut reads = reads.into_iter();
        for sequence in unverified.clone() {
            let read = reads.next().ok_or(Blocked::Behind)?;
            // An entry that this server has not seen is in the base.
            if let Some(known) = self.entry(sequence)
                && let Some(found) = self.misses(known, read)
            {
                let home = header.home;
                return Err(Blocked::Moved(Observation { home, found }));
            }
        }
        if !unverified.is_empty() || self.tail == 0 {
            (self.verified, self.verified_at) = (self.tail, Some(now));
        }
        // Argument 8: exactly the same bytes again.
        let pending = self.pending.as_ref();
        if let Some(pending) = pending.filter(|it| it.entry.header == header) {
            return Ok(pending.clone());
        }
        // Argument 5: also for a take-over.
        if self.needs_base(new_base) {
            return Err(Blocked::NeedsBase);
        }
        let entry = Entry {
            header,
            previous: self.tail().map(|it| it.checksum),
            base: self.next_base(new_base),
        };
        let append = Append {
            slot: self.slot_of(header.sequence),
            expected: self.expected(header)?,
            checksum: seal(&entry),
            entry,
        };
        self.pending = Some(append.clone());
        Ok(append)
    }

    /// Returns the base that the next entry names.
    fn next_base(&self, new: Option<Base>) -> Option<Base> {
        // Argument 6: it contains more than the base before, and only what is durable.
        new.filter(|it| it.covered > self.covered() && it.covered <= self.tail)
            .or_else(|| self.base())
    }

    /// Returns the version of the entry that is overwritten. There must be no value only in the first
    /// round, so that a slot that was deleted is never filled.
    fn expected(&self, header: Tail) -> Result<Option<V>, Blocked> {
        let overwritten = self.overwritten();
        match &self.slots[self.index(self.tail + 1)] {
            None if overwritten == 0 => Ok(None),
            // Argument 1: a version is named only if its entry was seen.
            Some(slot) if slot.entry.header.sequence == overwritten => {
                Ok(Some(slot.version.clone()))
            }
            Some(_) => Err(Blocked::Behind),
            None => Err(Blocked::Moved(Observation {
                home: header.home,
                found: self.deleted(header.sequence),
            })),
        }
    }

    /// Returns what stands in the slot of an entry, if it is not that entry.
    fn misses(&self, entry: &Slot<V>, read: SlotRead<V>) -> Option<Found> {
        match read {
            SlotRead::Unchanged => None,
            SlotRead::Found(slot) if slot.checksum == entry.checksum => None,
            // Another server has appended a round since.
            SlotRead::Found(slot) if slot.entry.header.sequence > entry.entry.header.sequence => {
                Some(Found::Tail(slot.entry.header))
            }
            SlotRead::Found(slot) if slot.entry.header.sequence == entry.entry.header.sequence => {
                Some(self.forked(slot.entry.header))
            }
            // The read is stale, or the home lost the entry: the chain ends before it.
            SlotRead::Found(_) | SlotRead::Absent => {
                let before = self.entry(entry.entry.header.sequence - 1);
                Some(before.map_or(Found::Empty, |it| Found::Tail(it.entry.header)))
            }
            SlotRead::Unreadable(refusal) => Some(Found::Unusable(refusal)),
        }
    }

    pub(super) const fn deleted(&self, sequence: u64) -> Found {
        let slot = self.slot_of(sequence);
        Found::Unusable(Refusal::SlotDeleted { slot })
    }

    /// Input: the answer of the home `home` to an attempt of the append. `now` is the instant at
    /// which it arrived, or a later one. Returns what is known of the append now.
    ///
    /// After [`AppendOutcome::Superseded`] the server drops the content in memory and reads all slots.
    #[must_use]
    pub fn handle_replaced(
        &mut self,
        ownership: &mut Ownership,
        now: Instant,
        home: HomeId,
        answer: SlotReplaced<V>,
    ) -> AppendOutcome {
        let Some(append) = self.pending.take() else {
            return AppendOutcome::Unknown;
        };
        let superseded = |found| AppendOutcome::Superseded(Observation { home, found });
        let sequence = append.entry.header.sequence;
        if let SlotReplaced::NotApplied | SlotReplaced::Unknown = answer {
            // The home may have been restored meanwhile.
            self.verified_at = None;
        }
        let (outcome, version) = match answer {
            SlotReplaced::Done(version) => (AppendOutcome::Committed, Some(version)),
            SlotReplaced::NotApplied => (AppendOutcome::Refused, None),
            SlotReplaced::Unknown => (AppendOutcome::Unknown, None),
            // Another home never applies this append, whatever stands there: the replace names its own.
            SlotReplaced::Changed(_) if home != append.entry.header.home => {
                let tail = self.tail().map(|it| it.entry.header);
                (superseded(tail.map_or(Found::Empty, Found::Tail)), None)
            }
            SlotReplaced::Changed(read) => match read {
                // The expected value stands there, so this attempt may still be applied.
                SlotRead::Unchanged => (AppendOutcome::Unknown, None),
                SlotRead::Absent if append.expected.is_none() => (AppendOutcome::Unknown, None),
                SlotRead::Found(slot) if Some(&slot.version) == append.expected.as_ref() => {
                    (AppendOutcome::Unknown, None)
                }
                SlotRead::Absent => (superseded(self.deleted(sequence)), None),
                SlotRead::Unreadable(refusal) => (superseded(Found::Unusable(refusal)), None),
                // It may be the server's own entry. The ownership compares the heads.
                SlotRead::Found(slot) => {
                    let found = Found::Tail(slot.entry.header);
                    (superseded(found), Some(slot.version))
                }
            },
        };
        let outcome = ownership.handle_appended(now, outcome);
        match (outcome, version) {
            (AppendOutcome::Committed, Some(version)) => self.accept(Slot {
                version,
                checksum: append.checksum,
                entry: append.entry,
            }),
            // Argument 8.
            (AppendOutcome::Unknown, _) => self.pending = Some(append),
            _ => {}
        }
        outcome
    }

    /// Notes an entry as the tail.
    pub(super) fn accept(&mut self, slot: Slot<V>) {
        self.tail = slot.entry.header.sequence;
        let index = self.index(self.tail);
        self.slots[index] = Some(slot);
    }
}
