//! Winning an election, and voting for other members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, PreVoteAnswer, Quorum, Role, Round, SOONEST};
use crate::Epoch;
use crate::bully::node_state::{Context, Process};
use crate::bully::{NodeId, QuorumMessage};

impl Quorum {
    /// Begins a candidacy: with a pre-vote, or with a request to the store if the store answers and
    /// no other member is needed beside it.
    pub(super) fn stand(&mut self, cx: &mut Context<'_>) {
        if !self.store.away && Self::beside_store(cx.state) == Some(1) {
            self.store.may_ask = true;
            self.tick_at = cx.now + cx.state.settings.timings.term().renew_interval();
        } else {
            self.pre_vote(cx);
        }
    }

    /// Asks all members whether they would vote for this one. The answers bind nobody.
    pub(super) fn pre_vote(&mut self, cx: &mut Context<'_>) {
        self.round += 1;
        // The leader that the store has named, or that this member can't promise, is gone.
        cx.state.see_leader(None);
        self.role = Role::PreVoting {
            replies: BTreeMap::new(),
        };
        self.tick_at = cx.now + cx.lifetime();
        cx.state
            .send_all(QuorumMessage::PreVote { round: self.round });
        self.decide_pre_vote_early(cx);
    }

    pub(super) fn handle_pre_vote(&mut self, cx: &mut Context<'_>, sender: Process, round: u64) {
        let from = sender.node;
        let reply = QuorumMessage::PreVoteReply {
            round,
            highest: cx.state.record.highest,
            bound: self.bound_elsewhere(cx.state, cx.now, sender),
            can_lead: self.connected && cx.state.may_campaign(cx.now),
        };
        cx.state.send(from, reply);
        self.take_along(cx, from);
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
        let needed = Self::without_store(cx.state);
        if all || (Self::free_in(needed, replies) == Some(Duration::ZERO) && better()) {
            self.decide_pre_vote(cx);
        }
    }

    /// Returns the time until `needed` members, made up of this member and members that have
    /// replied, are free to vote; `None` if too few have replied.
    fn free_in(needed: usize, replies: &BTreeMap<NodeId, PreVoteAnswer>) -> Option<Duration> {
        let bounds = replies
            .values()
            .map(|reply| reply.bound.unwrap_or_default());
        let mut bounds: Vec<Duration> = bounds.collect();
        bounds.sort_unstable();
        // This member's own vote is free.
        match needed.saturating_sub(1) {
            0 => Some(Duration::ZERO),
            others => bounds.get(others - 1).copied(),
        }
    }

    /// Ends the pre-vote: asks for votes, or returns to following.
    pub(super) fn decide_pre_vote(&mut self, cx: &mut Context<'_>) {
        let Role::PreVoting { replies } = &self.role else {
            return;
        };
        let beside_store = Self::beside_store(cx.state);
        let beside_store = beside_store.map(|needed| Self::free_in(needed, replies));
        let free_in = Self::free_in(Self::without_store(cx.state), replies);
        self.store.may_ask = beside_store == Some(Some(Duration::ZERO));
        self.connected = free_in.is_some() || (self.store.may_ask && !self.store.away);
        // While the store answers, the candidate waits there, and asks the members for their votes
        // when the store has granted the lease. A vote binds, and a member that is bound could not
        // promise a leader that has just lost the store.
        let free = free_in == Some(Duration::ZERO) && (beside_store.is_none() || self.store.away);
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
        if self.store.may_ask && !self.store.away {
            let interval = cx.state.settings.timings.term().renew_interval();
            self.tick_at = cx.now + cx.random.jitter(interval);
            return;
        }
        // The promises to one leader end at nearly the same time, so the next attempt may succeed
        // within milliseconds.
        let free_in = match beside_store {
            Some(beside_store) if !self.store.away => beside_store,
            _ => free_in,
        };
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
        self.request_votes_for(cx, epoch, false);
    }

    /// Claims the epoch that the store has granted to this member: promises it to itself, and asks
    /// the other members for their votes if they are needed. Returns `false` if this member can't
    /// lead under the grant.
    ///
    /// The member's own promises bind it as they bind every voter. While it waited in the store's
    /// queue it was free to vote for another candidate, for example for a leader that had just lost
    /// the store. If it has, that candidate counts on its promise, and the grant is given back.
    pub(in crate::bully) fn claim(&mut self, cx: &mut Context<'_>, epoch: Epoch) -> bool {
        let is_free = matches!(
            self.role,
            Role::Following { leader: None } | Role::PreVoting { .. }
        );
        let own = cx.state.own_process();
        let bound = self.bound_elsewhere(cx.state, cx.now, own).is_some();
        let passed = Some(epoch) <= cx.state.record.highest;
        if bound || passed || !is_free || !cx.state.may_campaign(cx.now) {
            return false;
        }
        self.request_votes_for(cx, epoch, true);
        true
    }

    fn request_votes_for(&mut self, cx: &mut Context<'_>, epoch: Epoch, granted: bool) {
        self.store.may_ask = false;
        self.grant(cx, cx.state.own_process(), epoch);
        self.role = Role::Voting {
            epoch,
            // The time is taken before the first request leaves, because the lease counts from it.
            asked: cx.now,
            acks: BTreeSet::new(),
        };
        self.tick_at = cx.now + cx.lifetime() * 2;
        if !granted || Self::beside_store(cx.state) != Some(1) {
            cx.state.send_all(QuorumMessage::RequestVote { epoch });
        }
    }

    /// Promises `epoch` to one process. The write of the record begins before any message can
    /// mention the promise.
    pub(super) fn grant(&mut self, cx: &mut Context<'_>, to: Process, epoch: Epoch) {
        cx.state.record.highest = Some(epoch);
        cx.state.record.voted = Some(to.node);
        let promised = cx.state.settings.timings.term().lease_duration();
        cx.state.record.promised_ms = Some(crate::time::millis(promised));
        cx.state.persist();
        self.promise(cx, to);
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
    pub(super) fn handle_request_vote(
        &mut self,
        cx: &mut Context<'_>,
        sender: Process,
        epoch: Epoch,
    ) {
        let from = sender.node;
        let highest = cx.state.record.highest;
        let stale = Some(epoch) < highest
            || (Some(epoch) == highest && cx.state.record.voted != Some(from));
        let bound = self.bound_elsewhere(cx.state, cx.now, sender).is_some();
        if stale || bound {
            let rejected = QuorumMessage::VoteRejected { epoch, highest };
            return cx.state.send(from, rejected);
        }
        // This is a repeated request, because the answer was lost. The promise exists already, and
        // is on disk or being written.
        if Some(epoch) == highest {
            self.promise(cx, sender);
        } else {
            self.grant(cx, sender, epoch);
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
        let (epoch, asked) = (*epoch, *asked);
        let beside_store = Self::beside_store(cx.state).is_some_and(|it| acks.len() >= it);
        let without_store = acks.len() >= Self::without_store(cx.state);
        let members = Round {
            beside_store: beside_store.then_some(asked),
            without_store: without_store.then_some(asked),
            ..Round::new(epoch, asked, acks.clone())
        };
        let Some(from) = self.valid_from(cx.state, &members) else {
            return;
        };
        let lease = cx.state.settings.timings.term().renew_deadline();
        // Votes that arrive too late are useless: the lease that they would give is over.
        let in_time = cx.now < from + lease;
        let durable = cx.state.outbox.is_durable();
        if !in_time || !durable || !cx.state.may_campaign(cx.now) {
            return;
        }
        self.failures = 0;
        cx.state.begin(cx.now, epoch, from);
        self.lead(cx, members);
    }

    /// Ends a vote with too few answers. The candidate releases the votes, so that no member has to
    /// wait until they end. Late votes do not count, because the next vote is for another epoch.
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>) {
        let Role::Voting { epoch, acks, .. } = &self.role else {
            return;
        };
        if acks.contains(&cx.state.me()) {
            let epoch = *epoch;
            cx.state
                .send_all(QuorumMessage::Release { epoch, to: None });
        } else {
            // The candidate's own promise is not on disk yet, so its requests have not left. Later
            // they would leave together with their release, and a member that gets the release
            // first would be bound for a lease duration to a candidate that has given up.
            cx.state.outbox.discard_held();
        }
        self.store.may_ask = false;
        self.promise_until = None;
        self.role = Role::Following { leader: None };
        let lifetime = cx.lifetime();
        let most = lifetime * 2 * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.tick_at = cx.now + lifetime / 2 + cx.random.up_to(most);
    }
}
