//! The vocabulary of the store: the name of a lease, its changes and its terms.
//!
//! All other modules use these types; these types use no other module of this crate.

mod cause;
mod change;
mod floors;
mod grant_path;
mod history;
mod key;
mod store_id;
mod term;
mod trace;

pub(crate) use cause::Cause;
pub(crate) use change::{
    ChangeSet, Content, Deleted, DocumentChange, LeaseChange, LeaseVersion, Sink,
};
#[cfg(test)]
pub(crate) use floors::EPOCHS_LEFT;
pub(crate) use floors::{Floors, NAMESPACE_FLOORS_LIMIT};
pub(crate) use grant_path::GrantPath;
pub(crate) use history::{History, HistoryLimits};
pub use key::LeaseKey;
pub(crate) use store_id::StoreId;
pub(crate) use term::TermRecord;
pub(crate) use trace::{TraceContext, TraceId};

/// The maximum number of deleted leases whose lease ids the store remembers; it forgets the oldest
/// first. Each takes some 500 bytes of memory and 100 bytes on disk. A program that creates and
/// deletes leases without end fills this and no more: the store then remembers a lease id only
/// until this many further leases are deleted.
pub(crate) const DELETED_LIMIT: usize = 10_000;
