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

use super::node_state::{Context, NodeState};
use super::settings::mutation;
use super::{NodeId, PeerInput, PeerMessage, QuorumMessage};
use crate::{Epoch, Instant};

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
    Leading(Round),
}

/// A leader's current round of renewals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    pub(super) epoch: Epoch,
    pub(super) number: u64,
    pub(super) asked: Instant,
    pub(super) acks: BTreeSet<NodeId>,
    pub(super) at_risk: bool,
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

    /// For how long its promise to a member other than `to` still binds it.
    fn bound_elsewhere(&self, cx: &Context<'_>, to: NodeId) -> Option<Duration> {
        let other = self
            .promised_to(cx.state, cx.now)
            .filter(|&other| other != to);
        other
            .and(self.promise_until)
            .map(|until| until.since(cx.now))
    }

    /// Promises the record's epoch for a lease duration from now on.
    fn promise(&mut self, cx: &Context<'_>) {
        self.promise_until = Some(cx.now + cx.state.settings.timings.term().lease_duration());
    }

    pub(super) fn due(&self) -> Instant {
        self.promise_until
            .map_or(self.tick_at, |until| until.min(self.tick_at))
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        if self.promise_until.is_some_and(|until| cx.now >= until) {
            self.promise_until = None;
            if matches!(self.role, Role::Following { .. }) {
                self.lose_leader(cx);
            }
        }
        if cx.now >= self.tick_at {
            self.tick(cx);
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        let lifetime = cx.lifetime();
        match &self.role {
            Role::Following { leader } => {
                self.tick_at = cx.now + cx.random.jitter(lifetime);
                if let Some(leader) = *leader {
                    self.tick_at = cx.now + cx.state.settings.timings.term().renew_interval();
                    self.request_transfer(cx, leader);
                } else if cx.state.may_campaign(cx.now)
                    && self.bound_elsewhere(cx, cx.state.me()).is_none()
                {
                    self.pre_vote(cx);
                }
            }
            Role::PreVoting { replies } => {
                let others = cx.state.settings.members.others(cx.state.me());
                self.silent = others.filter(|it| !replies.contains_key(it)).collect();
                self.decide_pre_vote(cx);
            }
            Role::Voting { .. } => self.give_up(cx),
            Role::Leading { .. } => self.next_round(cx),
        }
    }

    fn request_transfer(&self, cx: &mut Context<'_>, leader: NodeId) {
        let settings = cx.state.settings.clone();
        let long = cx.now >= self.followed_since + settings.timings.hold_down();
        let wants = settings.preempt() && cx.state.may_campaign(cx.now);
        if wants
            && long
            && cx.state.is_better(cx.state.me(), leader)
            && let Some(epoch) = cx.state.record.highest
        {
            cx.state
                .send(leader, QuorumMessage::TransferRequest { epoch });
        }
    }

    fn lose_leader(&mut self, cx: &mut Context<'_>) {
        self.role = Role::Following { leader: None };
        self.tick_at = cx.now;
        cx.state.see_leader(None);
    }

    /// It is a candidate from now on.
    pub(super) const fn wake(&mut self, now: Instant) {
        if matches!(self.role, Role::Following { leader: None }) {
            self.tick_at = now;
        }
    }

    /// It is no candidate any more.
    pub(super) fn withdraw(&mut self, cx: &mut Context<'_>) {
        match self.role {
            Role::Voting { .. } => self.give_up(cx),
            Role::PreVoting { .. } => self.lose_leader(cx),
            Role::Following { .. } | Role::Leading { .. } => {}
        }
    }

    pub(super) fn handle_input(&mut self, cx: &mut Context<'_>, input: PeerInput) {
        match input {
            PeerInput::Message { from, message } => {
                if let PeerMessage::Quorum(message) = message {
                    self.handle_message(cx, from, message);
                }
            }
            PeerInput::Suspected(node) => {
                self.silent.insert(node);
                self.decide_pre_vote_early(cx);
            }
            PeerInput::Alive(node) => {
                self.silent.remove(&node);
            }
            // The machine asks the members themselves.
            PeerInput::Answer { .. } | PeerInput::Persisted => {}
        }
    }

    fn handle_message(&mut self, cx: &mut Context<'_>, from: NodeId, message: QuorumMessage) {
        self.silent.remove(&from);
        match message {
            QuorumMessage::PreVote { round } => self.handle_pre_vote(cx, from, round),
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
                    self.decide_pre_vote_early(cx);
                }
            }
            QuorumMessage::RequestVote { epoch } => self.handle_request_vote(cx, from, epoch),
            QuorumMessage::VoteGranted { epoch: granted } => {
                if let Role::Voting { epoch, acks, .. } = &mut self.role
                    && *epoch == granted
                {
                    acks.insert(from);
                    self.try_win(cx);
                }
            }
            QuorumMessage::VoteRejected { epoch, highest } => {
                self.handle_vote_rejected(cx, epoch, highest)
            }
            QuorumMessage::Renew { epoch, round } => {
                self.handle_renew(cx, (from, epoch), round);
            }
            QuorumMessage::RenewAck {
                epoch,
                round: number,
            } => {
                if let Role::Leading(round) = &mut self.role
                    && (round.epoch, round.number) == (epoch, number)
                    && round.acks.insert(from)
                {
                    self.count_round(cx);
                }
            }
            QuorumMessage::Release { epoch, to } => {
                self.handle_release(cx, (from, epoch, to));
            }
            QuorumMessage::TransferRequest { epoch } => {
                self.handle_transfer_request(cx, from, epoch)
            }
        }
    }
}
