//! The log of a cluster in a ring of slots at a home.
//!
//! ```text
//! NAME/slot-17                  the newest entry with this slot, see `slot.rs`
//! NAME/file/SEQUENCE-RANDOM     a part of a snapshot, or a segment; the number is that of the last
//!                               entry that it covers
//! ```
//!
//! [`LogRing`](tenure_core::ring::LogRing) decides what is read, named and overwritten, and this module
//! does it: [`RingLog`] reads and replaces slots, and [`files`] are the snapshots and segments from which
//! a server starts.

mod files;
mod log;
mod slot;
#[cfg(test)]
mod tests;

pub(super) use files::{BaseError, BaseFiles, LogFiles};
pub(super) use log::RingLog;
pub(super) use slot::{About, Draft, SlotValue};

/// The number of slots. A home has at most as many values for the log, with little more than a
/// commit each.
pub(super) const SLOTS: u64 = 256;
