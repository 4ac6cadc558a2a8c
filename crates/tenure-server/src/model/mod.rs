//! The vocabulary of the store: what a lease is called, how it changes, and the terms that it has had.
//!
//! Every layer above uses these types; they use no other module of this crate.

mod cause;
mod change;
mod key;
mod term;

pub(crate) use cause::Cause;
pub(crate) use change::{ChangeSet, Content, Deleted, DocumentChange, LeaseChange, LeaseVersion};
pub use key::LeaseKey;
pub(crate) use term::TermRecord;

/// The store remembers the lease ids of at most this many deleted leases, and forgets the oldest first.
/// Each takes some 500 bytes of memory and 100 of disk. A program that makes and deletes leases without end
/// fills this and no more; then the store remembers an id for the time in which so many leases are deleted.
pub(crate) const DELETED_LIMIT: usize = 10_000;
