//! Requests to lease services, and renewals that share a request.

use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::Request;
use tenure_core::{ElectionName, Instant};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::candidate_runner::Slots;
use crate::base::random::OsRandom;
use crate::http::store::MAX_RENEWALS;
use crate::service::{BackendReply, SharedBackend};

/// The number of a candidate, its attempt, and the reply of the lease service.
pub(super) type StoreAnswer = (usize, u64, BackendReply);

/// Requests in flight.
#[derive(Default)]
pub(super) struct Requests {
    running: JoinSet<Vec<StoreAnswer>>,
}

/// A renewal to send.
struct Renewal {
    /// The candidate's number.
    slot: usize,
    attempt: u64,
    backend: SharedBackend,
    election: ElectionName,
    lease_id: LeaseId,
    timeout: Duration,
}

impl Requests {
    /// Sends the requests of all candidates. Renewals in the same namespace of one store share a
    /// request.
    pub(super) fn send(&mut self, now: Instant, slots: &mut Slots) {
        pair_renewals(now, slots);
        let mut batches: Vec<Vec<Renewal>> = Vec::new();
        for (&slot, candidate) in slots {
            let Some(channel) = candidate.io.channel() else {
                continue;
            };
            for (attempt, request, timeout) in std::mem::take(&mut channel.outbox) {
                let backend = channel.backend.clone();
                if let Request::Renew(lease_id) = request {
                    let renewal = Renewal {
                        slot,
                        attempt,
                        backend,
                        election: channel.config.election.clone(),
                        lease_id,
                        timeout,
                    };
                    add_to_batch(&mut batches, renewal);
                    channel.set_in_flight(None);
                } else {
                    let send = async move {
                        let reply = backend.send(request, timeout).await;
                        vec![(slot, attempt, reply)]
                    };
                    let task = self.running.spawn(send.instrument(channel.span.clone()));
                    channel.set_in_flight(Some(task));
                }
            }
        }
        for batch in batches {
            self.running.spawn(renew(batch));
        }
    }

    /// Returns the next answers. Waits for ever while no request is in flight.
    pub(super) async fn next(&mut self) -> Vec<StoreAnswer> {
        match self.running.join_next().await {
            Some(Ok(answers)) => answers,
            // A candidate would wait for this answer for ever. So the thread ends, and with it all
            // terms.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The candidate has given up the request.
            Some(Err(_)) => Vec::new(),
            None => std::future::pending().await,
        }
    }
}

/// Lets candidates renew early if another candidate of the same store renews now and their renewals
/// are due soon, so that one request contains all of these renewals.
fn pair_renewals(now: Instant, slots: &mut Slots) {
    let channels = slots.values_mut().filter_map(|slot| slot.io.channel());
    let renewing: Vec<_> = channels
        .filter(|channel| channel.renews())
        .map(|channel| channel.backend.clone())
        .collect();
    for slot in slots.values_mut() {
        let Some(channel) = slot.io.channel() else {
            continue;
        };
        let backend = &*channel.backend;
        if renewing.iter().any(|it| it.shares_requests_with(backend)) {
            slot.io.machine().renew_early(now, &mut OsRandom);
            slot.execute();
        }
    }
}

/// Adds a renewal to the batch whose request it shares.
fn add_to_batch(batches: &mut Vec<Vec<Renewal>>, renewal: Renewal) {
    let is_shared = |batch: &&mut Vec<Renewal>| {
        let first = &batch[0];
        batch.len() < MAX_RENEWALS
            && first.backend.shares_requests_with(&*renewal.backend)
            && first.election.namespace == renewal.election.namespace
    };
    match batches.iter_mut().find(is_shared) {
        Some(batch) => batch.push(renewal),
        None => batches.push(vec![renewal]),
    }
}

/// Sends renewals, of which there is at least one. The timeout is the shortest one of all renewals.
async fn renew(batch: Vec<Renewal>) -> Vec<StoreAnswer> {
    let backend = batch[0].backend.clone();
    let timeouts = batch.iter().map(|renewal| renewal.timeout);
    let timeout = timeouts.min().unwrap_or_default();
    let replies = match &batch[..] {
        [only] => vec![backend.send(Request::Renew(only.lease_id), timeout).await],
        _ => {
            let leases = batch.iter().map(|it| (it.election.clone(), it.lease_id));
            backend.renew_many(leases.collect(), timeout).await
        }
    };
    let answered = batch.into_iter().zip(replies);
    answered
        .map(|(renewal, reply)| (renewal.slot, renewal.attempt, reply))
        .collect()
}
