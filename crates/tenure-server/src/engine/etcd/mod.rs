//! A shared log in etcd, by its JSON gateway.
//!
//! Each part of the log is below `PREFIX CLUSTER /0/`, where 0 is a number for later use:
//!
//! | key | value |
//! |---|---|
//! | `head` | the head |
//! | `log/SEQUENCE` | a batch; the number has 20 digits |
//! | `lease/...`, `term/...`, `deleted/...` | places |
//!
//! An append is one transaction. It compares the *value* of the head, and not its revision:
//! revisions repeat after a restore, and the bytes of two heads are never equal. Leases and watches
//! of etcd are not used.

mod gateway;
mod keys;
mod pages;
mod upkeep;

#[cfg(all(test, unix))]
mod tests;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tenure_core::ownership::EngineId;
use tenure_register::etcd::WarnedOf;
use tenure_register::etcd::wire::{
    Compare, Encoded, Header, KeyValue, RangeAnswer, RangeRequest, TxnOperation, TxnRequest,
};
use tracing::warn;

use self::gateway::Gateway;
use self::keys::Keys;
use self::pages::PageSize;
use self::upkeep::Upkeep;
use crate::config::EtcdConfig;
use crate::engine::shared::log::{
    Append, Appended, Connect, Edit, LogError, LoggedBatch, Page, Place, PlaceRange, ServiceFacts,
    SharedLog, Sighting,
};

/// The number of leases in a range that is read by itself. For each page etcd visits all keys up to
/// the end of the range, so short ranges are faster.
const LEASES: u64 = 1_000;

/// Opens connections to a log in etcd. Their calls block, so a thread of an async runtime must not
/// make them.
#[derive(Debug)]
pub(crate) struct ConnectEtcd {
    config: EtcdConfig,
    cluster: String,
    attempt: Duration,
    warned_of: WarnedOf,
}

impl ConnectEtcd {
    /// Creates a connector for the log of this cluster. A call takes at most the time of an
    /// attempt; only an authentication may take longer.
    pub(crate) fn new(config: &EtcdConfig, cluster: &str, attempt: Duration) -> Self {
        Self {
            config: config.clone(),
            cluster: cluster.to_owned(),
            attempt,
            warned_of: WarnedOf::default(),
        }
    }
}

impl Connect for ConnectEtcd {
    fn connect(&self) -> Result<Box<dyn SharedLog>, LogError> {
        Ok(Box::new(EtcdLog {
            gateway: Gateway::open(&self.config, self.attempt, &self.warned_of)?,
            keys: Keys::new(&self.config.prefix, &self.cluster),
            attempt: self.attempt,
            engine: None,
            kept_from: 0,
            batch_pages: PageSize::new(4, 1024, self.attempt),
            place_pages: PageSize::new(256, 8192, self.attempt),
            readers: Vec::new(),
            upkeep: Upkeep::new(&self.config, Instant::now()),
        }))
    }

    fn name(&self) -> &'static str {
        "etcd"
    }

    fn identity(&self, engine: EngineId) -> String {
        format!("cluster {engine}")
    }
}

/// A connection to a log in etcd.
#[derive(Debug)]
struct EtcdLog {
    gateway: Gateway,
    keys: Keys,
    /// The longest time of a call.
    attempt: Duration,
    /// The identity of the cluster that answered the last look at the head, or the last append.
    engine: Option<EngineId>,
    /// This connection has deleted the batches below this number.
    kept_from: u64,
    batch_pages: PageSize,
    place_pages: PageSize,
    /// A connection to each member, while several ranges of places are read.
    readers: Vec<(Gateway, PageSize)>,
    upkeep: Upkeep,
}

impl SharedLog for EtcdLog {
    fn head(&mut self) -> Result<Sighting, LogError> {
        let answer = self.gateway.ask(&RangeRequest {
            key: self.keys.head(),
            ..RangeRequest::default()
        })?;
        self.saw(&answer.header);
        Ok(sighting(&answer.header, answer.kvs))
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        let answer = match self.gateway.ask(&self.transaction(append)) {
            Ok(answer) => answer,
            Err(LogError::Full(message)) => return self.settle(append, message),
            Err(error) => return Err(error),
        };
        let is_of_the_log = is_of(self.engine, &answer.header);
        self.saw(&answer.header);
        if answer.succeeded && !is_of_the_log {
            // A copy of the log in another cluster may have the same head. An append there does not
            // exclude other servers, so this is the same as another head.
            return Ok(Appended::Refused(Sighting {
                engine: EngineId(answer.header.cluster_id.into()),
                head: Some(Bytes::copy_from_slice(append.head)),
            }));
        }
        if answer.succeeded {
            self.kept_from = self.kept_from.max(append.keep_from);
            return Ok(Appended::Done);
        }
        let found = answer.responses.into_iter().next();
        let found = found.and_then(|response| response.response_range);
        let kvs = found.unwrap_or_default().kvs;
        Ok(Appended::Refused(sighting(&answer.header, kvs)))
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        let Some(first) = after.checked_add(1) else {
            return Ok(Vec::new());
        };
        let request = RangeRequest {
            key: self.keys.batch(first),
            range_end: Some(self.keys.end_of_batches()),
            limit: self.batch_pages.next,
            ..RangeRequest::default()
        };
        let began = Instant::now();
        let batches = ask(&mut self.gateway, self.engine, &request).and_then(|answer| {
            let batches = answer.kvs.into_iter().map(|kv| self.batch(kv));
            batches.collect::<Result<Vec<_>, _>>()
        });
        let sizes = batches.as_ref().ok();
        let sizes = sizes.map(|batches| batches.iter().map(|it| it.bytes.len()));
        self.batch_pages.adapt(sizes, began.elapsed());
        batches
    }

    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        let (gateway, pages) = (&mut self.gateway, &mut self.place_pages);
        Ok(read_places(gateway, pages, &self.keys, self.engine, range)?.places)
    }

    fn ranges(&self, leases: u64) -> usize {
        let ranges = usize::try_from(leases / LEASES).unwrap_or(usize::MAX);
        ranges.max(self.gateway.members())
    }

    fn pages(&mut self, ranges: &[PlaceRange]) -> Vec<Result<Page, LogError>> {
        if self.readers.is_empty() {
            self.readers = match self.gateway.to_each_member() {
                Ok(gateways) => {
                    let pages = self.place_pages;
                    gateways.into_iter().map(|it| (it, pages)).collect()
                }
                Err(error) => return vec![Err(error)],
            };
        }
        let (keys, engine, members) = (&self.keys, self.engine, self.readers.len());
        // The thread of each member reads one range, and then the next one that no other thread has,
        // until a quarter of an attempt has passed. So the call takes 5/4 of an attempt at most, and an
        // owner that loads appends in between. The thread of a member that fails ends.
        let enough = self.attempt / 4;
        let next = AtomicUsize::new(members);
        let read = |first: usize, (gateway, pages): &mut (Gateway, PageSize)| {
            let began = Instant::now();
            let (mut read, mut at) = (Vec::new(), first);
            while let Some(range) = ranges.get(at) {
                let page = read_places(gateway, pages, keys, engine, range);
                let is_over = page.is_err() || began.elapsed() > enough;
                read.push((at, page));
                if is_over {
                    break;
                }
                at = next.fetch_add(1, Ordering::Relaxed);
            }
            read
        };
        let read: Vec<_> = thread::scope(|scope| {
            let threads = self.readers.iter_mut().enumerate();
            let threads = threads.map(|(first, reader)| {
                thread::Builder::new().spawn_scoped(scope, move || read(first, reader))
            });
            // All of them begin before the first one is awaited.
            let threads: Vec<_> = threads.collect();
            threads.into_iter().flat_map(join).collect()
        });
        let taken = ranges.len().min(next.into_inner());
        let failed = || Err(unknown("a thread that reads has failed".into()));
        let mut pages: Vec<Result<Page, LogError>> = (0..taken).map(|_| failed()).collect();
        for (at, page) in read {
            pages[at] = page;
        }
        let is_end = taken == ranges.len();
        let has_ended = |page: &Result<Page, _>| page.as_ref().is_ok_and(|page| page.is_last);
        if is_end && pages.iter().all(has_ended) {
            self.readers.clear();
        }
        pages
    }

    fn maintain(&mut self) {
        self.upkeep.run(&mut self.gateway, Instant::now());
    }

    fn facts(&self) -> ServiceFacts {
        let size = self.upkeep.size();
        let warnings = self.gateway.warnings().chain(self.upkeep.warning());
        ServiceFacts {
            version: self.gateway.version(),
            bytes: size.map(|size| size.in_use),
            quota_bytes: size.map(|size| size.quota),
            warnings: warnings.map(Into::into).collect(),
        }
    }
}

impl EtcdLog {
    /// Finds out whether etcd has applied an append to which it answered that it has no space. It
    /// checks the space twice: before it proposes a request, which then is not applied, and again
    /// when it applies one, which then *is* applied in spite of the answer (`quotaApplierV3` in its
    /// source). After the answer this attempt is no longer under way, so a linearizable read shows
    /// which of both it was.
    fn settle(&mut self, append: &Append<'_>, message: String) -> Result<Appended, LogError> {
        let engine = self.engine;
        let Ok(seen) = self.head() else {
            return Err(LogError::Unknown(message));
        };
        if engine.is_some_and(|engine| engine != seen.engine) {
            return Ok(Appended::Refused(seen));
        }
        match seen.head.as_deref() {
            Some(head) if head == append.head => {
                self.kept_from = self.kept_from.max(append.keep_from);
                Ok(Appended::Done)
            }
            head if head == append.expected => Err(LogError::Full(message)),
            _ => Ok(Appended::Refused(seen)),
        }
    }

    fn transaction(&self, append: &Append<'_>) -> TxnRequest {
        let keys = &self.keys;
        let condition = match append.expected {
            Some(bytes) => Compare::value(keys.head(), Encoded::copy(bytes)),
            None => Compare::is_missing(keys.head()),
        };
        let mut success = vec![TxnOperation::Put {
            key: keys.head(),
            value: Encoded::copy(append.head),
        }];
        success.extend(append.batch.iter().map(|batch| TxnOperation::Put {
            key: keys.batch(batch.sequence),
            value: Encoded(batch.bytes.clone()),
        }));
        success.extend(append.edits.iter().map(|edit| match edit {
            Edit::Put(place) => TxnOperation::Put {
                key: keys.place(&place.key),
                value: Encoded(place.value.clone()),
            },
            Edit::Delete(key) => TxnOperation::DeleteRange {
                key: keys.place(key),
                range_end: None,
            },
        }));
        if append.keep_from > self.kept_from {
            success.push(TxnOperation::DeleteRange {
                key: keys.batch(0),
                range_end: Some(keys.batch(append.keep_from)),
            });
        }
        TxnRequest {
            compare: vec![condition],
            success,
            failure: vec![TxnOperation::Range(RangeRequest {
                key: keys.head(),
                ..RangeRequest::default()
            })],
        }
    }

    /// Notes the answer to a look at the head, or to an append.
    fn saw(&mut self, header: &Header) {
        self.engine = Some(EngineId(header.cluster_id.into()));
        self.upkeep.saw_revision(header.revision);
    }

    fn batch(&self, kv: KeyValue) -> Result<LoggedBatch, LogError> {
        let sequence = self.keys.sequence(&kv.key.0);
        Ok(LoggedBatch {
            sequence: sequence.ok_or_else(|| strange(&kv))?,
            bytes: kv.value.0,
        })
    }
}

/// Reads a page of places, whose size adapts to the answers. The read is linearizable, which is
/// etcd's default, so a member that lags behind first waits for what the others have committed.
fn read_places(
    gateway: &mut Gateway,
    pages: &mut PageSize,
    keys: &Keys,
    engine: Option<EngineId>,
    range: &PlaceRange,
) -> Result<Page, LogError> {
    // etcd reads 0 as no limit.
    if range.most == 0 {
        return Ok(Page::default());
    }
    let request = RangeRequest {
        key: keys.place(&range.from),
        range_end: Some(keys.place(&range.to)),
        limit: pages.next.min(range.most),
        sort_order: range.descending.then_some("DESCEND"),
        ..RangeRequest::default()
    };
    let place = |kv: KeyValue| match keys.name(&kv.key.0) {
        Some(key) => Ok(Place {
            key: key.to_owned(),
            value: kv.value.0,
        }),
        None => Err(strange(&kv)),
    };
    let began = Instant::now();
    let page = ask(gateway, engine, &request).and_then(|answer| {
        let answer_is_empty = answer.kvs.is_empty();
        let places = answer.kvs.into_iter().map(place);
        Ok(Page {
            places: places.collect::<Result<_, _>>()?,
            is_last: !answer.more || answer_is_empty,
        })
    });
    let sizes = page.as_ref().ok();
    let sizes = sizes.map(|page| page.places.iter().map(|it| it.value.len()));
    pages.adapt(sizes, began.elapsed());
    page
}

/// Returns the pages of a thread; none if it could not be started, or has failed.
fn join<T>(thread: io::Result<ScopedJoinHandle<'_, Vec<T>>>) -> Vec<T> {
    let pages = thread.ok().and_then(|thread| thread.join().ok());
    pages.unwrap_or_default()
}

/// Returns whether the cluster with this identity gave the answer, or none is known.
fn is_of(engine: Option<EngineId>, header: &Header) -> bool {
    engine.is_none_or(|engine| engine == EngineId(header.cluster_id.into()))
}

/// Reads keys from the cluster with the known head. Another one, for example of a restored snapshot,
/// would mix old leases with those of the log, so the next call asks another member.
fn ask(
    gateway: &mut Gateway,
    engine: Option<EngineId>,
    request: &RangeRequest,
) -> Result<RangeAnswer, LogError> {
    let answer = gateway.ask(request)?;
    if is_of(engine, &answer.header) {
        return Ok(answer);
    }
    gateway.use_next_member();
    let message = format!(
        "etcd.endpoints has members of another cluster, {}: name those of one cluster",
        answer.header.cluster_id
    );
    warn!("{message}");
    Err(LogError::Misconfigured(message))
}

fn sighting(header: &Header, kvs: Vec<KeyValue>) -> Sighting {
    Sighting {
        engine: EngineId(header.cluster_id.into()),
        head: kvs.into_iter().next().map(|kv| kv.value.0),
    }
}

fn strange(kv: &KeyValue) -> LogError {
    let key = String::from_utf8_lossy(&kv.key.0);
    unknown(format!(
        "etcd has the key {key:?}, which tenure never writes"
    ))
}

const fn unknown(message: String) -> LogError {
    LogError::Unknown(message)
}
