//! Long polls: waiting for a lease to change.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::wire::{LeaseView, Problem};
use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::observe::IfMissing;
use super::operate::{at, unknown};
use super::transaction::LeaseTransaction;
use super::wait::WaitPermit;
use super::{Inner, Store, stopping};
use crate::commit_queue::Ticket;
use crate::model::LeaseKey;

/// One long poll. If it is dropped, the lease forgets it.
struct Poll {
    inner: Arc<Inner>,
    key: LeaseKey,
    changed: Option<watch::Receiver<u64>>,
    /// Taken when it begins to wait: a poll that is answered at once is a read like any other.
    permit: Option<WaitPermit>,
}

impl Store {
    /// The lease as it is once its revision is above `after`, or as it is after `wait`.
    pub(crate) async fn poll(
        &self,
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
        // An attempt has found that what is due can't be written now. From then on the timer tries, or this
        // poll and others would wake each other by trying, in a hot loop.
        let mut reads_only = false;
        loop {
            let subscribed = &mut poll.changed;
            let read = |transaction: &mut LeaseTransaction<'_>| {
                subscribed
                    .get_or_insert_with(|| transaction.subscribe())
                    .mark_unchanged();
                (transaction.view(), transaction.in_flight())
            };
            // It subscribes under the lock under which it reads: no change falls in between.
            let mut read = Some(read);
            let seen = self
                .answer(|| match read.take() {
                    Some(read) if !reads_only => self.inner.transact(key, IfMissing::Refuse, read),
                    Some(read) => self.inner.read_durable(key, read),
                    None => {
                        reads_only = true;
                        self.inner
                            .read_durable(key, |transaction| (transaction.view(), None))
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
            if poll.permit.is_none() {
                poll.permit = Some(WaitPermit::acquire(&self.inner)?);
            }
            tokio::select! {
                _ = changed.changed() => self.inner.turn().await,
                // The read skipped changes in flight, and their commit is not a further change.
                () = decided(in_flight), if reads_only => self.inner.turn().await,
                () = self.inner.stopping.cancelled() => return Err(stopping()),
                () = time::sleep_until(until) => {}
            }
        }
    }
}

/// Waits until the ticket is decided; for ever, if there is none.
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
                .tidy(&mut shard, &self.key, inner.commit_queue.durable());
        }
    }
}
