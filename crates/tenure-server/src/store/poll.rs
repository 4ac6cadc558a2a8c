//! Long polls: waiting for a lease to change.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::wire::{LeaseView, Problem};
use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::operate::{at, unknown};
use super::wait::Place;
use super::work::{Unknown, Work};
use super::{Inner, Store, stopping};
use crate::journal::Ticket;
use crate::table::Key;

/// One long poll. Dropped, it gives its room back.
struct Poll {
    inner: Arc<Inner>,
    key: Key,
    changed: Option<watch::Receiver<u64>>,
    /// From when it waits on: one that is answered at once is a read like any other.
    place: Option<Place>,
}

impl Store {
    /// The lease as it is once its revision is above `after`, or as it is after `wait`.
    pub(crate) async fn poll(
        &self,
        key: &Key,
        after: u64,
        wait: Duration,
    ) -> Result<LeaseView, Problem> {
        self.ready()?;
        let until = Instant::now() + wait;
        let mut poll = Poll {
            inner: Arc::clone(&self.inner),
            key: key.clone(),
            changed: None,
            place: None,
        };
        // What is due can't be written now, as a look has found out: from then on that is left to the timer,
        // or this poll and others would wake each other by trying, in a hot loop.
        let mut only_looks = false;
        loop {
            let subscribed = &mut poll.changed;
            let look = |work: &mut Work<'_>| {
                let changed = &work.entry.interest().changed;
                subscribed
                    .get_or_insert_with(|| changed.subscribe())
                    .mark_unchanged();
                (work.view(), work.in_flight())
            };
            // It subscribes under the same lock under which it looks: no change falls in between.
            let mut look = Some(look);
            let seen = self
                .answer(|| match look.take() {
                    Some(look) if !only_looks => self.inner.work(key, Unknown::Refuse, look),
                    Some(look) => self.inner.look_at(key, look),
                    None => {
                        only_looks = true;
                        self.inner.look_at(key, |work| (work.view(), None))
                    }
                })
                .await?;
            let Some((view, in_flight)) = seen.value else {
                return Err(unknown(key));
            };
            if seen.revision > after || Instant::now() >= until {
                return Ok(at(view, seen.revision));
            }
            let Some(changed) = &mut poll.changed else {
                return Ok(at(view, seen.revision));
            };
            if poll.place.is_none() {
                poll.place = Some(Place::take(&self.inner)?);
            }
            tokio::select! {
                _ = changed.changed() => self.inner.turn().await,
                // A look passes over what is in flight, and a commit of that is no further change.
                () = decided(in_flight), if only_looks => self.inner.turn().await,
                () = self.inner.stopping.cancelled() => return Err(stopping()),
                () = time::sleep_until(until) => {}
            }
        }
    }
}

/// Waits until this is durable or undone; for ever, if there is nothing to wait for.
async fn decided(in_flight: Option<Ticket>) {
    match in_flight {
        Some(ticket) => drop(ticket.durable().await),
        None => future::pending().await,
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        drop(self.changed.take());
        let inner = &self.inner;
        let mut shard = inner.table.lock(&self.key);
        if let Some(entry) = shard.get_mut(&self.key) {
            entry.drop_idle_interest();
            inner
                .table
                .tidy(&mut shard, &self.key, inner.journal.durable());
        }
    }
}
