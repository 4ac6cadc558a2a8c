//! Staying the leader, following one, and letting go.

use alloc::collections::BTreeSet;

use super::{MAX_DEFERRALS, Quorum, Role};
use crate::bully::node_state::NodeState;
use crate::bully::settings::lacks;
use crate::bully::{NodeId, PeerMessage, QuorumMessage};
use crate::election::{EndReason, TermEvent};
use crate::{Epoch, Instant, Random};

impl Quorum {
    /// It has won: everybody is told at once, by the first round of renewals.
    pub(super) fn lead(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        epoch: Epoch,
        random: &mut dyn Random,
    ) {
        self.role = Role::Leading {
            epoch,
            round: 0,
            asked: now,
            acks: base.settings.members.iter().collect(),
            at_risk: false,
        };
        self.next_round(base, now, random);
    }

    pub(in crate::bully) fn next_round(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let majority = Self::majority(base);
        let me = base.me();
        let Role::Leading {
            epoch,
            round,
            asked,
            acks,
            at_risk,
        } = &mut self.role
        else {
            return;
        };
        self.connected = acks.len() >= majority;
        if !self.connected && !*at_risk {
            *at_risk = true;
            base.outbox.emit(TermEvent::AtRisk(true));
        }
        *round += 1;
        *asked = now;
        *acks = BTreeSet::from([me]);
        let renew = QuorumMessage::Renew {
            epoch: *epoch,
            round: *round,
        };
        // Its own promise must cover the lease like everybody's.
        self.promise(base, now);
        self.look_at = now + base.settings.timings.message_lifetime();
        base.send_all(PeerMessage::Quorum(renew));
        self.count_round(base, now, random);
    }

    /// The lease counts from when this round was asked for, not from its answers: the promises that
    /// came in were given in between.
    fn count_round(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let majority = Self::majority(base);
        let Role::Leading {
            asked,
            acks,
            at_risk,
            ..
        } = &mut self.role
        else {
            return;
        };
        if acks.len() != majority {
            return;
        }
        let from = if lacks!(base.settings, CountFromRound) {
            now
        } else {
            *asked
        };
        if let Some(term) = &mut base.term {
            term.renew(from);
        }
        let interval = base.settings.timings.term().renew_interval();
        self.look_at = *asked + random.jitter(interval);
        if core::mem::take(at_risk) {
            base.outbox.emit(TermEvent::AtRisk(false));
        }
    }

    pub(super) fn hear_renew_ack(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, of_epoch, of_round): (NodeId, Epoch, u64),
        random: &mut dyn Random,
    ) {
        if let Role::Leading {
            epoch, round, acks, ..
        } = &mut self.role
            && (*epoch, *round) == (of_epoch, of_round)
            && acks.insert(from)
        {
            self.count_round(base, now, random);
        }
    }

    /// A member that has promised a greater epoch can't follow in this term, so a majority would be
    /// that much thinner for as long as it lasts. The leader begins a new term, in order: it leads
    /// until its task is gone, and its next epoch is greater.
    pub(super) fn hear_nack(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        refused: Epoch,
        highest: Option<Epoch>,
    ) {
        self.known = self.known.max(highest);
        if let Role::Leading { epoch, .. } = self.role
            && epoch == refused
            && highest > Some(epoch)
            && let Some(term) = &mut base.term
        {
            term.begin_ending(now, EndReason::Superseded, &mut base.outbox.ready);
        }
    }

    /// Who renews has won the epoch. So nobody else can win that one, whoever has this vote for it; and
    /// if nothing greater is promised here, the majority that voted has outwaited whatever was promised
    /// before. It is followed.
    pub(super) fn hear_renew(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, epoch): (NodeId, Epoch),
        round: u64,
    ) {
        let highest = base.record.highest;
        if Some(epoch) < highest {
            let nack = QuorumMessage::VoteRejected { epoch, highest };
            return base.send(from, PeerMessage::Quorum(nack));
        }
        if matches!(self.role, Role::Leading { .. }) {
            base.supersede(now);
        }
        if (highest, base.record.voted) == (Some(epoch), Some(from)) {
            self.promise(base, now);
        } else {
            self.grant(base, now, from, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.role = Role::Following { leader };
            // The leader reaches a majority, so this one may, too, whatever came of its last attempt: it
            // may have been the first to start. It shows when it next tries.
            self.connected = true;
            self.silent.clear();
            self.followed_since = now;
            self.look_at = now + base.settings.timings.term().renew_interval();
        }
        self.deferrals = 0;
        base.see_leader(Some((from, epoch)));
        base.send(
            from,
            PeerMessage::Quorum(QuorumMessage::RenewAck { epoch, round }),
        );
    }

    /// A leader whose term is lost asks for nothing more. Its own promise binds it on: its task may
    /// still be going.
    pub(in crate::bully) fn lost(&mut self, base: &mut NodeState, now: Instant) {
        if matches!(self.role, Role::Leading { .. }) {
            self.lose_leader(base, now);
        }
    }

    /// The task is gone, so nobody needs the promises of this epoch any more, and only of this one: a
    /// release may come late.
    pub(in crate::bully) fn release(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        epoch: Epoch,
        to: Option<NodeId>,
    ) {
        let own = (Some(epoch), Some(base.me()));
        if (base.record.highest, base.record.voted) == own {
            self.promise_until = None;
            self.lose_leader(base, now);
            if to.is_some() {
                self.look_at = now + base.settings.timings.message_lifetime() * 4;
            }
        }
        base.send_all(PeerMessage::Quorum(QuorumMessage::Release { epoch, to }));
    }

    pub(super) fn hear_release(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, epoch, to): (NodeId, Epoch, Option<NodeId>),
        random: &mut dyn Random,
    ) {
        let own = base.record.highest == Some(epoch) || lacks!(base.settings, ReleaseOwn);
        if base.record.voted != Some(from) || !own {
            return;
        }
        self.promise_until = None;
        self.lose_leader(base, now);
        let lifetime = base.settings.timings.message_lifetime();
        match to {
            Some(to) if to == base.me() => self.deferrals = MAX_DEFERRALS,
            // The one who is meant has the first word.
            Some(_) => self.look_at = now + lifetime * 3 + random.up_to(lifetime),
            None => self.look_at = now + random.up_to(lifetime / 2),
        }
    }

    /// A better member wants the place. It has followed for its hold-down; it gets it if it answered
    /// just now, so that it is not given to one that has gone again.
    pub(super) fn handle_transfer_request(
        &self,
        base: &mut NodeState,
        now: Instant,
        from: NodeId,
        of_epoch: Epoch,
    ) {
        let Role::Leading { epoch, acks, .. } = &self.role else {
            return;
        };
        let settings = base.settings.clone();
        let wanted = settings.preempt() && settings.members.is_better(from, settings.me);
        if wanted
            && *epoch == of_epoch
            && acks.contains(&from)
            && let Some(term) = &mut base.term
        {
            term.hand_over(now, from, &mut base.outbox.ready);
        }
    }
}
