//! Watching leases: what happens to them, in order, for as long as one listens.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tenure_core::wire::{Code, Problem};

use super::{Inner, Store};
use crate::events::{Page, PublishedEvent, Subscription, Topic};
use crate::model::Key;

/// One who watches. Dropped, it gives its room back.
pub(crate) struct Watcher {
    // Before the permit: it watches no more when another may.
    subscription: Subscription,
    _watched: Option<Watched>,
    permit: WatchPermit,
    /// Up to this revision everything was told, or passed over by a reset.
    told: u64,
    catch_up: CatchUp,
    /// A page of what was missed, and the revision that it reaches.
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

/// What a watcher hears.
#[derive(Debug)]
pub(crate) enum Heard {
    Event(Arc<PublishedEvent>),
    /// Look how it stands: what comes after this revision is told.
    Reset(u64),
}

impl Store {
    /// Watches from now on, after a first [`Heard::Reset`]; or, without one, from the revision `after`
    /// on, if all since then is known.
    pub(crate) fn watch(
        &self,
        topic: Topic,
        renewed: bool,
        after: Option<u64>,
    ) -> Result<Watcher, Problem> {
        self.ready()?;
        let inner = &self.inner;
        let permit = WatchPermit::take(inner)?;
        let subscription = Subscription::new(&inner.events, topic.clone(), renewed);
        // From here on every step of these leases arms the timer. What time has done to them already,
        // or will do next, must be looked at once.
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
            told: after.unwrap_or(0),
            catch_up: after.map_or(CatchUp::Reset, |_| CatchUp::Lagging),
            page: VecDeque::new(),
            page_up_to: 0,
        })
    }
}

impl Watcher {
    /// What it hears next; `None` when the store is stopping.
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
        self.subscription.missed(self.told, durable)
    }

    async fn hear(&mut self) -> Heard {
        loop {
            if let Some(pointer) = self.page.pop_front() {
                if let Some(told) = pointer.upgrade() {
                    self.told = told.revision();
                    return Heard::Event(told);
                }
                self.page.clear();
                self.page_up_to = self.told;
                self.catch_up = CatchUp::Lagging;
            }
            self.told = self.told.max(self.page_up_to);
            match self.catch_up {
                CatchUp::Reset => {
                    // What is durable by now shows to whoever looks, also if it is not told yet.
                    let durable = self.permit.inner.commit_queue.durable();
                    self.told = durable;
                    self.page_up_to = durable;
                    self.catch_up = CatchUp::Live;
                    return Heard::Reset(durable);
                }
                CatchUp::Lagging => match self.missed() {
                    Some(page) => {
                        if page.is_last {
                            self.catch_up = CatchUp::Live;
                        }
                        self.page = page.told;
                        self.page_up_to = page.up_to;
                    }
                    None => self.catch_up = CatchUp::Reset,
                },
                CatchUp::Live => {
                    let told = self.subscription.next().await;
                    self.permit.inner.turn().await;
                    match told {
                        Some(told) => match told.id() {
                            // It was in the history, too.
                            Some(revision) if revision <= self.told => {}
                            Some(revision) => {
                                self.told = revision;
                                return Heard::Event(told);
                            }
                            None => return Heard::Event(told),
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
    pub(super) fn needs_timer(&self, key: &Key) -> bool {
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

/// One of the places for those who watch.
struct WatchPermit {
    inner: Arc<Inner>,
}

impl WatchPermit {
    fn take(inner: &Arc<Inner>) -> Result<Self, Problem> {
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
            format!("the store has {watching} streams of events, at most {most} are taken"),
        ))
    }
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.inner.watching.fetch_sub(1, Ordering::Relaxed);
    }
}
