//! What is to be sent, and which renewals go together.

use std::time::Duration;

use tenure_core::Name;
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{Answer, Request};
use tokio::task::{AbortHandle, JoinSet};

use super::lease::{Outgoing, StoreWay};
use crate::backend::SharedBackend;
use crate::store::MAX_RENEWALS;

/// An answer for a keeper.
pub(super) struct Incoming {
    pub(super) member: usize,
    pub(super) attempt: u64,
    pub(super) answer: Answer,
}

/// Requests under way.
#[derive(Default)]
pub(super) struct Requests {
    running: JoinSet<Vec<Incoming>>,
}

/// Renewals of one namespace in one store.
struct Batch {
    link: SharedBackend,
    namespace: Name,
    timeout: Duration,
    renewals: Vec<(usize, u64, Name, LeaseId)>,
}

impl Requests {
    /// Sends everything; renewals to the same namespace of one store in one request.
    pub(super) fn send<'a>(&mut self, ways: impl Iterator<Item = (usize, &'a mut StoreWay)>) {
        let mut batches: Vec<Batch> = Vec::new();
        for (member, way) in ways {
            let link = way.link().clone();
            for outgoing in way.take_outbox() {
                match outgoing.request {
                    Request::Renew(lease_id) => {
                        let election = &way.config().election;
                        let (namespace, name) = (election.namespace(), election.name().clone());
                        let batch = find(&mut batches, &link, namespace, outgoing.timeout);
                        let renewal = (member, outgoing.attempt, name, lease_id);
                        batch.renewals.push(renewal);
                        way.set_in_flight(None);
                    }
                    _ => {
                        let request = self.send_one(member, link.clone(), outgoing);
                        way.set_in_flight(Some(request));
                    }
                }
            }
        }
        for batch in batches {
            self.running.spawn(batch.send());
        }
    }

    fn send_one(&mut self, member: usize, link: SharedBackend, outgoing: Outgoing) -> AbortHandle {
        let Outgoing {
            attempt,
            request,
            timeout,
        } = outgoing;
        self.running.spawn(async move {
            let answer = link.send(request, timeout).await;
            vec![Incoming {
                member,
                attempt,
                answer,
            }]
        })
    }

    /// The next answers; waits for ever while nothing is under way.
    pub(super) async fn next(&mut self) -> Vec<Incoming> {
        match self.running.join_next().await {
            Some(Ok(answers)) => answers,
            // A keeper would wait for this answer for ever: let the driver end, and the terms with it.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Given up.
            Some(Err(_)) => Vec::new(),
            None => std::future::pending().await,
        }
    }
}

/// The batch that a renewal goes into. A batch is as patient as the least patient in it.
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
    async fn send(self) -> Vec<Incoming> {
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
            .map(|((member, attempt, _, _), answer)| Incoming {
                member,
                attempt,
                answer,
            })
            .collect()
    }
}
