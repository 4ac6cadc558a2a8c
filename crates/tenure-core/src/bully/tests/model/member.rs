//! A member of a group with a quorum, as the models see it: the model decides when its timers fire.

use super::*;
use crate::bully::node::Machine;
use crate::bully::node_state::Context;
use crate::bully::quorum::{Quorum, Role};

/// The time of timers that never fire by themselves.
const FAR: Instant = Instant::from_nanos(u64::MAX);

impl PeerCandidate {
    /// Resets the state that does not affect safety, so that states which differ only in it are
    /// equal.
    pub(crate) fn settle(&mut self, now: Instant) {
        if let Some(term) = &mut self.state.term {
            (term.progress, term.last_tick) = Default::default();
        }
        self.state.seen = None;
        self.watched = None;
        let lease = self.state.settings.timings.term().renew_deadline();
        if let Machine::Quorum(machine) = &mut self.machine {
            machine.tick_at = FAR;
            machine.followed_since = FAR;
            (machine.deferrals, machine.failures) = (0, 0);
            machine.connected = true;
            machine.known = None;
            machine.silent.clear();
            machine.promise_until = machine.promise_until.filter(|&until| now < until);
            machine.promised = machine.promised.filter(|_| machine.promise_until.is_some());
            if let Role::Following { leader } = &mut machine.role {
                *leader = None;
            }
            if let Role::Leading(round) = &mut machine.role {
                round.at_risk = false;
                round.refused.clear();
                for from in [&mut round.beside_store, &mut round.without_store] {
                    *from = from.filter(|&from| now < from + lease);
                }
                if round.acks.len() >= self.state.settings.quorums.without_store() {
                    round.acks.extend(self.state.settings.members.iter());
                    round.asked = FAR;
                }
            }
        }
        self.become_candidate();
    }

    /// Makes the member a candidate unless it has a term.
    pub(crate) fn become_candidate(&mut self) {
        if self.state.term.is_none() {
            self.state.candidate_since = Some(Instant::default());
        }
    }

    pub(in crate::bully) fn quorum<'a>(
        &'a mut self,
        now: Instant,
        random: &'a mut dyn Random,
    ) -> (&'a mut Quorum, Context<'a>) {
        match self.parts(now, random) {
            (Machine::Quorum(machine), cx) => (machine, cx),
            (Machine::BestEffort(_), _) => unreachable!("these members have a quorum"),
        }
    }

    /// Asks for votes after a pre-vote that found this greatest epoch.
    pub(crate) fn stand_for_votes(&mut self, now: Instant, known: Option<Epoch>) {
        let mut random = Constant;
        let (machine, mut cx) = self.quorum(now, &mut random);
        machine.known = known;
        machine.request_votes(&mut cx);
    }

    /// Begins a round of renewals.
    pub(crate) fn begin_round(&mut self, now: Instant) {
        let mut random = Constant;
        self.tick_term(now, &mut random);
        let (machine, mut cx) = self.quorum(now, &mut random);
        machine.next_round(&mut cx);
    }

    /// Lets the member ask the store for an epoch above `known`.
    pub(crate) fn allow_store(&mut self, now: Instant, known: Option<Epoch>) {
        let mut random = Constant;
        let (machine, _) = self.quorum(now, &mut random);
        machine.known = known;
        machine.store.may_ask = true;
    }

    /// Resets the permission to ask the store, which has an effect only while the member asks.
    pub(crate) fn forbid_store(&mut self) {
        if let Machine::Quorum(machine) = &mut self.machine {
            machine.store.may_ask = false;
        }
    }

    /// Ends the term if its time is over.
    pub(crate) fn check_time(&mut self, now: Instant) {
        self.tick_term(now, &mut Constant);
    }

    /// Returns the greatest epoch that the member has promised.
    pub(crate) const fn promised(&self) -> Option<Epoch> {
        self.state.record.highest
    }

    /// Returns whether the member has no term, asks for no votes, and may vote for any candidate.
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        let Machine::Quorum(machine) = &self.machine else {
            return false;
        };
        let own = self.state.own_process();
        let bound = machine.bound_elsewhere(&self.state, now, own);
        let idle = matches!(machine.role, Role::Following { .. }) && self.state.term.is_none();
        idle && bound.is_none()
    }

    /// Returns whether a crash changes nothing: no promise binds the member, and it neither leads
    /// nor asks for votes.
    pub(crate) fn is_at_rest(&self, now: Instant) -> bool {
        let Machine::Quorum(machine) = &self.machine else {
            return false;
        };
        self.is_free(now) && machine.promised_to(&self.state, now).is_none()
    }

    /// Returns whether the term is valid at `now` by the promises of the store and members, and by
    /// those of the members alone; `None` if the member does not lead.
    pub(crate) fn valid_by(&self, now: Instant) -> Option<(bool, bool)> {
        let Machine::Quorum(machine) = &self.machine else {
            return None;
        };
        let Role::Leading(round) = &machine.role else {
            return None;
        };
        let lease = self.state.settings.timings.term().renew_deadline();
        let is_valid = |from: Option<Instant>| from.is_some_and(|from| now < from + lease);
        let store = machine.store.promise.filter(|(of, _)| *of == round.epoch);
        let with_store = store.zip(round.beside_store);
        let with_store = with_store.map(|((_, store), members)| store.min(members));
        Some((is_valid(with_store), is_valid(round.without_store)))
    }

    /// Returns whether this message can still have an effect on this member, whose record on disk
    /// has this greatest epoch.
    pub(crate) fn minds(&self, message: QuorumMessage, durable: Option<Epoch>) -> bool {
        let Machine::Quorum(machine) = &self.machine else {
            return true;
        };
        match message {
            QuorumMessage::RequestVote { epoch }
            | QuorumMessage::Renew { epoch, .. }
            | QuorumMessage::Release { epoch, .. } => Some(epoch) >= durable,
            QuorumMessage::VoteGranted { epoch } => {
                let votes = matches!(&machine.role, Role::Voting { epoch: it, .. } if *it == epoch);
                votes || Some(epoch) > durable
            }
            QuorumMessage::RenewAck { epoch, round } => {
                matches!(&machine.role, Role::Leading(it) if (it.epoch, it.number) == (epoch, round))
            }
            _ => true,
        }
    }
}
