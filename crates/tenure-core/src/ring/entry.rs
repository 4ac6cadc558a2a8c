//! An entry of the log, the slots that hold entries, and the files behind them.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ownership::{Refusal, Tail};

/// The checksum over all bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Checksum(pub u128);

/// The random part of the name of a file. No two files have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u128);

/// The header of an entry, as far as it decides anything. Its changes are opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The position of the entry, and its owner.
    pub header: Tail,
    /// The checksum of the entry before; `None` in the first entry of a log.
    pub previous: Option<Checksum>,
    /// The base from which a recovery starts; `None` before the first base.
    pub base: Option<Base>,
}

impl Entry {
    /// Returns the last entry that the base contains; 0 if there is no base.
    pub(super) fn covered(&self) -> u64 {
        self.base.map_or(0, |it| it.covered)
    }
}

/// Files that together have the state of all leases as of an entry.
///
/// A value of this type means that its files are complete and durable, and that they have nothing
/// that is not durable in the log. The newest file begins with the list of the other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Base {
    /// The newest file.
    pub newest: FileId,
    /// The sequence of the last entry that the base contains.
    pub covered: u64,
}

impl Base {
    /// Returns whether a file that contains the changes up to the entry `covered` may be deleted once a
    /// committed entry names this base. `files` are all files of the base, the newest one first.
    #[must_use]
    pub fn supersedes(&self, files: &[FileId], file: FileId, covered: u64) -> bool {
        // Argument 6: the order in which files were written says nothing. A standby may have written
        // this one, take over, and name it.
        files.first() == Some(&self.newest) && covered <= self.covered && !files.contains(&file)
    }
}

/// A slot as a server has seen it: an entry, and the version under which it stands in the home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot<V> {
    /// The version, which the replace of this slot names.
    pub version: V,
    /// The checksum of the entry.
    pub checksum: Checksum,
    /// The entry.
    pub entry: Entry,
}

/// The answer to a read of a slot. The answer may be stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlotRead<V> {
    /// There is no value.
    Absent,
    /// The slot has the version that the read named.
    Unchanged,
    /// This entry.
    Found(Slot<V>),
    /// A value that is not an entry which this version can read.
    Unreadable(Refusal),
}

/// The answer to a replace of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlotReplaced<V> {
    /// The entry was written and is durable. It has this version.
    Done(V),
    /// The slot does not have the expected version. The read shows the present value, and is not
    /// stale.
    Changed(SlotRead<V>),
    /// This attempt was not applied and never will be.
    NotApplied,
    /// This attempt may have been applied, or may be applied later.
    Unknown,
}

/// An append: the entry replaces exactly this version of this slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append<V> {
    /// The slot.
    pub slot: u64,
    /// The version that is replaced; `None` if there must be no value.
    pub expected: Option<V>,
    /// The checksum of the entry, by which the caller finds its bytes for another attempt.
    pub checksum: Checksum,
    /// The entry.
    pub entry: Entry,
}

/// The number of slots, the numbers of entries above the base at which the owner acts, and the interval
/// at which it reads its entries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingLimits {
    pub(super) slots: u64,
    pub(super) segment: u64,
    pub(super) changes: u64,
    pub(super) resign: u64,
    pub(super) verify_every: Duration,
}

impl RingLimits {
    /// Makes the limits of a ring with this number of slots, at least 16. `verify_every` is the
    /// [poll](crate::ownership::OwnershipTimings::poll) of the ownership, or zero for a program that
    /// only takes over.
    #[must_use]
    pub const fn new(slots: u64, verify_every: Duration) -> Self {
        assert!(slots >= 16, "a ring needs 16 slots");
        Self {
            slots,
            segment: slots / 4,
            changes: slots / 4 * 3,
            resign: slots / 16 * 15,
            verify_every,
        }
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.slots
    }
}

/// What an owner does for the entries that its base does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Nothing.
    Low,
    /// It writes a segment or a snapshot, and names it in its next entry.
    WriteSegment,
    /// It also refuses changes. Heartbeats and renewals go on.
    RefuseChanges,
    /// It resigns: the last slots are for take-overs.
    Resign,
}
