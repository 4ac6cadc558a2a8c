//! A candidate of lease mode: the library's keeper, with the least of a driver.

use std::time::Duration;

use tenure_core::election::{CampaignFailure, ElectionMachine as _, Output, Standing, TermEvent};
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{
    Answer, EndReason, LeaseCandidate, LeaseEffect, Request, TaskEnd, Timings,
};
use tenure_core::{CandidateId, Instant, NodeId};

use crate::fault::Mutation;
use crate::sim::{
    Context, LeadershipClaim, Payload, Process, ProcessEffect, ProcessInput, RequestId,
};

#[derive(Debug)]
pub(super) struct Candidate {
    name: CandidateId,
    store: NodeId,
    life: u64,
    mutation: Option<Mutation>,
    keeper: LeaseCandidate,
    /// The request in flight: when it was sent, and until when an answer is waited for.
    in_flight: Option<(u64, Instant, Instant)>,
    /// With the deadline from the reply planted: how far the keeper's clock is behind. It stands still
    /// while a request that succeeds is under way, so that everything counts from the answer.
    behind: Duration,
    /// With fresh ids planted: the one that was asked for last.
    fresh: Option<LeaseId>,
    /// Whether it competes again after a term.
    stays: bool,
    left: bool,
}

/// Whose name this is.
pub(super) fn name(node: NodeId) -> CandidateId {
    let name = format!("candidate-{node}");
    name.parse().expect("visible characters")
}

/// The node of a candidate: the number at the end of its id, which is the whole id of a peer.
pub(super) fn node(name: &CandidateId) -> Option<NodeId> {
    let number = name.as_str().rsplit('-').next()?;
    number.parse().ok().map(NodeId)
}

impl Candidate {
    pub(super) fn start(
        me: NodeId,
        store: NodeId,
        life: u64,
        timings: Timings,
        mutation: Option<Mutation>,
        context: &mut Context<'_>,
    ) -> Self {
        let mut candidate = Self {
            name: name(me),
            store,
            life,
            mutation,
            keeper: LeaseCandidate::new(timings),
            in_flight: None,
            behind: Duration::ZERO,
            fresh: None,
            stays: true,
            left: false,
        };
        candidate.obey(context);
        candidate
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The keeper's time.
    fn now(&self, context: &Context<'_>) -> Instant {
        context.now.earlier_by(self.behind)
    }

    fn answered(&mut self, context: &mut Context<'_>, attempt: u64, answer: Answer) {
        let sent = self.in_flight.take().map(|(_, sent, _)| sent);
        if self.has(Mutation::DeadlineFromReply) && matches!(answer, Answer::Held(_)) {
            self.behind += sent.map_or(Duration::ZERO, |sent| context.now.since(sent));
        }
        let now = self.now(context);
        self.keeper
            .handle_message(now, (attempt, answer), context.rng);
    }

    fn fail(&mut self, context: &mut Context<'_>, why: &str) {
        if let Some((attempt, ..)) = self.in_flight {
            self.close(context, attempt);
            self.answered(context, attempt, Answer::Unknown(why.into()));
        }
    }

    /// Closes the connection of a request that it gives up.
    fn close(&self, context: &mut Context<'_>, attempt: u64) {
        let call = self.call(attempt);
        context.send(self.store, Payload::CloseConnection { call });
    }

    const fn call(&self, attempt: u64) -> RequestId {
        RequestId {
            incarnation: self.life,
            attempt,
        }
    }

    fn send(
        &mut self,
        context: &mut Context<'_>,
        attempt: u64,
        request: Request,
        timeout: Duration,
    ) {
        if let Some((given_up, ..)) =
            self.in_flight
                .replace((attempt, context.now, context.now + timeout))
        {
            self.close(context, given_up);
        }
        let request = if self.has(Mutation::FreshIdOnRetry) {
            self.with_fresh_id(request, attempt)
        } else {
            request
        };
        let call = self.call(attempt);
        let candidate = self.name.clone();
        context.send(
            self.store,
            Payload::StoreRequest {
                call,
                candidate,
                request,
            },
        );
    }

    fn with_fresh_id(&mut self, request: Request, attempt: u64) -> Request {
        match (request, self.fresh) {
            (
                Request::Acquire {
                    wait, min_epoch, ..
                },
                _,
            ) => {
                let high = u64::from(node(&self.name).map_or(0, |node| node.0));
                let lease_id = LeaseId::from_random_bits(high, (self.life << 32) | attempt);
                self.fresh = Some(lease_id);
                Request::Acquire {
                    lease_id,
                    wait,
                    min_epoch,
                }
            }
            (Request::Renew(_), Some(fresh)) => Request::Renew(fresh),
            (Request::Release { reason, .. }, Some(lease_id)) => {
                Request::Release { lease_id, reason }
            }
            (request, _) => request,
        }
    }

    /// Does what the keeper says, until it says nothing more.
    fn obey(&mut self, context: &mut Context<'_>) {
        loop {
            while let Some(output) = self.keeper.poll_output() {
                self.take(context, output);
            }
            if self.keeper.standing(self.now(context)) != Standing::Idle || self.left {
                return;
            }
            if !self.stays {
                self.left = true;
                context.emit(ProcessEffect::Exit);
                return;
            }
            let now = self.now(context);
            self.keeper.campaign(now, context.rng);
        }
    }

    fn take(&mut self, context: &mut Context<'_>, output: Output<LeaseEffect>) {
        match output {
            Output::Effect(LeaseEffect::Send {
                attempt,
                request,
                timeout,
            }) => self.send(context, attempt, request, timeout),
            Output::Term(TermEvent::Began(epoch)) => {
                context.emit(ProcessEffect::SeesLeader(node(&self.name)));
                context.emit(ProcessEffect::StartTask(Some(epoch)));
            }
            Output::Term(TermEvent::Cancel(reason)) => {
                context.emit(ProcessEffect::CancelTask(reason));
                let voluntary = matches!(reason, EndReason::Resigned | EndReason::ShutDown);
                if voluntary && self.has(Mutation::ReleaseBeforeTaskEnd) {
                    // It believes the task to be gone that it has only told to stop.
                    let now = self.now(context);
                    self.keeper.task_ended(now, TaskEnd::Returned, context.rng);
                }
            }
            Output::Term(TermEvent::Abort) => context.emit(ProcessEffect::AbortTask),
            Output::Term(TermEvent::Ended(_, reason)) => {
                context.emit(ProcessEffect::TermEnded(reason));
                context.emit(ProcessEffect::SeesLeader(None));
            }
            Output::Term(TermEvent::Failed(
                CampaignFailure::Refused(why) | CampaignFailure::Barred(why),
            )) => {
                context.emit(ProcessEffect::Failed(why));
                self.stays = false;
            }
            Output::Term(TermEvent::LeaderSeen(leader)) => {
                let leader = leader.and_then(|(leader, _)| node(&leader));
                context.emit(ProcessEffect::SeesLeader(leader));
            }
            Output::Term(TermEvent::AtRisk(_) | TermEvent::Overrun | TermEvent::Withdrawn)
            | Output::Effect(LeaseEffect::Retrying(_)) => {}
        }
    }
}

impl Process for Candidate {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        let now = self.now(context);
        match input {
            ProcessInput::Message {
                payload: Payload::StoreReply { call, answer },
                ..
            } => {
                // What was for an earlier start, or was given up, has no reader.
                let awaited = self.in_flight.map(|(attempt, ..)| attempt);
                if call.incarnation == self.life && awaited == Some(call.attempt) {
                    self.answered(context, call.attempt, answer);
                }
            }
            ProcessInput::Refused(node) if node == self.store => {
                self.fail(context, "connection lost")
            }
            ProcessInput::TaskEnded(end) => self.keeper.task_ended(now, end, context.rng),
            ProcessInput::Resign(reason) => self.keeper.resign(now, reason, context.rng),
            ProcessInput::Leave => {
                self.stays = false;
                self.keeper.resign(now, EndReason::ShutDown, context.rng);
            }
            _ => {}
        }
        if self
            .in_flight
            .is_some_and(|(.., until)| context.now >= until)
        {
            self.fail(context, "no answer in time");
        }
        let now = self.now(context);
        self.keeper.handle_timeout(now, context.rng);
        self.obey(context);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timeout = self.in_flight.map(|(.., until)| until);
        let due = self.keeper.poll_timeout().map(|due| due + self.behind);
        [timeout, due].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<LeadershipClaim> {
        match self.keeper.standing(now.earlier_by(self.behind)) {
            Standing::Leading { epoch, until } => Some(LeadershipClaim {
                epoch: Some(epoch),
                until: Some(until + self.behind),
            }),
            _ => None,
        }
    }
}
