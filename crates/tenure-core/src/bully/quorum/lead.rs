//! Leading, following a leader, and releasing promises.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{MAX_DEFERRALS, Quorum, Role, Round};
use crate::bully::node_state::{Context, NodeState, Process};
use crate::bully::{NodeId, QuorumMessage};
use crate::election::{EndReason, TermEvent};
use crate::{Epoch, Instant};

impl Quorum {
    /// Begins to lead after a won vote. The first round of renewals notifies all members at once,
    /// unless the store's promise needs no other member beside it.
    pub(super) fn lead(&mut self, cx: &mut Context<'_>, won: Round) {
        let acks = cx.state.settings.members.iter().collect();
        self.role = Role::Leading(Round { acks, ..won });
        self.next_round(cx);
    }

    /// Begins the next round of renewals, because the last one is a renew interval ago, or because
    /// too few members have answered it within the message lifetime.
    ///
    /// While the store promises the term and no other member is needed beside it, the round goes
    /// only to the members that have asked for votes during this term: the others wait in the
    /// store's queue and learn the holder there. With k > 1 the round goes to all members: a member
    /// that got no renewals would have to ask the others before each of its requests to the store,
    /// which costs more messages than the renewals.
    pub(in crate::bully) fn next_round(&mut self, cx: &mut Context<'_>) {
        let Role::Leading(round) = &self.role else {
            return;
        };
        let (epoch, is_complete) = (round.epoch, self.is_complete(cx, round));
        let beside_store = Self::beside_store(cx.state)
            .filter(|_| is_complete && !self.store.away && self.has_store(epoch));
        let me = cx.state.me();
        let settings = cx.state.settings.clone();
        let to_all = beside_store != Some(1);
        let others = settings.members.others(me);
        let to = others.filter(|it| to_all || round.followers.contains(it));
        let to: Vec<NodeId> = to.collect();
        let Role::Leading(round) = &mut self.role else {
            return;
        };
        if !is_complete && round.to_all && !round.at_risk {
            round.at_risk = true;
            cx.state.outbox.ready.emit(TermEvent::AtRisk(true));
        }
        self.connected = is_complete;
        round.number += 1;
        round.asked = cx.now;
        round.acks = BTreeSet::from([me]);
        round.refused.clear();
        round.to_all = to_all;
        let number = round.number;
        // The leader's own promise must cover the lease like every other promise.
        self.promise(cx, cx.state.own_process());
        self.tick_at = cx.now + cx.lifetime();
        for to in to {
            let round = number;
            cx.state.send(to, QuorumMessage::Renew { epoch, round });
        }
        self.count_round(cx);
    }

    /// Renews the promise of a member that has asked for votes, because it gets no renewals. It
    /// does not wait in the store's queue, for example because it does not reach the store, and
    /// would not learn which member leads.
    pub(super) fn take_along(&mut self, cx: &mut Context<'_>, from: NodeId) {
        if let Role::Leading(round) = &mut self.role
            && !round.to_all
            && round.followers.insert(from)
        {
            let (epoch, round) = (round.epoch, round.number);
            cx.state.send(from, QuorumMessage::Renew { epoch, round });
        }
    }

    /// Returns whether the store has promised this epoch to this member.
    fn has_store(&self, epoch: Epoch) -> bool {
        self.store.promise.is_some_and(|(of, _)| of == epoch)
    }

    /// Returns whether enough voters have answered the round.
    fn is_complete(&self, cx: &Context<'_>, round: &Round) -> bool {
        self.is_quorum(cx.state, round.epoch, round.acks.len())
    }

    /// Counts an answer to the round. The promises count from the start of this round, not from its
    /// answers: the members renewed their promises in between.
    pub(super) fn count_round(&mut self, cx: &mut Context<'_>) {
        let (beside, without) = (Self::beside_store(cx.state), Self::without_store(cx.state));
        let Role::Leading(round) = &mut self.role else {
            return;
        };
        let from = round.asked;
        let acks = round.acks.len();
        if beside == Some(acks) {
            round.beside_store = Some(from);
        }
        if acks == without {
            round.without_store = Some(from);
        }
        if beside == Some(acks) || acks == without {
            self.extend_term(cx);
            self.schedule_round(cx);
        }
    }

    /// Extends the term if a quorum has promised it for longer.
    fn extend_term(&self, cx: &mut Context<'_>) {
        let Role::Leading(round) = &self.role else {
            return;
        };
        let from = self.valid_from(cx.state, round);
        if let (Some(term), Some(from)) = (&mut cx.state.term, from) {
            term.renew(from);
        }
    }

    /// Schedules the next round a renew interval after this one, if this one is complete.
    fn schedule_round(&mut self, cx: &mut Context<'_>) {
        let Role::Leading(round) = &self.role else {
            return;
        };
        let is_complete = self.is_complete(cx, round);
        if let Role::Leading(round) = &mut self.role
            && is_complete
        {
            let interval = cx.state.settings.timings.term().renew_interval();
            self.tick_at = round.asked + cx.random.jitter(interval);
            if core::mem::take(&mut round.at_risk) {
                cx.state.outbox.ready.emit(TermEvent::AtRisk(false));
            }
        }
    }

    /// Returns the time from which a term counts: the latest one such that all voters of some
    /// quorum promised the term in answer to requests that were sent at that time or later. `None`
    /// if no quorum has promised it.
    ///
    /// A quorum is only as good as its earliest promise, so the time with the store is the earlier
    /// one of the store's promise and of the members' round. Of the two kinds of quorums each one
    /// is enough, so the term counts from the later of their times.
    pub(super) fn valid_from(&self, state: &NodeState, round: &Round) -> Option<Instant> {
        let store = self.store.promise.filter(|(of, _)| *of == round.epoch);
        let store = store.map(|(_, sent)| sent);
        let with_store = store.zip(round.beside_store);
        let with_store = with_store.map(|(store, members)| store.min(members));
        let with_store = with_store.filter(|_| Self::beside_store(state).is_some());
        with_store.max(round.without_store)
    }

    /// Handles news of the store's promise. `away` says that the store gives none now.
    pub(in crate::bully) fn handle_store(
        &mut self,
        cx: &mut Context<'_>,
        promise: Option<(Epoch, Instant)>,
        away: bool,
    ) {
        let ended = promise.is_none() && self.store.promise.is_some();
        let (went_away, returned) = (away && !self.store.away, !away && self.store.away);
        self.store.promise = promise;
        self.store.away = away;
        match &self.role {
            Role::Voting { .. } => self.try_win(cx),
            Role::Leading(round) => {
                // A round that only some members got does not wait for the next one.
                let ask_all = (went_away || ended) && !round.to_all;
                if ended && !self.count_without_store(cx) {
                    return;
                }
                self.extend_term(cx);
                if returned {
                    self.schedule_round(cx);
                }
                if ask_all {
                    self.next_round(cx);
                }
            }
            Role::Following { leader: None } if went_away => self.tick_at = cx.now,
            Role::Following { .. } | Role::PreVoting { .. } => {}
        }
    }

    /// Counts the term from the promises of the members alone, because the store has taken back its
    /// promise: the lease expired there, or another request was granted it. Ends the term at once
    /// if the members have not promised it either. Returns whether the term continues.
    fn count_without_store(&self, cx: &mut Context<'_>) -> bool {
        let Role::Leading(round) = &self.role else {
            return false;
        };
        let lease = cx.state.settings.timings.term().renew_deadline();
        let from = round.without_store.filter(|&from| cx.now < from + lease);
        match (from, &mut cx.state.term) {
            (Some(from), Some(term)) => term.count_from(from),
            _ => cx.state.supersede(cx.now),
        }
        from.is_some()
    }

    /// Begins a new term in order if a member has promised a greater epoch. That member can't
    /// follow in this term, so the leader would have one possible vote fewer until the term ends.
    /// The leader leads until its task is gone, and its next epoch is greater.
    ///
    /// With a store as a voter the term goes on as long as enough voters can promise it: a
    /// candidate that failed may have raised the epoch of a member that the leader does not need.
    pub(super) fn handle_vote_rejected(
        &mut self,
        cx: &mut Context<'_>,
        (from, refused): (NodeId, Epoch),
        highest: Option<Epoch>,
    ) {
        self.known = self.known.max(highest);
        if let Role::Leading(round) = &mut self.role
            && round.epoch == refused
            && highest > Some(refused)
        {
            round.refused.insert(from);
            if !self.can_go_on(cx)
                && let Some(term) = &mut cx.state.term
            {
                term.begin_ending(cx.now, EndReason::Superseded, &mut cx.state.outbox.ready);
            }
        }
    }

    /// Returns whether the members that have not refused this round are enough, without the store
    /// or beside it. A store that is silent may answer again: it counts until the middle of the
    /// time from a renewal that it has missed to the renew deadline. Then there is still time to
    /// end the term in order.
    fn can_go_on(&self, cx: &Context<'_>) -> bool {
        let (Role::Leading(round), Some(needed)) = (&self.role, Self::beside_store(cx.state))
        else {
            return false;
        };
        let left = cx.state.settings.members.len() - round.refused.len();
        let timings = cx.state.settings.timings.term();
        let patience = (timings.renew_interval() + timings.renew_deadline()) / 2;
        let promise = self.store.promise.filter(|(of, _)| *of == round.epoch);
        let store = promise.is_some_and(|(_, sent)| cx.now < sent + patience);
        left >= Self::without_store(cx.state) || (store && left >= needed)
    }

    /// Follows the sender of a renewal. The sender has won the epoch, so no other candidate can win
    /// it, whichever member this member voted for. Unless this member has promised a greater epoch,
    /// the majority that voted for the sender has waited for the end of all earlier promises.
    pub(super) fn handle_renew(
        &mut self,
        cx: &mut Context<'_>,
        (sender, epoch): (Process, Epoch),
        round: u64,
    ) {
        let from = sender.node;
        let highest = cx.state.record.highest;
        if Some(epoch) < highest {
            let rejected = QuorumMessage::VoteRejected { epoch, highest };
            cx.state.send(from, rejected);
            return self.hear_of_leader(cx, (from, epoch));
        }
        if matches!(self.role, Role::Leading { .. }) {
            cx.state.supersede(cx.now);
        }
        if (highest, cx.state.record.voted) == (Some(epoch), Some(from)) {
            self.promise(cx, sender);
        } else {
            self.grant(cx, sender, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.role = Role::Following { leader };
            // The leader reaches a majority, so this member may reach one as well, also if its last
            // attempt failed because it started first. Its next attempt decides.
            self.connected = true;
            self.silent.clear();
            self.followed_since = cx.now;
            self.tick_at = cx.now + cx.state.settings.timings.term().renew_interval();
        }
        self.deferrals = 0;
        cx.state.see_leader(Some((from, epoch)));
        cx.state
            .send(from, QuorumMessage::RenewAck { epoch, round });
    }

    /// Learns of a leader that this member can't promise, and that goes on without it
    /// ([`can_go_on`](Self::can_go_on)). The member asks for no votes before the next renewal is
    /// due: the leader's voters would refuse.
    fn hear_of_leader(&mut self, cx: &mut Context<'_>, leader: (NodeId, Epoch)) {
        let follows_none = matches!(
            self.role,
            Role::Following { leader: None } | Role::PreVoting { .. }
        );
        if Self::beside_store(cx.state).is_some() && follows_none {
            self.role = Role::Following { leader: None };
            cx.state.see_leader(Some(leader));
            let interval = cx.state.settings.timings.term().renew_interval();
            self.tick_at = cx.now + interval + cx.lifetime();
        }
    }

    /// Stops sending renewals after the term is lost. The leader's own promise still binds it,
    /// because its task may still run.
    pub(in crate::bully) fn lost(&mut self, cx: &mut Context<'_>) {
        if matches!(self.role, Role::Leading { .. }) {
            self.lose_leader(cx);
        }
    }

    /// Releases the promises of this epoch, because the task is gone. The release names its epoch,
    /// since it may arrive late.
    pub(in crate::bully) fn release(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        to: Option<NodeId>,
    ) {
        let own = (Some(epoch), Some(cx.state.me()));
        let is_own = (cx.state.record.highest, cx.state.record.voted) == own;
        if is_own {
            self.promise_until = None;
            self.lose_leader(cx);
            if to.is_some() {
                self.tick_at = cx.now + cx.lifetime() * 4;
            }
        }
        cx.state.send_all(QuorumMessage::Release { epoch, to });
        if is_own {
            // After a restart, this member need not wait for the end of a promise that is void. The
            // release does not wait for the disk.
            cx.state.record.voted = None;
            cx.state.persist();
        }
    }

    pub(super) fn handle_release(
        &mut self,
        cx: &mut Context<'_>,
        (from, epoch, to): (NodeId, Epoch, Option<NodeId>),
    ) {
        if cx.state.record.voted != Some(from) || cx.state.record.highest != Some(epoch) {
            return;
        }
        self.promise_until = None;
        self.lose_leader(cx);
        let lifetime = cx.lifetime();
        match to {
            Some(to) if to == cx.state.me() => self.deferrals = MAX_DEFERRALS,
            // The chosen successor asks for votes first.
            Some(_) => self.tick_at = cx.now + lifetime * 3 + cx.random.up_to(lifetime),
            None => self.tick_at = cx.now + cx.random.up_to(lifetime / 2),
        }
    }

    /// Handles the request of a better member that has followed for its hold-down. It gets the lead
    /// if it has answered the current round, so that the lead does not go to a member that has
    /// failed again.
    pub(super) fn handle_transfer_request(
        &self,
        cx: &mut Context<'_>,
        from: NodeId,
        of_epoch: Epoch,
    ) {
        let Role::Leading(round) = &self.role else {
            return;
        };
        let settings = cx.state.settings.clone();
        let wanted = settings.preempt() && settings.members.is_better(from, settings.me);
        if wanted
            && round.epoch == of_epoch
            && round.acks.contains(&from)
            && let Some(term) = &mut cx.state.term
        {
            term.hand_over(cx.now, from, &mut cx.state.outbox.ready);
        }
    }
}
