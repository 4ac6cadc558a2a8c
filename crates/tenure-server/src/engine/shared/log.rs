//! The interface of a log that several servers share: etcd, PostgreSQL, or the memory of a test.
//!
//! A shared log has three parts:
//!
//! - **the head**: one record. It says which server owns the log, and how far the log goes. Every
//!   append replaces it by compare-and-swap, so the appends form one chain.
//! - **batches**, by sequence number: the bytes of [`Batch`](crate::engine::Batch).
//! - **places**: the tables behind the log, as keys and values. A place is written by an append,
//!   together with the head.
//!
//! The engine needs nothing else: no leases, no watches, no locks and no clock of the service.
//!
//! Each implementation limits a call by the attempt timeout that it was opened with. A call blocks;
//! a single thread makes the calls of one value.

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use tenure_core::ownership::EngineId;

/// A connection to a shared log.
pub(crate) trait SharedLog: Send + fmt::Debug {
    /// Reads the head. The read may be stale: it proves neither ownership nor durability.
    ///
    /// # Errors
    ///
    /// The service did not answer, or refused.
    fn head(&mut self) -> Result<Sighting, LogError>;

    /// Replaces the head and writes the rest of the append, if the current head has exactly the
    /// expected bytes. The whole append is applied or nothing of it.
    ///
    /// # Errors
    ///
    /// [`LogError`] says whether the append may have been applied.
    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError>;

    /// Returns batches with a sequence number above `after`, in ascending order. It returns at
    /// least one batch if there is one; the caller asks again from the last one until the answer is
    /// empty.
    ///
    /// # Errors
    ///
    /// The service did not answer, or refused.
    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError>;

    /// Returns places in this range. It may return fewer than there are, but at least one if there
    /// is one; the caller asks again from the last key. The read is never stale: it shows every
    /// append that succeeded before this call.
    ///
    /// # Errors
    ///
    /// The service did not answer, or refused.
    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError>;

    /// Returns the number of ranges in which [`SharedLog::pages`] reads this number of leases best.
    fn ranges(&self, _leases: u64) -> usize {
        1
    }

    /// Returns a page of each of the first of these ranges, at least of one. The pages are as of
    /// [`SharedLog::places`]. A service with several members reads several at the same time, at least
    /// one from each member, if there are enough ranges.
    fn pages(&mut self, ranges: &[PlaceRange]) -> Vec<Result<Page, LogError>> {
        let first = ranges.iter().take(1);
        let pages = first.map(|range| {
            let places = self.places(range)?;
            let is_last = places.is_empty();
            Ok(Page { places, is_last })
        });
        pages.collect()
    }

    /// Does the periodic work of the service, for example a compaction, if it is due. The owner of
    /// the log calls it about once a second. Failures are logged.
    fn maintain(&mut self) {}

    /// Returns the facts about the service that are known.
    fn facts(&self) -> ServiceFacts {
        ServiceFacts::default()
    }
}

/// Facts about the service of a log, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceFacts {
    /// Its version.
    pub(crate) version: Option<Arc<str>>,
    /// The size of its data in bytes, without the space that it can use again.
    pub(crate) bytes: Option<u64>,
    /// The size at which it refuses changes, in bytes.
    pub(crate) quota_bytes: Option<u64>,
    /// Its problems that its operator should correct, although it can be used.
    pub(crate) warnings: Vec<String>,
}

impl ServiceFacts {
    /// Returns the used share of the space, if it is known: 0.0 to 1.0.
    #[allow(clippy::cast_precision_loss)] // A database has far less than 2^52 bytes.
    pub(crate) fn used_space(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.quota_bytes? as f64)
    }
}

/// Opens connections to one shared log.
pub(crate) trait Connect: Send + Sync + fmt::Debug {
    /// Opens a connection. It need not reach the service: the first call may do that.
    ///
    /// # Errors
    ///
    /// A setting or a file that it names can't be used.
    fn connect(&self) -> Result<Box<dyn SharedLog>, LogError>;

    /// Returns the name of the service for messages, for example `etcd`.
    fn name(&self) -> &'static str;

    /// Returns the identity of a service in readable form.
    fn identity(&self, engine: EngineId) -> String {
        engine.to_string()
    }

    /// Returns what it means that a head was written in the service with the identity `written` and
    /// that another one answers, and what to do.
    fn other_engine(&self, written: EngineId, answering: EngineId) -> String {
        format!(
            "the head was written in {} {} and this is {}: a restored snapshot, or a wrong \
             address. Stop all servers, then: tenure cluster recover",
            self.name(),
            self.identity(written),
            self.identity(answering)
        )
    }
}

/// The head as a read shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// The identity of the service that answered.
    pub(crate) engine: EngineId,
    /// The bytes of the head; `None` if the log is empty.
    pub(crate) head: Option<Bytes>,
}

/// A compare-and-swap of the head with everything that is written together with it.
#[derive(Clone, Debug)]
pub(crate) struct Append<'a> {
    /// The bytes of the head that this append replaces; `None` if there must be no head.
    pub(crate) expected: Option<&'a [u8]>,
    /// The bytes of the new head.
    pub(crate) head: &'a [u8],
    /// A batch to insert.
    pub(crate) batch: Option<LoggedBatch>,
    /// Places to write or delete; each key is there once. At most [`MOST_EDITS`].
    pub(crate) edits: &'a [Edit],
    /// Batches below this sequence number are deleted.
    pub(crate) keep_from: u64,
}

/// The greatest number of places in one append. etcd permits 128 operations in a transaction, and
/// an append has three more: the head, the batch and the deletion of batches.
pub(crate) const MOST_EDITS: usize = 120;

/// The greatest size of one append in bytes: keys and values of its batch and its places. etcd
/// permits 1.5 MiB in a request, and its JSON gateway gets the bytes in base64.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

/// The outcome of an append that the service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The append was applied and is durable.
    Done,
    /// The head has other bytes than expected: these, or none. Nothing was applied.
    Refused(Sighting),
}

/// A batch in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedBatch {
    /// Its number, which is that of the head that was appended with it. It is greater than that of
    /// the batch before: an append without a batch has a number too. The revisions in the batches
    /// show whether one is missing.
    pub(crate) sequence: u64,
    /// The encoded batch.
    pub(crate) bytes: Bytes,
}

/// A row of a table behind the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The key: printable ASCII, for example `lease/billing/invoices`.
    pub(crate) key: String,
    /// The value: a JSON object.
    pub(crate) value: Bytes,
}

/// Some places of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) places: Vec<Place>,
    /// The range has no further places.
    pub(crate) is_last: bool,
}

/// A change of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Writes the place.
    Put(Place),
    /// Deletes the place with this key, if there is one.
    Delete(String),
}

/// A range of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceRange {
    /// The first key of the range.
    pub(crate) from: String,
    /// The end of the range, which is not in it.
    pub(crate) to: String,
    /// Whether the answer begins with the last key.
    pub(crate) descending: bool,
    /// The greatest number of places in the answer.
    pub(crate) most: usize,
}

/// The reason why a call of a shared log failed.
pub(crate) use tenure_register::Failure as LogError;
