//! A candidate of lease mode: the library's keeper, with the least of a driver.

use std::time::Duration;

use tenure_core::election::{
    CampaignFailure, ElectionMachine as _, Output, Standing, TermEvent,
};
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{
    Answer, EndReason, LeaseCandidate, LeaseEffect, Request, TaskEnd, Timings,
};
use tenure_core::{CandidateId, Instant, NodeId};

use crate::fault::Planted;
use crate::sim::{Call, Claim, Effect, Here, Input, Payload, Process};

#[derive(Debug)]
pub(super) struct Candidate {
    name: CandidateId,
    store: NodeId,
    life: u64,
    planted: Option<Planted>,
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

pub(super) fn node(name: &CandidateId) -> Option<NodeId> {
    let (_, number) = name.as_str().rsplit_once('-')?;
    number.parse().ok().map(NodeId)
}

impl Candidate {
    pub(super) fn start(
        me: NodeId,
        store: NodeId,
        life: u64,
        timings: Timings,
        planted: Option<Planted>,
        here: &mut Here<'_>,
    ) -> Self {
        let mut candidate = Self {
            name: name(me),
            store,
            life,
            planted,
            keeper: LeaseCandidate::new(timings),
            in_flight: None,
            behind: Duration::ZERO,
            fresh: None,
            stays: true,
            left: false,
        };
        candidate.obey(here);
        candidate
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// The keeper's time.
    fn now(&self, here: &Here<'_>) -> Instant {
        here.now.earlier_by(self.behind)
    }

    fn answered(&mut self, here: &mut Here<'_>, attempt: u64, answer: Answer) {
        let sent = self.in_flight.take().map(|(_, sent, _)| sent);
        if self.has(Planted::DeadlineFromReply) && matches!(answer, Answer::Held(_)) {
            self.behind += sent.map_or(Duration::ZERO, |sent| here.now.since(sent));
        }
        let now = self.now(here);
        self.keeper.handle_message(now, (attempt, answer), here.dice);
    }

    fn fail(&mut self, here: &mut Here<'_>, why: &str) {
        if let Some((attempt, ..)) = self.in_flight {
            self.close(here, attempt);
            self.answered(here, attempt, Answer::Unknown(why.into()));
        }
    }

    /// Closes the connection of a request that it gives up.
    fn close(&self, here: &mut Here<'_>, attempt: u64) {
        let call = self.call(attempt);
        here.send(self.store, Payload::Close { call });
    }

    const fn call(&self, attempt: u64) -> Call {
        Call {
            life: self.life,
            attempt,
        }
    }

    fn send(&mut self, here: &mut Here<'_>, attempt: u64, request: Request, timeout: Duration) {
        if let Some((given_up, ..)) =
            self.in_flight
                .replace((attempt, here.now, here.now + timeout))
        {
            self.close(here, given_up);
        }
        let request = if self.has(Planted::FreshIdOnRetry) {
            self.with_fresh_id(request, attempt)
        } else {
            request
        };
        let call = self.call(attempt);
        let candidate = self.name.clone();
        here.send(
            self.store,
            Payload::Ask {
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
    fn obey(&mut self, here: &mut Here<'_>) {
        loop {
            while let Some(output) = self.keeper.poll_output() {
                self.take(here, output);
            }
            if self.keeper.standing(self.now(here)) != Standing::Idle || self.left {
                return;
            }
            if !self.stays {
                self.left = true;
                here.want(Effect::Exit);
                return;
            }
            let now = self.now(here);
            self.keeper.campaign(now, here.dice);
        }
    }

    fn take(&mut self, here: &mut Here<'_>, output: Output<LeaseEffect>) {
        match output {
            Output::Effect(LeaseEffect::Send {
                attempt,
                request,
                timeout,
            }) => self.send(here, attempt, request, timeout),
            Output::Term(TermEvent::Began(epoch)) => {
                here.want(Effect::Sees(node(&self.name)));
                here.want(Effect::Began(Some(epoch)));
            }
            Output::Term(TermEvent::Cancel(reason)) => {
                here.want(Effect::Cancel(reason));
                let voluntary = matches!(reason, EndReason::Resigned | EndReason::ShutDown);
                if voluntary && self.has(Planted::ReleaseBeforeTaskEnd) {
                    // It believes the task to be gone that it has only told to stop.
                    let now = self.now(here);
                    self.keeper.task_ended(now, TaskEnd::Returned, here.dice);
                }
            }
            Output::Term(TermEvent::Abort) => here.want(Effect::Abort),
            Output::Term(TermEvent::Ended(_, reason)) => {
                here.want(Effect::Ended(reason));
                here.want(Effect::Sees(None));
            }
            Output::Term(TermEvent::Failed(CampaignFailure::Refused(why) | CampaignFailure::Barred(why))) => {
                here.want(Effect::Failed(why));
                self.stays = false;
            }
            Output::Term(TermEvent::LeaderSeen(leader)) => {
                let leader = leader.and_then(|(leader, _)| node(&leader));
                here.want(Effect::Sees(leader));
            }
            Output::Term(TermEvent::AtRisk(_) | TermEvent::Overrun | TermEvent::Withdrawn)
            | Output::Effect(LeaseEffect::Retrying(_)) => {}
        }
    }
}

impl Process for Candidate {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        let now = self.now(here);
        match input {
            Input::Message {
                payload: Payload::Answer { call, answer },
                ..
            } => {
                // What was for an earlier start, or was given up, has no reader.
                let awaited = self.in_flight.map(|(attempt, ..)| attempt);
                if call.life == self.life && awaited == Some(call.attempt) {
                    self.answered(here, call.attempt, answer);
                }
            }
            Input::Refused(node) if node == self.store => self.fail(here, "connection lost"),
            Input::TaskEnded(end) => self.keeper.task_ended(now, end, here.dice),
            Input::Resign(reason) => self.keeper.resign(now, reason, here.dice),
            Input::Leave => {
                self.stays = false;
                self.keeper.resign(now, EndReason::ShutDown, here.dice);
            }
            _ => {}
        }
        if self.in_flight.is_some_and(|(.., until)| here.now >= until) {
            self.fail(here, "no answer in time");
        }
        let now = self.now(here);
        self.keeper.handle_timeout(now, here.dice);
        self.obey(here);
    }

    fn due(&self) -> Option<Instant> {
        let timeout = self.in_flight.map(|(.., until)| until);
        let due = self.keeper.poll_timeout().map(|due| due + self.behind);
        [timeout, due].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<Claim> {
        match self.keeper.standing(now.earlier_by(self.behind)) {
            Standing::Leading { epoch, until } => Some(Claim {
                epoch: Some(epoch),
                until: Some(until + self.behind),
            }),
            _ => None,
        }
    }
}
