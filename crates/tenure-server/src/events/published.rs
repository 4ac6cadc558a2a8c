//! One event, in the form that watchers receive.

use std::sync::{Arc, OnceLock};

use tenure_core::Instant;
use tenure_core::lease::{Record, Stored};
use tenure_core::wire::{EventKind, LeaseEvent, LeaseView, PastTerm};

use crate::clock;
use crate::model::{Content, LeaseChange};

/// One event. The first watcher that reads the event creates its text.
#[derive(Debug)]
pub(crate) struct PublishedEvent {
    pub(crate) change: LeaseChange,
    /// The revision to resume after. A renewal has none, because no watcher resumes after a
    /// renewal.
    pub(crate) id: Option<u64>,
    /// The memory that the event takes without its text, in bytes.
    bytes: usize,
    data: OnceLock<Box<str>>,
}

impl PublishedEvent {
    /// Creates the event of a change. It drops the parts that only the disk needs: they are most of
    /// the change, and the ring would free them long after they have left the processor's cache.
    pub(super) fn change(mut change: LeaseChange) -> Self {
        change.term = None;
        if let Content::Lease(stored) = &mut change.content
            && !stored.retired.is_empty()
        {
            // Most likely the engine has the lease too, and a copy of the list would be for
            // nothing.
            *stored = Arc::new(Stored {
                state: stored.state,
                grant: stored.grant.clone(),
                metadata: stored.metadata.clone(),
                reserved: stored.reserved.clone(),
                retired: Vec::new(),
            });
        }
        Self {
            bytes: bytes_of(&change),
            id: Some(change.revision),
            change,
            data: OnceLock::new(),
        }
    }

    /// Creates the event of a renewal, with the revision of the change before it.
    pub(super) fn renewal(change: LeaseChange) -> Self {
        Self {
            id: None,
            ..Self::change(change)
        }
    }

    pub(crate) const fn kind(&self) -> EventKind {
        self.change.cause.kind()
    }

    /// Returns whether a watcher gets this event; `renewed` says whether the watcher wants
    /// renewals.
    pub(crate) fn is_for(&self, renewed: bool) -> bool {
        renewed || self.kind() != EventKind::Renewed
    }

    /// Returns the data: a [`LeaseEvent`] in JSON.
    pub(crate) fn data(&self) -> &str {
        self.data.get_or_init(|| {
            let mut event = LeaseEvent::new(self.view());
            event.term = self.past_term();
            event.reason = self.change.cause.reason().map(Into::into);
            // Serialization cannot fail: all keys are text, and every value has a form in JSON.
            let text = serde_json::to_string(&event).unwrap_or_default();
            text.into()
        })
    }

    fn view(&self) -> LeaseView {
        let LeaseChange {
            key,
            revision,
            waiters,
            remaining_ms,
            ..
        } = &self.change;
        let stored = self.change.stored();
        // The view does not depend on the instant.
        let now = Instant::default();
        let record = stored.map_or_else(Record::default, |stored| {
            Record::restore(stored.clone(), now)
        });
        let grant = record.held(now);
        let mut view = LeaseView::of(key.namespace(), key.lease(), &record, now);
        view.remaining_ms = *remaining_ms;
        view.granted_at = grant.and_then(|grant| clock::rfc3339(grant.granted_at));
        view.without_store = grant.and_then(clock::without_store);
        view.waiters = *waiters;
        view.revision = *revision;
        view
    }

    fn past_term(&self) -> Option<PastTerm> {
        let kind = self.kind();
        if !matches!(
            kind,
            EventKind::Released | EventKind::Expired | EventKind::Broken
        ) {
            return None;
        }
        let grant = self.change.stored()?.grant.as_ref()?;
        Some(PastTerm::new(grant.epoch.get(), grant.holder.as_str()))
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(change: &LeaseChange) -> usize {
    let stored = change.stored().map_or(0, |stored| {
        let grant = stored.grant.as_ref();
        let holder = grant.map_or(0, |grant| grant.holder.as_str().len());
        let metadata = stored.metadata.iter();
        let metadata: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
        size_of::<Stored>() + holder + metadata
    });
    let reason = change.cause.reason().map_or(0, str::len);
    size_of::<PublishedEvent>() + change.key.as_str().len() + stored + reason
}
