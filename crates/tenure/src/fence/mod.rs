//! Fencing: receivers check epochs and reject the writes of a stale leader.
//!
//! A lease can't stop a write that is already on its way: a leader may freeze between its check and
//! its write, for longer than its lease. Only the receiver can reject the write then. Each leader
//! sends its [epoch](crate::Leadership::epoch) with each write, and the receiver rejects an epoch that
//! is smaller than one it has seen:
//!
//! ```text
//! leader, epoch 7   ---frozen---------------------------- write (7) --> rejected: 9 was seen
//! leader, epoch 9        elected --- write (9) --> accepted
//!                                    the gate is at 9 from here on
//! ```
//!
//! | the data live | the fence |
//! |---|---|
//! | behind your own HTTP service | `FenceLayer` before the routes that write (feature `tower`), [`Fenced`] at the client |
//! | in the memory of your process | a [`Gate`], checked under the lock of the data |
//! | in a SQL database | one statement, [below](#sql) |
//! | in an object store | compare and put, [below](#object-stores) |
//!
//! # What a fence does not do
//!
//! - **It must be where the data are.** A gate in memory guards data that this process alone writes. Two
//!   instances of a receiver have two gates, and one has not seen the epochs of the other: use the
//!   database that they share.
//! - **It forgets at a restart**, unless it is [started](Gate::starting_at) from an epoch that was
//!   stored with the data. A new gate accepts any first epoch.
//! - **It must be one step with the write.** Between "admitted" and "written" a newer epoch may come
//!   and write first. Check again (`Admission::check`) under the lock, or in the transaction,
//!   that the write itself needs.
//! - **It orders terms, not requests.** Equal epochs are admitted: the receiver must handle a leader's
//!   own retries and reorderings (give requests a key, and accept each key once).
//! - **It rejects the old leader only after the first request of the new one.** A leader that must
//!   exclude its predecessor at once sends a request first.
//! - **It is not authentication.** A sender of the greatest epoch excludes all others. Authenticate
//!   requests first.
//! - **Epochs of different elections don't compare.** One election, one gate.
//!
//! # SQL
//!
//! One row per election, raised by the first statement of every transaction that writes:
//!
//! ```sql
//! UPDATE fences SET epoch = :epoch WHERE election = :election AND epoch <= :epoch;
//! -- 1 row changed: write, and commit. 0 rows: a newer leader has written; roll back and stop.
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
//! PUT object, If-Match: "e1", tenure-epoch: 9                  412: the object has changed; read again
//! PUT object, If-None-Match: *, tenure-epoch: 9                for an object that does not exist
//! ```
//!
//! This fences one object. Where a job writes many, put them under names that have the epoch in them,
//! and list the valid ones in one small object, fenced like this. A put or a delete without its
//! condition bypasses the fence.

mod stamp;

#[cfg(feature = "tower")]
mod layer;

#[cfg(feature = "tower")]
pub use layer::{Admission, Fence, FenceLayer, Unmarked};
pub use stamp::Fenced;
pub use tenure_core::fence::{Gate, Stale};

/// The HTTP header with the leader's epoch, a decimal number.
pub const EPOCH_HEADER: &str = "tenure-epoch";

/// The HTTP header with the election that the epoch belongs to, `namespace/name`.
pub const ELECTION_HEADER: &str = "tenure-election";
