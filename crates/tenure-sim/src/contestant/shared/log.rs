//! The service that keeps the log: a linearizable compare-and-swap with a disk.

use std::collections::VecDeque;
use std::rc::Rc;

use tenure_core::Instant;
use tenure_core::ownership::{AppendOutcome, HomeId};

use super::super::{Payload, RequestId};
use super::{LogAnswer, LogAppend, LogCall, LogState};
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
    Rng,
};

/// The identity of the service.
pub(super) const HOME: HomeId = HomeId(1);

/// The service definitely refuses one call in this number, without a look at the head: it is
/// overloaded. All copies of a call have the same outcome, or the refusal would not be definite.
const OVERLOADED: u64 = 20;

/// Returns whether the service refuses this call. The calls that it refuses are in no regular
/// order, or each retry of a change could meet the next one.
fn is_overloaded(id: RequestId) -> bool {
    Rng::new(id.incarnation, id.attempt).below(OVERLOADED) == 0
}

#[derive(Debug)]
pub(in super::super) struct Log {
    state: LogState,
    /// The pending writes, and the effects that must follow them.
    unwritten: u32,
    held: VecDeque<ProcessEffect>,
}

impl Log {
    pub(in super::super) fn start(durable: Option<&DurableState>) -> Self {
        let state = durable.and_then(|it| it.downcast_ref::<LogState>());
        Self {
            state: state.cloned().unwrap_or_default(),
            unwritten: 0,
            held: VecDeque::new(),
        }
    }

    fn append(
        &mut self,
        context: &mut Context<'_>,
        id: RequestId,
        append: LogAppend,
    ) -> AppendOutcome {
        if is_overloaded(id) {
            return AppendOutcome::Refused;
        }
        if append.expected != self.state.head {
            return AppendOutcome::Superseded(self.state.observation());
        }
        let generation = append.head.generation;
        let is_take_over = self.state.head.is_none_or(|it| it.generation < generation);
        self.state.append(append);
        context.write(self.state.clone());
        self.unwritten += 1;
        if is_take_over {
            // The take-over counts from when it is durable: before that it may still be undone by a
            // crash of the service.
            let took = HistoryEventKind::TookOver(generation);
            self.held.push_back(ProcessEffect::Record(took));
        }
        AppendOutcome::Committed
    }

    /// Emits the effects that wait for writes, if there is no pending write.
    fn flush(&mut self, context: &mut Context<'_>) {
        if self.unwritten == 0 {
            self.held.drain(..).for_each(|effect| context.emit(effect));
        }
    }
}

impl Process for Log {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        match input {
            ProcessInput::Message { from, payload, .. } => {
                if let Some(Payload::LogRequest { id, call }) = payload.downcast_ref() {
                    let answer = match &**call {
                        LogCall::Read => LogAnswer::Content(self.state.clone()),
                        LogCall::Append(append) => {
                            LogAnswer::Appended(self.append(context, *id, append.clone()))
                        }
                    };
                    let answer = Box::new(answer);
                    let answer = Rc::new(Payload::LogReply { id: *id, answer });
                    self.held.push_back(ProcessEffect::Send(from, answer));
                }
            }
            ProcessInput::Written => self.unwritten = self.unwritten.saturating_sub(1),
            _ => {}
        }
        self.flush(context);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
