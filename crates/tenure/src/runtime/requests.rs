//! Requests to lease stores, and renewals that share one.

use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::{ElectionName, Instant};
use tokio::task::JoinSet;

use super::event_loop::Slots;
use crate::backend::SharedBackend;
use crate::store::MAX_RENEWALS;

/// The number of a candidate, its attempt, and the answer of the store.
pub(super) type StoreAnswer = (usize, u64, Answer);

/// Requests under way.
#[derive(Default)]
pub(super) struct Requests {
    running: JoinSet<Vec<StoreAnswer>>,
}

/// A renewal that is to be sent.
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
    /// Sends the requests of all candidates; renewals to the same namespace of one store in one
    /// request.
    pub(super) fn send(&mut self, now: Instant, slots: &mut Slots) {
        pair_renewals(now, slots);
        let mut batches: Vec<Vec<Renewal>> = Vec::new();
        for (&slot, candidate) in slots {
            let Some(channel) = candidate.io().channel() else {
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
                    let task = self.running.spawn(async move {
                        let answer = backend.send(request, timeout).await;
                        vec![(slot, attempt, answer)]
                    });
                    channel.set_in_flight(Some(task));
                }
            }
        }
        for batch in batches {
            self.running.spawn(renew(batch));
        }
    }

    /// Returns the next answers; waits for ever while nothing is under way.
    pub(super) async fn next(&mut self) -> Vec<StoreAnswer> {
        match self.running.join_next().await {
            Some(Ok(answers)) => answers,
            // A candidate would wait for this answer for ever: the thread ends, and its terms with
            // it.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The candidate has given the request up.
            Some(Err(_)) => Vec::new(),
            None => std::future::pending().await,
        }
    }
}

/// Where one candidate renews, renewals in the same store that are due soon go along, so that one
/// request carries all of them.
fn pair_renewals(now: Instant, slots: &mut Slots) {
    let channels = slots.values_mut().filter_map(|slot| slot.io().channel());
    let renewing: Vec<_> = channels
        .filter(|channel| channel.renews())
        .map(|channel| channel.backend.clone())
        .collect();
    for slot in slots.values_mut() {
        let Some(channel) = slot.io().channel() else {
            continue;
        };
        let backend = &*channel.backend;
        if renewing.iter().any(|it| it.shares_requests_with(backend)) {
            slot.io().renew_early(now);
            slot.execute();
        }
    }
}

/// Adds a renewal to those that it shares a request with.
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

/// Sends renewals, of which there is at least one. The timeout is the shortest of theirs.
async fn renew(batch: Vec<Renewal>) -> Vec<StoreAnswer> {
    let backend = batch[0].backend.clone();
    let timeouts = batch.iter().map(|renewal| renewal.timeout);
    let timeout = timeouts.min().unwrap_or_default();
    let answers = match &batch[..] {
        [only] => vec![backend.send(Request::Renew(only.lease_id), timeout).await],
        _ => {
            let leases = batch.iter().map(|it| (it.election.clone(), it.lease_id));
            backend.renew_many(leases.collect(), timeout).await
        }
    };
    let answered = batch.into_iter().zip(answers);
    answered
        .map(|(renewal, answer)| (renewal.slot, renewal.attempt, answer))
        .collect()
}
