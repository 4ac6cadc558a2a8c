//! Becoming the leader, and voting for others.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, PreVoteAnswer, Quorum, Role, SOONEST};
use crate::Epoch;
use crate::bully::node_state::{Context, NodeState};
use crate::bully::settings::mutation;
use crate::bully::{NodeId, QuorumMessage};

impl Quorum {
    /// Asks all members whether they would vote for it. Binds nobody.
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

    /// Ends the pre-vote as soon as no missing answer can change its outcome. A candidate does not
    /// wait for silent members. Once a majority is free, only the answers of better members matter,
    /// which may go first.
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

    /// After what time a majority of the members that have replied is free to vote; `None` if too
    /// few have replied.
    fn free_in(state: &NodeState, replies: &BTreeMap<NodeId, PreVoteAnswer>) -> Option<Duration> {
        let bounds = replies
            .values()
            .map(|reply| reply.bound.unwrap_or_default());
        let mut bounds: Vec<Duration> = bounds.collect();
        bounds.sort_unstable();
        // Its own vote is free.
        match Self::majority(state) - 1 {
            0 => Some(Duration::ZERO),
            others => bounds.get(others - 1).copied(),
        }
    }

    /// The pre-vote is over: ask for votes, or leave it.
    pub(super) fn decide_pre_vote(&mut self, cx: &mut Context<'_>) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let free_in = Self::free_in(cx.state, replies);
        self.connected = free_in.is_some();
        let free = free_in == Some(Duration::ZERO);
        let settings = cx.state.settings.clone();
        let mut better = settings.members.better(settings.me);
        // A better member that is bound for long can't lead soon.
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
        // Promises to one leader end at nearly the same time, so it may be a matter of
        // milliseconds.
        let wait = free_in.filter(|_| !free).unwrap_or(lifetime);
        self.tick_at = cx.now + wait.max(lifetime / SOONEST).min(cx.random.jitter(lifetime));
    }

    /// Asks for votes, for an epoch greater than all that it knows of.
    pub(in crate::bully) fn request_votes(&mut self, cx: &mut Context<'_>) {
        let Some(epoch) = cx.state.next_epoch(cx.now, self.known) else {
            self.role = Role::Following { leader: None };
            return;
        };
        self.deferrals = 0;
        self.grant(cx, cx.state.me(), epoch);
        self.role = Role::Voting {
            epoch,
            // Before the first request leaves: the lease counts from here.
            asked: cx.now,
            acks: BTreeSet::new(),
        };
        self.tick_at = cx.now + cx.lifetime() * 2;
        cx.state.send_all(QuorumMessage::RequestVote { epoch });
    }

    /// Promises `epoch` to one member. The record is on its way to the disk before any message can
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

    /// All records are on disk: its own vote counts now.
    pub(in crate::bully) fn handle_persisted(&mut self, cx: &mut Context<'_>) {
        let me = cx.state.me();
        if let Role::Voting { acks, .. } = &mut self.role
            && acks.insert(me)
        {
            self.tick_at = cx.now + cx.lifetime() * 2;
            self.try_win(cx);
        }
    }

    /// A vote is refused while a promise binds, and then the epoch is *not* raised: a candidate
    /// that is refused leaves no trace.
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
        // The same request again: its answer was lost. The promise exists already, and is on disk
        // or on its way.
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
        // Votes that come too late are of no use: the lease that they give is over.
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

    /// Too few votes: the candidate releases them, so that no member has to wait until they end.
    /// Late votes do not count, because the next vote is for another epoch.
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
