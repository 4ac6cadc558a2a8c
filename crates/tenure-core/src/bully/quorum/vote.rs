//! Becoming the leader, and helping others to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, PreVoteAnswer, Quorum, Role, SOONEST};
use crate::bully::node_state::NodeState;
use crate::bully::settings::lacks;
use crate::bully::{NodeId, PeerMessage, QuorumMessage};
use crate::{Epoch, Instant, Random};

impl Quorum {
    /// Asks everybody, binding nobody.
    pub(super) fn poll(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        self.round += 1;
        self.role = Role::PreVoting {
            replies: BTreeMap::new(),
        };
        self.look_at = now + base.settings.timings.message_lifetime();
        base.send_all(PeerMessage::Quorum(QuorumMessage::PreVote {
            round: self.round,
        }));
        self.judge_if_decided(base, now, random);
    }

    pub(super) fn hear_pre_vote(
        &self,
        base: &mut NodeState,
        now: Instant,
        from: NodeId,
        round: u64,
    ) {
        let reply = QuorumMessage::PreVoteReply {
            round,
            highest: base.record.highest,
            bound: self.bound_elsewhere(base, now, from),
            can_lead: self.connected && base.may_stand(now),
        };
        base.send(from, PeerMessage::Quorum(reply));
    }

    /// Nobody waits for who is silent. And once a majority is free, only the better ones matter, who
    /// may go first.
    pub(super) fn judge_if_decided(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let settings = base.settings.clone();
        let settled = |other| replies.contains_key(&other) || self.silent.contains(&other);
        let all = settings.members.others(settings.me).all(settled);
        let better = || settings.members.better(settings.me).all(settled);
        if all || (Self::free_in(base, replies) == Some(Duration::ZERO) && better()) {
            self.judge(base, now, random);
        }
    }

    /// In what time a majority of those who have replied will be free to vote; `None` if too few have.
    fn free_in(base: &NodeState, replies: &BTreeMap<NodeId, PreVoteAnswer>) -> Option<Duration> {
        let bounds = replies
            .values()
            .map(|reply| reply.bound.unwrap_or_default());
        let mut bounds: Vec<Duration> = bounds.collect();
        bounds.sort_unstable();
        // Its own vote is free.
        match Self::majority(base) - 1 {
            0 => Some(Duration::ZERO),
            others => bounds.get(others - 1).copied(),
        }
    }

    /// The pre-vote is over: stand, or leave it.
    pub(super) fn judge(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let free_in = Self::free_in(base, replies);
        self.connected = free_in.is_some();
        let free = free_in == Some(Duration::ZERO);
        let settings = base.settings.clone();
        let mut better = settings.members.better(settings.me);
        // Who is bound for long can't lead soon, whatever it is.
        let lifetime = settings.timings.message_lifetime();
        let could =
            |reply: &PreVoteAnswer| reply.can_lead && reply.bound.unwrap_or_default() < lifetime;
        let defers = better.any(|better| replies.get(&better).is_some_and(could));
        let defers = defers && self.deferrals < MAX_DEFERRALS;
        if free && !defers && base.may_stand(now) && base.outbox.is_durable() {
            return self.stand(base, now);
        }
        self.deferrals += u32::from(free && defers);
        self.role = Role::Following { leader: None };
        // Promises to one leader end at nearly the same time, so it may be a matter of milliseconds.
        let wait = free_in.filter(|_| !free).unwrap_or(lifetime);
        self.look_at = now + wait.max(lifetime / SOONEST).min(random.jitter(lifetime));
    }

    /// Asks for votes, for an epoch greater than all that it has heard of.
    pub(in crate::bully) fn stand(&mut self, base: &mut NodeState, now: Instant) {
        let Some(epoch) = base.next_epoch(now, self.known) else {
            self.role = Role::Following { leader: None };
            return;
        };
        self.deferrals = 0;
        self.grant(base, now, base.me(), epoch);
        self.role = Role::Voting {
            epoch,
            // Before the first request leaves: the lease counts from here.
            asked: now,
            acks: BTreeSet::new(),
        };
        self.look_at = now + base.settings.timings.message_lifetime() * 2;
        base.send_all(PeerMessage::Quorum(QuorumMessage::RequestVote { epoch }));
    }

    /// Promises `epoch` to one member. The record is on its way to the disk before the promise can be
    /// spoken of.
    pub(super) fn grant(&mut self, base: &mut NodeState, now: Instant, to: NodeId, epoch: Epoch) {
        base.record.highest = Some(epoch);
        base.record.voted = Some(to);
        let promised = base.settings.timings.term().lease_duration();
        base.record.promised_ms = Some(crate::time::millis(promised));
        if !lacks!(base.settings, DurablePromise) {
            base.persist();
        }
        self.promise(base, now);
    }

    /// Everything is on disk: its own vote counts now.
    pub(in crate::bully) fn persisted(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let me = base.me();
        if let Role::Voting { acks, .. } = &mut self.role
            && acks.insert(me)
        {
            self.look_at = now + base.settings.timings.message_lifetime() * 2;
            self.try_win(base, now, random);
        }
    }

    /// A vote is refused while a promise binds, and then the epoch is *not* raised: a candidate that
    /// is refused leaves no trace.
    pub(super) fn hear_halt(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        from: NodeId,
        epoch: Epoch,
    ) {
        let highest = base.record.highest;
        let stale =
            Some(epoch) < highest || (Some(epoch) == highest && base.record.voted != Some(from));
        let bound = self.is_promised_elsewhere(base, now, from) && !lacks!(base.settings, Promise);
        if stale || bound {
            let nack = QuorumMessage::VoteRejected { epoch, highest };
            return base.send(from, PeerMessage::Quorum(nack));
        }
        // The same once more: the answer was lost. It is promised already, and on disk or on its way.
        if Some(epoch) == highest {
            self.promise(base, now);
        } else {
            self.grant(base, now, from, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.lose_leader(base, now);
        }
        base.send(
            from,
            PeerMessage::Quorum(QuorumMessage::VoteGranted { epoch }),
        );
    }

    pub(super) fn hear_ack(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, voted): (NodeId, Epoch),
        random: &mut dyn Random,
    ) {
        if let Role::Voting { epoch, acks, .. } = &mut self.role
            && *epoch == voted
        {
            acks.insert(from);
            self.try_win(base, now, random);
        }
    }

    fn try_win(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, asked, acks } = &self.role else {
            return;
        };
        let lease = base.settings.timings.term().renew_deadline();
        // Votes that come too late are of no use: the lease that they give is over.
        let in_time = now < *asked + lease;
        let durable = base.outbox.is_durable();
        if acks.len() < Self::majority(base) || !in_time || !durable || !base.may_stand(now) {
            return;
        }
        let (epoch, asked) = (*epoch, *asked);
        let asked = if lacks!(base.settings, CountFromRequest) {
            now
        } else {
            asked
        };
        self.failures = 0;
        base.begin(now, epoch, asked);
        self.lead(base, now, epoch, random);
    }

    /// Too few votes: they are given back, so that nobody has to wait until they end. No late one
    /// counts, because the next vote is for another epoch.
    pub(super) fn give_up(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, .. } = self.role else {
            return;
        };
        base.send_all(PeerMessage::Quorum(QuorumMessage::Release {
            epoch,
            to: None,
        }));
        self.promise_until = None;
        self.role = Role::Following { leader: None };
        let lifetime = base.settings.timings.message_lifetime();
        let most = lifetime * 2 * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.look_at = now + lifetime / 2 + random.up_to(most);
    }
}
