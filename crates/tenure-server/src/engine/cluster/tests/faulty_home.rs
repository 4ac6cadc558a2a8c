//! A home in memory, with faults for each server, and servers over it.

use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use tenure_register::memory::MemoryHome;
use tenure_register::{
    Expected, Failure, HomeFacts, Read, Register, RegisterKey, Replaced, Version,
};

use super::super::LogHome;
use super::super::home::runtime;
use crate::config::ClusterConfig;

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is lost: the outcome is unknown, and nothing is applied.
    LoseRequest,
    /// The answer is lost: the outcome is unknown, and the replace is applied.
    LoseAnswer,
    /// The request arrives with [`MemoryHome::deliver`]: the outcome is unknown.
    Late,
    /// The home does not answer at all.
    Hang,
    /// The home refuses, and may accept later.
    NotApplied,
    /// The home has no space.
    Full,
    /// The home says so, and applies the replace.
    FullButApplied,
    /// The home refuses until an operator changes something.
    Misconfigured,
}

/// A home in memory, as one server reaches it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyHome {
    pub(crate) memory: MemoryHome,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    /// The faults of the next replaces.
    replaces: VecDeque<Option<Fault>>,
    /// The faults of the next reads of registers.
    reads: VecDeque<Option<Fault>>,
    /// The fault of all writes of files.
    files: Option<Fault>,
    /// The fault of all further requests.
    all: Option<Fault>,
    /// The clock of the server, and the nanoseconds by which each request advances it.
    slow: Option<(Arc<AtomicU64>, u64)>,
    facts: HomeFacts,
    /// A former primary, which answers the reads of registers.
    former: Option<MemoryHome>,
    /// The number of requests.
    count: usize,
    before_each: Option<BeforeEach>,
}

/// What happens before each request, in a thread of its own.
struct BeforeEach(Box<dyn FnMut() + Send>);

impl fmt::Debug for BeforeEach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeEach")
    }
}

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Replace,
    Read,
    Write,
    Other,
}

impl FaultyHome {
    /// The same home, as another server reaches it.
    pub(crate) fn for_another(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            faults: Arc::default(),
        }
    }

    /// A home with the same content, which changes of this one do not change.
    pub(crate) fn copied(&self) -> Self {
        Self {
            memory: self.memory.copied(),
            faults: Arc::default(),
        }
    }

    /// The home of the cluster's log.
    pub(crate) fn open(&self, config: &ClusterConfig) -> LogHome {
        let place = format!("memory, cluster {}", config.name);
        let files: Arc<dyn Register> = Arc::new(self.clone());
        LogHome::over("memory", config, place, files, runtime().ok()).unwrap()
    }

    /// Gives the next replaces these faults, in this order; `None` is one without a fault.
    pub(crate) fn fail_replaces(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().replaces.extend(faults);
    }

    /// Gives the next reads of registers these faults, in this order.
    pub(crate) fn fail_reads(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().reads.extend(faults);
    }

    /// Gives all writes of files this fault, until it is changed again.
    pub(crate) fn fail_files(&self, fault: Option<Fault>) {
        self.lock().files = fault;
    }

    /// Gives all further requests this fault, until it is changed again.
    pub(crate) fn fail_all(&self, fault: Option<Fault>) {
        self.lock().all = fault;
    }

    /// Returns whether a replace has not met its fault yet.
    pub(crate) fn has_planned_faults(&self) -> bool {
        !self.lock().replaces.is_empty()
    }

    /// Lets a former primary answer all reads of registers, or the home itself again.
    pub(crate) fn read_from(&self, former: Option<MemoryHome>) {
        self.lock().former = former;
    }

    fn readable(&self) -> MemoryHome {
        let former = self.lock().former.clone();
        former.unwrap_or_else(|| self.memory.clone())
    }

    /// Lets each request advance this clock.
    pub(crate) fn advance_in_requests(&self, clock: &Arc<AtomicU64>, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.lock().slow = Some((Arc::clone(clock), nanos));
    }

    /// Does this before each request.
    pub(crate) fn before_each(&self, work: impl FnMut() + Send + 'static) {
        self.lock().before_each = Some(BeforeEach(Box::new(work)));
    }

    /// Returns the number of requests until now.
    pub(crate) fn requests(&self) -> usize {
        self.lock().count
    }

    pub(crate) fn set_facts(&self, facts: HomeFacts) {
        self.lock().facts = facts;
    }

    /// Advances the clock, and returns the fault of this request.
    fn fault(&self, request: Request) -> Option<Fault> {
        let work = self.lock().before_each.take();
        if let Some(BeforeEach(mut work)) = work {
            thread::scope(|scope| scope.spawn(&mut work).join()).unwrap();
            self.lock().before_each = Some(BeforeEach(work));
        }
        let mut faults = self.lock();
        faults.count += 1;
        if let Some((clock, nanos)) = &faults.slow {
            clock.fetch_add(*nanos, Ordering::SeqCst);
        }
        let planned = match request {
            Request::Replace => faults.replaces.pop_front(),
            Request::Read => faults.reads.pop_front(),
            Request::Write => Some(faults.files).filter(Option::is_some),
            Request::Other => None,
        };
        planned.unwrap_or(faults.all)
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request that changes no register.
    async fn request<T>(
        &self,
        kind: Request,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.fault(kind) {
            None => request.await,
            Some(Fault::Hang) => pending().await,
            Some(fault) => Err(fault.failure()),
        }
    }
}

impl Fault {
    fn failure(self) -> Failure {
        match self {
            Self::NotApplied => Failure::NotApplied("too many requests".into()),
            Self::Full | Self::FullButApplied => Failure::Full("no space".into()),
            Self::Misconfigured => Failure::Misconfigured("wrong password".into()),
            _ => Failure::Unknown("no answer".into()),
        }
    }
}

#[async_trait]
impl Register for FaultyHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        self.request(Request::Read, self.readable().read(key, known))
            .await
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        let fault = self.fault(Request::Replace);
        if fault == Some(Fault::Late) {
            self.memory.delay_next();
        }
        match fault {
            None | Some(Fault::Late) => self.memory.replace(key, expected, value).await,
            Some(Fault::Hang) => pending().await,
            Some(fault @ (Fault::LoseAnswer | Fault::FullButApplied)) => {
                self.memory.replace(key, expected, value).await?;
                Err(fault.failure())
            }
            Some(fault) => Err(fault.failure()),
        }
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        self.request(Request::Write, self.memory.write(name, content))
            .await
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        self.request(Request::Other, self.memory.read_file(name))
            .await
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        self.request(Request::Other, self.memory.delete(names))
            .await
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        self.request(Request::Other, self.memory.list(folder)).await
    }

    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        // A bucket is asked for each of them.
        self.lock().count += keys.len() - 1;
        self.request(Request::Read, self.readable().read_many(keys))
            .await
    }

    fn facts(&self) -> HomeFacts {
        self.lock().facts.clone()
    }
}
