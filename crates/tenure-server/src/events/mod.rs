//! What has happened, for those who watch.
//!
//! ```text
//! journal --> history (the last events) --> teller (a thread) --> topics --> watchers
//!                        |                                                      ^
//!                        +---------- what a watcher has missed -----------------+
//! ```
//!
//! Only what is durable comes in, in order of revisions. The journal's thread moves it into the
//! history, which is bounded, and goes on; another thread tells those who watch, so that ten thousand
//! watchers delay no commit. Topics and watchers only point at events in the history: one who does not
//! listen costs a few pointers. One who has fallen behind takes what was missed from the history, as
//! one does who resumes after a lost connection. When the history does not reach back so far, the
//! watcher is told to look how it stands.

mod published;
mod ring;
mod topic;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::broadcast;

use ring::{Capacity, Ring};
use topic::Topics;

use crate::model::{Key, LeaseChange};

pub(crate) use published::PublishedEvent;
pub(crate) use ring::Page;
pub(crate) use topic::Topic;

/// The history: minutes of a store with a hundred changes a second, to bridge lost connections.
const HISTORY: Capacity = Capacity {
    events: 8_192,
    bytes: 8 * 1024 * 1024,
};

/// Renewals on their way to those who asked for them. Nobody resumes after one.
const RENEWALS: Capacity = Capacity {
    events: 1_024,
    bytes: 1024 * 1024,
};

/// What has happened, and who watches.
#[derive(Debug)]
pub(crate) struct Events {
    published: Mutex<Published>,
    wake: Condvar,
    topics: Topics,
}

#[derive(Debug)]
struct Published {
    history: Ring,
    renewals: Ring,
    /// The revision of the last change.
    last: u64,
    /// What the teller has not taken yet.
    untold: Vec<Weak<PublishedEvent>>,
    closing: bool,
}

/// One who watches. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Subscription {
    events: Arc<Events>,
    topic: Topic,
    renewed: bool,
    /// Taken when it is dropped.
    receiver: Option<broadcast::Receiver<Weak<PublishedEvent>>>,
}

impl Events {
    /// No events yet, in a store that is at this revision.
    pub(crate) fn after(revision: u64) -> Self {
        Self {
            published: Mutex::new(Published {
                history: Ring::new(HISTORY, revision),
                renewals: Ring::new(RENEWALS, revision),
                last: revision,
                untold: Vec::new(),
                closing: false,
            }),
            wake: Condvar::new(),
            topics: Topics::default(),
        }
    }

    /// These changes are durable. Calls come in order of revisions.
    pub(crate) fn publish(&self, changes: impl IntoIterator<Item = LeaseChange>) {
        let mut published = self.lock();
        // Who begins to watch just now finds in the history what is not told.
        let is_any_watched = self.topics.is_any_watched();
        for change in changes {
            let told = Arc::new(PublishedEvent::change(change));
            published.last = told.revision();
            if is_any_watched {
                published.leave_to_tell(Arc::downgrade(&told));
            }
            published.history.push(told);
        }
        drop(published);
        if is_any_watched {
            self.wake.notify_one();
        }
    }

    /// A renewal, for those who asked for them. Where it rests on a change that is not told yet,
    /// nothing is: neither may it be told before that is durable, nor come before it.
    pub(crate) fn publish_renewal(&self, renewal: LeaseChange) {
        let mut published = self.lock();
        if renewal.revision > published.last {
            return;
        }
        let told = Arc::new(PublishedEvent::renewal(renewal));
        published.leave_to_tell(Arc::downgrade(&told));
        published.renewals.push(told);
        drop(published);
        self.wake.notify_one();
    }

    /// Whether anybody watches this lease, or its namespace.
    pub(crate) fn is_watched(&self, key: &Key) -> bool {
        self.topics.is_watched(key)
    }

    /// Whether anybody wants to know of this lease's renewals.
    pub(crate) fn wants_renewals(&self, key: &Key) -> bool {
        self.topics.wants_renewals(key)
    }

    /// Tells those who watch, until it is closed.
    pub(crate) fn dispatch(&self) {
        while let Some(untold) = self.take() {
            for pointer in untold {
                match pointer.upgrade() {
                    Some(told) => self.topics.send(told.key(), &pointer),
                    // It is gone from the history already: everybody who listens sees that, too.
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

    /// Blocks until there is something to tell; `None` when it is closed.
    fn take(&self) -> Option<Vec<Weak<PublishedEvent>>> {
        let mut published = self.lock();
        loop {
            if published.closing {
                return None;
            }
            if !published.untold.is_empty() {
                return Some(std::mem::take(&mut published.untold));
            }
            published = self
                .wake
                .wait(published)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Published {
    fn leave_to_tell(&mut self, told: Weak<PublishedEvent>) {
        // The teller is far behind: one pointer to nothing says as much as all of these.
        if self.untold.len() >= HISTORY.events {
            self.untold.clear();
            self.untold.push(Weak::new());
        }
        self.untold.push(told);
    }
}

impl Subscription {
    /// Begins to watch. What is published from now on will be received, and what was before is in the
    /// history: whoever subscribes first and reads the history then misses nothing, and knows what
    /// comes twice by its revision.
    pub(crate) fn new(events: &Arc<Events>, topic: Topic, renewed: bool) -> Self {
        let receiver = events.topics.join(&topic, renewed);
        Self {
            events: Arc::clone(events),
            topic,
            renewed,
            receiver: Some(receiver),
        }
    }

    /// The next page of what was published after `revision`; `None` if something may be missing. The
    /// store is at `durable`; what is not published of that is yet to be received.
    pub(crate) fn missed(&self, revision: u64, durable: u64) -> Option<Page> {
        let published = self.events.lock();
        // A revision that is yet to come is another store's.
        if revision > published.last.max(durable) {
            return None;
        }
        let (history, last) = (&published.history, published.last);
        history.after(&self.topic, self.renewed, revision, last)
    }

    /// The next event, once there is one; `None` if some were missed. It may be cancelled.
    pub(crate) async fn next(&mut self) -> Option<Arc<PublishedEvent>> {
        let Some(receiver) = &mut self.receiver else {
            return std::future::pending().await;
        };
        loop {
            let told = receiver.recv().await.ok()?.upgrade()?;
            if told.is_for(self.renewed) {
                return Some(told);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            self.events
                .topics
                .leave(&self.topic, self.renewed, receiver);
        }
    }
}

#[cfg(test)]
mod tests;
