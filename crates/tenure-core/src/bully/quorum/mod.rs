//! Bully_FD with a quorum: the order of candidacy is Bully's, and a member leads only with the
//! promise of a majority.
//!
//! ```text
//!              no promise binds it                 a majority is free, and no better one could lead
//!   following ------------------------> pre-voting ---------------> voting -----> leading
//!     ^ ^                                   |     too few              |             |
//!     | +-----------------------------------+--------------------------+             |
//!     +--------------------------------------------- lease over, handed over --------+
//! ```
//!
//! **One leader per epoch.** A member promises an epoch to one candidate only, and the promise is on
//! disk before any message mentions it; two majorities share a member. This holds whatever clocks and
//! detectors do.
//!
//! **One leader at a time.** A leader's lease counts from when it *asked* a majority for the promises
//! that it rests on, and ends at the hard stop; each promise counts from when it was *given*, which is
//! later, and lasts the lease duration, which is longer. Let another candidate win with its own
//! majority. A member of both majorities has either promised to it after the first promise had ended,
//! so the first lease was over; or before, and then it knew the greater epoch and refused the first
//! one's renewal; or the first one has the greater epoch, and the argument is the same with the two
//! exchanged. A member that restarts keeps its promise for a whole lease duration again.
//!
//! **A candidate that can't lead does not block.** It asks first, without binding anybody (the
//! pre-vote). A candidate that reaches no majority raises no epoch, and says that it could not lead,
//! so that worse ones do not wait for it.

mod lead;
mod vote;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::node_state::NodeState;
use super::settings::mutation;
use super::{NodeId, PeerMessage, QuorumMessage};
use crate::{Epoch, Instant, Random};

/// How often in a row a candidate defers to a better one that could lead. After that it asks for
/// votes itself: a member that could lead and never does must not block the others for ever.
const MAX_DEFERRALS: u32 = 3;

/// A candidate waits at least this part of a message's lifetime between two pre-votes.
const SOONEST: u32 = 50;

/// The back-off after a failed vote doubles up to this many times.
const MAX_DOUBLINGS: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quorum {
    pub(super) role: Role,
    /// Until when the promise of the record's epoch binds; `None` once it does not.
    pub(super) promise_until: Option<Instant>,
    /// The greatest epoch that other members know of.
    pub(super) known: Option<Epoch>,
    /// Whether it reached a majority when it last tried.
    pub(super) connected: bool,
    /// Members that a pre-vote does not wait for: the detector suspects them, or they did not
    /// answer the last one. A member leaves the set with its next message.
    pub(super) silent: BTreeSet<NodeId>,
    pub(super) deferrals: u32,
    pub(super) failures: u32,
    pub(super) round: u64,
    pub(super) tick_at: Instant,
    pub(super) followed_since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// It votes, and follows the leader if it knows one.
    Following { leader: Option<NodeId> },
    /// It asks whether a majority would vote for it.
    PreVoting {
        replies: BTreeMap<NodeId, PreVoteAnswer>,
    },
    /// It has asked for votes.
    Voting {
        epoch: Epoch,
        asked: Instant,
        acks: BTreeSet<NodeId>,
    },
    /// It has won, and asks for renewals.
    Leading {
        epoch: Epoch,
        round: u64,
        asked: Instant,
        acks: BTreeSet<NodeId>,
        at_risk: bool,
    },
}

impl Role {
    /// The name of the variant, in kebab case.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Following { .. } => "following",
            Self::PreVoting { .. } => "pre-voting",
            Self::Voting { .. } => "voting",
            Self::Leading { .. } => "leading",
        }
    }
}

/// A member's answer to a pre-vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PreVoteAnswer {
    /// For how long a promise to another member binds it.
    bound: Option<Duration>,
    can_lead: bool,
}

impl Quorum {
    pub(super) fn new(state: &NodeState, now: Instant) -> Self {
        let bound = state
            .quarantine()
            .filter(|_| !mutation!(state.settings, Quarantine));
        Self {
            role: Role::Following { leader: None },
            promise_until: bound.map(|bound| now + bound),
            known: None,
            connected: true,
            silent: BTreeSet::new(),
            deferrals: 0,
            failures: 0,
            round: 0,
            tick_at: now,
            followed_since: now,
        }
    }

    /// Whether it follows a leader.
    pub(super) const fn follows(&self) -> bool {
        matches!(self.role, Role::Following { leader: Some(_) })
    }

    fn majority(state: &NodeState) -> usize {
        if mutation!(state.settings, Majority) {
            1
        } else {
            state.settings.members.majority()
        }
    }

    /// The member that a promise binds it to now.
    pub(super) fn promised_to(&self, state: &NodeState, now: Instant) -> Option<NodeId> {
        let binds = self.promise_until.is_some_and(|until| now < until);
        state.record.voted.filter(|_| binds)
    }

    /// The member that it follows; itself while it leads.
    pub(super) const fn leader_or_organiser(&self, me: NodeId) -> Option<NodeId> {
        match self.role {
            Role::Following { leader } => leader,
            Role::Leading { .. } => Some(me),
            Role::PreVoting { .. } | Role::Voting { .. } => None,
        }
    }

    fn is_promised_elsewhere(&self, state: &NodeState, now: Instant, to: NodeId) -> bool {
        self.bound_elsewhere(state, now, to).is_some()
    }

    /// For how long its promise to a member other than `to` still binds it.
    fn bound_elsewhere(&self, state: &NodeState, now: Instant, to: NodeId) -> Option<Duration> {
        let other = self.promised_to(state, now).filter(|&other| other != to);
        other.and(self.promise_until).map(|until| until.since(now))
    }

    /// Promises the record's epoch for a lease duration from now on.
    fn promise(&mut self, state: &NodeState, now: Instant) {
        self.promise_until = Some(now + state.settings.timings.term().lease_duration());
    }

    pub(super) fn due(&self) -> Instant {
        self.promise_until
            .map_or(self.tick_at, |until| until.min(self.tick_at))
    }

    pub(super) fn handle_timeout(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        if self.promise_until.is_some_and(|until| now >= until) {
            self.promise_until = None;
            if matches!(self.role, Role::Following { .. }) {
                self.lose_leader(state, now);
            }
        }
        if now >= self.tick_at {
            self.tick(state, now, random);
        }
    }

    fn tick(&mut self, state: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let lifetime = state.settings.timings.message_lifetime();
        match &self.role {
            Role::Following { leader } => {
                self.tick_at = now + random.jitter(lifetime);
                if let Some(leader) = *leader {
                    self.tick_at = now + state.settings.timings.term().renew_interval();
                    self.request_transfer(state, now, leader);
                } else if state.may_campaign(now)
                    && !self.is_promised_elsewhere(state, now, state.me())
                {
                    self.pre_vote(state, now, random);
                }
            }
            Role::PreVoting { replies } => {
                let others = state.settings.members.others(state.me());
                self.silent = others.filter(|it| !replies.contains_key(it)).collect();
                self.decide_pre_vote(state, now, random);
            }
            Role::Voting { .. } => self.give_up(state, now, random),
            Role::Leading { .. } => self.next_round(state, now, random),
        }
    }

    fn request_transfer(&self, state: &mut NodeState, now: Instant, leader: NodeId) {
        let settings = state.settings.clone();
        let long = now >= self.followed_since + settings.timings.hold_down();
        let wants = settings.preempt() && state.may_campaign(now);
        if wants
            && long
            && state.is_better(state.me(), leader)
            && let Some(epoch) = state.record.highest
        {
            state.send(
                leader,
                PeerMessage::Quorum(QuorumMessage::TransferRequest { epoch }),
            );
        }
    }

    fn lose_leader(&mut self, state: &mut NodeState, now: Instant) {
        self.role = Role::Following { leader: None };
        self.tick_at = now;
        state.see_leader(None);
    }

    /// It is a candidate from now on.
    pub(super) const fn wake(&mut self, now: Instant) {
        if matches!(self.role, Role::Following { leader: None }) {
            self.tick_at = now;
        }
    }

    /// It is no candidate any more.
    pub(super) fn withdraw(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        match self.role {
            Role::Voting { .. } => self.give_up(state, now, random),
            Role::PreVoting { .. } => self.lose_leader(state, now),
            Role::Following { .. } | Role::Leading { .. } => {}
        }
    }

    pub(super) fn handle_suspected(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        node: NodeId,
        random: &mut dyn Random,
    ) {
        self.silent.insert(node);
        self.decide_pre_vote_early(state, now, random);
    }

    pub(super) fn handle_alive(&mut self, node: NodeId) {
        self.silent.remove(&node);
    }

    pub(super) fn handle_message(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        (from, message): (NodeId, QuorumMessage),
        random: &mut dyn Random,
    ) {
        self.silent.remove(&from);
        match message {
            QuorumMessage::PreVote { round } => self.handle_pre_vote(state, now, from, round),
            QuorumMessage::PreVoteReply {
                round,
                highest,
                bound,
                can_lead,
            } => {
                self.known = self.known.max(highest);
                let Role::PreVoting { replies } = &mut self.role else {
                    return;
                };
                if round == self.round {
                    replies.insert(from, PreVoteAnswer { bound, can_lead });
                    self.decide_pre_vote_early(state, now, random);
                }
            }
            QuorumMessage::RequestVote { epoch } => {
                self.handle_request_vote(state, now, from, epoch)
            }
            QuorumMessage::VoteGranted { epoch } => {
                self.handle_vote_granted(state, now, (from, epoch), random)
            }
            QuorumMessage::VoteRejected { epoch, highest } => {
                self.handle_vote_rejected(state, now, epoch, highest)
            }
            QuorumMessage::Renew { epoch, round } => {
                self.handle_renew(state, now, (from, epoch), round);
            }
            QuorumMessage::RenewAck { epoch, round } => {
                self.handle_renew_ack(state, now, (from, epoch, round), random);
            }
            QuorumMessage::Release { epoch, to } => {
                self.handle_release(state, now, (from, epoch, to), random);
            }
            QuorumMessage::TransferRequest { epoch } => {
                self.handle_transfer_request(state, now, from, epoch)
            }
        }
    }
}
