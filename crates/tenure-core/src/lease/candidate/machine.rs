//! The state machine: the current phase, and the handling of inputs in each phase.

use core::time::Duration;

use super::Timings;
use super::campaign::Campaign;
use super::message::{Answer, LeaseEffect, Request};
use super::release::{Release, Unreleased};
use super::term::LeaseTerm;
use crate::election::{ElectionMachine, EndReason, Output, Outputs, Standing, TaskEnd, TermEvent};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

/// The candidate's state machine; see the [module](super) for how to drive it.
#[derive(Debug)]
pub struct LeaseCandidate {
    timings: Timings,
    phase: Phase,
    /// The lease of an earlier term or campaign.
    unreleased: Unreleased,
    outputs: Outputs<LeaseEffect>,
    /// The number of the last request.
    attempts: u64,
    /// The earliest time of the next campaign.
    cooldown_until: Instant,
    /// Whether a leader looks at its lease between renewals.
    looks: bool,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Campaigning(Campaign),
    /// The phase from the beginning of a term until its task is gone.
    Leading(LeaseTerm),
    /// The phase that waits for the release of the lease. The task of this term is gone; `None` if
    /// there was no term.
    Releasing(Option<(Epoch, EndReason)>),
}

/// The environment of one call: the arguments of the caller, and the part of the candidate that
/// outlives the current phase.
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) random: &'a mut dyn Random,
    pub(super) timings: &'a Timings,
    pub(super) outputs: &'a mut Outputs<LeaseEffect>,
    attempts: &'a mut u64,
}

/// The only request of a phase: in flight, or scheduled for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pending {
    InFlight { attempt: u64, sent: Instant },
    At(Instant),
}

impl<'a> Context<'a> {
    pub(super) const fn new(
        now: Instant,
        random: &'a mut dyn Random,
        timings: &'a Timings,
        outputs: &'a mut Outputs<LeaseEffect>,
        attempts: &'a mut u64,
    ) -> Self {
        Self {
            now,
            random,
            timings,
            outputs,
            attempts,
        }
    }

    /// Sends `request` now. Durations count from `now`, because that is before the first byte of
    /// the request leaves.
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
    /// Returns the time at which the request with this number was sent; `None` if it is not the
    /// request in flight, for example because it was given up.
    pub(super) fn answered(self, attempt: u64) -> Option<Instant> {
        match self {
            Self::InFlight {
                attempt: awaited,
                sent,
            } if awaited == attempt => Some(sent),
            _ => None,
        }
    }

    /// Returns the time at which the request in flight was sent; `None` if there is none.
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

/// The transition after an input of a phase.
pub(super) enum Next {
    Stay,
    Lead(LeaseTerm),
    /// The campaign goes on when this lease is released.
    ReleaseFirst(Release),
    /// The term has ended, and its end is reported when the lease is released.
    Release(Release, Epoch, EndReason),
    Ended(Epoch, EndReason),
    Withdrawn,
    /// The campaign has failed permanently, and the failure was reported.
    Abandon,
}

impl LeaseCandidate {
    /// Creates a candidate that does not compete yet.
    #[must_use]
    pub fn new(timings: Timings) -> Self {
        Self {
            timings,
            phase: Phase::Idle,
            unreleased: Unreleased::default(),
            outputs: Outputs::default(),
            attempts: 0,
            cooldown_until: Instant::default(),
            looks: false,
        }
    }

    /// Lets a leader look at its lease five times per renew interval, because other programs may
    /// change it. By default it learns of a change with its next renewal.
    #[must_use]
    pub fn with_looks(self, looks: bool) -> Self {
        Self { looks, ..self }
    }

    /// Command: campaign, as [`campaign`](ElectionMachine::campaign) does. The term has at least
    /// this epoch, and a greater one only if the lease has already had this one.
    pub fn campaign_with(&mut self, now: Instant, epoch: Option<Epoch>, random: &mut dyn Random) {
        if matches!(self.phase, Phase::Idle) {
            let start = self.cooldown_until.max(now);
            let campaign = Campaign::new(start, random.lease_id(), epoch);
            self.phase = Phase::Campaigning(campaign);
            self.handle_timeout(now, random);
        }
    }

    /// Command: send the next renewal now if it is due soon. It is for a driver that sends another
    /// renewal to the same store, so that one request can contain both.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        if let (Phase::Leading(term), _, mut cx) = self.parts(now, random) {
            term.renew_early(&mut cx);
        }
    }

    /// Returns the lease id of the current term, which is the holder's secret.
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
    ) -> (&'a mut Phase, &'a mut Unreleased, Context<'a>) {
        let context = Context::new(
            now,
            random,
            &self.timings,
            &mut self.outputs,
            &mut self.attempts,
        );
        (&mut self.phase, &mut self.unreleased, context)
    }

    fn transition(&mut self, next: Next, now: Instant, random: &mut dyn Random) {
        match next {
            Next::Stay => {}
            Next::Lead(mut term) => {
                if self.looks {
                    term.look_later(&mut self.parts(now, random).2);
                }
                self.outputs.emit(TermEvent::Began(term.term.epoch));
                self.phase = Phase::Leading(term);
            }
            Next::ReleaseFirst(release) => {
                self.unreleased.begin(release);
                self.handle_timeout(now, random);
            }
            Next::Release(release, epoch, reason) => {
                self.unreleased.begin(release);
                self.phase = Phase::Releasing(Some((epoch, reason)));
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
    /// The number of an attempt, and its answer. The machine ignores the answer to a request that
    /// was given up, and any answer that arrives too late.
    type Message = (u64, Answer);
    type Effect = LeaseEffect;

    /// Begins a campaign with a fresh lease id. After a term that calls for a cool-down, the
    /// campaign begins when the cool-down is over.
    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        self.campaign_with(now, None, random);
    }

    /// Resigns. A leader renews until its task is gone, and then releases the lease.
    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        let (phase, unreleased, cx) = self.parts(now, random);
        match phase {
            Phase::Idle | Phase::Releasing(_) => {}
            Phase::Campaigning(campaign) => {
                campaign.withdraw(&cx, unreleased);
                *phase = Phase::Releasing(None);
                self.handle_timeout(now, random);
            }
            Phase::Leading(it) => it.term.resign(now, reason, cx.timings, cx.outputs),
        }
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        if let Phase::Leading(it) = &mut self.phase {
            it.term.hand_over(now, to, &mut self.outputs);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        // The time is checked first: if the term has passed already, a task that stops now has not
        // ended it.
        self.handle_timeout(now, random);
        if let (Phase::Leading(term), _, mut cx) = self.parts(now, random) {
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
        // The time is checked first: an answer must not extend a term that ended before the answer
        // arrived.
        self.handle_timeout(now, random);
        let (phase, unreleased, mut cx) = self.parts(now, random);
        if unreleased.handle_answer(&mut cx, attempt, &answer) {
            // The end of the term or the next campaign has waited for this answer.
            return self.handle_timeout(now, random);
        }
        let next = match phase {
            Phase::Idle | Phase::Releasing(_) => Next::Stay,
            Phase::Campaigning(campaign) => campaign.handle_answer(&mut cx, attempt, answer),
            Phase::Leading(term) => {
                term.handle_answer(&mut cx, attempt, answer);
                Next::Stay
            }
        };
        self.transition(next, now, random);
    }

    fn handle_progress(&mut self, at: Instant) {
        if let Phase::Leading(it) = &mut self.phase {
            it.term.handle_progress(at);
        }
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        let (phase, unreleased, mut cx) = self.parts(now, random);
        unreleased.handle_timeout(&mut cx);
        let next = match phase {
            Phase::Idle => Next::Stay,
            // A fresh id would compete with the one that is not released.
            Phase::Campaigning(_) if !unreleased.is_none() => Next::Stay,
            Phase::Campaigning(campaign) => {
                campaign.handle_timeout(&mut cx);
                Next::Stay
            }
            Phase::Leading(term) => {
                term.handle_timeout(&mut cx);
                Next::Stay
            }
            Phase::Releasing(_) if unreleased.is_awaited() => Next::Stay,
            Phase::Releasing(None) => Next::Withdrawn,
            Phase::Releasing(Some((epoch, reason))) => Next::Ended(*epoch, *reason),
        };
        self.transition(next, now, random);
    }

    fn poll_output(&mut self) -> Option<Output<LeaseEffect>> {
        self.outputs.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Campaigning(campaign) if self.unreleased.is_none() => campaign.pending.due(),
            Phase::Leading(term) => Some(term.poll_timeout(&self.timings)),
            Phase::Idle | Phase::Campaigning(_) | Phase::Releasing(_) => self.unreleased.due(),
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

    fn overrun_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Leading(it) => Some(it.term.overrun_at(&self.timings)),
            _ => None,
        }
    }
}
