//! The home of a log: a service with a disk, and the calls of servers to it.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::Instant;
use tenure_register::memory::MemoryHome;
use tenure_register::{Bytes, Expected, Failure, Read, Register, RegisterKey, Replaced, Version};
use tenure_server::simulation::{SimulatedClock, generation_of};

use super::{Payload, RequestId};
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
    Rng,
};

/// The home definitely refuses one call in this number: it is overloaded. All copies of a call have the
/// same outcome, or the refusal would not be definite.
const OVERLOADED: u64 = 20;

/// Returns whether the home refuses this call. The calls that it refuses are in no regular
/// order, or each retry of a change could meet the next one.
fn is_overloaded(id: RequestId) -> bool {
    Rng::new(id.incarnation, id.attempt).below(OVERLOADED) == 0
}

/// A call of a server to the home of its log.
#[derive(Clone)]
pub struct HomeCall {
    /// The kind of the call as one word.
    pub kind: &'static str,
    /// The number of the ownership that writes an entry.
    generation: Option<u64>,
    /// Executes the call, or refuses it if there is no home.
    act: Arc<Act>,
}

type Act = dyn Fn(Option<&MemoryHome>) -> HomeAnswer + Send + Sync;

/// The answer to a call.
#[derive(Clone, Debug)]
pub struct HomeAnswer {
    /// Whether the home has changed.
    is_change: bool,
    content: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for HomeCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// The home as one server reaches it.
#[derive(Clone, Debug)]
pub(super) struct HomeLink {
    calls: Arc<Mutex<Calls>>,
    clock: Arc<SimulatedClock>,
    /// The longest time of a call.
    attempt: Duration,
}

#[derive(Debug, Default)]
struct Calls {
    /// The number of the last call.
    last: u64,
    /// The calls to be sent.
    unsent: Vec<(u64, HomeCall)>,
    /// The calls that wait, and the answers that have arrived.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
enum Waiting {
    Sent(Waker),
    Lost,
    Answered(HomeAnswer),
}

impl Waiting {
    fn end(&mut self, end: Self) {
        if let Self::Sent(waker) = std::mem::replace(self, end) {
            waker.wake();
        }
    }
}

impl HomeLink {
    pub(super) fn new(clock: &Arc<SimulatedClock>, attempt: Duration) -> Self {
        Self {
            calls: Arc::default(),
            clock: Arc::clone(clock),
            attempt,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls to be sent, with their numbers.
    pub(super) fn unsent(&self) -> Vec<(u64, HomeCall)> {
        std::mem::take(&mut self.lock().unsent)
    }

    /// Handles an answer. An answer after the time of the call is dropped.
    pub(super) fn handle_answer(&self, number: u64, answer: &HomeAnswer) {
        if let Some(waiting) = self.lock().waiting.get_mut(&number) {
            waiting.end(Waiting::Answered(answer.clone()));
        }
    }

    /// Handles a lost connection.
    pub(super) fn handle_loss(&self) {
        let mut calls = self.lock();
        for waiting in calls.waiting.values_mut() {
            if matches!(waiting, Waiting::Sent(_)) {
                waiting.end(Waiting::Lost);
            }
        }
    }

    /// Calls the home. An answer changes it if `is_change` says so.
    async fn call<T: Clone + Send + Sync + 'static>(
        &self,
        (kind, generation): (&'static str, Option<u64>),
        is_change: fn(&Result<T, Failure>) -> bool,
        act: impl Fn(&MemoryHome) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<T, Failure> {
        let act = move |home: Option<&MemoryHome>| {
            let refused = || Err(Failure::NotApplied("the home is overloaded".into()));
            let answer = home.map_or_else(refused, &act);
            HomeAnswer {
                is_change: is_change(&answer),
                content: Arc::new(answer),
            }
        };
        let call = HomeCall {
            kind,
            generation,
            act: Arc::new(act),
        };
        let number = {
            let mut calls = self.lock();
            calls.last += 1;
            let number = calls.last;
            calls.unsent.push((number, call));
            calls
                .waiting
                .insert(number, Waiting::Sent(Waker::noop().clone()));
            number
        };
        let mut timeout = pin!(self.clock.wait_until(self.clock.now() + self.attempt));
        let answer = poll_fn(|context| match self.lock().waiting.get_mut(&number) {
            Some(Waiting::Answered(answer)) => Poll::Ready(Some(answer.content.clone())),
            Some(Waiting::Sent(waker)) => {
                waker.clone_from(context.waker());
                timeout.as_mut().poll(context).map(|()| None)
            }
            _ => Poll::Ready(None),
        });
        let answer = answer.await;
        self.lock().waiting.remove(&number);
        let answer = answer.and_then(|it| it.downcast_ref().cloned());
        answer.unwrap_or_else(|| Err(Failure::Unknown("no answer".into())))
    }
}

/// Returns the answer of a home in memory, which does not wait.
fn now<T>(answer: impl Future<Output = T>) -> T {
    let mut context = TaskContext::from_waker(Waker::noop());
    match pin!(answer).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a home in memory does not wait"),
    }
}

#[async_trait]
impl Register for HomeLink {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        let (key, known) = (key.clone(), known.cloned());
        let read = move |home: &MemoryHome| now(home.read(&key, known.as_ref()));
        self.call(("read", None), |_| false, read).await
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        let (key, expected) = (key.clone(), expected.clone());
        let kind = ("replace", generation_of(&value));
        let is_change = |it: &Result<_, _>| matches!(it, Ok(Replaced::Done(_)));
        let replace = move |home: &MemoryHome| now(home.replace(&key, &expected, value.clone()));
        self.call(kind, is_change, replace).await
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        let name = name.clone();
        let write = move |home: &MemoryHome| now(home.write(&name, content.clone()));
        self.call(("write", None), Result::is_ok, write).await
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        let name = name.clone();
        let read = move |home: &MemoryHome| now(home.read_file(&name));
        self.call(("read-file", None), |_| false, read).await
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        let names = names.to_vec();
        let delete = move |home: &MemoryHome| now(home.delete(&names));
        self.call(("delete", None), Result::is_ok, delete).await
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let folder = folder.clone();
        let list = move |home: &MemoryHome| now(home.list(&folder));
        self.call(("list", None), |_| false, list).await
    }

    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        let keys = keys.to_vec();
        let read = move |home: &MemoryHome| now(home.read_many(&keys));
        self.call(("read-many", None), |_| false, read).await
    }
}

/// The content of the home.
#[derive(Debug, Default)]
struct Content {
    home: MemoryHome,
    /// The number of the last ownership.
    generation: u64,
}

impl Content {
    /// Returns the same content, which changes of this one do not change.
    fn copied(&self) -> Self {
        Self {
            home: self.home.copied(),
            generation: self.generation,
        }
    }
}

/// The process of the home.
#[derive(Debug)]
pub(super) struct Home {
    content: Content,
    /// The pending writes, and the effects that must follow them.
    unwritten: u32,
    held: VecDeque<ProcessEffect>,
}

impl Home {
    pub(super) fn start(durable: Option<&DurableState>) -> Self {
        let content = durable.and_then(|it| it.downcast_ref::<Content>());
        Self {
            content: content.map(Content::copied).unwrap_or_default(),
            unwritten: 0,
            held: VecDeque::new(),
        }
    }

    fn answer(&mut self, context: &mut Context<'_>, id: RequestId, call: &HomeCall) -> HomeAnswer {
        let home = (!is_overloaded(id)).then_some(&self.content.home);
        let answer = (call.act)(home);
        if answer.is_change {
            let is_take_over = |it: &u64| *it > self.content.generation;
            if let Some(generation) = call.generation.filter(is_take_over) {
                self.content.generation = generation;
                // The take-over counts from when it is durable: before that it may still be undone by a
                // crash of the home.
                let took = HistoryEventKind::TookOver(generation);
                self.held.push_back(ProcessEffect::Record(took));
            }
            let copied = self.content.copied();
            context.write(std::mem::replace(&mut self.content, copied));
            self.unwritten += 1;
        }
        answer
    }

    /// Emits the effects that wait for writes, if there is no pending write.
    fn flush(&mut self, context: &mut Context<'_>) {
        if self.unwritten == 0 {
            self.held.drain(..).for_each(|effect| context.emit(effect));
        }
    }
}

impl Process for Home {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        match input {
            ProcessInput::Message { from, payload, .. } => {
                if let Some(Payload::HomeCall { id, call }) = payload.downcast_ref() {
                    let answer = self.answer(context, *id, call);
                    let answer = Rc::new(Payload::HomeAnswer { id: *id, answer });
                    self.held.push_back(ProcessEffect::Send(from, answer));
                }
            }
            ProcessInput::Written => self.unwritten = self.unwritten.saturating_sub(1),
            _ => {}
        }
        self.flush(context);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
