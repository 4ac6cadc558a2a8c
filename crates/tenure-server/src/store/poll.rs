//! Long polls, which wait for a lease to change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tenure_core::wire::{LeaseView, Problem};
use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::observe::{IfMissing, unknown};
use super::transaction::LeaseTransaction;
use super::{Inner, Store};
use crate::commit_queue::Ticket;
use crate::metrics::waiting;
use crate::model::LeaseKey;
use crate::shares::{Share, Tenant};

/// One long poll. Dropping it removes its state from the lease.
struct Poll {
    inner: Arc<Inner>,
    key: LeaseKey,
    changed: Option<watch::Receiver<u64>>,
    /// The permit, taken when the poll begins to wait: a poll that is answered at once is a plain
    /// read.
    permit: Option<Share<Tenant>>,
}

impl Store {
    /// Returns the lease once its revision is above `after`, or at the end of `wait`.
    pub(crate) async fn poll(
        &self,
        tenant: &Tenant,
        key: &LeaseKey,
        after: u64,
        wait: Duration,
    ) -> Result<LeaseView, Problem> {
        self.ready()?;
        let until = Instant::now() + wait;
        let mut poll = Poll {
            inner: Arc::clone(&self.inner),
            key: key.clone(),
            changed: None,
            permit: None,
        };
        // Set after an attempt in which due steps could not be written. From then on only the timer
        // tries to write them. Otherwise this poll and others would wake each other by trying, in a
        // busy loop.
        let mut reads_only = false;
        loop {
            let subscribed = &mut poll.changed;
            // The poll subscribes under the lock under which it reads, so it misses no change in
            // between.
            let mut read = |transaction: &mut LeaseTransaction<'_>| {
                subscribed
                    .get_or_insert_with(|| transaction.subscribe())
                    .mark_unchanged();
                (transaction.view(), transaction.in_flight())
            };
            let first = match reads_only {
                false => self.inner.transact(key, IfMissing::Refuse, &mut read),
                true => self.inner.read_durable(key, &mut read),
            };
            let again = || {
                reads_only = true;
                self.inner.read_durable(key, &mut read)
            };
            let seen = self.answer(first, again).await?;
            let (mut view, in_flight) = seen.value.ok_or_else(|| unknown(key))?;
            view.revision = seen.revision;
            let Some(changed) = &mut poll.changed else {
                return Ok(view);
            };
            if view.revision > after || Instant::now() >= until {
                return Ok(view);
            }
            if poll.permit.is_none() {
                poll.permit = Some(self.inner.wait_permit(tenant)?);
                self.inner.long_polls.fetch_add(1, Ordering::Relaxed);
            }
            let decided = OptionFuture::from(in_flight.map(Ticket::durable));
            let changed = async {
                tokio::select! {
                    _ = changed.changed() => self.inner.turn().await,
                    // The read skipped changes that were not durable. Their commit does not count
                    // as a further change, so the poll must wait for it too.
                    Some(_) = decided, if reads_only => self.inner.turn().await,
                    () = self.inner.interruption.notified() => {}
                    () = self.inner.stopping.cancelled() => return Err(self.inner.refusal()),
                    () = time::sleep_until(until) => {}
                }
                Ok(())
            };
            waiting(changed).await?;
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.inner.long_polls.fetch_sub(1, Ordering::Relaxed);
        }
        drop(self.changed.take());
        let mut shard = self.inner.table.lock(&self.key);
        self.inner.tidy(&mut shard, &self.key);
    }
}
