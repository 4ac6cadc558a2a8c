//! The store as a voter of a quorum: asking for its promise, keeping it, taking it again.
//!
//! With a fallback a term does not depend on the store alone (see
//! [`election::fallback`](crate::election::fallback)). So a [`StoreVoter`] has no term and never
//! ends one. It asks the store for the lease, renews the lease, and reports from when on the store
//! has promised it. It continues to ask while the store does not answer.
//!
//! ```text
//!          ask               granted
//!   idle -------> asking ---------------> holding <----+
//!    ^ |            | leave                  |         | the store promises again
//!    | +--- take ---|---------> holding -----|---------+
//!    |              v                        | release, leave
//!    +--------- releasing <------------------+
//! ```

#[cfg(test)]
mod abstraction;

use super::Timings;
use super::campaign::{Campaign, retry_delay, retry_delay_within};
use super::machine::{Context, Next, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::release::{Release, Unreleased};
use super::term::{MIN_ATTEMPT, next_renewal};
use crate::election::{EndReason, Output, Outputs};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

use alloc::format;
use core::time::Duration;

/// A candidate's requests to the store whose lease is one promise of a quorum. It has no term and
/// never ends one; see [`election::fallback`](crate::election::fallback).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreVoter {
    timings: Timings,
    phase: Phase,
    /// The lease of an earlier term or request.
    unreleased: Unreleased,
    outputs: Outputs<LeaseEffect>,
    attempts: u64,
    /// The time of the last answer of the store.
    heard: Instant,
    /// How long after an answer was due the store counts as silent.
    patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking(Campaign),
    Holding(Holding),
}

/// The lease of a term that has begun, or that may begin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holding {
    lease_id: LeaseId,
    epoch: Epoch,
    /// The sending of the last request by which the store promised this epoch; `None` while there
    /// is no promise.
    promised: Option<Instant>,
    /// The beginning of the time without a promise, for the history of the store.
    since: Instant,
    pending: Pending,
    failures: u32,
    state: HoldState,
    /// Whether the term is over, so that nothing is renewed.
    stopped: bool,
}

/// Whether the store can promise the epoch of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// The store promises it, or may promise it when it answers again.
    Open,
    /// The lease has had this epoch or a greater one under another grant, or it was released. The
    /// store can't promise this epoch any more.
    Passed,
    /// An operator broke the lease. The holder must stop by this instant.
    Broken(Instant),
}

impl StoreVoter {
    /// Creates a voter that has no lease and asks for none. The store counts as silent if an answer
    /// is late by `patience`.
    #[must_use]
    pub fn new(timings: Timings, patience: Duration, now: Instant) -> Self {
        Self {
            timings,
            phase: Phase::Idle,
            unreleased: Unreleased::default(),
            outputs: Outputs::default(),
            attempts: 0,
            heard: now,
            patience,
        }
    }

    /// Command: ask for the lease, with at least this epoch. The request waits in the store if the
    /// lease is held. It binds nobody but the store.
    pub fn ask(&mut self, now: Instant, least: Epoch, random: &mut dyn Random) {
        if self.is_idle() {
            let campaign = Campaign::new(now, random.lease_id(), Some(least));
            self.phase = Phase::Asking(campaign);
            self.handle_timeout(now, random);
        }
    }

    /// Command: ask for at least this epoch from the next request on.
    pub(crate) fn raise(&mut self, least: Epoch) {
        if let Phase::Asking(campaign) = &mut self.phase {
            campaign.min_epoch = Some(least);
        }
    }

    /// Command: take the lease under exactly this epoch, for a term that was won without the store.
    pub fn take(&mut self, now: Instant, epoch: Epoch, random: &mut dyn Random) {
        self.phase = Phase::Holding(Holding {
            lease_id: random.lease_id(),
            epoch,
            promised: None,
            since: now,
            pending: Pending::At(now),
            failures: 0,
            state: HoldState::Open,
            stopped: false,
        });
        self.handle_timeout(now, random);
    }

    /// Command: give up the request or the lease, under which no term has begun.
    pub fn leave(&mut self, now: Instant, random: &mut dyn Random) {
        let (phase, unreleased, cx) = self.parts(now, random);
        match phase {
            Phase::Idle => return,
            Phase::Asking(campaign) => campaign.withdraw(&cx, unreleased),
            Phase::Holding(holding) => unreleased.begin(Release {
                stray_until: holding.pending.sent().map(|sent| sent + MIN_ATTEMPT),
                ..Release::of_campaign(&cx, holding.lease_id)
            }),
        }
        *phase = Phase::Idle;
        self.handle_timeout(now, random);
    }

    /// Command: release the lease after the end of the term, in favour of a candidate if one is
    /// named.
    pub fn release(
        &mut self,
        now: Instant,
        reason: EndReason,
        successor: Option<CandidateId>,
        random: &mut dyn Random,
    ) {
        let silent = self.silent_since(now).is_some();
        let (phase, unreleased, cx) = self.parts(now, random);
        let Phase::Holding(holding) = phase else {
            return self.leave(now, random);
        };
        if holding.state != HoldState::Passed {
            let mut release = Release::of_term(&cx, holding.lease_id, reason);
            // The members have released their promises already. A process that ends does not wait
            // long for a store that does not answer.
            if silent {
                release.awaited_until = Release::of_campaign(&cx, holding.lease_id).awaited_until;
            }
            // A request to take the lease again must not arrive after the release.
            let stray = holding
                .pending
                .sent()
                .filter(|_| holding.promised.is_none());
            unreleased.begin(Release {
                successor: successor.filter(|_| holding.promised.is_some()),
                stray_until: stray.map(|sent| sent + MIN_ATTEMPT),
                ..release
            });
        }
        *phase = Phase::Idle;
        self.handle_timeout(now, random);
    }

    /// Command: send the next renewal now if it is due soon.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        if let (Phase::Holding(holding), _, mut cx) = self.parts(now, random) {
            let soon = cx.now + cx.timings.renew_interval() / 4;
            if holding.promised.is_some() && holding.renewal_due().is_some_and(|due| due <= soon) {
                holding.renew(&mut cx);
            }
        }
    }

    /// Command: stop the renewals, because the term is over and its task is stopping.
    pub fn stop_renewals(&mut self) {
        if let Phase::Holding(holding) = &mut self.phase {
            holding.stopped = true;
        }
    }

    /// Returns the epoch that was granted, or that the term has.
    #[must_use]
    pub const fn epoch(&self) -> Option<Epoch> {
        match &self.phase {
            Phase::Holding(holding) => Some(holding.epoch),
            _ => None,
        }
    }

    /// Returns the epoch that the store has promised, and the time at which the request for the
    /// last promise was sent.
    #[must_use]
    pub fn promise(&self) -> Option<(Epoch, Instant)> {
        match &self.phase {
            Phase::Holding(holding) => holding.promised.map(|sent| (holding.epoch, sent)),
            _ => None,
        }
    }

    /// Returns whether the store can promise the epoch of the term.
    #[must_use]
    pub const fn hold_state(&self) -> HoldState {
        match &self.phase {
            Phase::Holding(holding) => holding.state,
            _ => HoldState::Open,
        }
    }

    /// Returns the lease id of the term.
    #[must_use]
    pub const fn lease_id(&self) -> Option<LeaseId> {
        match &self.phase {
            Phase::Holding(holding) => Some(holding.lease_id),
            _ => None,
        }
    }

    /// Returns whether the lease is being renewed.
    pub(crate) const fn renews(&self) -> bool {
        matches!(&self.phase, Phase::Holding(holding) if !holding.stopped)
    }

    /// Returns whether the store has answered the last request for the lease.
    pub(crate) fn is_answered(&self) -> bool {
        match &self.phase {
            Phase::Asking(campaign) => {
                let is_asked = self.unreleased.is_none() && !campaign.is_unanswered();
                self.heard >= campaign.started && is_asked
            }
            _ => false,
        }
    }

    /// Returns whether the candidate neither has the lease nor asks for it, and waits for no
    /// release.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && !self.unreleased.is_awaited()
    }

    /// Returns whether the candidate asks for the lease.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking(_))
    }

    /// Returns the time of the store's last answer if the store is silent: the last request has
    /// failed, or its answer is late.
    #[must_use]
    pub fn silent_since(&self, now: Instant) -> Option<Instant> {
        self.silent_from()
            .filter(|&from| now >= from)
            .map(|_| self.heard)
    }

    /// Returns the time from which on the store counts as silent, unless an answer comes before.
    pub(crate) fn silent_from(&self) -> Option<Instant> {
        match &self.phase {
            _ if self.unreleased.has_failed() => Some(self.heard),
            _ if !self.unreleased.is_none() => Some(self.unreleased.sent()? + self.patience),
            Phase::Idle => None,
            Phase::Asking(campaign) if campaign.is_unanswered() => Some(self.heard),
            Phase::Asking(campaign) => {
                let wait = campaign.acquire_wait(&self.timings);
                Some(campaign.pending.sent()? + wait + self.patience)
            }
            Phase::Holding(holding) if holding.failures > 0 => Some(self.heard),
            Phase::Holding(holding) => Some(holding.pending.sent()? + self.patience),
        }
    }

    /// Input: an answer of the store.
    pub fn handle_message(
        &mut self,
        now: Instant,
        (attempt, answer): (u64, Answer),
        random: &mut dyn Random,
    ) {
        if !matches!(answer, Answer::Unknown(_)) {
            self.heard = self.heard.max(now);
        }
        let (phase, unreleased, mut cx) = self.parts(now, random);
        if unreleased.handle_answer(&mut cx, attempt, &answer) {
            // The next request has waited for this answer.
            return self.handle_timeout(now, random);
        }
        let next = match phase {
            Phase::Idle => Next::Stay,
            Phase::Asking(campaign) => campaign.handle_answer(&mut cx, attempt, answer),
            Phase::Holding(holding) => {
                holding.handle_answer(&mut cx, attempt, answer);
                Next::Stay
            }
        };
        self.transition(next, now, random);
    }

    /// Input: time has passed.
    pub fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        let (phase, unreleased, mut cx) = self.parts(now, random);
        unreleased.handle_timeout(&mut cx);
        match phase {
            // A fresh id would compete with the one that is not released.
            _ if !unreleased.is_none() => {}
            Phase::Idle => {}
            Phase::Asking(campaign) => campaign.handle_timeout(&mut cx),
            Phase::Holding(holding) => {
                if holding.renewal_due().is_some_and(|due| cx.now >= due) {
                    holding.renew(&mut cx);
                }
            }
        }
    }

    /// Output: the next effect or event; `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output<LeaseEffect>> {
        self.outputs.poll()
    }

    /// Output: when to call [`handle_timeout`](Self::handle_timeout) at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            _ if !self.unreleased.is_none() => self.unreleased.due(),
            Phase::Idle => None,
            Phase::Asking(campaign) => campaign.pending.due(),
            Phase::Holding(holding) => holding.renewal_due(),
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
            Next::Lead(term) => {
                let (epoch, sent) = (term.term.epoch, term.sent());
                self.phase = Phase::Holding(Holding {
                    lease_id: term.lease_id,
                    epoch,
                    promised: Some(sent),
                    since: now,
                    pending: term.pending,
                    failures: 0,
                    state: HoldState::Open,
                    stopped: false,
                });
            }
            Next::ReleaseFirst(release) => {
                self.unreleased.begin(release);
                self.handle_timeout(now, random);
            }
            Next::Abandon => self.phase = Phase::Idle,
            // These end a term, and a voter has none.
            Next::Release(..) | Next::Ended(..) | Next::Withdrawn => {}
        }
    }
}

impl Holding {
    /// Returns the time of the next request; `None` while one is in flight, and if the store can't
    /// promise the epoch any more.
    fn renewal_due(&self) -> Option<Instant> {
        let renews = self.state == HoldState::Open && !self.stopped;
        self.pending.due().filter(|_| renews)
    }

    /// Sends a renewal. If the last promise is over, the term runs without the store: then the
    /// candidate asks for the same epoch again, also because the lease may have expired, and tells
    /// for how long the term has run so.
    fn renew(&mut self, cx: &mut Context<'_>) {
        let lease_id = self.lease_id;
        let renew_deadline = cx.timings.renew_deadline();
        let request = match self.promised {
            Some(sent) if cx.now < sent + renew_deadline => Request::Renew(lease_id),
            _ => Request::Resume {
                lease_id,
                epoch: self.epoch,
                without_store: cx.now.since(self.since),
            },
        };
        let timeout = (cx.timings.renew_interval() / 3).max(MIN_ATTEMPT);
        self.pending = cx.send(request, timeout);
    }

    fn handle_answer(&mut self, cx: &mut Context<'_>, attempt: u64, answer: Answer) {
        let Some(sent) = self.pending.answered(attempt) else {
            return;
        };
        match answer {
            Answer::Held(epoch) if epoch == self.epoch => {
                self.failures = 0;
                self.promised = Some(sent);
                self.since = cx.now;
                self.pending = next_renewal(cx, sent);
            }
            Answer::Broken { remaining } => {
                // The store lets others lead `remaining` after its answer, and it answered after
                // the request was sent. The margin applies here too.
                let ceiling = sent + remaining.saturating_sub(cx.timings.margin());
                self.end(HoldState::Broken(ceiling));
            }
            // The lease has expired, so the store promises nothing now. It promises the same epoch
            // again if it has granted the lease to no other request meanwhile.
            Answer::Expired => self.ask_again(cx),
            // The holder of an older epoch is a leader of the past, or its lease is in a lock delay.
            Answer::HeldByAnother(holder)
                if holder.as_ref().is_none_or(|(_, epoch)| *epoch < self.epoch) =>
            {
                self.promised = None;
                self.failures = 0;
                self.pending = next_renewal(cx, cx.now);
            }
            Answer::Superseded | Answer::IdRetired | Answer::HeldByAnother(_) | Answer::Held(_) => {
                self.end(HoldState::Passed)
            }
            Answer::Unknown(why) | Answer::Refused(why) | Answer::Denied(why) => {
                self.failures += 1;
                let end = self.promised.map(|sent| sent + cx.timings.renew_deadline());
                let delay = match end.filter(|end| cx.now < *end) {
                    Some(end) => retry_delay_within(end.since(cx.now), self.failures, cx),
                    // The term goes on without the store, so no attempt is urgent.
                    None => retry_delay(self.failures, cx.timings.renew_interval(), cx),
                };
                self.pending = Pending::At(cx.now + delay);
                let why = format!("renew: {why}");
                cx.outputs.effect(LeaseEffect::Retrying(why, Some(delay)));
            }
            Answer::Released => {
                self.pending =
                    Pending::At(cx.now + retry_delay(1, cx.timings.renew_interval(), cx));
            }
        }
    }

    /// Asks at once for the same epoch, because the lease has expired.
    fn ask_again(&mut self, cx: &mut Context<'_>) {
        if self.promised.take().is_some() {
            self.renew(cx);
        } else {
            // The lease expired between two requests of this kind.
            self.pending = Pending::At(cx.now + retry_delay(1, cx.timings.renew_interval(), cx));
        }
    }

    /// Asks no more. The last request is answered, so the store does not count as silent.
    fn end(&mut self, state: HoldState) {
        self.promised = None;
        self.state = state;
        self.pending = Pending::At(Instant::default());
    }
}
