//! Watching leases: their events in order.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tenure_core::wire::{Code, Problem};

use super::{Inner, Store};
use crate::events::{Page, PublishedEvent, Subscription, Topic};
use crate::model::LeaseKey;

/// One watcher. If it is dropped, another may watch.
pub(crate) struct Watcher {
    // Dropped before the permit: it no longer watches when another may.
    subscription: Subscription,
    _watched: Option<Watched>,
    permit: WatchPermit,
    /// Everything up to this revision was sent, or skipped by a reset.
    sent: u64,
    catch_up: CatchUp,
    /// A page of missed events, and the revision that it reaches.
    page: VecDeque<Weak<PublishedEvent>>,
    page_up_to: u64,
}

/// How far a watcher has caught up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CatchUp {
    /// It may have missed events that are forgotten: it must read the leases.
    Reset,
    /// It has missed events, which the ring has.
    Lagging,
    /// It has every event.
    Live,
}

/// An item of a watcher's stream.
#[derive(Debug)]
pub(crate) enum Heard {
    Event(Arc<PublishedEvent>),
    /// It must read the leases: the events after this revision follow.
    Reset(u64),
}

impl Store {
    /// Watches from now on, after a first [`Heard::Reset`]; or from the revision `after` on without a reset, if
    /// no event since then is forgotten.
    pub(crate) fn watch(
        &self,
        topic: Topic,
        renewed: bool,
        after: Option<u64>,
    ) -> Result<Watcher, Problem> {
        self.ready()?;
        let inner = &self.inner;
        let permit = WatchPermit::acquire(inner)?;
        let subscription = Subscription::new(&inner.events, topic.clone(), renewed);
        // From here on every change of these leases arms the timer. Leases that do not change must be read
        // once, for what time has done or will do next.
        let watched = match topic {
            Topic::Lease(key) => {
                inner.tick(&key);
                None
            }
            Topic::Namespace(namespace) => Some(Watched::new(inner, namespace)),
        };
        Ok(Watcher {
            subscription,
            _watched: watched,
            permit,
            sent: after.unwrap_or(0),
            catch_up: after.map_or(CatchUp::Reset, |_| CatchUp::Lagging),
            page: VecDeque::new(),
            page_up_to: 0,
        })
    }
}

impl Watcher {
    /// The next event or reset; `None` when the store stops.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        let inner = Arc::clone(&self.permit.inner);
        tokio::select! {
            biased;
            () = inner.stopping.cancelled() => None,
            () = inner.failed.cancelled() => None,
            heard = self.hear() => Some(heard),
        }
    }

    fn missed(&self) -> Option<Page> {
        let durable = self.permit.inner.commit_queue.durable();
        self.subscription.missed(self.sent, durable)
    }

    async fn hear(&mut self) -> Heard {
        loop {
            if let Some(pointer) = self.page.pop_front() {
                if let Some(event) = pointer.upgrade() {
                    self.sent = event.revision();
                    return Heard::Event(event);
                }
                self.page.clear();
                self.page_up_to = self.sent;
                self.catch_up = CatchUp::Lagging;
            }
            self.sent = self.sent.max(self.page_up_to);
            match self.catch_up {
                CatchUp::Reset => {
                    // A read shows what is durable by now, also if it is not published yet.
                    let durable = self.permit.inner.commit_queue.durable();
                    self.sent = durable;
                    self.page_up_to = durable;
                    self.catch_up = CatchUp::Live;
                    return Heard::Reset(durable);
                }
                CatchUp::Lagging => match self.missed() {
                    Some(page) => {
                        if page.is_last {
                            self.catch_up = CatchUp::Live;
                        }
                        self.page = page.events;
                        self.page_up_to = page.up_to;
                    }
                    None => self.catch_up = CatchUp::Reset,
                },
                CatchUp::Live => {
                    let event = self.subscription.next().await;
                    self.permit.inner.turn().await;
                    match event {
                        Some(event) => match event.id() {
                            // The ring had it, too.
                            Some(revision) if revision <= self.sent => {}
                            Some(revision) => {
                                self.sent = revision;
                                return Heard::Event(event);
                            }
                            None => return Heard::Event(event),
                        },
                        None => self.catch_up = CatchUp::Lagging,
                    }
                }
            }
        }
    }
}

impl Inner {
    /// Whether the timer must know when this lease ends, though no acquire and no long poll waits for it.
    pub(super) fn needs_timer(&self, key: &LeaseKey) -> bool {
        self.events.is_watched(key) || self.scans.has(key.namespace())
    }
}

/// A namespace that a stream watches.
struct Watched {
    inner: Arc<Inner>,
    namespace: Box<str>,
}

impl Watched {
    fn new(inner: &Arc<Inner>, namespace: Box<str>) -> Self {
        inner.scans.watch(&namespace);
        Self {
            inner: Arc::clone(inner),
            namespace,
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let now = self.inner.clock.now();
        self.inner.scans.leave(&self.namespace, now);
    }
}

/// The right to watch: the store has a limited number of them.
struct WatchPermit {
    inner: Arc<Inner>,
}

impl WatchPermit {
    fn acquire(inner: &Arc<Inner>) -> Result<Self, Problem> {
        let watching = inner.watching.fetch_add(1, Ordering::Relaxed);
        let permit = Self {
            inner: Arc::clone(inner),
        };
        let most = inner.limits.max_watchers;
        if watching < most {
            return Ok(permit);
        }
        Err(Problem::new(
            Code::OverLimit,
            format!("the store has {watching} streams of events, at most {most} are allowed"),
        ))
    }
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.inner.watching.fetch_sub(1, Ordering::Relaxed);
    }
}
