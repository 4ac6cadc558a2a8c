//! The log of a store in a ring of slots, which are values with a conditional replace.
//!
//! Entry `s` is written into slot `s mod N` by a replace of exactly the version of entry `s - N`. So
//! one conditional write is the commit, the fence, the heartbeat and the take-over, and no slot is
//! ever deleted. [`LogRing`] is a pure state machine for one server: it knows the slots, the newest
//! entry (the tail) and the base. It is a part below [`Ownership`](crate::ownership::Ownership),
//! which knows who owns the log and since when, and keeps all times. The ring has no clock.
//!
//! ```text
//! slot    0    1    2    3    4    5    6    7        N = 8
//! entry   8    9   10   11    4    5    6    7        the tail is 11; entry 12 replaces entry 4,
//!                             `--base---'             because the base contains it (entries to 6)
//! ```
//!
//! # Why nothing is lost, and there is one chain
//!
//! 1. **One chain.** Entry `n` replaces exactly entry `n - N`. A home applies the replaces of one
//!    slot one after the other, so `n` is written once. A server names a version only if it has seen
//!    the entry under it, so the writer of `n` knows all entries before.
//! 2. A take-over is an entry. After the take-over at `n`, an append of `n` by a former owner is
//!    refused, however late it arrives, also after any number of rounds: the version that it names
//!    never returns, because no two entries have equal bytes (the random owner id, and `undone`).
//! 3. **Changes need no clock.** They are answered only after their entry is committed.
//! 4. **Answers from memory need the clock**: arguments 3 to 5 of [`ownership`](crate::ownership).
//! 5. **Nothing is lost by a round.** An entry overwrites only an entry that the base contains, which
//!    it names itself or which an earlier entry has named. This holds for changes, heartbeats and
//!    take-overs. It may name a new base and overwrite at once, because it is one replace.
//! 6. **A base counts when a committed entry names it.** It is complete before that, it has nothing
//!    that is not durable, and it contains more than the base before. So a file that contains no
//!    more than the named base, and is no part of it, is never named again: any server may delete
//!    it at any time.
//! 7. **A recovery** reads the base and each entry after it, without a gap, each with the checksum of
//!    the one before. A read of all slots that is torn by concurrent writes shows a gap, or a file
//!    that is missing, and is repeated. If it shows the same tail twice, nothing was written
//!    meanwhile: the log is damaged.
//! 8. **Unknown outcomes.** Exactly the same bytes are sent again, until the slot shows them or
//!    another entry. An append is undone only if the home says that it was not applied, *and* no
//!    attempt of it has an unknown outcome; the next one with this sequence has a greater `undone`.
//! 9. **A read proves nothing.** A stale read can only make a write fail. But a home that lost its
//!    last entries still has the slot of the next one as it was: an owner goes on in later slots, and
//!    a server that starts meanwhile follows the older tail and does not see them. So a server reads
//!    the slots of all entries that it knows before it takes over. An owner reads its entries in each
//!    poll (T/12), before an append: all since the last of these reads, with the tail of that time. If
//!    the home lost entries in between, then it lost one of these. A server that does not see one of
//!    them stops at once and follows, because this read may be stale, too. It refuses if it sees
//!    nothing newer for T. The last append without such a read was sent less than T/12 after the loss,
//!    so the owner stops less than T/12 + 5/6 T after it. The server that started takes over T after
//!    it or later.
//! 10. The next owner counts all leases as renewed from a moment after the answer to its take-over.
//! 11. With worse clocks, or after a pause longer than the ownership duration, 1 to 3 and 5 to 9
//!     still hold: epochs increase, and receivers refuse stale writes.
//!
//! # Use
//!
//! - [`OwnershipOutput::Look`](crate::ownership::OwnershipOutput::Look): read the slot of the next
//!   entry and call [`LogRing::handle_read`]. While it is [`Followed::Next`], apply the entry to the
//!   replica and read on. If it is [`Followed::Behind`], and at a start, read all slots, call
//!   [`LogRing::load`], and bring the replica to the tail. Then call
//!   [`Ownership::handle_tail`](crate::ownership::Ownership::handle_tail) with the observation.
//! - [`OwnershipOutput::Append`](crate::ownership::OwnershipOutput::Append), and the tail of
//!   [`Ownership::append`](crate::ownership::Ownership::append): read the slots of
//!   [`LogRing::unverified`], call [`LogRing::append`], send what it returns, and call
//!   [`LogRing::handle_replaced`].
//! - After a take-over or [`LogRing::begin_base`], and every hour: delete what
//!   [`Base::supersedes`].

mod entry;
mod machine;
mod reading;

pub use entry::{
    Append, Base, Checksum, Entry, FileId, Pressure, RingLimits, Slot, SlotRead, SlotReplaced,
};
pub use machine::{Blocked, LogRing};
pub use reading::{Followed, Loaded};
#[cfg(test)]
mod tests;
