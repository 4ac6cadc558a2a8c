//! The value of a slot: an entry of the log, with what decides who owns the log.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Bytes;
use tenure_core::UnixMillis;
use tenure_core::ownership::{HomeId, OwnerId, Refusal, Tail, TailState};
use tenure_core::ring::{Base, Checksum, Entry as RingEntry, FileId};
use tenure_core::time::millis;

use super::SLOTS;
use crate::engine::Batch;
use crate::engine::entry::{Column, Columns, DecodeError, Entry, EntryKind, put};
use crate::engine::snapshot::Position;
use crate::model::StoreId;

/// The format that this version writes and reads.
const FORMAT: u64 = 1;

/// The greatest number of appends or take-overs. A log never has as many: a million appends in each
/// second would take 290,000 years. A number that can't grow would stop the log.
const MOST_APPENDS: u64 = u64::MAX / 2;

/// The value of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl From<DecodeError> for BadSlot {
    fn from(_: DecodeError) -> Self {
        Self::NotValid
    }
}

const STATES: [(TailState, &str); 4] = [
    (TailState::Owned, "owned"),
    (TailState::Vacant, "vacant"),
    (TailState::Restoring, "restoring"),
    (TailState::Retired, "retired"),
];

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
        let checksum = entry.encode(&mut bytes);
        Self {
            tail,
            previous: header.previous,
            base: header.base,
            about,
            revision,
            entry: bytes.into(),
            position: Position {
                sequence: tail.sequence,
                checksum,
            },
        }
    }

    /// Returns the bytes of the value: columns, and a checksum of them.
    pub(in crate::engine) fn encode(&self) -> Bytes {
        let (tail, about) = (&self.tail, &self.about);
        let state = STATES.iter().find(|(state, _)| *state == tail.state);
        let (home, owner) = (tail.home.0.to_be_bytes(), tail.owner.0.to_be_bytes());
        let previous = self.previous.map(|it| it.0.to_be_bytes());
        let newest = self.base.map(|it| it.newest.0.to_be_bytes());
        let mut to = Vec::with_capacity(self.entry.len() + 400);
        put(
            &mut to,
            &[
                FORMAT.into(),
                Column::Bytes(&home),
                tail.generation.into(),
                tail.sequence.into(),
                tail.undone.into(),
                state.map(|(_, name)| *name).into(),
                Column::Bytes(&owner),
                millis(tail.ownership).into(),
                previous
                    .as_ref()
                    .map_or(Column::Null, |it| Column::Bytes(it)),
                newest.as_ref().map_or(Column::Null, |it| Column::Bytes(it)),
                self.base.map(|it| it.covered).into(),
                about.store.as_str().into(),
                about.home.as_str().into(),
                about.server.as_str().into(),
                about.address.as_str().into(),
                about.since.get().into(),
                about.successor.as_deref().into(),
                u64::from(about.is_guarded).into(),
                env!("CARGO_PKG_VERSION").into(),
                self.revision.into(),
                Column::Bytes(&self.entry),
            ],
        );
        to.extend(crc32fast::hash(&to).to_le_bytes());
        to.into()
    }

    /// Reads the bytes of a value.
    pub(in crate::engine) fn decode(bytes: &[u8]) -> Result<Self, BadSlot> {
        let (columns, sum) = bytes.split_last_chunk().ok_or(BadSlot::NotValid)?;
        if crc32fast::hash(columns) != u32::from_le_bytes(*sum) {
            return Err(BadSlot::NotValid);
        }
        let mut columns = Columns(columns);
        let format = columns.number("format")?;
        // A newer format may have other columns, so only its number is read.
        if format != FORMAT {
            return Err(BadSlot::Newer(u32::try_from(format).unwrap_or(u32::MAX)));
        }
        let columns = &mut columns;
        let number = |columns: &mut Columns<'_>| match columns.bytes("number")? {
            bytes if bytes.len() == 16 => Ok(number_of(bytes)),
            _ => Err(BadSlot::NotValid),
        };
        let optional = |columns: &mut Columns<'_>| match columns.optional_bytes("number")? {
            None => Ok(None),
            Some(bytes) if bytes.len() == 16 => Ok(Some(number_of(bytes))),
            Some(_) => Err(BadSlot::NotValid),
        };
        let counter = |columns: &mut Columns<'_>| match columns.number("counter")? {
            number if number <= MOST_APPENDS => Ok(number),
            _ => Err(BadSlot::NotValid),
        };
        let tail = Tail {
            home: HomeId(number(columns)?),
            generation: counter(columns)?,
            sequence: counter(columns)?,
            undone: counter(columns)?,
            state: {
                let state = columns.text("state")?;
                let state = STATES.iter().find(|(_, name)| *name == state);
                state.ok_or(BadSlot::NotValid)?.0
            },
            owner: OwnerId(number(columns)?),
            ownership: Duration::from_millis(columns.number("ownership")?),
        };
        let previous = optional(columns)?.map(Checksum);
        let newest = optional(columns)?.map(FileId);
        let covered = columns.optional_number("covered")?;
        if covered.is_some_and(|covered| covered >= tail.sequence) {
            return Err(BadSlot::NotValid);
        }
        let about = About {
            store: StoreId::parse(columns.text("store")?).ok_or(BadSlot::NotValid)?,
            home: columns.text("home")?.to_owned(),
            server: columns.text("server")?.to_owned(),
            address: columns.text("address")?.to_owned(),
            since: UnixMillis::new(columns.number("since")?),
            successor: columns.optional_text("successor")?.map(ToOwned::to_owned),
            is_guarded: columns.number("guarded")? != 0,
        };
        columns.text("version")?;
        let revision = columns.number("revision")?;
        let entry = Bytes::copy_from_slice(columns.bytes("entry")?);
        columns.end()?;
        Ok(Self {
            tail,
            previous,
            base: newest
                .zip(covered)
                .map(|(newest, covered)| Base { newest, covered }),
            about,
            revision,
            position: Position {
                sequence: tail.sequence,
                checksum: crc32fast::hash(&entry),
            },
            entry,
        })
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
