//! Leading, following a leader, and releasing promises.

use alloc::collections::BTreeSet;

use super::{MAX_DEFERRALS, Quorum, Role, Round};
use crate::Epoch;
use crate::bully::node_state::Context;
use crate::bully::settings::mutation;
use crate::bully::{NodeId, QuorumMessage};
use crate::election::{EndReason, TermEvent};

impl Quorum {
    /// Begins to lead after a won vote. The first round of renewals notifies all members at once.
    pub(super) fn lead(&mut self, cx: &mut Context<'_>, epoch: Epoch) {
        self.role = Role::Leading(Round {
            epoch,
            number: 0,
            asked: cx.now,
            acks: cx.state.settings.members.iter().collect(),
            at_risk: false,
        });
        self.next_round(cx);
    }

    pub(in crate::bully) fn next_round(&mut self, cx: &mut Context<'_>) {
        let majority = Self::majority(cx.state);
        let Role::Leading(round) = &mut self.role else {
            return;
        };
        self.connected = round.acks.len() >= majority;
        if !self.connected && !round.at_risk {
            round.at_risk = true;
            cx.state.outbox.ready.emit(TermEvent::AtRisk(true));
        }
        round.number += 1;
        round.asked = cx.now;
        round.acks = BTreeSet::from([cx.state.me()]);
        let (epoch, round) = (round.epoch, round.number);
        // The leader's own promise must cover the lease like every other promise.
        self.promise(cx);
        self.tick_at = cx.now + cx.lifetime();
        cx.state.send_all(QuorumMessage::Renew { epoch, round });
        self.count_round(cx);
    }

    /// Renews the term if a majority has answered the round. The lease counts from the start of
    /// this round, not from its answers: the members renewed their promises in between.
    pub(super) fn count_round(&mut self, cx: &mut Context<'_>) {
        let majority = Self::majority(cx.state);
        let Role::Leading(round) = &mut self.role else {
            return;
        };
        if round.acks.len() != majority {
            return;
        }
        let from = if mutation!(cx.state.settings, CountFromRound) {
            cx.now
        } else {
            round.asked
        };
        if let Some(term) = &mut cx.state.term {
            term.renew(from);
        }
        let interval = cx.state.settings.timings.term().renew_interval();
        self.tick_at = round.asked + cx.random.jitter(interval);
        if core::mem::take(&mut round.at_risk) {
            cx.state.outbox.ready.emit(TermEvent::AtRisk(false));
        }
    }

    /// Begins a new term in order if a member has promised a greater epoch. That member can't
    /// follow in this term, so the leader would have one possible vote fewer until the term ends.
    /// The leader leads until its task is gone, and its next epoch is greater.
    pub(super) fn handle_vote_rejected(
        &mut self,
        cx: &mut Context<'_>,
        refused: Epoch,
        highest: Option<Epoch>,
    ) {
        self.known = self.known.max(highest);
        if let Role::Leading(round) = &self.role
            && round.epoch == refused
            && highest > Some(refused)
            && let Some(term) = &mut cx.state.term
        {
            term.begin_ending(cx.now, EndReason::Superseded, &mut cx.state.outbox.ready);
        }
    }

    /// Follows the sender of a renewal. The sender has won the epoch, so no other candidate can win
    /// it, whichever member this member voted for. Unless this member has promised a greater epoch,
    /// the majority that voted for the sender has waited for the end of all earlier promises.
    pub(super) fn handle_renew(
        &mut self,
        cx: &mut Context<'_>,
        (from, epoch): (NodeId, Epoch),
        round: u64,
    ) {
        let highest = cx.state.record.highest;
        if Some(epoch) < highest {
            let rejected = QuorumMessage::VoteRejected { epoch, highest };
            return cx.state.send(from, rejected);
        }
        if matches!(self.role, Role::Leading { .. }) {
            cx.state.supersede(cx.now);
        }
        if (highest, cx.state.record.voted) == (Some(epoch), Some(from)) {
            self.promise(cx);
        } else {
            self.grant(cx, from, epoch);
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
        if (cx.state.record.highest, cx.state.record.voted) == own {
            self.promise_until = None;
            self.lose_leader(cx);
            if to.is_some() {
                self.tick_at = cx.now + cx.lifetime() * 4;
            }
        }
        cx.state.send_all(QuorumMessage::Release { epoch, to });
    }

    pub(super) fn handle_release(
        &mut self,
        cx: &mut Context<'_>,
        (from, epoch, to): (NodeId, Epoch, Option<NodeId>),
    ) {
        let own =
            cx.state.record.highest == Some(epoch) || mutation!(cx.state.settings, ReleaseOwn);
        if cx.state.record.voted != Some(from) || !own {
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
