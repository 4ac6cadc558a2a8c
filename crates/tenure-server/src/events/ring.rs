//! The last events, up to a fixed capacity.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::published::PublishedEvent;
use super::topic::Topic;

/// The capacity of a [`Ring`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) events: usize,
    /// The size of the changes, in bytes. The text of an event that a watcher has read is not
    /// counted: some 300 bytes and the metadata.
    pub(super) bytes: usize,
}

/// The last events, in order. Nothing else owns an event, so the capacity bounds the memory of all
/// events, however slow a watcher is.
#[derive(Debug)]
pub(super) struct Ring {
    capacity: Capacity,
    pub(super) bytes: usize,
    pub(super) events: VecDeque<Arc<PublishedEvent>>,
    /// No change after this revision is missing from the ring.
    complete_after: u64,
}

/// A page of missed events. The default is empty, and further pages may follow.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) events: VecDeque<Weak<PublishedEvent>>,
    /// Once the watcher has these events, it has missed none up to this revision.
    pub(crate) up_to: u64,
    /// Whether this is the last page.
    pub(crate) is_last: bool,
}

/// The maximum number of events that are read and that are copied for one [`Page`]. It is limited
/// because the commit thread may be waiting for the ring.
const READ: usize = 1_024;
const TAKEN: usize = 32;

impl Page {
    /// Creates the last page without events: the watcher has missed nothing.
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

    /// Returns the next page of the events of `topic` after `revision`, up to `last`; `None` if
    /// some may be missing.
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
