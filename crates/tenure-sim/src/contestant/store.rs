//! A lease store: the core's lease and waiting queue, with a disk, and one connection per request.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request, Timings};
use tenure_core::lease::{
    self, Acquire, Change, Due, Lease, LeaseDuration, Metadata, Operation, Record, Rejection,
    RequestNumber, Rules, Waiting,
};
use tenure_core::wire::DEFAULT_PRIORITY;
use tenure_core::{CandidateId, Epoch, Instant, NodeId};

use super::{Payload, RequestId};
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
    Time,
};

/// The priority of all requests.
const PRIORITY: u32 = DEFAULT_PRIORITY;

/// The longest time until the runtime polls the task of a waiting request that was granted, or
/// whose connection was closed. The order of the polls is arbitrary.
const POLLED: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Store {
    duration: Duration,
    lease: Lease<Caller>,
    /// The tasks of requests that wait, or that waited and were not polled since.
    tasks: BTreeMap<RequestNumber, Task>,
    /// The number of requests that have waited.
    waited: RequestNumber,
    /// The pending writes, and the effects that must follow them.
    unwritten: u32,
    held: VecDeque<ProcessEffect>,
    /// The time at which the store last ran [`Store::serve`].
    served_at: Instant,
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
        stable: Option<&DurableState>,
        context: &Context<'_>,
    ) -> Self {
        let mut store = Self {
            duration: timings.lease_duration(),
            lease: Lease::default(),
            tasks: BTreeMap::new(),
            waited: 0,
            unwritten: 0,
            held: VecDeque::new(),
            served_at: context.now,
        };
        if let Some(stored) = stable.and_then(|it| it.downcast_ref::<lease::Stored>().cloned()) {
            let restored = Record::restore(stored, context.now);
            store.lease.restore(restored);
        }
        store
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
        let wait = match request {
            Request::Acquire { wait, .. } => wait,
            _ => Duration::ZERO,
        };
        let operation = request.operation(acquire, context.wall);
        let result = self.apply(context, &operation, from);
        match operation {
            Operation::Acquire(request, _)
                if result.as_ref().is_err_and(Rejection::is_transient) =>
            {
                self.enqueue(request, caller, context.now, context.now + wait);
            }
            _ => self.answer(context, caller, Answer::from(result)),
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

    /// Applies one operation and writes it to disk.
    fn apply(
        &mut self,
        context: &mut Context<'_>,
        operation: &Operation,
        from: NodeId,
    ) -> Result<Change, Rejection> {
        let before = self.lease.record().last_epoch();
        let applied = self.lease.apply(operation, context.now, &Rules::NATIVE)?;
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
        let stored = self.lease.record().store(context.now);
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
        if self.unwritten == 0 {
            context.emit(effect);
        } else {
            self.held.push_back(effect);
        }
    }

    /// Ends a term that has expired, and grants the lease to the first waiting request.
    fn serve(&mut self, context: &mut Context<'_>) {
        let (now, wall) = (context.now, context.wall);
        self.served_at = now;
        // The server notices a closed connection only when it polls the request's task.
        while let Some(due) = self.lease.poll(now, wall, &Rules::NATIVE, |_| false) {
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
                Some(_) if task.is_closed => self.give_back(context, number),
                // A server that can't append polls no task until it can.
                Some((epoch, granted)) => {
                    self.answer_as_of(context, task.caller, Answer::Held(epoch), granted);
                }
                None if task.is_closed => {}
                None => {
                    // The wait is over, and the answer contains the holder.
                    let operation = Operation::Acquire(task.request, context.wall);
                    let result = self.apply(context, &operation, task.caller.from);
                    self.answer(context, task.caller, Answer::from(result));
                }
            }
            self.serve(context);
        }
    }

    /// Takes back a grant whose client disconnected before its task read the grant.
    fn give_back(&mut self, context: &mut Context<'_>, number: RequestNumber) {
        if self.lease.give_back(number, context.now).is_some() {
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
        let lapse = self.lease.record().next_lapse(self.served_at);
        let lapse = lapse.filter(|_| self.lease.waiting() > 0);
        let polled = self.tasks.values().map(|task| task.polled_at).min();
        [lapse, polled].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
