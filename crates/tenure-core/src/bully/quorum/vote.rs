//! Winning an election, and voting for other members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, PreVoteAnswer, Quorum, Role, SOONEST};
use crate::Epoch;
use crate::bully::node_state::{Context, NodeState};
use crate::bully::settings::mutation;
use crate::bully::{NodeId, QuorumMessage};

impl Quorum {
    /// Asks all members whether they would vote for this one. The answers bind nobody.
    pub(super) fn pre_vote(&mut self, cx: &mut Context<'_>) {
        self.round += 1;
        self.role = Role::PreVoting {
            replies: BTreeMap::new(),
        };
        self.tick_at = cx.now + cx.lifetime();
        cx.state
            .send_all(QuorumMessage::PreVote { round: self.round });
        self.decide_pre_vote_early(cx);
    }

    pub(super) fn handle_pre_vote(&self, cx: &mut Context<'_>, from: NodeId, round: u64) {
        let reply = QuorumMessage::PreVoteReply {
            round,
            highest: cx.state.record.highest,
            bound: self.bound_elsewhere(cx, from),
            can_lead: self.connected && cx.state.may_campaign(cx.now),
        };
        cx.state.send(from, reply);
    }

    /// Ends the pre-vote as soon as no missing answer can change its outcome. The candidate does
    /// not wait for silent members. Once a majority is free to vote, only the answers of better
    /// members matter, because the candidate may defer to them.
    pub(super) fn decide_pre_vote_early(&mut self, cx: &mut Context<'_>) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let settings = cx.state.settings.clone();
        let settled = |other| replies.contains_key(&other) || self.silent.contains(&other);
        let all = settings.members.others(settings.me).all(settled);
        let better = || settings.members.better(settings.me).all(settled);
        if all || (Self::free_in(cx.state, replies) == Some(Duration::ZERO) && better()) {
            self.decide_pre_vote(cx);
        }
    }

    /// Returns the time until a majority, made up of this member and members that have replied, is
    /// free to vote; `None` if too few have replied.
    fn free_in(state: &NodeState, replies: &BTreeMap<NodeId, PreVoteAnswer>) -> Option<Duration> {
        let bounds = replies
            .values()
            .map(|reply| reply.bound.unwrap_or_default());
        let mut bounds: Vec<Duration> = bounds.collect();
        bounds.sort_unstable();
        // This member's own vote is free.
        match Self::majority(state) - 1 {
            0 => Some(Duration::ZERO),
            others => bounds.get(others - 1).copied(),
        }
    }

    /// Ends the pre-vote: asks for votes, or returns to following.
    pub(super) fn decide_pre_vote(&mut self, cx: &mut Context<'_>) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let free_in = Self::free_in(cx.state, replies);
        self.connected = free_in.is_some();
        let free = free_in == Some(Duration::ZERO);
        let settings = cx.state.settings.clone();
        let mut better = settings.members.better(settings.me);
        // A better member that a promise binds for long can't lead soon.
        let lifetime = settings.timings.message_lifetime();
        let could =
            |reply: &PreVoteAnswer| reply.can_lead && reply.bound.unwrap_or_default() < lifetime;
        let defers = better.any(|better| replies.get(&better).is_some_and(could));
        let defers = defers && self.deferrals < MAX_DEFERRALS;
        if free && !defers && cx.state.may_campaign(cx.now) && cx.state.outbox.is_durable() {
            return self.request_votes(cx);
        }
        self.deferrals += u32::from(free && defers);
        self.role = Role::Following { leader: None };
        // The promises to one leader end at nearly the same time, so the next attempt may succeed
        // within milliseconds.
        let wait = free_in.filter(|_| !free).unwrap_or(lifetime);
        self.tick_at = cx.now + wait.max(lifetime / SOONEST).min(cx.random.jitter(lifetime));
    }

    /// Asks for votes under an epoch that is greater than all known epochs.
    pub(in crate::bully) fn request_votes(&mut self, cx: &mut Context<'_>) {
        let Some(epoch) = cx.state.next_epoch(cx.now, self.known) else {
            self.role = Role::Following { leader: None };
            return;
        };
        self.deferrals = 0;
        self.grant(cx, cx.state.me(), epoch);
        self.role = Role::Voting {
            epoch,
            // The time is taken before the first request leaves, because the lease counts from it.
            asked: cx.now,
            acks: BTreeSet::new(),
        };
        self.tick_at = cx.now + cx.lifetime() * 2;
        cx.state.send_all(QuorumMessage::RequestVote { epoch });
    }

    /// Promises `epoch` to one member. The write of the record begins before any message can
    /// mention the promise.
    pub(super) fn grant(&mut self, cx: &mut Context<'_>, to: NodeId, epoch: Epoch) {
        cx.state.record.highest = Some(epoch);
        cx.state.record.voted = Some(to);
        let promised = cx.state.settings.timings.term().lease_duration();
        cx.state.record.promised_ms = Some(crate::time::millis(promised));
        if !mutation!(cx.state.settings, DurablePromise) {
            cx.state.persist();
        }
        self.promise(cx);
    }

    /// Counts this member's own vote, because all records are on disk.
    pub(in crate::bully) fn handle_persisted(&mut self, cx: &mut Context<'_>) {
        let me = cx.state.me();
        if let Role::Voting { acks, .. } = &mut self.role
            && acks.insert(me)
        {
            self.tick_at = cx.now + cx.lifetime() * 2;
            self.try_win(cx);
        }
    }

    /// Votes for the sender, or refuses. While a promise to another member binds, the vote is
    /// refused and the epoch is *not* raised: a refused candidate changes no state.
    pub(super) fn handle_request_vote(&mut self, cx: &mut Context<'_>, from: NodeId, epoch: Epoch) {
        let highest = cx.state.record.highest;
        let stale = Some(epoch) < highest
            || (Some(epoch) == highest && cx.state.record.voted != Some(from));
        let bound =
            self.bound_elsewhere(cx, from).is_some() && !mutation!(cx.state.settings, Promise);
        if stale || bound {
            let rejected = QuorumMessage::VoteRejected { epoch, highest };
            return cx.state.send(from, rejected);
        }
        // This is a repeated request, because the answer was lost. The promise exists already, and
        // is on disk or being written.
        if Some(epoch) == highest {
            self.promise(cx);
        } else {
            self.grant(cx, from, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.lose_leader(cx);
        }
        cx.state.send(from, QuorumMessage::VoteGranted { epoch });
    }

    pub(super) fn try_win(&mut self, cx: &mut Context<'_>) {
        let Role::Voting { epoch, asked, acks } = &self.role else {
            return;
        };
        let lease = cx.state.settings.timings.term().renew_deadline();
        // Votes that arrive too late are useless: the lease that they would give is over.
        let in_time = cx.now < *asked + lease;
        let durable = cx.state.outbox.is_durable();
        if acks.len() < Self::majority(cx.state)
            || !in_time
            || !durable
            || !cx.state.may_campaign(cx.now)
        {
            return;
        }
        let (epoch, asked) = (*epoch, *asked);
        let asked = if mutation!(cx.state.settings, CountFromRequest) {
            cx.now
        } else {
            asked
        };
        self.failures = 0;
        cx.state.begin(cx.now, epoch, asked);
        self.lead(cx, epoch);
    }

    /// Ends a vote with too few answers. The candidate releases the votes, so that no member has to
    /// wait until they end. Late votes do not count, because the next vote is for another epoch.
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>) {
        let Role::Voting { epoch, .. } = self.role else {
            return;
        };
        cx.state
            .send_all(QuorumMessage::Release { epoch, to: None });
        self.promise_until = None;
        self.role = Role::Following { leader: None };
        let lifetime = cx.lifetime();
        let most = lifetime * 2 * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.tick_at = cx.now + lifetime / 2 + cx.random.up_to(most);
    }
}
