//! The topics that clients watch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use tokio::sync::broadcast;

use super::published::PublishedEvent;
use crate::model::LeaseKey;

/// A topic that a client may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// One lease, whether or not it exists.
    Lease(LeaseKey),
    /// All leases of a namespace.
    Namespace(Box<str>),
    /// All leases.
    All,
}

/// The number of events that a topic holds for watchers that are about to take them. A watcher that
/// is further behind takes them from the ring, so a larger buffer would only save that step.
const AHEAD_OF_LEASE: usize = 16;
const AHEAD_OF_NAMESPACE: usize = 128;

/// The text of [`Topic::All`]. No name is empty.
const ALL: &str = "";

impl Topic {
    pub(super) fn has(&self, key: &LeaseKey) -> bool {
        texts_of(key).contains(&self.text())
    }

    /// Returns the text by which the topic is looked up. Names have no `/`, so the text of a lease
    /// never equals the name of a namespace.
    fn text(&self) -> &str {
        match self {
            Self::Lease(key) => key.as_str(),
            Self::Namespace(namespace) => namespace,
            Self::All => ALL,
        }
    }

    const fn ahead(&self) -> usize {
        match self {
            Self::Lease(_) => AHEAD_OF_LEASE,
            Self::Namespace(_) | Self::All => AHEAD_OF_NAMESPACE,
        }
    }
}

/// Returns the texts of the topics to which the events of a lease belong.
fn texts_of(key: &LeaseKey) -> [&str; 3] {
    [key.as_str(), key.namespace(), ALL]
}

/// All topics that clients watch. An event is looked up three times: by its lease, by its namespace,
/// and among all events.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    channels: RwLock<HashMap<Box<str>, Channel>>,
    /// The number of topics, and the number of watchers that want renewals. While a number is zero,
    /// the lock is not taken.
    count: AtomicUsize,
    renewed: AtomicUsize,
}

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Weak<PublishedEvent>>,
    watchers: usize,
    /// The number of the topic's watchers that want renewals.
    renewed: usize,
}

impl Topics {
    pub(crate) fn is_any_watched(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a watcher asked for this lease, and not only for its namespace.
    pub(crate) fn is_lease_watched(&self, key: &LeaseKey) -> bool {
        self.is_any_watched() && self.read().contains_key(key.as_str())
    }

    /// Returns whether a watcher asked for renewals of this lease.
    pub(crate) fn wants_renewals(&self, key: &LeaseKey) -> bool {
        if self.renewed.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let channels = self.read();
        let wants = |text| {
            channels
                .get(text)
                .is_some_and(|channel| channel.renewed > 0)
        };
        texts_of(key).into_iter().any(wants)
    }

    /// Begins to watch a topic.
    pub(super) fn join(
        &self,
        topic: &Topic,
        renewed: bool,
    ) -> broadcast::Receiver<Weak<PublishedEvent>> {
        let mut channels = self.write();
        let channel = channels.entry(topic.text().into());
        let channel = channel.or_insert_with(|| Channel {
            sender: broadcast::Sender::new(topic.ahead()),
            watchers: 0,
            renewed: 0,
        });
        channel.watchers += 1;
        channel.renewed += usize::from(renewed);
        let receiver = channel.sender.subscribe();
        self.count.store(channels.len(), Ordering::Relaxed);
        self.renewed
            .fetch_add(usize::from(renewed), Ordering::Relaxed);
        receiver
    }

    /// Ends watching a topic. A topic without watchers is removed.
    pub(super) fn leave(&self, topic: &Topic, renewed: bool) {
        let mut channels = self.write();
        if let Some(channel) = channels.get_mut(topic.text()) {
            channel.watchers -= 1;
            channel.renewed -= usize::from(renewed);
            if channel.watchers == 0 {
                channels.remove(topic.text());
            }
        }
        self.count.store(channels.len(), Ordering::Relaxed);
        self.renewed
            .fetch_sub(usize::from(renewed), Ordering::Relaxed);
    }

    /// Sends the event to the watchers of the lease, of its namespace, and of all leases.
    pub(super) fn send(&self, key: &LeaseKey, event: &Weak<PublishedEvent>) {
        let channels = self.read();
        for text in texts_of(key) {
            if let Some(channel) = channels.get(text) {
                // The last watcher may have just left.
                let _ = channel.sender.send(event.clone());
            }
        }
    }

    /// Sends the event to all watchers.
    pub(super) fn send_to_all(&self, event: &Weak<PublishedEvent>) {
        for channel in self.read().values() {
            let _ = channel.sender.send(event.clone());
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
