//! The store of the model: the real record and queue, its disk, and its clients.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::tick;
use crate::lease::candidate::{Answer, Request};
use crate::lease::{
    Acquire, Change, Due, Lease, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules,
    Stored, Waiting,
};
use crate::{CandidateId, Epoch, Instant, NodeId, UnixMillis};

/// The sender of one request. The answer goes to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Client {
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    pub(super) attempt: u64,
}

impl Client {
    /// Returns the number of the request in the queue.
    const fn number(self) -> u64 {
        (self.node.0 as u64) << 32 | self.incarnation << 16 | self.attempt
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    lease: Lease<Client>,
    disk: Stored,
    /// The client that waited and was granted the lease last, if that grant is the last change.
    granted: Option<Client>,
    /// The lease ids that were released: no candidate may hold the lease under them again.
    released: BTreeSet<LeaseId>,
    /// Whether an expired lease was taken again under its epoch.
    pub(super) has_resumed: bool,
}

/// Epochs are small numbers in the model, so the wall clock stands still.
const WALL: UnixMillis = UnixMillis::new(0);

/// Returns the lease id of a request.
pub(super) const fn lease_id(request: &Request) -> LeaseId {
    match request {
        Request::Acquire { lease_id, .. }
        | Request::Renew(lease_id)
        | Request::Look(lease_id)
        | Request::Resume { lease_id, .. }
        | Request::Release { lease_id, .. }
        | Request::HandOver { lease_id, .. } => *lease_id,
    }
}

/// Removes the parts of a request that do not affect safety.
pub(super) fn reduced(request: Request) -> Request {
    match request {
        Request::Resume {
            lease_id, epoch, ..
        } => Request::Resume {
            lease_id,
            epoch,
            without_store: Duration::ZERO,
        },
        Request::Release { lease_id, .. } => Request::Release {
            lease_id,
            reason: None,
        },
        request => request,
    }
}

impl Store {
    pub(super) fn new() -> Self {
        let record = Record::default();
        Self {
            disk: record.store(tick(0)),
            granted: None,
            lease: record.into(),
            released: BTreeSet::new(),
            has_resumed: false,
        }
    }

    /// Stops and starts again. The queue is lost, and so are all renewals that were not written.
    pub(super) fn restart(&mut self, now: Instant) {
        self.lease = Record::restore(self.disk.clone(), now).into();
        self.granted = None;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.lease.is_due(now)
    }

    /// Returns whether a request under this lease id can only be refused from now on.
    pub(super) fn is_past(&self, id: LeaseId) -> bool {
        let record = self.lease.record();
        let is_last = record.last_grant().is_some_and(|it| it.lease_id == id);
        let mut retired = record.retired();
        !is_last && retired.any(|it| it == id)
    }

    /// Returns whether a lease is held under an id that was released.
    pub(super) fn is_released_and_held(&self, now: Instant) -> bool {
        let held = self.lease.record().held(now);
        held.is_some_and(|grant| self.released.contains(&grant.lease_id))
    }

    /// Returns the holder and the epoch.
    pub(super) fn holder(&self, now: Instant) -> Option<(&CandidateId, Epoch)> {
        let grant = self.lease.record().held(now)?;
        Some((&grant.holder, grant.epoch))
    }

    /// Returns the clients that wait, and the one whose request was granted last.
    pub(super) fn clients(&self) -> impl Iterator<Item = Client> {
        let waiting = self.lease.waiters().map(|(_, waiting)| waiting.reply_to);
        waiting.chain(self.granted)
    }

    /// Takes all steps that are due.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<(Client, Answer)> {
        let mut answers = Vec::new();
        while let Some(due) = self.lease.poll(now, WALL, &Rules::NATIVE, |_| false) {
            self.granted = None;
            if let Due::Granted { to, epoch } = due {
                self.granted = Some(to.reply_to);
                answers.push((to.reply_to, Answer::Held(epoch)));
            }
            self.write(now);
        }
        answers
    }

    /// Handles one request. Returns all answers that are ready, each after its record is on disk.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        promise: Duration,
        client: Client,
        request: &Request,
    ) -> Vec<(Client, Answer)> {
        let mut answers = self.poll(now);
        let acquire = |lease_id, min_epoch| Acquire {
            lease_id,
            holder: CandidateId::from(client.node),
            duration: LeaseDuration::Fixed(promise),
            lock_delay: Duration::ZERO,
            metadata: Metadata::new(),
            min_epoch,
            by_operator: false,
        };
        let operation = request.clone().operation(acquire, WALL);
        let result = self.lease.apply(&operation, now, &Rules::NATIVE);
        if let Ok(applied) = &result {
            self.granted = None;
            if let Operation::Release(id) = operation {
                self.released.insert(id);
            }
            self.has_resumed |= matches!(applied.change, Change::Resumed(_));
            if applied.durable {
                self.write(now);
            }
        }
        match (result, operation) {
            (Err(refused), Operation::Acquire(request, _)) if refused.is_transient() => {
                let waiting = Waiting {
                    number: client.number(),
                    request,
                    owner: None,
                    since: now,
                    reply_to: client,
                };
                self.lease.wait(0, waiting);
            }
            (result, _) => {
                let answer = result.map(|applied| applied.change).into();
                answers.push((client, answer));
            }
        }
        answers.extend(self.poll(now));
        answers
    }

    /// Notices that a client is gone: drops its request, or takes back the grant that it could not
    /// be told about.
    pub(super) fn notice_gone(&mut self, now: Instant, client: Client) {
        self.granted = self.granted.filter(|&granted| granted != client);
        let waiters = self.lease.waiters();
        let mut of_client = waiters.filter(|(_, waiting)| waiting.reply_to == client);
        let waits = of_client.next().map(|(_, it)| it.request.lease_id);
        drop(of_client);
        if let Some(id) = waits {
            self.lease.leave(id, client.number(), now);
        } else if let Some(applied) = self.lease.give_back(client.number(), now)
            && applied.durable
        {
            self.write(now);
        }
    }

    fn write(&mut self, now: Instant) {
        self.disk = self.lease.record().store(now);
    }
}
