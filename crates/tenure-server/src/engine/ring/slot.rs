//! The value of a slot: an entry of the log, with what decides who owns the log.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_core::UnixMillis;
use tenure_core::ownership::{Refusal, Tail, TailState};
use tenure_core::ring::{Base, Checksum, Entry as RingEntry};

use super::SLOTS;
use crate::engine::Batch;
use crate::engine::entry::{Entry, EntryKind, Position, only_frame, put, put_frame, read, take};
use crate::model::StoreId;

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

/// The greatest number of appends or take-overs. A log never has as many: a million appends in each
/// second would take 290,000 years. A number that can't grow would stop the log.
const MOST_APPENDS: u64 = u64::MAX / 2;

/// The value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct SlotValue {
    /// The part that decides which server owns the log.
    pub(in crate::engine) tail: Tail,
    pub(in crate::engine) previous: Option<Checksum>,
    pub(in crate::engine) base: Option<Base>,
    pub(in crate::engine) about: About,
    /// The revision of the last change.
    pub(in crate::engine) revision: u64,
    /// The encoded entry, as a segment has it, and its place in the log.
    pub(in crate::engine) entry: Bytes,
    pub(in crate::engine) position: Position,
}

/// What an entry says about the store and about the server that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct About {
    /// The id of the store.
    pub(in crate::engine) store: StoreId,
    /// The identity of the home and the place of the log in it, for people.
    pub(in crate::engine) home: String,
    /// The name of the server.
    pub(in crate::engine) server: String,
    /// The URL at which clients reach the server.
    pub(in crate::engine) address: String,
    /// The time of the server's take-over.
    pub(in crate::engine) since: UnixMillis,
    /// With a vacant log: the name of the server that is to take over.
    pub(in crate::engine) successor: Option<String>,
    /// Whether a server with access control has owned the log.
    pub(in crate::engine) is_guarded: bool,
}

/// The content of the next entry.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Draft<'a> {
    pub(in crate::engine) about: About,
    /// What an operator did to the log.
    pub(in crate::engine) note: Option<String>,
    pub(in crate::engine) batch: std::borrow::Cow<'a, Batch>,
}

/// The reason why a value is not an entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum BadSlot {
    /// A newer version wrote it.
    Newer(u32),
    NotValid,
}

impl BadSlot {
    pub(super) const fn refusal(self, slot: u64) -> Refusal {
        match self {
            Self::Newer(found) => Refusal::NewerFormat { found },
            Self::NotValid => Refusal::SlotDamaged { slot },
        }
    }
}

/// Returns the checksum of the bytes of a value.
pub(super) fn checksum(bytes: &[u8]) -> Checksum {
    Checksum(number_of(digest(&SHA256, bytes).as_ref()))
}

/// Returns the first 16 bytes as a number.
pub(super) fn number_of(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or(0, |it| u128::from_be_bytes(*it))
}

impl SlotValue {
    /// Returns the value that the ring asks for. `before` is the entry before it.
    pub(super) fn new(header: &RingEntry, draft: Draft<'_>, before: Option<Position>) -> Self {
        let Draft { about, note, batch } = draft;
        let tail = header.header;
        let revision = batch.revision;
        let entry = Entry {
            sequence: tail.sequence,
            follows: before.map_or(0, |it| it.checksum),
            kind: match tail.state {
                TailState::Owned | TailState::Restoring => EntryKind::Changes,
                TailState::Vacant => EntryKind::Vacant,
                TailState::Retired => EntryKind::Retired,
            },
            note,
            batch,
        };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let position = Position {
            sequence: tail.sequence,
            checksum: crc32fast::hash(&bytes),
        };
        Self {
            tail,
            previous: header.previous,
            base: header.base,
            about,
            revision,
            entry: bytes.into(),
            position,
        }
    }

    /// Returns the bytes of the value: a frame with its format and its fields.
    pub(in crate::engine) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.entry.len() + 400);
        put_frame(&mut bytes, 0, |to| put(to, &(FORMAT, self)));
        bytes.into()
    }

    /// Reads the bytes of a value.
    pub(in crate::engine) fn decode(bytes: &[u8]) -> Result<Self, BadSlot> {
        let mut fields = only_frame(bytes).ok_or(BadSlot::NotValid)?;
        // A newer format may have other fields, so only its number is read.
        match take(&mut fields) {
            Ok(FORMAT) => {}
            Ok(found) => return Err(BadSlot::Newer(found)),
            Err(_) => return Err(BadSlot::NotValid),
        }
        let value: Self = read(fields).map_err(|_| BadSlot::NotValid)?;
        let tail = &value.tail;
        let counters = [tail.generation, tail.sequence, tail.undone];
        let is_valid = counters.iter().all(|it| *it <= MOST_APPENDS)
            && value.base.is_none_or(|base| base.covered < tail.sequence);
        is_valid.then_some(value).ok_or(BadSlot::NotValid)
    }

    /// Returns what the ring decides by.
    pub(super) fn header(&self) -> RingEntry {
        RingEntry {
            header: self.tail,
            previous: self.previous,
            base: self.base,
        }
    }

    /// Returns the slot of this value.
    pub(super) const fn slot(&self) -> u64 {
        self.tail.sequence % SLOTS
    }
}
