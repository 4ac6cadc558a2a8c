//! Election by a lease, and among the members while the store is away.
//!
//! The store is a voter with more weight. A candidate leads while it holds the valid promises of a
//! quorum: the store's lease and k of n members, itself included, **or** n - k + 1 members without
//! the store ([`Quorums`](crate::bully::Quorums)). [`FallbackCandidate`] joins the two halves:
//!
//! - its [`PeerCandidate`] is the member. It votes, asks for votes, counts the promises of both
//!   kinds, and has the term.
//! - its [`StoreVoter`] asks the store for the lease, and keeps it.
//!
//! **Why two candidates never lead at once.** Any two quorums share a voter, and a voter promises
//! one candidate at a time. A promise counts from the sending of its request for the leader, and
//! from its arrival, which is later, for the voter. Suppose that B wins while A leads under a
//! smaller epoch. Every member of B's quorum voted when no promise to A bound it, and refuses A's
//! renewals from then on, because it knows the greater epoch. The store, if it is in B's quorum,
//! granted B the lease after A's lease had ended there, and takes no renewal of an older grant. So
//! none of these voters has promised A for a time after B's term began. But every quorum of A, of
//! either kind, has one of these voters. So A's term was over. It makes no difference which of the
//! two believed that the store was away.
//!
//! **Why epochs increase, and none is used twice.** A member promises an epoch to one candidate
//! only, and only a greater one later, on disk. The store grants greater epochs only. The quorum of
//! a new term shares a voter with the quorum of every earlier one, so the new epoch is greater. The
//! store may take a term's epoch a second time, for the same lease id, if it has granted no other
//! one since: that is the same term, which has gone on without the store.
//!
//! **Why a candidate in the store's queue blocks nobody.** Waiting binds no member. A candidate
//! that promises another one leaves the queue. If it is granted the lease nevertheless, it gives
//! the lease back at once. The same epoch can't be taken again there by a running term, so that
//! term goes on with the members alone.

#[cfg(test)]
mod tests;

use super::joint::{JointEffect, JointMessage};
use super::{ElectionMachine, EndReason, Output, Outputs, Standing, TaskEnd, TermEvent};
use crate::bully::PeerCandidate;
use crate::lease::LeaseId;
use crate::lease::candidate::{HoldState, StoreVoter};
use crate::{CandidateId, Epoch, Instant, Random};

/// A candidate with a store and with members that elect a leader while the store is away; see the
/// [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FallbackCandidate {
    store: StoreVoter,
    node: PeerCandidate,
    /// The epoch of the last grant that the member has claimed or given back.
    claimed: Option<Epoch>,
    /// The last news of the store for the member: its promise, and whether it gives none now.
    told: (Option<(Epoch, Instant)>, bool),
    /// The last time at which the store was silent.
    silent_at: Option<Instant>,
    /// The candidate that the lease is handed over to.
    successor: Option<CandidateId>,
    /// The end of the term or the campaign, until the lease is released.
    last: Option<TermEvent>,
    outputs: Outputs<JointEffect>,
}

impl FallbackCandidate {
    /// Creates a candidate from a member whose settings have the quorums
    /// ([`GroupSettings::with_quorums`](crate::bully::GroupSettings::with_quorums)), and which does
    /// not compete yet.
    #[must_use]
    pub fn new(node: PeerCandidate, now: Instant) -> Self {
        let timings = node.settings().timings();
        Self {
            store: StoreVoter::new(*timings.term(), timings.message_lifetime(), now),
            node,
            claimed: None,
            told: (None, false),
            silent_at: None,
            successor: None,
            last: None,
            outputs: Outputs::default(),
        }
    }

    /// Returns the member.
    #[must_use]
    pub const fn node(&self) -> &PeerCandidate {
        &self.node
    }

    /// Returns the requests to the store.
    #[must_use]
    pub const fn store(&self) -> &StoreVoter {
        &self.store
    }

    /// Returns the lease id of the current term.
    #[must_use]
    pub const fn lease_id(&self) -> Option<LeaseId> {
        self.store.lease_id()
    }

    /// Command: send the next renewal to the store now if it is due soon.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        self.store.renew_early(now, random);
        self.settle(now, random);
    }

    /// Passes on the outputs of both halves, and takes all steps that are due.
    fn settle(&mut self, now: Instant, random: &mut dyn Random) {
        loop {
            if let Some(output) = self.store.poll_output() {
                match output {
                    Output::Effect(effect) => self.outputs.effect(JointEffect::Store(effect)),
                    Output::Term(TermEvent::LeaderSeen(holder)) => {
                        let holder = holder.and_then(|(holder, epoch)| {
                            Some((self.node.member_of(&holder)?, epoch))
                        });
                        self.node.see_holder(holder);
                    }
                    Output::Term(TermEvent::Failed(why)) => {
                        self.node.resign(now, EndReason::Resigned, random);
                        self.last = Some(TermEvent::Failed(why));
                    }
                    Output::Term(_) => {}
                }
            } else if let Some(output) = self.node.poll_output() {
                match output {
                    Output::Effect(effect) => self.outputs.effect(JointEffect::Peers(effect)),
                    Output::Term(event) => self.handle_event(now, event, random),
                }
            } else if !self.step(now, random) {
                return;
            }
        }
    }

    /// Handles an event of the member's term. The end is reported when the lease is released, so
    /// that a process that ends then leaves no lease behind.
    fn handle_event(&mut self, now: Instant, event: TermEvent, random: &mut dyn Random) {
        match event {
            TermEvent::Ended(_, reason) => {
                let successor = self.successor.take();
                self.store.release(now, reason, successor, random);
                self.last = Some(event);
            }
            TermEvent::Withdrawn | TermEvent::Failed(_) => {
                self.last.get_or_insert(event);
            }
            event => self.outputs.emit(event),
        }
    }

    /// Takes the next step that is due. Returns whether there was one.
    fn step(&mut self, now: Instant, random: &mut dyn Random) -> bool {
        let of_lease = self.store.epoch();
        let of_node = self.node.stands_under();
        if let HoldState::Broken(ceiling) = self.store.hold_state()
            && self.node.stop_by().is_some()
            && !self.node.has_lost_term()
        {
            self.node.break_term(now, ceiling, random);
        } else if self.tell_node(now, random) {
            // The member has counted the store's promise.
        } else if self.node.has_lost_term() && self.store.renews() {
            self.store.stop_renewals();
        } else if of_lease.is_some() && of_lease != of_node {
            self.claim_or_leave(now, of_lease, random);
        } else if self.store.is_asking() && self.node.must_leave_store(now) {
            // The member votes for another candidate or without the store, or it competes no more.
            self.store.leave(now, random);
        } else if self.store.is_idle() {
            return self.begin_request(now, random);
        } else {
            return false;
        }
        true
    }

    /// Tells the member about the store's promise, if there is news.
    fn tell_node(&mut self, now: Instant, random: &mut dyn Random) -> bool {
        let promise = self.store.promise();
        let is_silent = self.store.silent_since(now).is_some();
        if is_silent {
            self.silent_at = Some(now);
        }
        let away = if self.store.epoch().is_some() {
            promise.is_none() || is_silent
        } else {
            // A store that was silent a moment ago counts as silent until it answers. So a candidate
            // whose vote has failed need not wait for the store again. Later the candidate asks the
            // store first, because it may have returned.
            let interval = self.node.settings().timings().term().renew_interval();
            let was_silent = self.silent_at.is_some_and(|at| now < at + interval * 2);
            is_silent || (was_silent && !self.store.is_answered())
        };
        let news = (promise, away);
        if news == self.told {
            return false;
        }
        self.told = news;
        self.node.handle_store(now, promise, away, random);
        true
    }

    /// Claims the epoch of a grant for the member. Gives the lease back if the member can't lead
    /// under it, or could not win with it.
    fn claim_or_leave(&mut self, now: Instant, granted: Option<Epoch>, random: &mut dyn Random) {
        let is_new = self.claimed != granted;
        self.claimed = granted;
        let is_claimed = is_new && granted.is_some_and(|epoch| self.node.claim(now, epoch, random));
        if !is_claimed {
            self.store.leave(now, random);
        }
    }

    /// Begins a request to the store, which has none, or reports the end.
    fn begin_request(&mut self, now: Instant, random: &mut dyn Random) -> bool {
        if let Some(last) = self.last.take() {
            self.outputs.emit(last);
            return true;
        }
        if let Standing::Leading { epoch, .. } = self.node.standing(now) {
            self.store.take(now, epoch, random);
            return true;
        }
        if self.node.may_ask_store(now)
            && let Some(least) = self.node.epoch_to_ask_for(now)
        {
            self.store.ask(now, least, random);
            return true;
        }
        false
    }
}

impl ElectionMachine for FallbackCandidate {
    type Message = JointMessage;
    type Effect = JointEffect;

    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        self.node.campaign(now, random);
        self.settle(now, random);
    }

    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        self.node.resign(now, reason, random);
        self.settle(now, random);
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        self.node.hand_over(now, to.clone());
        let successor = self.node.successor();
        if successor.is_some() && successor == self.node.member_of(&to) {
            self.successor = Some(to);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        self.node.task_ended(now, end, random);
        self.settle(now, random);
    }

    fn handle_message(&mut self, now: Instant, message: JointMessage, random: &mut dyn Random) {
        // The time is checked first: an answer must not extend a term that ended before the answer
        // arrived.
        self.node.handle_timeout(now, random);
        match message {
            JointMessage::Store(attempt, answer) => {
                self.store.handle_message(now, (attempt, answer), random);
            }
            JointMessage::Peers(input) => self.node.handle_message(now, input, random),
        }
        self.settle(now, random);
    }

    fn handle_progress(&mut self, at: Instant) {
        self.node.handle_progress(at);
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        self.node.handle_timeout(now, random);
        self.settle(now, random);
        if self.store.is_asking()
            && let Some(least) = self.node.epoch_to_ask_for(now)
        {
            self.store.raise(least);
        }
        self.store.handle_timeout(now, random);
        self.settle(now, random);
    }

    fn poll_output(&mut self) -> Option<Output<JointEffect>> {
        self.outputs.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let silent_from = self.store.silent_from().filter(|_| !self.told.1);
        let halves = [self.node.poll_timeout(), self.store.poll_timeout()];
        halves.into_iter().chain([silent_from]).flatten().min()
    }

    fn standing(&self, now: Instant) -> Standing {
        if self.last.is_some() {
            return Standing::Ending;
        }
        self.node.standing(now)
    }

    fn stop_by(&self) -> Option<Instant> {
        self.node.stop_by()
    }

    fn overrun_at(&self) -> Option<Instant> {
        self.node.overrun_at()
    }
}
