//! What a server learns from reads: entry by entry, or all slots at once.

use alloc::vec::Vec;
use core::mem;

use super::{LogRing, Slot, SlotRead};
use crate::ownership::{Found, HomeId, Observation, Refusal};

/// The meaning of the slot of the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Followed {
    /// It has the next entry, which is the tail now. There may be more.
    Next(Observation),
    /// There is nothing new, or the log is not in order.
    Silent(Observation),
    /// The ring has moved on by a round or more: read all slots.
    Behind,
}

/// The meaning of a read of all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loaded {
    /// The newest chain, or the reason why there is none. If [`LogRing::tail`] is this header, the content
    /// is that of [`LogRing::base`] and of all entries after it, which [`LogRing::entry`] has.
    Seen(Observation),
    /// The ring has moved on meanwhile: read all slots again.
    Again,
}

impl<V: Clone + Eq> LogRing<V> {
    /// Returns the slot of the next entry, and its version as far as the server knows.
    #[must_use]
    pub fn next_read(&self) -> (u64, Option<&V>) {
        let known = self.slots[self.index(self.tail + 1)].as_ref();
        (self.slot_of(self.tail + 1), known.map(|it| &it.version))
    }

    /// Input: the answer of the home `home` to the read of [`next_read`](Self::next_read).
    pub fn handle_read(&mut self, home: HomeId, read: SlotRead<V>) -> Followed {
        let next = self.tail + 1;
        let overwritten = self.overwritten();
        let here = |found| Observation { home, found };
        let silence = |tail: Option<&Slot<V>>| {
            let found = tail.map_or(Found::Empty, |it| Found::Tail(it.entry.header));
            Followed::Silent(here(found))
        };
        match read {
            SlotRead::Unchanged => silence(self.tail()),
            SlotRead::Absent if overwritten == 0 => silence(self.tail()),
            SlotRead::Absent => Followed::Silent(here(self.deleted(next))),
            SlotRead::Unreadable(refusal) => Followed::Silent(here(Found::Unusable(refusal))),
            SlotRead::Found(slot) => {
                let header = slot.entry.header;
                let tail = self.tail();
                match header.sequence {
                    // Argument 7.
                    it if it == next && slot.entry.previous == tail.map(|it| it.checksum) => {
                        self.accept(slot);
                        Followed::Next(here(Found::Tail(header)))
                    }
                    it if it == next => Followed::Silent(here(self.forked(header))),
                    it if it > next => Followed::Behind,
                    it if it == overwritten => {
                        let silence = silence(tail);
                        let index = self.index(next);
                        self.slots[index] = Some(slot);
                        silence
                    }
                    // An older round: the read is stale, or the log went back.
                    _ => Followed::Silent(here(Found::Tail(header))),
                }
            }
        }
    }

    /// Input: the answers of the home `home` to reads of all slots, in their order. The reads were
    /// sent after the last call returned, one by one or together.
    pub fn load(&mut self, home: HomeId, reads: Vec<SlotRead<V>>) -> Loaded {
        let seen = |found| Loaded::Seen(Observation { home, found });
        let mut slots = Vec::with_capacity(reads.len());
        for read in reads {
            slots.push(match read {
                SlotRead::Found(slot) => Some(slot),
                SlotRead::Absent => None,
                SlotRead::Unchanged => self.slots[slots.len()].clone(),
                SlotRead::Unreadable(refusal) => return seen(Found::Unusable(refusal)),
            });
        }
        let newest = slots.iter().flatten();
        let Some(newest) = newest.max_by_key(|it| it.entry.header.sequence).cloned() else {
            return seen(Found::Empty);
        };
        let header = newest.entry.header;
        if header.sequence < self.tail {
            return seen(Found::Tail(header));
        }
        let at = |sequence: u64| {
            let slot = slots.get(self.index(sequence))?.as_ref();
            slot.filter(|it| it.entry.header.sequence == sequence)
        };
        // The server's own tail is a part of the chain, if it is still in the ring.
        let is_forked =
            |tail: &Slot<V>| at(self.tail).is_some_and(|it| it.checksum != tail.checksum);
        if self.tail().is_some_and(is_forked) {
            return seen(self.forked(header));
        }
        // Argument 7: each entry above the base is there, with the checksum of the one before.
        let first = newest.entry.covered() + 1;
        let has_gap = |sequence: &u64| match (at(*sequence), at(*sequence - 1)) {
            (Some(it), Some(before)) => it.entry.previous != Some(before.checksum),
            (it, _) => it.is_none(),
        };
        if let Some(gap) = (first..=header.sequence).find(has_gap) {
            // Argument 7: between two reads that show the same newest entry, nothing was written.
            if self.gap_at.replace(newest.checksum) != Some(newest.checksum) {
                return Loaded::Again;
            }
            let slot = self.slot_of(gap);
            return seen(match slots[self.index(gap)] {
                None => self.deleted(gap),
                Some(_) => Found::Unusable(Refusal::SlotDamaged { slot }),
            });
        }
        self.slots = slots;
        self.tail = header.sequence;
        seen(Found::Tail(header))
    }

    /// Input: a file of the base is missing. Returns whether the log is damaged. If not, the ring has
    /// moved on: read all slots again.
    pub fn handle_missing_file(&mut self) -> bool {
        let tail = self.tail().map(|it| it.checksum);
        // Argument 7: the base of the tail was missing, and later the tail was still the newest entry.
        mem::replace(&mut self.missing_at, tail) == tail
    }

    /// The log has an entry that does not follow the server's own tail.
    pub(super) fn forked(&self, found: crate::ownership::Tail) -> Found {
        self.tail().map_or(Found::Empty, |known| {
            Found::Unusable(Refusal::WentBack {
                known: known.entry.header,
                found: Some(found),
            })
        })
    }
}
