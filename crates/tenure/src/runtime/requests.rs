//! Requests to lease stores, and renewals that share one.

use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::{Instant, Name};
use tokio::task::{AbortHandle, JoinSet};

use super::event_loop::Slots;
use super::lease::OutgoingRequest;
use crate::backend::SharedBackend;
use crate::store::MAX_RENEWALS;

/// An answer for one candidate.
pub(super) struct StoreAnswer {
    /// The candidate's number.
    pub(super) slot: usize,
    pub(super) attempt: u64,
    pub(super) answer: Answer,
}

/// Requests under way.
#[derive(Default)]
pub(super) struct Requests {
    running: JoinSet<Vec<StoreAnswer>>,
}

/// Renewals of one namespace in one store.
struct Batch {
    link: SharedBackend,
    namespace: Name,
    timeout: Duration,
    renewals: Vec<(usize, u64, Name, LeaseId)>,
}

impl Requests {
    /// Sends the requests of all candidates; renewals to the same namespace of one store in one
    /// request.
    pub(super) fn send(&mut self, now: Instant, slots: &mut Slots) {
        pair_renewals(now, slots);
        let mut batches: Vec<Batch> = Vec::new();
        for (&slot, candidate) in slots {
            let Some(lease) = candidate.lease() else {
                continue;
            };
            let channel = lease.channel();
            let link = channel.link().clone();
            for outgoing in channel.take_outbox() {
                match outgoing.request {
                    Request::Renew(lease_id) => {
                        let election = &channel.config().election;
                        let (namespace, name) = (election.namespace(), election.name().clone());
                        let batch = find(&mut batches, &link, namespace, outgoing.timeout);
                        let renewal = (slot, outgoing.attempt, name, lease_id);
                        batch.renewals.push(renewal);
                        channel.set_in_flight(None);
                    }
                    _ => {
                        let request = self.send_one(slot, link.clone(), outgoing);
                        channel.set_in_flight(Some(request));
                    }
                }
            }
        }
        for batch in batches {
            self.running.spawn(batch.send());
        }
    }

    fn send_one(
        &mut self,
        slot: usize,
        link: SharedBackend,
        outgoing: OutgoingRequest,
    ) -> AbortHandle {
        let OutgoingRequest {
            attempt,
            request,
            timeout,
        } = outgoing;
        self.running.spawn(async move {
            let answer = link.send(request, timeout).await;
            vec![StoreAnswer {
                slot,
                attempt,
                answer,
            }]
        })
    }

    /// The next answers; waits for ever while nothing is under way.
    pub(super) async fn next(&mut self) -> Vec<StoreAnswer> {
        match self.running.join_next().await {
            Some(Ok(answers)) => answers,
            // A candidate would wait for this answer for ever: the thread ends, and its terms with it.
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
    let leases = slots.values_mut().filter_map(|slot| slot.lease());
    let renewing: Vec<_> = leases
        .map(|lease| lease.channel())
        .filter(|channel| channel.renews())
        .map(|channel| channel.link().clone())
        .collect();
    for slot in slots.values_mut() {
        if let Some(lease) = slot.lease()
            && renewing
                .iter()
                .any(|link| link.shares_requests_with(lease.channel().link().as_ref()))
        {
            lease.renew_early(now);
            slot.execute();
        }
    }
}

/// The batch that a renewal goes into. Its timeout is the shortest of its renewals.
fn find<'a>(
    batches: &'a mut Vec<Batch>,
    link: &SharedBackend,
    namespace: &Name,
    timeout: Duration,
) -> &'a mut Batch {
    let known = batches.iter().position(|batch| {
        batch.link.shares_requests_with(link.as_ref())
            && batch.namespace == *namespace
            && batch.renewals.len() < MAX_RENEWALS
    });
    let index = known.unwrap_or_else(|| {
        let (link, namespace) = (link.clone(), namespace.clone());
        batches.push(Batch {
            link,
            namespace,
            timeout,
            renewals: Vec::new(),
        });
        batches.len() - 1
    });
    let batch = &mut batches[index];
    batch.timeout = batch.timeout.min(timeout);
    batch
}

impl Batch {
    async fn send(self) -> Vec<StoreAnswer> {
        let answers = match &self.renewals[..] {
            [(_, _, _, lease_id)] => {
                vec![
                    self.link
                        .send(Request::Renew(*lease_id), self.timeout)
                        .await,
                ]
            }
            renewals => {
                let leases = renewals
                    .iter()
                    .map(|(_, _, name, lease_id)| (name.clone(), *lease_id));
                self.link
                    .renew_many(&self.namespace, leases.collect(), self.timeout)
                    .await
            }
        };
        let renewals = self.renewals.into_iter().zip(answers);
        renewals
            .map(|((slot, attempt, _, _), answer)| StoreAnswer {
                slot,
                attempt,
                answer,
            })
            .collect()
    }
}
