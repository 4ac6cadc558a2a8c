//! A shared log in memory, for tests: several connections share it, and each server can be given
//! faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tenure_core::ownership::EngineId;

use super::log::{
    Append, Appended, Connect, Edit, LogError, LoggedBatch, MOST_EDITS, Place, PlaceRange,
    ServiceFacts, SharedLog, Sighting,
};

/// The number of batches in one answer: small, so that tests read several pages.
const BATCHES: usize = 16;

/// A service with one shared log.
#[derive(Debug)]
pub(crate) struct MemoryService {
    content: Mutex<Content>,
}

/// The content of the log.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) engine: EngineId,
    pub(crate) head: Option<Bytes>,
    pub(crate) batches: BTreeMap<u64, Bytes>,
    pub(crate) places: BTreeMap<String, Bytes>,
    /// All heads that the log has had, in order.
    pub(crate) heads: Vec<Bytes>,
    /// The used space of the service, and all of it.
    pub(crate) used: Option<(u64, u64)>,
    /// Appends that were sent and have not arrived.
    late: Vec<OwnedAppend>,
}

#[derive(Clone, Debug)]
struct OwnedAppend {
    expected: Option<Bytes>,
    head: Bytes,
    batch: Option<LoggedBatch>,
    edits: Vec<Edit>,
    keep_from: u64,
}

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is lost: the outcome is unknown, and nothing is applied.
    LoseRequest,
    /// The answer is lost: the outcome is unknown, and the append is applied.
    LoseAnswer,
    /// The request arrives after [`MemoryService::deliver_late`]: the outcome is unknown.
    Late,
    /// The answer takes this long.
    Delay(Duration),
    /// The service refuses, and may accept later.
    NotApplied,
    /// The service has no space.
    Full,
    /// The append is applied, and the service answers that it has no space.
    FullButApplied,
    /// The service refuses until an operator changes something.
    Misconfigured,
}

/// Opens connections of one server to a service in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryConnect {
    pub(crate) service: Arc<MemoryService>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    /// The faults of the next appends.
    appends: VecDeque<Option<Fault>>,
    /// The faults of the next other calls.
    reads: VecDeque<Option<Fault>>,
    /// The fault of all further calls.
    all: Option<Fault>,
}

/// A connection to a service in memory.
#[derive(Debug)]
struct MemoryLog(MemoryConnect);

impl MemoryService {
    /// Creates a service with an empty log.
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Content {
            engine: EngineId(7),
            head: None,
            batches: BTreeMap::new(),
            places: BTreeMap::new(),
            heads: Vec::new(),
            used: None,
            late: Vec::new(),
        })
    }

    /// Creates a service with this content.
    pub(crate) fn with(content: Content) -> Arc<Self> {
        Arc::new(Self {
            content: Mutex::new(content),
        })
    }

    /// Returns connections for one server.
    pub(crate) fn connect(self: &Arc<Self>) -> MemoryConnect {
        MemoryConnect {
            service: Arc::clone(self),
            faults: Arc::default(),
        }
    }

    /// Returns the current content.
    pub(crate) fn content(&self) -> Content {
        self.lock().clone()
    }

    /// Changes the content, as an operator can do.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.lock());
    }

    /// Lets the late appends arrive.
    pub(crate) fn deliver_late(&self) {
        let mut content = self.lock();
        for late in std::mem::take(&mut content.late) {
            content.append(late);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn sighting(&self) -> Sighting {
        Sighting {
            engine: self.engine,
            head: self.head.clone(),
        }
    }

    fn append(&mut self, append: OwnedAppend) -> Appended {
        if self.head != append.expected {
            return Appended::Refused(self.sighting());
        }
        self.heads.push(append.head.clone());
        self.head = Some(append.head);
        if let Some(batch) = append.batch {
            let earlier = self.batches.insert(batch.sequence, batch.bytes);
            assert_eq!(earlier, None, "two batches have one sequence number");
        }
        for edit in append.edits {
            match edit {
                Edit::Put(Place { key, value }) => drop(self.places.insert(key, value)),
                Edit::Delete(key) => drop(self.places.remove(&key)),
            }
        }
        self.batches = self.batches.split_off(&append.keep_from);
        Appended::Done
    }
}

impl MemoryConnect {
    /// Gives the next appends these faults, in this order; `None` is an append without a fault.
    pub(crate) fn fail_appends(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().appends.extend(faults);
    }

    /// Gives the next calls other than appends these faults, in this order.
    pub(crate) fn fail_reads(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().reads.extend(faults);
    }

    /// Returns whether an append has not met its fault yet.
    pub(crate) fn has_planned_faults(&self) -> bool {
        !self.lock().appends.is_empty()
    }

    /// Gives all further calls this fault, until it is changed again.
    pub(crate) fn fail_all(&self, fault: Option<Fault>) {
        self.lock().all = fault;
    }

    /// Returns the fault of this call.
    fn fault(&self, is_append: bool) -> Option<Fault> {
        let mut faults = self.lock();
        let planned = match is_append {
            true => faults.appends.pop_front(),
            false => faults.reads.pop_front(),
        };
        planned.unwrap_or(faults.all)
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connect for MemoryConnect {
    fn connect(&self) -> Result<Box<dyn SharedLog>, LogError> {
        Ok(Box::new(MemoryLog(self.clone())))
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

impl Fault {
    /// Returns the error of a call that changes nothing.
    fn error(self) -> Option<LogError> {
        Some(match self {
            Self::LoseRequest | Self::LoseAnswer | Self::Late => {
                LogError::Unknown("no answer".into())
            }
            Self::Delay(_) => return None,
            Self::NotApplied => LogError::NotApplied("too many requests".into()),
            Self::Full | Self::FullButApplied => LogError::Full("no space".into()),
            Self::Misconfigured => LogError::Misconfigured("wrong password".into()),
        })
    }
}

impl MemoryLog {
    /// Fails as all calls do now, or waits.
    fn check(&self) -> Result<(), LogError> {
        let fault = self.0.fault(false);
        if let Some(Fault::Delay(delay)) = fault {
            std::thread::sleep(delay);
        }
        fault.and_then(Fault::error).map_or(Ok(()), Err)
    }
}

impl SharedLog for MemoryLog {
    fn head(&mut self) -> Result<Sighting, LogError> {
        self.check()?;
        Ok(self.0.service.lock().sighting())
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        let keys = append.edits.iter().map(|edit| match edit {
            Edit::Put(place) => &place.key,
            Edit::Delete(key) => key,
        });
        let different: BTreeSet<&String> = keys.collect();
        assert_eq!(different.len(), append.edits.len(), "a key is there twice");
        assert!(append.edits.len() <= MOST_EDITS);
        let owned = OwnedAppend {
            expected: append.expected.map(Bytes::copy_from_slice),
            head: Bytes::copy_from_slice(append.head),
            batch: append.batch.clone(),
            edits: append.edits.to_vec(),
            keep_from: append.keep_from,
        };
        let fault = self.0.fault(true);
        match fault {
            None => {}
            Some(Fault::LoseAnswer | Fault::FullButApplied) => {
                drop(self.0.service.lock().append(owned.clone()))
            }
            Some(Fault::Late) => self.0.service.lock().late.push(owned.clone()),
            Some(Fault::Delay(delay)) => std::thread::sleep(delay),
            Some(_) => {}
        }
        match fault.and_then(Fault::error) {
            Some(error) => Err(error),
            None => Ok(self.0.service.lock().append(owned)),
        }
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        self.check()?;
        let content = self.0.service.lock();
        let batches = content.batches.range(after + 1..).take(BATCHES);
        let batches = batches.map(|(&sequence, bytes)| LoggedBatch {
            sequence,
            bytes: bytes.clone(),
        });
        Ok(batches.collect())
    }

    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        self.check()?;
        let content = self.0.service.lock();
        let places = content
            .places
            .range(range.from.clone()..range.to.clone())
            .map(|(key, value)| Place {
                key: key.clone(),
                value: value.clone(),
            });
        Ok(match range.descending {
            true => places.rev().take(range.most).collect(),
            false => places.take(range.most).collect(),
        })
    }

    fn ranges(&self, _leases: u64) -> usize {
        3
    }

    fn facts(&self) -> ServiceFacts {
        let used = self.0.service.lock().used;
        ServiceFacts {
            version: Some("1".into()),
            bytes: used.map(|(bytes, _)| bytes),
            quota_bytes: used.map(|(_, quota)| quota),
            ..ServiceFacts::default()
        }
    }
}
