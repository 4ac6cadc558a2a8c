//! Watching leases: their events in order.

use std::sync::Arc;

use tenure_core::wire::{Code, Problem};

use super::permit::Permit;
use super::{Inner, Store};
use crate::events::{Page, PublishedEvent, Subscription, Topic};
use crate::model::LeaseKey;

/// One watcher. If it is dropped, another may watch.
pub(crate) struct Watcher {
    inner: Arc<Inner>,
    // Dropped before the permit: it no longer watches when another may.
    subscription: Subscription,
    _permit: Permit,
    /// Everything up to this revision was sent, or skipped by a reset.
    sent: u64,
    /// Missed events that are not sent yet. After the last page the watcher gets events as they
    /// come. `None` if it may have missed events that are forgotten: it must read the leases.
    page: Option<Page>,
}

/// An item of a watcher's stream.
#[derive(Debug)]
pub(crate) enum WatchItem {
    Event(Arc<PublishedEvent>),
    /// It must read the leases: the events after this revision follow.
    Reset(u64),
}

impl Store {
    /// Watches from now on, after a first [`WatchItem::Reset`]; or from the revision `after` on
    /// without a reset, if no event since then is forgotten.
    pub(crate) fn watch(
        &self,
        topic: Topic,
        renewed: bool,
        after: Option<u64>,
    ) -> Result<Watcher, Problem> {
        self.ready()?;
        let inner = &self.inner;
        let most = inner.limits.max_watchers;
        let permit = Permit::acquire(&inner.watching, most).map_err(|watching| {
            Problem::new(
                Code::OverLimit,
                format!("the store has {watching} streams of events, at most {most} are allowed"),
            )
        })?;
        let watcher = Watcher {
            inner: Arc::clone(inner),
            subscription: Subscription::new(&inner.events, topic, renewed),
            _permit: permit,
            sent: after.unwrap_or(0),
            page: after.map(|_| Page::default()),
        };
        // From here on every change of these leases arms the timer. Leases that do not change must
        // be read once, to end terms whose time is over and to arm the timer.
        match &watcher.subscription.topic {
            Topic::Lease(key) => inner.tick(key),
            Topic::Namespace(namespace) => inner.scans.watch(namespace),
        }
        Ok(watcher)
    }
}

impl Watcher {
    /// The next event or reset; `None` when the store stops.
    pub(crate) async fn next(&mut self) -> Option<WatchItem> {
        let inner = Arc::clone(&self.inner);
        tokio::select! {
            biased;
            () = inner.stopping.cancelled() => None,
            () = inner.failed.cancelled() => None,
            item = self.next_item() => Some(item),
        }
    }

    async fn next_item(&mut self) -> WatchItem {
        loop {
            let durable = self.inner.commit_queue.durable();
            let Some(page) = &mut self.page else {
                // A read shows what is durable by now, also if it is not published yet.
                self.sent = durable;
                self.page = Some(Page::live());
                return WatchItem::Reset(durable);
            };
            if let Some(pointer) = page.events.pop_front() {
                if let Some(event) = pointer.upgrade() {
                    self.sent = event.change.revision;
                    return WatchItem::Event(event);
                }
                // The ring has forgotten it meanwhile.
                *page = Page::default();
            }
            self.sent = self.sent.max(page.up_to);
            if !page.is_last {
                self.page = self.subscription.missed(self.sent, durable);
                continue;
            }
            let event = self.subscription.next().await;
            self.inner.turn().await;
            match event {
                Some(event) => {
                    // If not, the ring had it, too.
                    let is_new = event.id.is_none_or(|revision| revision > self.sent);
                    self.sent = event.id.unwrap_or(self.sent).max(self.sent);
                    if is_new {
                        return WatchItem::Event(event);
                    }
                }
                None => page.is_last = false,
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Topic::Namespace(namespace) = &self.subscription.topic {
            let now = self.inner.clock.now();
            self.inner.scans.leave(namespace, now);
        }
    }
}

impl Inner {
    /// Whether the timer must know when this lease ends, though no acquire and no long poll waits
    /// for it.
    pub(super) fn needs_timer(&self, key: &LeaseKey) -> bool {
        self.events.topics.is_watched(key) || self.scans.has(key.namespace())
    }
}
