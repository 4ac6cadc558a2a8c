//! What is watched, and by whom.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use tokio::sync::broadcast;

use super::published::PublishedEvent;
use crate::model::Key;

/// What one may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// One lease, whether there is one of this name or not.
    Lease(Key),
    /// All leases of a namespace.
    Namespace(Box<str>),
}

/// How many events a topic holds for watchers that are about to take them. Who is further behind takes
/// them from the history, so more would only save that.
const AHEAD_OF_LEASE: usize = 16;
const AHEAD_OF_NAMESPACE: usize = 128;

impl Topic {
    pub(super) fn has(&self, key: &Key) -> bool {
        match self {
            Self::Lease(lease) => lease == key,
            Self::Namespace(namespace) => **namespace == *key.namespace(),
        }
    }

    /// Names have no `/`, so no lease is taken for a namespace.
    fn text(&self) -> &str {
        match self {
            Self::Lease(key) => key.as_str(),
            Self::Namespace(namespace) => namespace,
        }
    }

    const fn ahead(&self) -> usize {
        match self {
            Self::Lease(_) => AHEAD_OF_LEASE,
            Self::Namespace(_) => AHEAD_OF_NAMESPACE,
        }
    }
}

/// All topics that somebody watches. An event is looked up twice, by its lease and by its namespace,
/// and costs nobody else anything.
#[derive(Debug, Default)]
pub(super) struct Topics {
    channels: RwLock<HashMap<Box<str>, Channel>>,
    /// How many there are, and how many watchers want renewals: without any, nobody takes the lock.
    count: AtomicUsize,
    renewed: AtomicUsize,
}

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Weak<PublishedEvent>>,
    /// How many of its watchers want renewals.
    renewed: usize,
}

impl Topics {
    pub(super) fn is_any_watched(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(super) fn is_watched(&self, key: &Key) -> bool {
        self.is_any_watched() && self.has(key, |_| true)
    }

    pub(super) fn wants_renewals(&self, key: &Key) -> bool {
        self.renewed.load(Ordering::Relaxed) > 0 && self.has(key, |channel| channel.renewed > 0)
    }

    fn has(&self, key: &Key, is_it: impl Fn(&Channel) -> bool) -> bool {
        let channels = self.read();
        let mut of_both = [key.as_str(), key.namespace()].into_iter();
        of_both.any(|text| channels.get(text).is_some_and(&is_it))
    }

    /// Begins to watch.
    pub(super) fn join(
        &self,
        topic: &Topic,
        renewed: bool,
    ) -> broadcast::Receiver<Weak<PublishedEvent>> {
        let mut channels = self.write();
        let channel = channels.entry(topic.text().into()).or_insert_with(|| {
            let (sender, _) = broadcast::channel(topic.ahead());
            Channel { sender, renewed: 0 }
        });
        channel.renewed += usize::from(renewed);
        let receiver = channel.sender.subscribe();
        self.count.store(channels.len(), Ordering::Relaxed);
        self.renewed
            .fetch_add(usize::from(renewed), Ordering::Relaxed);
        receiver
    }

    /// Watches no more. A topic that nobody watches leaves nothing behind.
    pub(super) fn leave(
        &self,
        topic: &Topic,
        renewed: bool,
        receiver: broadcast::Receiver<Weak<PublishedEvent>>,
    ) {
        let mut channels = self.write();
        drop(receiver);
        if let Some(channel) = channels.get_mut(topic.text()) {
            channel.renewed -= usize::from(renewed);
            if channel.sender.receiver_count() == 0 {
                channels.remove(topic.text());
            }
        }
        self.count.store(channels.len(), Ordering::Relaxed);
        self.renewed
            .fetch_sub(usize::from(renewed), Ordering::Relaxed);
    }

    /// Tells those who watch the lease, or its namespace.
    pub(super) fn send(&self, key: &Key, told: &Weak<PublishedEvent>) {
        let channels = self.read();
        for text in [key.as_str(), key.namespace()] {
            if let Some(channel) = channels.get(text) {
                // That the last one has just left is no failure.
                let _ = channel.sender.send(told.clone());
            }
        }
    }

    /// Tells everybody.
    pub(super) fn send_to_all(&self, told: &Weak<PublishedEvent>) {
        for channel in self.read().values() {
            let _ = channel.sender.send(told.clone());
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, Channel>> {
        self.channels
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
