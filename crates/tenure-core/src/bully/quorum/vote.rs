//! Becoming the leader, and voting for others.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, PreVoteAnswer, Quorum, Role, SOONEST};
use crate::bully::node_state::NodeState;
use crate::bully::settings::mutation;
use crate::bully::{NodeId, PeerMessage, QuorumMessage};
use crate::{Epoch, Instant, Random};

impl Quorum {
    /// Asks all members whether they would vote for it. Binds nobody.
    pub(super) fn pre_vote(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        self.round += 1;
        self.role = Role::PreVoting {
            replies: BTreeMap::new(),
        };
        self.tick_at = now + state.settings.timings.message_lifetime();
        state.send_all(PeerMessage::Quorum(QuorumMessage::PreVote {
            round: self.round,
        }));
        self.decide_pre_vote_early(state, now, random);
    }

    pub(super) fn handle_pre_vote(
        &self,
        state: &mut NodeState,
        now: Instant,
        from: NodeId,
        round: u64,
    ) {
        let reply = QuorumMessage::PreVoteReply {
            round,
            highest: state.record.highest,
            bound: self.bound_elsewhere(state, now, from),
            can_lead: self.connected && state.may_campaign(now),
        };
        state.send(from, PeerMessage::Quorum(reply));
    }

    /// Ends the pre-vote as soon as no missing answer can change its outcome. A candidate does not
    /// wait for silent members. Once a majority is free, only the answers of better members matter,
    /// which may go first.
    pub(super) fn decide_pre_vote_early(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let settings = state.settings.clone();
        let settled = |other| replies.contains_key(&other) || self.silent.contains(&other);
        let all = settings.members.others(settings.me).all(settled);
        let better = || settings.members.better(settings.me).all(settled);
        if all || (Self::free_in(state, replies) == Some(Duration::ZERO) && better()) {
            self.decide_pre_vote(state, now, random);
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
    pub(super) fn decide_pre_vote(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let free_in = Self::free_in(state, replies);
        self.connected = free_in.is_some();
        let free = free_in == Some(Duration::ZERO);
        let settings = state.settings.clone();
        let mut better = settings.members.better(settings.me);
        // A better member that is bound for long can't lead soon.
        let lifetime = settings.timings.message_lifetime();
        let could =
            |reply: &PreVoteAnswer| reply.can_lead && reply.bound.unwrap_or_default() < lifetime;
        let defers = better.any(|better| replies.get(&better).is_some_and(could));
        let defers = defers && self.deferrals < MAX_DEFERRALS;
        if free && !defers && state.may_campaign(now) && state.outbox.is_durable() {
            return self.request_votes(state, now);
        }
        self.deferrals += u32::from(free && defers);
        self.role = Role::Following { leader: None };
        // Promises to one leader end at nearly the same time, so it may be a matter of
        // milliseconds.
        let wait = free_in.filter(|_| !free).unwrap_or(lifetime);
        self.tick_at = now + wait.max(lifetime / SOONEST).min(random.jitter(lifetime));
    }

    /// Asks for votes, for an epoch greater than all that it knows of.
    pub(in crate::bully) fn request_votes(&mut self, state: &mut NodeState, now: Instant) {
        let Some(epoch) = state.next_epoch(now, self.known) else {
            self.role = Role::Following { leader: None };
            return;
        };
        self.deferrals = 0;
        self.grant(state, now, state.me(), epoch);
        self.role = Role::Voting {
            epoch,
            // Before the first request leaves: the lease counts from here.
            asked: now,
            acks: BTreeSet::new(),
        };
        self.tick_at = now + state.settings.timings.message_lifetime() * 2;
        state.send_all(PeerMessage::Quorum(QuorumMessage::RequestVote { epoch }));
    }

    /// Promises `epoch` to one member. The record is on its way to the disk before any message can
    /// mention the promise.
    pub(super) fn grant(&mut self, state: &mut NodeState, now: Instant, to: NodeId, epoch: Epoch) {
        state.record.highest = Some(epoch);
        state.record.voted = Some(to);
        let promised = state.settings.timings.term().lease_duration();
        state.record.promised_ms = Some(crate::time::millis(promised));
        if !mutation!(state.settings, DurablePromise) {
            state.persist();
        }
        self.promise(state, now);
    }

    /// All records are on disk: its own vote counts now.
    pub(in crate::bully) fn handle_persisted(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let me = state.me();
        if let Role::Voting { acks, .. } = &mut self.role
            && acks.insert(me)
        {
            self.tick_at = now + state.settings.timings.message_lifetime() * 2;
            self.try_win(state, now, random);
        }
    }

    /// A vote is refused while a promise binds, and then the epoch is *not* raised: a candidate
    /// that is refused leaves no trace.
    pub(super) fn handle_request_vote(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        from: NodeId,
        epoch: Epoch,
    ) {
        let highest = state.record.highest;
        let stale =
            Some(epoch) < highest || (Some(epoch) == highest && state.record.voted != Some(from));
        let bound =
            self.is_promised_elsewhere(state, now, from) && !mutation!(state.settings, Promise);
        if stale || bound {
            let rejected = QuorumMessage::VoteRejected { epoch, highest };
            return state.send(from, PeerMessage::Quorum(rejected));
        }
        // The same request again: its answer was lost. The promise exists already, and is on disk
        // or on its way.
        if Some(epoch) == highest {
            self.promise(state, now);
        } else {
            self.grant(state, now, from, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.lose_leader(state, now);
        }
        state.send(
            from,
            PeerMessage::Quorum(QuorumMessage::VoteGranted { epoch }),
        );
    }

    pub(super) fn handle_vote_granted(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        (from, voted): (NodeId, Epoch),
        random: &mut dyn Random,
    ) {
        if let Role::Voting { epoch, acks, .. } = &mut self.role
            && *epoch == voted
        {
            acks.insert(from);
            self.try_win(state, now, random);
        }
    }

    fn try_win(&mut self, state: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, asked, acks } = &self.role else {
            return;
        };
        let lease = state.settings.timings.term().renew_deadline();
        // Votes that come too late are of no use: the lease that they give is over.
        let in_time = now < *asked + lease;
        let durable = state.outbox.is_durable();
        if acks.len() < Self::majority(state) || !in_time || !durable || !state.may_campaign(now) {
            return;
        }
        let (epoch, asked) = (*epoch, *asked);
        let asked = if mutation!(state.settings, CountFromRequest) {
            now
        } else {
            asked
        };
        self.failures = 0;
        state.begin(now, epoch, asked);
        self.lead(state, now, epoch, random);
    }

    /// Too few votes: the candidate releases them, so that no member has to wait until they end.
    /// Late votes do not count, because the next vote is for another epoch.
    pub(super) fn give_up(&mut self, state: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, .. } = self.role else {
            return;
        };
        state.send_all(PeerMessage::Quorum(QuorumMessage::Release {
            epoch,
            to: None,
        }));
        self.promise_until = None;
        self.role = Role::Following { leader: None };
        let lifetime = state.settings.timings.message_lifetime();
        let most = lifetime * 2 * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.tick_at = now + lifetime / 2 + random.up_to(most);
    }
}
