//! A server: the core's machine of ownership, and a store while the server is active.

use std::rc::Rc;

use tenure_core::lease::Stored;
use tenure_core::lease::candidate::Timings;
use tenure_core::ownership::{
    AppendOutcome, Look, OwnerId, Ownership, OwnershipOutput, OwnershipRole, Tail, TailState,
};
use tenure_core::{Instant, NodeId};

use super::super::store::Store;
use super::super::{Payload, RequestId};
use super::{LogAnswer, LogAppend, LogCall, LogChange, LogState, LogWrite, ownership_timings};
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
};

#[derive(Debug)]
pub(in super::super) struct Server {
    node: NodeId,
    log: NodeId,
    incarnation: u64,
    term: Timings,
    ownership: Ownership,
    /// The number of the last call.
    calls: u64,
    /// The call of the machine.
    call: Option<Call>,
    /// The append of the machine, which is repeated as it is.
    append: Option<Append>,
    /// The last batch that this server has copied as a standby.
    copied: Option<LogChange>,
    /// The read of the content after a take-over, and the generation.
    load: Option<(Call, u64)>,
    reign: Option<Reign>,
    /// Whether the last append of this server was done, and left it the owner.
    owns: bool,
    end: End,
    /// The time of the last input.
    last_input: Instant,
}

/// The reason why a server resigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    /// It shuts down, at this time at the latest.
    Exit(Instant),
    /// It hands over, and follows.
    StandBy,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    times_out: Instant,
}

#[derive(Clone, Debug)]
struct Append {
    append: LogAppend,
    /// The writes of the store in its batch.
    writes: u32,
}

/// The store of one generation. It is dropped when the server is deposed.
#[derive(Debug)]
struct Reign {
    generation: u64,
    store: Store,
    /// The last durable change.
    durable: Option<LogChange>,
    /// The revision of the last change that the place has.
    placed: u64,
    /// The lease after the changes that no append contains yet, and the number of its writes.
    pending: Option<(Box<Stored>, u32)>,
}

impl Reign {
    /// Returns the last durable change if the place lacks it.
    fn unplaced(&self) -> Option<LogChange> {
        let durable = self.durable.clone();
        durable.filter(|it| it.revision > self.placed)
    }
}

impl Server {
    pub(in super::super) fn start(
        (node, incarnation): (NodeId, u64),
        log: NodeId,
        term: Timings,
        context: &mut Context<'_>,
    ) -> Self {
        let owner = OwnerId(u128::from(node.0) << 64 | u128::from(incarnation));
        let ownership = Ownership::new(ownership_timings(&term), owner, context.now);
        let mut server = Self {
            node,
            log,
            incarnation,
            term,
            ownership,
            calls: 0,
            call: None,
            append: None,
            copied: None,
            load: None,
            reign: None,
            owns: false,
            end: End::None,
            last_input: context.now,
        };
        server.run(context);
        server
    }

    /// Returns whether the server accepts requests. A process handles an input at one instant, so
    /// the look at the lease and this check can't be apart.
    fn serves(&self, context: &Context<'_>) -> bool {
        let until = self.ownership.serves_until();
        self.reign.is_some() && until.is_some_and(|until| context.now < until)
    }

    /// Hands an input to the store. Its writes are appended later.
    fn drive(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        let Some(reign) = &mut self.reign else {
            return;
        };
        let effects = context.collect(|context| reign.store.handle(context, input));
        for effect in effects {
            let written = match &effect {
                ProcessEffect::Write(state) => state.downcast_ref::<Stored>(),
                _ => None,
            };
            if let Some(stored) = written {
                let writes = reign.pending.take().map_or(0, |(_, writes)| writes);
                reign.pending = Some((stored.clone().into(), writes + 1));
            } else {
                context.emit(effect);
            }
        }
    }

    fn send(&mut self, context: &mut Context<'_>, call: LogCall) -> Call {
        self.calls += 1;
        let id = RequestId {
            incarnation: self.incarnation,
            attempt: self.calls,
        };
        let call = Box::new(call);
        context.send(self.log, Payload::LogRequest { id, call });
        Call {
            number: self.calls,
            times_out: context.now + self.ownership.timings().attempt(),
        }
    }

    fn send_append(&mut self, context: &mut Context<'_>, append: Append) {
        let call = LogCall::Append(append.append.clone());
        self.append = Some(append);
        self.call = Some(self.send(context, call));
    }

    fn handle_answer(&mut self, context: &mut Context<'_>, id: RequestId, answer: LogAnswer) {
        if id.incarnation != self.incarnation {
            return;
        }
        let is = |call: &Call| call.number == id.attempt;
        match answer {
            LogAnswer::Content(state) if self.load.as_ref().is_some_and(|(it, _)| is(it)) => {
                self.handle_content(context, state);
            }
            LogAnswer::Content(state) if self.call.take_if(|it| is(it)).is_some() => {
                self.ownership
                    .handle_tail(context.now, Look::Found(state.observation()));
                if let Some(last) = state.batches.into_iter().next_back() {
                    self.copied = Some(last);
                }
            }
            LogAnswer::Appended(outcome) if self.call.take_if(|it| is(it)).is_some() => {
                self.handle_outcome(context, outcome);
            }
            _ => {}
        }
    }

    fn handle_outcome(&mut self, context: &mut Context<'_>, outcome: AppendOutcome) {
        let append = self.append.take();
        let fate = self.ownership.handle_appended(context.now, outcome);
        let Some(append) = append else { return };
        match fate {
            AppendOutcome::Committed => self.handle_applied(context, append),
            AppendOutcome::Unknown => self.append = Some(append),
            AppendOutcome::Refused => {
                if let Some(LogWrite::Batch(change)) = append.append.write
                    && let Some(reign) = self.reign.take()
                {
                    // The store begins again with the last durable change.
                    context.record(HistoryEventKind::Undone(change.id));
                    let (durable, placed) = (reign.durable, reign.placed);
                    self.reign = Some(self.reign(context, reign.generation, durable, placed));
                }
            }
            AppendOutcome::Superseded(_) => self.owns = false,
        }
    }

    fn handle_applied(&mut self, context: &mut Context<'_>, append: Append) {
        self.owns = append.append.head.state == TailState::Owned;
        match append.append.write {
            Some(LogWrite::Batch(change)) => {
                context.record(HistoryEventKind::Acknowledged {
                    revision: change.revision,
                    change: change.id,
                });
                if let Some(reign) = &mut self.reign {
                    reign.durable = Some(change);
                }
                for _ in 0..append.writes {
                    self.drive(context, ProcessInput::Written);
                }
            }
            Some(LogWrite::Place(change)) => {
                if let Some(reign) = &mut self.reign {
                    reign.placed = change.revision;
                }
            }
            None => {}
        }
    }

    /// Begins to serve the content that was read after a take-over.
    fn handle_content(&mut self, context: &mut Context<'_>, state: LogState) {
        let Some((_, generation)) = self.load.take() else {
            return;
        };
        if state.head.is_none_or(|it| it.generation != generation) {
            // A later generation has begun.
            return;
        }
        let placed = state.placed();
        let last = state.load(self.copied.take());
        context.record(HistoryEventKind::Loaded {
            generation,
            revision: last.as_ref().map_or(0, |it| it.revision),
            change: last.as_ref().map_or(0, |it| it.id),
        });
        self.reign = Some(self.reign(context, generation, last, placed));
        self.ownership.handle_loaded(context.now, generation);
    }

    /// Makes the store of a generation. All leases count as renewed now.
    fn reign(
        &self,
        context: &mut Context<'_>,
        generation: u64,
        durable: Option<LogChange>,
        placed: u64,
    ) -> Reign {
        let lease = durable.as_ref().map(|it| (*it.lease).clone());
        let lease = lease.map(|lease| Rc::new(lease) as DurableState);
        let mut store = None;
        let effects = context.collect(|context| {
            store = Some(Store::start(&self.term, lease.as_ref(), context));
        });
        debug_assert!(effects.is_empty(), "a store that starts has no effects");
        Reign {
            generation,
            store: store.expect("it was made"),
            durable,
            placed,
            pending: None,
        }
    }

    /// Fails the calls whose time is over, or all calls if the connection is lost.
    fn fail_calls(&mut self, context: &mut Context<'_>, is_lost: bool) {
        let is_over = |call: &Call| is_lost || call.times_out <= context.now;
        if self.call.take_if(|it| is_over(it)).is_some() {
            if self.append.is_some() {
                self.handle_outcome(context, AppendOutcome::Unknown);
            } else {
                self.ownership.handle_tail(context.now, Look::Failed);
            }
        }
        if let Some((call, generation)) = self.load
            && call.times_out <= context.now
        {
            let call = self.send(context, LogCall::Read);
            self.load = Some((call, generation));
        }
    }

    /// Appends what is pending, and does what is due.
    fn run(&mut self, context: &mut Context<'_>) {
        self.execute(context);
        let pending = self.reign.as_ref().is_some_and(|it| it.pending.is_some());
        if pending {
            let known = self.ownership.known();
            if let Some(head) = self.ownership.append(context.now)
                && let Some(reign) = &mut self.reign
                && let Some((lease, writes)) = reign.pending.take()
            {
                let before = reign.durable.as_ref().map_or(0, |it| it.revision);
                let change = LogChange {
                    revision: before + 1,
                    id: u64::from(self.node.0) << 48 | self.incarnation << 32 | self.calls,
                    lease,
                };
                let append = LogAppend {
                    expected: known,
                    head,
                    write: Some(LogWrite::Batch(change)),
                };
                self.send_append(context, Append { append, writes });
            }
        }
        self.ownership.handle_timeout(context.now);
        self.execute(context);
        self.end(context);
    }

    fn execute(&mut self, context: &mut Context<'_>) {
        while let Some(output) = self.ownership.poll_output() {
            match output {
                OwnershipOutput::Look => self.call = Some(self.send(context, LogCall::Read)),
                OwnershipOutput::Append(head) => {
                    let repeated = self.append.take().filter(|it| it.append.head == head);
                    let append = repeated.unwrap_or_else(|| self.without_batch(head));
                    self.send_append(context, append);
                }
                OwnershipOutput::Took { generation } => {
                    let call = self.send(context, LogCall::Read);
                    self.load = Some((call, generation));
                }
                OwnershipOutput::Deposed => {
                    self.reign = None;
                    self.load = None;
                }
                OwnershipOutput::Lapsed
                | OwnershipOutput::Resumed
                | OwnershipOutput::Refuses(_) => {}
            }
        }
    }

    /// Returns an append without a batch. It writes the place if the place lacks a durable change.
    fn without_batch(&self, head: Tail) -> Append {
        let unplaced = self.reign.as_ref().and_then(Reign::unplaced);
        let append = LogAppend {
            expected: self.ownership.known(),
            head,
            write: unplaced.map(LogWrite::Place),
        };
        Append { append, writes: 0 }
    }

    /// Goes on with a resignation: commits the rest, vacates the log, and exits or follows.
    fn end(&mut self, context: &mut Context<'_>) {
        if self.end == End::None {
            return;
        }
        let has_rest = self.reign.as_ref().is_some_and(|it| it.pending.is_some());
        let before = self.ownership.known();
        if self.owns
            && !has_rest
            && let Some(head) = self.ownership.vacate(context.now)
        {
            let mut append = self.without_batch(head);
            append.append.expected = before;
            self.send_append(context, append);
        }
        let is_over = !self.owns && self.append.is_none();
        match self.end {
            End::Exit(latest) if is_over || latest <= context.now => {
                context.emit(ProcessEffect::Exit);
            }
            End::StandBy if is_over => {
                self.end = End::None;
                self.reign = None;
                self.load = None;
                self.ownership.stand_by(context.now);
                self.execute(context);
            }
            _ => {}
        }
    }
}

impl Process for Server {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        match &input {
            ProcessInput::Message { from, payload, .. } => match payload.downcast_ref() {
                Some(Payload::LogReply { id, answer }) => {
                    self.handle_answer(context, *id, (**answer).clone());
                }
                Some(Payload::StoreRequest { id, .. }) if !self.serves(context) => {
                    context.send(*from, Payload::NotActive { id: *id });
                }
                Some(Payload::StoreRequest { .. }) => {
                    if let Some(reign) = &self.reign {
                        context.record(HistoryEventKind::Accepted(reign.generation));
                    }
                    self.drive(context, input);
                }
                Some(Payload::CloseConnection { .. }) => self.drive(context, input),
                _ => {}
            },
            ProcessInput::Break(_) if self.serves(context) => self.drive(context, input),
            ProcessInput::Refused(node) if *node == self.log => self.fail_calls(context, true),
            ProcessInput::Refused(_) => self.drive(context, input),
            ProcessInput::Leave => {
                self.ownership.resign();
                self.end = End::Exit(context.now + self.ownership.timings().ownership());
            }
            ProcessInput::Resign(_) if self.end == End::None => {
                self.ownership.resign();
                self.end = End::StandBy;
            }
            _ => {}
        }
        self.fail_calls(context, false);
        if self.serves(context) {
            self.drive(context, ProcessInput::Wake);
        }
        self.run(context);
        self.last_input = context.now;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let is_active = self.ownership.role(self.last_input) == OwnershipRole::Active;
        let reign = self.reign.as_ref().filter(|_| is_active);
        let exit = match self.end {
            End::Exit(latest) => Some(latest),
            _ => None,
        };
        let due = [
            self.call.map(|it| it.times_out),
            self.load.map(|(it, _)| it.times_out),
            self.ownership.next_timeout(),
            reign.and_then(|it| it.store.poll_timeout()),
            exit,
        ];
        due.into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
