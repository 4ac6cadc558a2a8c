//! Watchers, which receive the events of leases in order.

use std::sync::Arc;

use tenure_core::wire::Problem;

use super::{Inner, Store};
use crate::events::{Page, PublishedEvent, Subscription, Topic};
use crate::shares::{Share, Tenant};

/// One watcher. Dropping it frees its permit.
pub(crate) struct Watcher {
    inner: Arc<Inner>,
    // This field comes before the permit: the subscription must end before another watcher may
    // begin.
    subscription: Subscription,
    _permit: Share<Tenant>,
    /// All events up to this revision were sent, or skipped by a reset.
    sent: u64,
    /// Missed events that are not sent yet. After the last page the watcher receives events as they
    /// happen. `None` if the ring may have dropped events that the watcher missed: the client must
    /// then read the leases.
    page: Option<Page>,
    /// Whether the first item is a reset that the client did not avoid by naming a revision.
    begins_with_reset: bool,
}

/// An item of a watcher's stream.
#[derive(Debug)]
pub(crate) enum WatchItem {
    Event(Arc<PublishedEvent>),
    /// The client must read the leases. The events after this revision follow.
    Reset(u64),
}

impl Store {
    /// Begins to watch. Without `after` the watcher first gets a [`WatchItem::Reset`]. With `after`
    /// it gets the events after that revision, and a reset only if the ring has dropped some of
    /// them.
    pub(crate) fn watch(
        &self,
        tenant: &Tenant,
        topic: Topic,
        renewed: bool,
        after: Option<u64>,
    ) -> Result<Watcher, Problem> {
        self.ready()?;
        let inner = &self.inner;
        let permit = inner.watching.admit(tenant, "streams of events")?;
        Ok(Watcher {
            inner: Arc::clone(inner),
            subscription: Subscription::new(&inner.events, topic, renewed),
            _permit: permit,
            sent: after.unwrap_or(0),
            page: after.map(|_| Page::default()),
            begins_with_reset: after.is_none(),
        })
    }
}

impl Watcher {
    /// Returns the next event or reset; `None` when the store stops.
    pub(crate) async fn next(&mut self) -> Option<WatchItem> {
        let inner = Arc::clone(&self.inner);
        tokio::select! {
            biased;
            () = inner.stopping.cancelled() => None,
            () = inner.failed.cancelled() => None,
            () = inner.interruption.notified() => None,
            item = self.next_item() => Some(item),
        }
    }

    async fn next_item(&mut self) -> WatchItem {
        loop {
            let durable = self.inner.commit_queue.durable();
            let Some(page) = &mut self.page else {
                // A read shows everything that is durable now, even if it is not published yet.
                self.sent = durable;
                self.page = Some(Page::live());
                if !std::mem::take(&mut self.begins_with_reset) {
                    self.inner.metrics.event_reset();
                }
                return WatchItem::Reset(durable);
            };
            if let Some(pointer) = page.events.pop_front() {
                if let Some(event) = pointer.upgrade() {
                    self.sent = event.change.revision;
                    return WatchItem::Event(event);
                }
                // The ring has dropped the event meanwhile.
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
                    // An older event was in the ring too, so the watcher already has it.
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
