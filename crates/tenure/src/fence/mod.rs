//! Fencing: receivers check epochs, so that what an old leader still sends is refused.
//!
//! A lease can't stop a write that is already on its way: a leader may be frozen between its check
//! and its write, for longer than its lease. Only the receiver can refuse it then. Every leader
//! sends its [epoch](crate::Leadership::epoch) along, and the receiver takes no epoch that is
//! smaller than one it has seen:
//!
//! ```text
//! leader, epoch 7   ---frozen---------------------------- write (7) --> refused: 9 was seen
//! leader, epoch 9        elected --- write (9) --> taken
//!                                    the gate is at 9 from here on
//! ```
//!
//! | where the data lives | what fences it |
//! |---|---|
//! | behind your own HTTP service | `FenceLayer` before the routes that write (feature `tower`), [`Fenced`] at the client |
//! | in the memory of your process | a [`Gate`], checked under the lock of what it guards |
//! | in a SQL database | one statement, [below](#sql) |
//! | in an object store | compare and put, [below](#object-stores) |
//!
//! # What a fence does not do
//!
//! - **It has to be where the data is.** A gate in memory guards what this process alone writes. Two
//!   instances of a receiver have two gates, and the second one has not seen what the first has: let
//!   the database that they share do it.
//! - **It forgets at a restart**, unless it is [started](Gate::starting_at) from an epoch that was
//!   kept with the data. A gate that starts at nothing takes the first epoch that comes.
//! - **It must be one step with the write.** Between "admitted" and "written" a newer epoch may come
//!   and write first. Check again (`Admission::check`) under the lock, or in the transaction,
//!   that the write itself needs.
//! - **It orders reigns, not requests.** Equal epochs are admitted: a leader's own retries and
//!   reorderings are the receiver's business (give requests a key, and take each key once).
//! - **It does not refuse the old leader before the new one was here.** A leader that must shut its
//!   predecessor out at once sends something first.
//! - **It is no authentication.** Whoever can send the greatest epoch shuts everybody else out. Check
//!   who is asking first.
//! - **Epochs of different elections don't compare.** One election, one gate.
//!
//! # SQL
//!
//! One row per election, raised by the first statement of every transaction that writes:
//!
//! ```sql
//! UPDATE fences SET epoch = :epoch WHERE election = :election AND epoch <= :epoch;
//! -- 1 row changed: write, and commit. 0 rows: a newer leader was here; roll back and stop.
//! ```
//!
//! The row's lock makes the check and everything after it one step, at any level of isolation. (Count
//! the rows that matched: MySQL does so only when it is asked to.) Three ways to get it wrong:
//!
//! - `SELECT` the epoch, compare it in the program, then write: the newer leader fits in between.
//! - Fence the rows that are written (`UPDATE jobs SET ..., epoch = :epoch WHERE id = :id AND epoch
//!   <= :epoch`) and nothing else: rows that the new leader has not touched yet are open, and so are
//!   `INSERT` and rows that were deleted.
//! - `INSERT ... SELECT ... WHERE :epoch >= (SELECT max(epoch) FROM ...)`, which needs no second
//!   table, where writers don't wait for each other: it is right in SQLite (with `BEGIN IMMEDIATE`)
//!   and under `SERIALIZABLE`, and wrong under `READ COMMITTED`, where both may read the old maximum.
//!
//! # Object stores
//!
//! Keep the epoch in the object's metadata and put with a condition (S3 and GCS call it a conditional
//! write, Azure a conditional header):
//!
//! ```text
//! HEAD object                 -> ETag "e1", tenure-epoch 7     mine is smaller: stop
//! PUT object, If-Match: "e1", tenure-epoch: 9                  412: somebody wrote; look again
//! PUT object, If-None-Match: *, tenure-epoch: 9                for an object that is not there yet
//! ```
//!
//! This fences one object. Where a job writes many, put them under names that have the epoch in them,
//! and make one small object, fenced like this, say which of them count. A put or a delete without
//! its condition goes around the fence.

mod stamp;

#[cfg(feature = "tower")]
mod layer;

#[cfg(feature = "tower")]
pub use layer::{Admission, Fence, FenceLayer, ResponseFuture, Unmarked};
pub use stamp::Fenced;
pub use tenure_core::fence::{Gate, Stale};

/// The HTTP header with the leader's epoch, a decimal number.
pub const EPOCH_HEADER: &str = "tenure-epoch";

/// The HTTP header with the election that the epoch belongs to, `namespace/name`.
pub const ELECTION_HEADER: &str = "tenure-election";
