//! The machine: the current phase, and which part handles which input in it.

use core::time::Duration;

use super::Timings;
use super::campaign::Campaign;
use super::message::{Answer, LeaseEffect, Request};
use super::release::Release;
use super::term::LeaseTerm;
use crate::election::{ElectionMachine, EndReason, Output, Outputs, Standing, TaskEnd, TermEvent};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

/// The candidate's state machine; see the [module](super) for how to drive it.
#[derive(Debug)]
pub struct LeaseCandidate {
    timings: Timings,
    phase: Phase,
    outputs: Outputs<LeaseEffect>,
    /// The number of the last request.
    attempts: u64,
    /// No campaign begins before this.
    cooldown_until: Instant,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Campaigning(Campaign),
    /// From the term's beginning until its task is gone.
    Leading(LeaseTerm),
    /// The task is gone, or there never was one; the lease is being released.
    Releasing(Release),
}

/// One call of the machine, as its phases see it: the arguments of the caller, and the part of the
/// candidate that outlives the phase.
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) random: &'a mut dyn Random,
    pub(super) timings: &'a Timings,
    pub(super) outputs: &'a mut Outputs<LeaseEffect>,
    attempts: &'a mut u64,
}

/// The one request of a phase: in flight, or to be sent at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    InFlight { attempt: u64, sent: Instant },
    At(Instant),
}

impl Context<'_> {
    /// Sends `request` now: `now` is before the first byte leaves, so it is what durations count
    /// from.
    pub(super) fn send(&mut self, request: Request, timeout: Duration) -> Pending {
        *self.attempts += 1;
        let (attempt, sent) = (*self.attempts, self.now);
        self.outputs.effect(LeaseEffect::Send {
            attempt,
            request,
            timeout,
        });
        Pending::InFlight { attempt, sent }
    }
}

impl Pending {
    /// When the request that `attempt` answers was sent; `None` for an answer to a request that was
    /// given up.
    pub(super) fn answered(self, attempt: u64) -> Option<Instant> {
        match self {
            Self::InFlight {
                attempt: awaited,
                sent,
            } if awaited == attempt => Some(sent),
            _ => None,
        }
    }

    /// When the request in flight was sent, if one is.
    pub(super) const fn sent(self) -> Option<Instant> {
        match self {
            Self::InFlight { sent, .. } => Some(sent),
            Self::At(_) => None,
        }
    }

    pub(super) const fn due(self) -> Option<Instant> {
        match self {
            Self::InFlight { .. } => None,
            Self::At(instant) => Some(instant),
        }
    }
}

/// The transition that follows from a phase's input.
pub(super) enum Next {
    Stay,
    Lead(LeaseTerm),
    Release(Release),
    Ended(Epoch, EndReason),
    Withdrawn,
    /// The campaign has failed for good, and has reported it.
    Abandon,
}

impl LeaseCandidate {
    /// A candidate that does not compete yet.
    #[must_use]
    pub fn new(timings: Timings) -> Self {
        Self {
            timings,
            phase: Phase::Idle,
            outputs: Outputs::default(),
            attempts: 0,
            cooldown_until: Instant::default(),
        }
    }

    /// Command: like [`campaign`](ElectionMachine::campaign). With `epoch`, the term has this epoch, or
    /// a greater one if the lease has had this one.
    pub fn campaign_with(&mut self, now: Instant, epoch: Option<Epoch>, random: &mut dyn Random) {
        if matches!(self.phase, Phase::Idle) {
            let start = self.cooldown_until.max(now);
            let campaign = Campaign::new(start, random.lease_id(), epoch);
            self.phase = Phase::Campaigning(campaign);
            self.handle_timeout(now, random);
        }
    }

    /// Command: if the next renewal is due soon, send it now. For a driver that sends another
    /// renewal to the same store anyway, so that one request may carry both.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        if let (Phase::Leading(term), mut cx) = self.parts(now, random) {
            term.renew_early(&mut cx);
        }
    }

    /// The lease id of the current term: the holder's secret.
    #[must_use]
    pub const fn lease_id(&self) -> Option<LeaseId> {
        match &self.phase {
            Phase::Leading(term) => Some(term.lease_id),
            _ => None,
        }
    }

    fn parts<'a>(
        &'a mut self,
        now: Instant,
        random: &'a mut dyn Random,
    ) -> (&'a mut Phase, Context<'a>) {
        let context = Context {
            now,
            random,
            timings: &self.timings,
            outputs: &mut self.outputs,
            attempts: &mut self.attempts,
        };
        (&mut self.phase, context)
    }

    fn transition(&mut self, next: Next, now: Instant, random: &mut dyn Random) {
        match next {
            Next::Stay => {}
            Next::Lead(term) => {
                self.outputs.emit(TermEvent::Began(term.term.epoch));
                self.phase = Phase::Leading(term);
            }
            Next::Release(release) => {
                self.phase = Phase::Releasing(release);
                self.handle_timeout(now, random);
            }
            Next::Ended(epoch, reason) => {
                self.phase = Phase::Idle;
                if reason.calls_for_cool_down() {
                    self.cooldown_until = now + self.timings.cool_down();
                }
                self.outputs.emit(TermEvent::Ended(epoch, reason));
            }
            Next::Withdrawn => {
                self.phase = Phase::Idle;
                self.outputs.emit(TermEvent::Withdrawn);
            }
            Next::Abandon => self.phase = Phase::Idle,
        }
    }
}

impl ElectionMachine for LeaseCandidate {
    /// The number of an attempt, and its answer. An answer to a request that was given up is
    /// ignored; so is any answer that comes too late to matter.
    type Message = (u64, Answer);
    type Effect = LeaseEffect;
    type Peer = CandidateId;

    /// The campaign has a fresh lease id. After a term that calls for a cool-down it begins when the
    /// cool-down is over.
    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        self.campaign_with(now, None, random);
    }

    /// A leader renews until its task is gone, and releases then.
    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        let (phase, cx) = self.parts(now, random);
        let next = match phase {
            Phase::Idle | Phase::Releasing(_) => Next::Stay,
            Phase::Campaigning(campaign) => campaign.withdraw(&cx),
            Phase::Leading(it) => {
                it.term.resign(now, reason, cx.timings, cx.outputs);
                Next::Stay
            }
        };
        self.transition(next, now, random);
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        if let Phase::Leading(it) = &mut self.phase {
            it.term.hand_over(now, to, &mut self.outputs);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        // Time first: a task that stops because the term has passed has not ended the term.
        self.handle_timeout(now, random);
        if let (Phase::Leading(term), mut cx) = self.parts(now, random) {
            let next = term.task_ended(&mut cx, end);
            self.transition(next, now, random);
        }
    }

    fn handle_message(
        &mut self,
        now: Instant,
        (attempt, answer): (u64, Answer),
        random: &mut dyn Random,
    ) {
        // Time first: an answer must not prolong what time has ended before it came.
        self.handle_timeout(now, random);
        let (phase, mut cx) = self.parts(now, random);
        let next = match phase {
            Phase::Idle => Next::Stay,
            Phase::Campaigning(campaign) => campaign.handle_answer(&mut cx, attempt, answer),
            Phase::Leading(term) => {
                term.handle_answer(&mut cx, attempt, answer);
                Next::Stay
            }
            Phase::Releasing(release) => release.handle_answer(&mut cx, attempt, &answer),
        };
        self.transition(next, now, random);
    }

    fn handle_progress(&mut self, at: Instant) {
        if let Phase::Leading(it) = &mut self.phase {
            it.term.handle_progress(at);
        }
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        let (phase, mut cx) = self.parts(now, random);
        let next = match phase {
            Phase::Idle => Next::Stay,
            Phase::Campaigning(campaign) => {
                campaign.handle_timeout(&mut cx);
                Next::Stay
            }
            Phase::Leading(term) => {
                term.handle_timeout(&mut cx);
                Next::Stay
            }
            Phase::Releasing(release) => release.handle_timeout(&mut cx),
        };
        self.transition(next, now, random);
    }

    fn poll_output(&mut self) -> Option<Output<LeaseEffect>> {
        self.outputs.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Campaigning(campaign) => campaign.pending.due(),
            Phase::Leading(term) => Some(term.poll_timeout(&self.timings)),
            Phase::Releasing(release) => Some(release.due()),
        }
    }

    fn standing(&self, now: Instant) -> Standing {
        match &self.phase {
            Phase::Idle => Standing::Idle,
            Phase::Campaigning(_) => Standing::Campaigning,
            Phase::Leading(it) => it.term.standing(now, &self.timings),
            Phase::Releasing(_) => Standing::Ending,
        }
    }

    fn stop_by(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Leading(it) => Some(it.term.abort_at(&self.timings)),
            _ => None,
        }
    }
}
