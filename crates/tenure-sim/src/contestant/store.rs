//! A lease store: the core's lease and waiting queue, with a disk, and one connection per request.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request, Timings};
use tenure_core::lease::{
    self, Acquire, Change, Due, Lease, LeaseDuration, LeaseId, Metadata, Operation, Record,
    Rejection, RequestNumber, Resume, Rules, Waiting,
};
use tenure_core::wire::DEFAULT_PRIORITY;
use tenure_core::{CandidateId, Epoch, Instant, NodeId, UnixMillis};

use super::{Payload, RequestId};
use crate::mutation::Mutation;
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
    Time,
};

/// The priority of all requests.
const PRIORITY: u32 = DEFAULT_PRIORITY;

/// With [`Mutation::WallClockExpiry`]: the interval at which the store reads the wall clock.
const GLANCE: Duration = Duration::from_millis(100);

/// With [`Mutation::LateSweep`]: the time from the check of an expired lease to its end.
const SWEEP: Duration = Duration::from_millis(300);

/// The longest time until the runtime polls the task of a waiting request that was granted, or
/// whose connection was closed. The order of the polls is arbitrary.
const POLLED: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Store {
    duration: Duration,
    mutation: Option<Mutation>,
    lease: Lease<Caller>,
    /// The tasks of requests that wait, or that waited and were not polled since.
    tasks: BTreeMap<RequestNumber, Task>,
    /// The number of requests that have waited.
    waited: RequestNumber,
    /// The pending writes, and the effects that must follow them.
    unwritten: u32,
    held: VecDeque<ProcessEffect>,
    sweep_at: Option<Instant>,
    /// The time at which the store last ran [`Store::serve`].
    served_at: Instant,
    /// With [`Mutation::RenewAfterRegrant`]: the last epoch of each candidate.
    granted: BTreeMap<NodeId, Epoch>,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
struct Caller {
    from: NodeId,
    id: RequestId,
}

/// The task of a waiting request. A server has one for each connection.
#[derive(Debug)]
struct Task {
    caller: Caller,
    request: Acquire,
    /// The time of the next poll: at the end of the wait, or earlier.
    polled_at: Instant,
    /// The grant that the task has not read yet, and the true time of it.
    unread: Option<(Epoch, Time)>,
    /// Whether the connection was closed. The task is dropped at its next poll.
    is_closed: bool,
}

impl Store {
    pub(super) fn start(
        timings: &Timings,
        mutation: Option<Mutation>,
        stable: Option<&DurableState>,
        context: &Context<'_>,
    ) -> Self {
        let duration = if mutation == Some(Mutation::NoMargin) {
            timings.hard_stop()
        } else {
            timings.lease_duration()
        };
        let mut store = Self {
            duration,
            mutation,
            lease: Lease::default(),
            tasks: BTreeMap::new(),
            waited: 0,
            unwritten: 0,
            held: VecDeque::new(),
            sweep_at: None,
            served_at: context.now,
            granted: BTreeMap::new(),
        };
        if let Some(mut stored) = stable.and_then(|it| it.downcast_ref::<lease::Stored>().cloned())
        {
            match mutation {
                Some(Mutation::LeasesForgotten) => {
                    let last = stored.grant.as_ref().map(|grant| grant.epoch);
                    store.lease.restore(Record::above(last));
                    return store;
                }
                Some(Mutation::EpochInMemory)
                    if !matches!(stored.state, lease::StoredState::Leased) =>
                {
                    stored.grant = None;
                }
                _ => {}
            }
            let restored = Record::restore(stored, store.now(context));
            store.lease.restore(restored);
        }
        store
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Returns the time that decides about leases.
    fn now(&self, context: &Context<'_>) -> Instant {
        if self.has(Mutation::WallClockExpiry) {
            Instant::from_nanos(context.wall.get() * 1_000_000)
        } else {
            context.now
        }
    }

    fn wall(&self, context: &Context<'_>) -> UnixMillis {
        if self.has(Mutation::EpochInMemory) {
            UnixMillis::new(0)
        } else {
            context.wall
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            refuse_retired_ids: !self.has(Mutation::RetiredIdGranted),
            ..Rules::NATIVE
        }
    }

    fn handle_request(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller,
        holder: CandidateId,
        request: Request,
    ) {
        self.serve(context);
        let from = caller.from;
        let acquire = |lease_id, min_epoch| Acquire {
            lease_id,
            min_epoch,
            by_operator: false,
            holder,
            duration: LeaseDuration::Fixed(self.duration),
            lock_delay: Duration::ZERO,
            metadata: Metadata::new(),
        };
        let (operation, wait) = match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => {
                let request = acquire(lease_id, min_epoch);
                (Operation::Acquire(request, self.wall(context)), Some(wait))
            }
            Request::Resume {
                lease_id,
                epoch,
                without_store,
            } => {
                let of_term = Resume {
                    epoch,
                    without_store,
                };
                let request = acquire(lease_id, None);
                let operation = Operation::Resume(request, of_term, self.wall(context));
                (operation, None)
            }
            Request::Renew(lease_id) | Request::Look(lease_id) => {
                (Operation::Renew(lease_id, None), None)
            }
            Request::Release { lease_id, .. } => (Operation::Release(self.known(lease_id)), None),
            Request::HandOver {
                lease_id,
                to,
                within,
            } => {
                let operation = Operation::HandOver {
                    lease_id,
                    to,
                    within,
                    forced: false,
                };
                (operation, None)
            }
        };
        match (self.apply(context, &operation, from), operation) {
            (Err(rejection), Operation::Acquire(request, _)) if rejection.is_transient() => {
                let until = context.now + wait.unwrap_or_default();
                self.enqueue(request, caller, context.now, until);
            }
            (Err(_), Operation::Renew(..)) if self.has(Mutation::RenewAfterRegrant) => {
                // This mutation ignores which candidate holds the lease.
                let epoch = self.granted.get(&from).copied();
                let answer = epoch.map_or(Answer::Superseded, Answer::Held);
                self.answer(context, caller, answer);
            }
            (Err(_), Operation::Resume(_, of_term, _))
                if self.has(Mutation::ResumeAfterRegrant) =>
            {
                self.answer(context, caller, Answer::Held(of_term.epoch));
            }
            (result, _) => self.answer(context, caller, Answer::from(result)),
        }
        self.serve(context);
    }

    fn enqueue(&mut self, request: Acquire, caller: Caller, now: Instant, until: Instant) {
        self.waited += 1;
        let waiting = Waiting {
            number: self.waited,
            request: request.clone(),
            owner: None,
            since: now,
            reply_to: caller,
        };
        // The client no longer waits for the request that this request replaces.
        if let Some(replaced) = self.lease.wait(PRIORITY, waiting) {
            self.tasks.remove(&replaced.number);
        }
        let task = Task {
            caller,
            request,
            polled_at: until,
            unread: None,
            is_closed: false,
        };
        self.tasks.insert(self.waited, task);
    }

    /// Returns the lease id that a release affects.
    fn known(&self, lease_id: LeaseId) -> LeaseId {
        let current = self.lease.record().last_grant().map(|grant| grant.lease_id);
        if self.has(Mutation::ReleaseWithoutId) {
            current.unwrap_or(lease_id)
        } else {
            lease_id
        }
    }

    /// Applies one operation and writes it to disk.
    fn apply(
        &mut self,
        context: &mut Context<'_>,
        operation: &Operation,
        from: NodeId,
    ) -> Result<Change, Rejection> {
        let now = self.now(context);
        let before = self.lease.record().last_epoch();
        let rules = self.rules();
        let applied = self.lease.apply(operation, now, &rules)?;
        if applied.durable {
            self.persist(context);
        }
        match applied.change {
            Change::Granted(epoch) => self.report_grant(context, epoch, from),
            Change::Released | Change::HandedOver | Change::Breaking(_) | Change::Broken => {
                if let Some(epoch) = before {
                    // The end of the lease counts at once, even before it is on disk: no candidate
                    // relies on the full lease any more.
                    context.record(HistoryEventKind::LeaseGivenUp(epoch));
                }
            }
            _ => {}
        }
        Ok(applied.change)
    }

    fn report_grant(&mut self, context: &mut Context<'_>, epoch: Epoch, to: NodeId) {
        self.granted.insert(to, epoch);
        let grant = self.lease.record().last_grant();
        let id = grant.map_or(0, |grant| {
            let bytes = grant.lease_id.to_bytes();
            let last = bytes.iter().rev().take(7);
            last.fold(0, |id, &byte| (id << 8) | u64::from(byte))
        });
        let at = context.true_time();
        let granted = HistoryEventKind::Granted { epoch, to, id, at };
        self.emit_durable(context, ProcessEffect::Record(granted));
    }

    fn persist(&mut self, context: &mut Context<'_>) {
        let stored = self.lease.record().store(self.now(context));
        context.write(stored);
        self.unwritten += 1;
    }

    fn answer(&mut self, context: &mut Context<'_>, caller: Caller, answer: Answer) {
        let now = context.true_time();
        self.answer_as_of(context, caller, answer, now);
    }

    /// Answers a request that was decided at this time. From then on the holder relies on the lease.
    fn answer_as_of(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller,
        answer: Answer,
        decided: Time,
    ) {
        let Caller { from, id } = caller;
        if let Answer::Held(epoch) = answer {
            let runs = HistoryEventKind::LeaseRuns(epoch, decided, self.duration);
            self.emit_durable(context, ProcessEffect::Record(runs));
        }
        self.emit_durable(
            context,
            ProcessEffect::Send(from, Rc::new(Payload::StoreReply { id, answer })),
        );
    }

    /// Emits an effect after all pending writes.
    fn emit_durable(&mut self, context: &mut Context<'_>, effect: ProcessEffect) {
        if self.unwritten == 0 || self.has(Mutation::AnswerBeforeDisk) {
            context.emit(effect);
        } else {
            self.held.push_back(effect);
        }
    }

    /// Ends a term that has expired, and grants the lease to the first waiting request.
    fn serve(&mut self, context: &mut Context<'_>) {
        let now = self.now(context);
        self.served_at = context.now;
        if self.has(Mutation::LateSweep) {
            match self.sweep_at {
                Some(at) if context.now >= at => {
                    self.sweep_at = None;
                    let last = self.lease.record().last_epoch();
                    self.lease.restore(Record::above(last));
                    self.persist(context);
                }
                None if self.lease.record().has_lapsed(now) => {
                    self.sweep_at = Some(context.now + SWEEP);
                }
                _ => {}
            }
        }
        let (wall, rules) = (self.wall(context), self.rules());
        // The server notices a closed connection only when it polls the request's task.
        while let Some(due) = self.lease.poll(now, wall, &rules, |_| false) {
            self.persist(context);
            if let Due::Granted { to, epoch } = due {
                self.report_grant(context, epoch, to.reply_to.from);
                self.leave_grant(context, to.number, epoch);
            }
        }
    }

    /// Stores a grant for the task of a waiting request, which reads it at its next poll.
    fn leave_grant(&mut self, context: &mut Context<'_>, number: RequestNumber, epoch: Epoch) {
        let soon = context.now + context.rng.between(Duration::ZERO, POLLED);
        if let Some(task) = self.tasks.get_mut(&number) {
            task.unread = Some((epoch, context.true_time()));
            task.polled_at = task.polled_at.min(soon);
        }
    }

    /// Closes the connections for which `is_of` returns `true`.
    fn close(&mut self, context: &mut Context<'_>, is_of: impl Fn(&Caller) -> bool) {
        for task in self.tasks.values_mut().filter(|it| is_of(&it.caller)) {
            let soon = context.now + context.rng.between(Duration::ZERO, POLLED);
            task.is_closed = true;
            task.polled_at = task.polled_at.min(soon);
        }
    }

    /// Polls the tasks that are due.
    fn poll_tasks(&mut self, context: &mut Context<'_>) {
        let due = self
            .tasks
            .iter()
            .filter(|(_, it)| context.now >= it.polled_at);
        let due: Vec<RequestNumber> = due.map(|(&number, _)| number).collect();
        for number in due {
            let Some(task) = self.tasks.remove(&number) else {
                continue;
            };
            self.lease.leave(task.request.lease_id, number, context.now);
            match task.unread {
                Some(_) if task.is_closed => self.give_back(context, number, &task),
                // A server that can't append polls no task until it can.
                Some((epoch, granted)) => {
                    self.answer_as_of(context, task.caller, Answer::Held(epoch), granted);
                }
                None if task.is_closed => {}
                None => {
                    // The wait is over, and the answer contains the holder.
                    let operation = Operation::Acquire(task.request, self.wall(context));
                    let result = self.apply(context, &operation, task.caller.from);
                    self.answer(context, task.caller, Answer::from(result));
                }
            }
            self.serve(context);
        }
    }

    /// Takes back a grant whose client disconnected before its task read the grant.
    fn give_back(&mut self, context: &mut Context<'_>, number: RequestNumber, task: &Task) {
        let now = self.now(context);
        let given_back = if self.has(Mutation::GiveBackUnchecked) {
            let release = Operation::Release(task.request.lease_id);
            let rules = self.rules();
            self.lease.apply(&release, now, &rules).is_ok()
        } else {
            self.lease.give_back(number, now).is_some()
        };
        if given_back {
            self.persist(context);
        }
    }
}

impl Process for Store {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        match input {
            ProcessInput::Message { from, payload, .. } => match payload.downcast_ref() {
                Some(Payload::StoreRequest {
                    id,
                    candidate,
                    request,
                }) => {
                    let caller = Caller { from, id: *id };
                    self.handle_request(context, caller, candidate.clone(), request.clone());
                }
                Some(Payload::CloseConnection { id }) => {
                    self.close(context, |caller| caller.from == from && caller.id == *id);
                }
                _ => {}
            },
            ProcessInput::Wake => {
                self.serve(context);
                self.poll_tasks(context);
            }
            ProcessInput::Written => {
                self.unwritten = self.unwritten.saturating_sub(1);
                if self.unwritten == 0 {
                    for effect in std::mem::take(&mut self.held) {
                        context.emit(effect);
                    }
                }
            }
            ProcessInput::Refused(node) => self.close(context, |caller| caller.from == node),
            ProcessInput::Break(period) => {
                self.serve(context);
                let _ = self.apply(context, &Operation::Break(Some(period)), NodeId(0));
                self.serve(context);
            }
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let lapse = if self.has(Mutation::WallClockExpiry) {
            // The wall clock has no timer, so the store reads it at an interval.
            Some(self.served_at + GLANCE)
        } else {
            self.lease.record().next_lapse(self.served_at)
        };
        let lapse = lapse.filter(|_| self.lease.waiting() > 0 || self.has(Mutation::LateSweep));
        let polled = self.tasks.values().map(|task| task.polled_at).min();
        [lapse, polled, self.sweep_at].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
