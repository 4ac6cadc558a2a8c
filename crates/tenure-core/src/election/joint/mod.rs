//! Election by a lease and among peers at once, which lets a group change from one strategy to the
//! other without a pause.
//!
//! [`Joint`] leads only while its [`LeaseCandidate`] holds the lease *and* its [`PeerCandidate`]
//! leads among the peers.
//!
//! ```text
//!          campaign          elected among peers        granted under the same epoch
//!   idle ----------> electing ---------------> elected -------------------------> leading
//!                     ^    ^                     |                                   |
//!                     |    +---- releasing <-----+-----------------------------------+
//!                     |     no lease in time, another epoch, lost       the task is gone
//!                     +-- after a pause, if the store was to blame
//! ```
//!
//! **Why no other candidate leads at the same time.** A candidate by lease alone needs the lease, a
//! candidate among peers alone needs the votes of the peers, and this candidate needs both. Each
//! half runs in the machine that also runs it alone, so the safety argument of each half applies
//! ([`lease::candidate`](crate::lease::candidate), [`bully`](crate::bully)). The task stops by the
//! earlier end of the two halves, and neither half is released before the task is gone. So
//! candidates by lease and by both may run side by side, and so may candidates by both and among
//! peers. Candidates by lease and candidates among peers may not.
//!
//! **Why no candidate waits for ever.** All candidates take the halves in the same order: first the
//! peers, then the lease. So two candidates never hold one half each and wait for the other half. A
//! candidate among peers alone never waits for the lease, and a candidate by lease alone never
//! waits for the peers. A candidate whose store does not answer releases the peers' half after a
//! renew deadline, and pauses for about a lease duration, in which the peers elect another
//! candidate. While the store reports a holder, the candidate waits: then there is a leader.
//!
//! **Why epochs increase, also from one strategy to the next.** A term has one epoch in both
//! halves: the peers choose the epoch, and the candidate requests a grant under that epoch, for
//! which the store ignores its clock. The store grants a greater epoch only if the lease has
//! already had the requested one or a greater one. Then the term does not begin: both halves are
//! released, and the peers elect again under an epoch above that of the store. So the epoch of a
//! term is greater than all epochs that the store has granted and that a majority of the peers has
//! promised before. No other epoch is granted or promised by a majority between this one and the
//! beginning of the term. The clocks do not matter: no earlier term of any strategy has a greater
//! epoch, and no later term a smaller one. (Without a quorum the peers know only the epochs that
//! they have received; the lease still goes to one candidate at a time.)

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::vec::Vec;

use super::{ElectionMachine, EndReason, Output, Outputs, Standing, TaskEnd, TermEvent};
use crate::bully::{PeerCandidate, PeerEffect, PeerInput};
use crate::lease::LeaseId;
use crate::lease::candidate::{Answer, LeaseCandidate, LeaseEffect, Timings};
use crate::{CandidateId, Epoch, Instant, Random};

/// A candidate that must win a lease and an election among peers; see the [module](self).
#[derive(Debug)]
pub struct Joint {
    timings: Timings,
    lease: LeaseCandidate,
    node: PeerCandidate,
    phase: Phase,
    outputs: Outputs<JointEffect>,
}

/// An input other than time.
#[derive(Clone, Debug)]
pub enum JointMessage {
    /// An answer of the store, with the number of the attempt.
    Store(u64, Answer),
    /// An input from the peers, their failure detector or the disk.
    Peers(PeerInput),
}

/// An action that the driver must execute for a [`Joint`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JointEffect {
    /// An effect of the half that competes for the lease.
    Store(LeaseEffect),
    /// An effect of the half that is elected among the peers.
    Peers(PeerEffect),
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// The candidate competes among the peers, or begins to do so at this instant.
    Electing {
        from: Option<Instant>,
    },
    /// The peers have elected the candidate, and it requests the lease.
    Elected {
        epoch: Epoch,
        /// The last time at which the store reported a holder; at first, the beginning of the
        /// phase.
        since: Instant,
    },
    Leading(JointTerm),
    /// The candidate does not lead, and releases both halves.
    Releasing(Next),
}

/// A term that both halves hold.
#[derive(Debug)]
struct JointTerm {
    epoch: Epoch,
    /// The reason for the end; only the first reason counts.
    reason: Option<EndReason>,
    /// Whether the renewals of each half fail.
    at_risk: [bool; 2],
    /// The stages of the step-down that were emitted to the driver.
    stages: Vec<TermEvent>,
    task_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Lease,
    Peers,
}

/// The phase after both halves are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    ElectAt(Instant),
    Withdraw,
    /// The campaign has failed, and the failure was reported.
    Stop,
}

impl Joint {
    /// Creates a candidate from these two halves, which must have the same timings and not compete
    /// yet.
    #[must_use]
    pub fn new(lease: LeaseCandidate, node: PeerCandidate) -> Self {
        Self {
            timings: *node.settings().timings().term(),
            lease,
            node,
            phase: Phase::Idle,
            outputs: Outputs::default(),
        }
    }

    /// Returns the half that is elected among the peers.
    #[must_use]
    pub const fn node(&self) -> &PeerCandidate {
        &self.node
    }

    /// Returns the lease id of the current term.
    #[must_use]
    pub fn lease_id(&self) -> Option<LeaseId> {
        self.lease.lease_id()
    }

    /// Command: send the next renewal to the store now if it is due soon.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        self.lease.renew_early(now, random);
        self.drain(now, random);
    }

    /// Passes on the effects of both halves, and handles the events of their terms.
    fn drain(&mut self, now: Instant, random: &mut dyn Random) {
        loop {
            if let Some(output) = self.lease.poll_output() {
                match output {
                    Output::Effect(effect) => self.outputs.effect(JointEffect::Store(effect)),
                    Output::Term(event) => self.handle_event(now, Half::Lease, event, random),
                }
            } else if let Some(output) = self.node.poll_output() {
                match output {
                    Output::Effect(effect) => self.outputs.effect(JointEffect::Peers(effect)),
                    Output::Term(event) => self.handle_event(now, Half::Peers, event, random),
                }
            } else if !self.step(now, random) {
                return;
            }
        }
    }

    /// Handles an event of one half.
    fn handle_event(
        &mut self,
        now: Instant,
        half: Half,
        event: TermEvent,
        random: &mut dyn Random,
    ) {
        match (half, event) {
            (Half::Lease, TermEvent::Began(epoch)) => self.handle_grant(now, epoch, random),
            (Half::Peers, TermEvent::Began(epoch)) => {
                if let Phase::Electing { .. } = self.phase {
                    self.phase = Phase::Elected { epoch, since: now };
                    self.lease.campaign_with(now, Some(epoch), random);
                } else {
                    self.node.task_ended(now, TaskEnd::Aborted, random);
                }
            }
            (half, TermEvent::AtRisk(at_risk)) => self.handle_risk(half, at_risk),
            (half, TermEvent::Cancel(reason)) => match (half, self.cancel(reason)) {
                (Half::Lease, true) => self.node.resign(now, reason, random),
                (Half::Peers, true) => self.lease.resign(now, reason, random),
                (Half::Peers, false) if matches!(self.phase, Phase::Elected { .. }) => {
                    // No task is running, so the halves can be released at once.
                    self.release_halves(now, Next::ElectAt(now), random);
                }
                _ => {}
            },
            (half, TermEvent::LeaderSeen(leader)) => {
                if let (Half::Lease, Some((_, epoch))) = (half, &leader) {
                    self.handle_holder(now, *epoch, random);
                }
                self.outputs.emit(TermEvent::LeaderSeen(leader));
            }
            (_, TermEvent::Failed(why)) => {
                self.outputs.emit(TermEvent::Failed(why));
                self.release_halves(now, Next::Stop, random);
            }
            // The other half is lost: its overrun follows.
            (_, TermEvent::Lingering) if self.standing(now) == Standing::Ending => {}
            (_, stage @ (TermEvent::Abort | TermEvent::Lingering | TermEvent::Overrun)) => {
                if let Phase::Leading(term) = &mut self.phase
                    && !term.stages.contains(&stage)
                {
                    term.stages.push(stage.clone());
                    self.outputs.emit(stage);
                }
            }
            // [`Joint::step`] handles the end of a half.
            (_, TermEvent::Ended(..) | TermEvent::Withdrawn) => {}
        }
    }

    /// Handles the grant of the lease. The term begins if both halves have the same epoch and the
    /// peers' half still leads.
    fn handle_grant(&mut self, now: Instant, granted: Epoch, random: &mut dyn Random) {
        let led = self.node.standing(now);
        match (&self.phase, led) {
            (Phase::Elected { epoch, .. }, Standing::Leading { .. }) if *epoch == granted => {
                self.phase = Phase::Leading(JointTerm {
                    epoch: granted,
                    reason: None,
                    at_risk: [false; 2],
                    stages: Vec::new(),
                    task_gone: false,
                });
                self.outputs.emit(TermEvent::Began(granted));
            }
            _ => {
                // The lease has had terms whose epochs the peers do not know.
                self.node.learn_taken_epoch(granted);
                self.release_halves(now, Next::ElectAt(now), random);
            }
        }
    }

    /// Handles the report that another candidate holds the lease, so that there is a leader. If the
    /// holder's epoch is not below this candidate's, the peers elect again now, which saves time
    /// later.
    fn handle_holder(&mut self, now: Instant, held: Epoch, random: &mut dyn Random) {
        self.node.learn_taken_epoch(held);
        if let Phase::Elected { epoch, since } = &mut self.phase {
            *since = now;
            if held >= *epoch {
                self.release_halves(now, Next::ElectAt(now), random);
            }
        }
    }

    /// Releases both halves. No task is running.
    fn release_halves(&mut self, now: Instant, next: Next, random: &mut dyn Random) {
        self.phase = Phase::Releasing(next);
        release(&mut self.node, now, random);
        release(&mut self.lease, now, random);
    }

    /// Takes a step that is due, by time or after the end of a half. Returns whether a step was
    /// due.
    fn step(&mut self, now: Instant, random: &mut dyn Random) -> bool {
        let is_over = self.node.stop_by().is_none() && self.lease.standing(now) == Standing::Idle;
        match &mut self.phase {
            Phase::Electing { from } if from.is_some_and(|from| now >= from) => {
                *from = None;
                self.node.campaign(now, random);
            }
            Phase::Elected { since, .. } if now >= *since + self.timings.renew_deadline() => {
                let pause = random.jitter(self.timings.lease_duration());
                let why = format!(
                    "the peers elected this candidate, but the store granted no lease for {:?}",
                    self.timings.renew_deadline()
                );
                let retrying = JointEffect::Store(LeaseEffect::Retrying(why, Some(pause)));
                self.outputs.effect(retrying);
                self.release_halves(now, Next::ElectAt(now + pause), random);
            }
            Phase::Leading(term) if term.task_gone && is_over => {
                let reason = term.reason.unwrap_or(EndReason::Resigned);
                let ended = TermEvent::Ended(term.epoch, reason);
                self.phase = Phase::Idle;
                self.outputs.emit(ended);
            }
            Phase::Releasing(next) if is_over => match *next {
                Next::ElectAt(from) => self.phase = Phase::Electing { from: Some(from) },
                Next::Withdraw => {
                    self.phase = Phase::Idle;
                    self.outputs.emit(TermEvent::Withdrawn);
                }
                Next::Stop => self.phase = Phase::Idle,
            },
            _ => return false,
        }
        true
    }

    fn handle_risk(&mut self, half: Half, at_risk: bool) {
        if let Phase::Leading(term) = &mut self.phase {
            let before = term.at_risk.contains(&true);
            term.at_risk[half as usize] = at_risk;
            let after = term.at_risk.contains(&true);
            if before != after {
                self.outputs.emit(TermEvent::AtRisk(after));
            }
        }
    }

    /// Begins to end the term. Returns whether it was not ending yet.
    fn cancel(&mut self, reason: EndReason) -> bool {
        let Phase::Leading(JointTerm {
            reason: first @ None,
            ..
        }) = &mut self.phase
        else {
            return false;
        };
        *first = Some(reason);
        self.outputs.emit(TermEvent::Cancel(reason));
        true
    }
}

/// Releases a half for which no task is running.
fn release(half: &mut impl ElectionMachine, now: Instant, random: &mut dyn Random) {
    if half.stop_by().is_some() {
        half.task_ended(now, TaskEnd::Aborted, random);
    } else {
        half.resign(now, EndReason::Resigned, random);
    }
}

impl ElectionMachine for Joint {
    type Message = JointMessage;
    type Effect = JointEffect;

    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        if let Phase::Idle = self.phase {
            self.phase = Phase::Electing { from: Some(now) };
            self.drain(now, random);
        }
    }

    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        match self.phase {
            Phase::Idle | Phase::Releasing(Next::Withdraw | Next::Stop) => {}
            Phase::Leading(_) => self.lease.resign(now, reason, random),
            Phase::Releasing(Next::ElectAt(_)) => self.phase = Phase::Releasing(Next::Withdraw),
            Phase::Electing { .. } | Phase::Elected { .. } => {
                self.release_halves(now, Next::Withdraw, random);
            }
        }
        self.drain(now, random);
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        // Both halves handle the hand-over before the cancel of either is handled, so that neither
        // half is only resigned.
        if self.cancel(EndReason::HandedOver) {
            self.node.hand_over(now, to.clone());
            self.lease.hand_over(now, to);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        // The time is checked first: if the term has passed already, a task that stops now has not
        // ended it.
        self.handle_timeout(now, random);
        let Phase::Leading(term) = &mut self.phase else {
            return;
        };
        term.task_gone = true;
        // The task is gone, so both halves may be released at once.
        self.lease.task_ended(now, end, random);
        self.drain(now, random);
        self.node.task_ended(now, end, random);
        self.drain(now, random);
    }

    fn handle_message(&mut self, now: Instant, message: JointMessage, random: &mut dyn Random) {
        match message {
            JointMessage::Store(attempt, answer) => {
                self.lease.handle_message(now, (attempt, answer), random);
            }
            JointMessage::Peers(input) => self.node.handle_message(now, input, random),
        }
        self.drain(now, random);
    }

    fn handle_progress(&mut self, at: Instant) {
        self.lease.handle_progress(at);
        self.node.handle_progress(at);
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        self.lease.handle_timeout(now, random);
        self.node.handle_timeout(now, random);
        self.drain(now, random);
    }

    fn poll_output(&mut self) -> Option<Output<JointEffect>> {
        self.outputs.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = match &self.phase {
            Phase::Electing { from } => *from,
            Phase::Elected { since, .. } => Some(*since + self.timings.renew_deadline()),
            _ => None,
        };
        let halves = [self.lease.poll_timeout(), self.node.poll_timeout()];
        halves.into_iter().chain([due]).flatten().min()
    }

    fn standing(&self, now: Instant) -> Standing {
        match &self.phase {
            Phase::Idle => Standing::Idle,
            Phase::Electing { .. } | Phase::Elected { .. } | Phase::Releasing(Next::ElectAt(_)) => {
                Standing::Campaigning
            }
            Phase::Releasing(_) => Standing::Ending,
            Phase::Leading(_) => match (self.lease.standing(now), self.node.standing(now)) {
                // Each half ends by its own timings, and the term ends with the half that ends
                // first.
                (Standing::Leading { epoch, until }, Standing::Leading { until: other, .. }) => {
                    Standing::Leading {
                        epoch,
                        until: until.min(other),
                    }
                }
                _ => Standing::Ending,
            },
        }
    }

    fn stop_by(&self) -> Option<Instant> {
        let Phase::Leading(_) = self.phase else {
            return None;
        };
        let halves = [self.lease.stop_by(), self.node.stop_by()];
        halves.into_iter().flatten().min()
    }

    fn overrun_at(&self) -> Option<Instant> {
        let Phase::Leading(_) = self.phase else {
            return None;
        };
        let halves = [self.lease.overrun_at(), self.node.overrun_at()];
        halves.into_iter().flatten().min()
    }
}
