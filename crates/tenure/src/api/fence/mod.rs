//! Fencing: receivers check epochs and reject the writes of a stale leader.
//!
//! A lease can't stop a write that is already in progress: a leader may freeze between its check
//! and its write for longer than its lease. Then only the receiver can reject the write. Each
//! leader sends its [epoch](crate::Leadership::epoch) with each write, and the receiver rejects an
//! epoch that is smaller than one it has seen:
//!
//! ```text
//! leader, epoch 7   ---frozen---------------------------- write (7) --> rejected: 9 was seen
//! leader, epoch 9        elected --- write (9) --> accepted
//!                                    the gate is at 9 from here on
//! ```
//!
//! | location of the data | the fence |
//! |---|---|
//! | behind your own HTTP service | `FenceLayer` before the routes that write (feature `tower`), [`Fenced`] at the client |
//! | in the memory of your process | a [`Gate`], checked under the lock of the data |
//! | in a SQL database | one statement, [below](#sql) |
//! | in an object store | compare and put, [below](#object-stores) |
//!
//! # What a fence does not do
//!
//! - **It must be at the data.** A gate in memory protects only data that no other process writes.
//!   Two instances of a receiver have two gates, and neither gate knows the epochs of the other:
//!   use the database that they share.
//! - **It loses its state at a restart**, unless you [start it](Gate::starting_at) from an epoch
//!   that was stored with the data. A new gate accepts any first epoch.
//! - **The check must be atomic with the write.** Between the check and the write, a request with a
//!   newer epoch may arrive and write first. Check again (`Admission::check`) under the lock, or in
//!   the transaction that the write itself uses.
//! - **It orders terms, not requests.** Equal epochs are admitted: the receiver must handle the
//!   retries and reorderings of one leader (for example by a key for each request, which is
//!   accepted once).
//! - **It rejects the old leader only after the first request of the new one.** A leader that must
//!   exclude its predecessor at once must first send a request.
//! - **It is not authentication.** A sender of the greatest epoch excludes all others. Authenticate
//!   requests first.
//! - **It does not compare epochs of different elections.** Each election needs its own gate.
//!
//! # SQL
//!
//! Keep one row per election, and a function that raises its epoch or fails (PostgreSQL):
//!
//! ```sql
//! CREATE FUNCTION raise_fence(of_election text, to_epoch bigint) RETURNS void AS $$
//! BEGIN
//!   UPDATE fences SET epoch = to_epoch WHERE election = of_election AND epoch <= to_epoch;
//!   IF NOT FOUND THEN
//!     RAISE EXCEPTION 'epoch % of % is stale', to_epoch, of_election;
//!   END IF;
//! END $$ LANGUAGE plpgsql;
//! ```
//!
//! 1. A term begins with `SELECT raise_fence('billing/nightly', 9)`, in a transaction of its own,
//!    before the leader reads or writes anything. From then on no earlier leader can commit.
//! 2. Each transaction ends with `SELECT raise_fence('billing/nightly', 9); COMMIT`, as **one
//!    message** to the server (`batch_execute` of tokio-postgres). If the function fails, the server
//!    skips `COMMIT`: roll back and stop.
//! 3. Timeouts end the session of a leader that is frozen inside a transaction, and so free the rows
//!    that it has written: `idle_in_transaction_session_timeout` below the lease duration,
//!    `statement_timeout`, `lock_timeout` and `tcp_user_timeout`.
//!
//! The row of the fence is locked from the check to the commit, so leaders commit one after the
//! other, and their epochs never decrease. Both are in one message, so no client can freeze between
//! them. With the fence first, a frozen leader would keep its successor from writing for as long as
//! it is frozen. The page `docs/fencing.md` has the whole argument, and MySQL. (Count the rows that
//! matched. MySQL does so only with an option of the connection.) Mistakes to avoid:
//!
//! - `SELECT` the epoch, compare it in the program, then write. The newer leader can write between
//!   these steps.
//! - Fence only the rows that are written
//!   (`UPDATE jobs SET ..., epoch = :epoch WHERE id = :id AND epoch <= :epoch`). Then rows that the
//!   new leader has not written yet are unprotected, and so are `INSERT` statements and deleted
//!   rows.
//! - `INSERT ... SELECT ... WHERE :epoch >= (SELECT max(epoch) FROM ...)`, which needs no second
//!   table, if writers do not wait for each other. This is correct in SQLite (with
//!   `BEGIN IMMEDIATE`) and under `SERIALIZABLE`. It is wrong under `READ COMMITTED`, where both
//!   transactions may read the old maximum.
//!
//! # Object stores
//!
//! Keep the epoch in the object's metadata and write it with a condition (a conditional write of S3
//! and GCS, a conditional header of Azure):
//!
//! ```text
//! HEAD object                 -> ETag "e1", tenure-epoch 7     mine is smaller: stop
//! PUT object, If-Match: "e1", tenure-epoch: 9                  412: the object has changed; read again
//! PUT object, If-None-Match: *, tenure-epoch: 9                for an object that does not exist
//! ```
//!
//! This fences one object. If a job writes many objects, put the epoch into their names, and list
//! the valid objects in one small object that is fenced like this. A put or a delete without its
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

/// The HTTP header with the election of the epoch, `namespace/name`.
pub const ELECTION_HEADER: &str = "tenure-election";
