//! The last events, up to a capacity.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::published::PublishedEvent;
use super::topic::Topic;

/// How much a [`Ring`] keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) events: usize,
    /// Of the changes. The text of an event that a watcher has read comes on top: some 300 bytes
    /// and the metadata.
    pub(super) bytes: usize,
}

/// The last events, in order. Nothing else keeps an event, so this is the bound on what all of them
/// take, however slow a watcher is.
#[derive(Debug)]
pub(super) struct Ring {
    capacity: Capacity,
    pub(super) bytes: usize,
    pub(super) events: VecDeque<Arc<PublishedEvent>>,
    /// Of changes after this revision none is missing.
    complete_after: u64,
}

/// Some missed events. By default none, and more may follow.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) events: VecDeque<Weak<PublishedEvent>>,
    /// With these, nothing up to here is missing.
    pub(crate) up_to: u64,
    /// Whether that is all there is.
    pub(crate) is_last: bool,
}

/// How many events are read, and how many taken, for one [`Page`]: the commit thread may
/// be waiting for the ring.
const READ: usize = 1_024;
const TAKEN: usize = 32;

impl Page {
    /// No event is missing.
    pub(crate) fn live() -> Self {
        Self {
            is_last: true,
            ..Self::default()
        }
    }
}

impl Ring {
    pub(super) const fn new(capacity: Capacity, revision: u64) -> Self {
        Self {
            capacity,
            bytes: 0,
            events: VecDeque::new(),
            complete_after: revision,
        }
    }

    pub(super) fn push(&mut self, event: Arc<PublishedEvent>) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > self.capacity.events || self.bytes > self.capacity.bytes {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
            self.complete_after = oldest.change.revision;
        }
    }

    /// The next page of the events of `topic` after `revision`, up to `last`; `None` if some may be
    /// missing.
    pub(super) fn after(
        &self,
        topic: &Topic,
        renewed: bool,
        revision: u64,
        last: u64,
    ) -> Option<Page> {
        if revision < self.complete_after {
            return None;
        }
        let mut page = Page::live();
        page.up_to = revision;
        let start = self
            .events
            .partition_point(|event| event.change.revision <= revision);
        for (read, event) in self.events.range(start..).enumerate() {
            if read == READ || page.events.len() == TAKEN {
                page.is_last = false;
                return Some(page);
            }
            if topic.has(&event.change.key) && event.is_for(renewed) {
                page.events.push_back(Arc::downgrade(event));
            }
            page.up_to = event.change.revision;
        }
        page.up_to = last.max(revision);
        Some(page)
    }
}
