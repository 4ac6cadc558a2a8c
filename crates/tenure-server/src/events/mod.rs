//! The events of leases, for clients that watch.
//!
//! ```text
//! commit queue --> ring (the last events) --> dispatcher (a thread) --> topics --> watchers
//!                      |                                                              ^
//!                      +------------------- missed events ----------------------------+
//! ```
//!
//! Only durable changes are published, in the order of revisions. The commit thread appends them to
//! the ring, which is bounded, and continues. The dispatcher sends them to watchers, so even ten
//! thousand watchers delay no commit. Topics and watchers only have pointers to events in the ring,
//! so a watcher that does not read costs a few pointers.
//!
//! A watcher that has fallen behind, or that resumes after a lost connection, takes missed events
//! from the ring. If the ring no longer has all of them, the watcher gets a reset and must read the
//! leases.

mod published;
mod ring;
mod topic;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::broadcast;

use ring::{Capacity, Ring};
use topic::Topics;

use crate::model::{LeaseChange, Sink};

pub(crate) use published::PublishedEvent;
pub(crate) use ring::Page;
pub(crate) use topic::Topic;

/// The capacity of the ring of changes: enough for some minutes at a hundred changes a second, so
/// that clients can resume after lost connections.
const RING: Capacity = Capacity {
    events: 8_192,
    bytes: 8 * 1024 * 1024,
};

/// The capacity of the ring of renewals, which are kept only until they are sent to the watchers
/// that asked for them. No watcher resumes after a renewal.
const RENEWALS: Capacity = Capacity {
    events: 1_024,
    bytes: 1024 * 1024,
};

/// The last events, and the watchers.
#[derive(Debug)]
pub(crate) struct Events {
    published: Mutex<Published>,
    wake: Condvar,
    pub(crate) topics: Topics,
}

#[derive(Debug)]
struct Published {
    ring: Ring,
    renewals: Ring,
    /// The revision of the last change.
    last: u64,
    /// Events that the dispatcher has not taken yet.
    undispatched: Vec<Weak<PublishedEvent>>,
    closing: bool,
}

/// One watcher. Dropping it removes all its state.
#[derive(Debug)]
pub(crate) struct Subscription {
    events: Arc<Events>,
    pub(crate) topic: Topic,
    renewed: bool,
    receiver: broadcast::Receiver<Weak<PublishedEvent>>,
}

impl Events {
    /// Creates an empty history of events for a store that is at this revision.
    pub(crate) fn after(revision: u64) -> Self {
        Self {
            published: Mutex::new(Published {
                ring: Ring::new(RING, revision),
                renewals: Ring::new(RENEWALS, revision),
                last: revision,
                undispatched: Vec::new(),
                closing: false,
            }),
            wake: Condvar::new(),
            topics: Topics::default(),
        }
    }

    /// Publishes a renewal to the watchers that asked for renewals. The renewal is dropped if it
    /// depends on a change that is not published yet: a renewal must not be sent before that change
    /// is durable, nor before the event of that change.
    pub(crate) fn publish_renewal(&self, renewal: LeaseChange) {
        let mut published = self.lock();
        if renewal.revision > published.last {
            return;
        }
        let event = Arc::new(PublishedEvent::renewal(renewal));
        published.leave_to_dispatcher(Arc::downgrade(&event));
        published.renewals.push(event);
        drop(published);
        self.wake.notify_one();
    }

    /// Sends events to watchers until [`Events::close`] is called.
    pub(crate) fn dispatch(&self) {
        while let Some(undispatched) = self.take() {
            for pointer in undispatched {
                match pointer.upgrade() {
                    Some(event) => self.topics.send(&event.change.key, &pointer),
                    // The ring has already dropped the event, and all watchers must notice that.
                    None => self.topics.send_to_all(&pointer),
                }
            }
        }
    }

    /// Ends [`Events::dispatch`].
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_all();
    }

    /// Blocks until there are events to send. Returns `None` after [`Events::close`].
    fn take(&self) -> Option<Vec<Weak<PublishedEvent>>> {
        let is_idle =
            |published: &mut Published| !published.closing && published.undispatched.is_empty();
        let published = self.wake.wait_while(self.lock(), is_idle);
        let mut published = published.unwrap_or_else(PoisonError::into_inner);
        (!published.closing).then(|| std::mem::take(&mut published.undispatched))
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Events {
    /// Publishes the changes.
    fn committed(&self, changes: &[LeaseChange]) {
        let mut published = self.lock();
        // A watcher that subscribes at this moment finds undispatched events in the ring.
        let is_any_watched = self.topics.is_any_watched();
        for change in changes {
            let event = Arc::new(PublishedEvent::change(change.clone()));
            published.last = event.change.revision;
            if is_any_watched {
                published.leave_to_dispatcher(Arc::downgrade(&event));
            }
            published.ring.push(event);
        }
        drop(published);
        if is_any_watched {
            self.wake.notify_one();
        }
    }
}

impl Published {
    fn leave_to_dispatcher(&mut self, event: Weak<PublishedEvent>) {
        // The dispatcher is far behind. One dangling pointer tells watchers that they missed
        // events, just as all of these would.
        if self.undispatched.len() >= RING.events {
            self.undispatched.clear();
            self.undispatched.push(Weak::new());
        }
        self.undispatched.push(event);
    }
}

impl Subscription {
    /// Subscribes to the topic. The subscription receives all events from now on, and the ring has
    /// the earlier ones: a watcher that subscribes first and then reads the ring misses no event.
    /// It recognises an event that it gets twice by the revision.
    pub(crate) fn new(events: &Arc<Events>, topic: Topic, renewed: bool) -> Self {
        let receiver = events.topics.join(&topic, renewed);
        Self {
            events: Arc::clone(events),
            topic,
            renewed,
            receiver,
        }
    }

    /// Returns the next page of events after `revision`; `None` if the ring may no longer have all
    /// of them. The store is at revision `durable`: the subscription still receives the events that
    /// are not published yet.
    pub(crate) fn missed(&self, revision: u64, durable: u64) -> Option<Page> {
        let published = self.events.lock();
        // A revision in the future belongs to another store.
        if revision > published.last.max(durable) {
            return None;
        }
        let (ring, last) = (&published.ring, published.last);
        ring.after(&self.topic, self.renewed, revision, last)
    }

    /// Waits for the next event. Returns `None` if some events were missed. The future may be
    /// cancelled without loss.
    pub(crate) async fn next(&mut self) -> Option<Arc<PublishedEvent>> {
        loop {
            let event = self.receiver.recv().await.ok()?.upgrade()?;
            if event.is_for(self.renewed) {
                return Some(event);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.events.topics.leave(&self.topic, self.renewed);
    }
}

#[cfg(test)]
mod tests;
