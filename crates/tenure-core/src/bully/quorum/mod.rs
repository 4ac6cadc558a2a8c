//! Bully_FD with a quorum: the rank of the candidates decides which one leads, as in Bully, and a
//! member leads only with the promise of a majority.
//!
//! ```text
//!              no promise binds it                 a majority is free, and no better one could lead
//!   following ------------------------> pre-voting ---------------> voting -----> leading
//!     ^ ^                                   |     too few              |             |
//!     | +-----------------------------------+--------------------------+             |
//!     +--------------------------------------------- lease over, handed over --------+
//! ```
//!
//! **One leader per epoch.** A member promises an epoch to one candidate only, and the promise is
//! on disk before any message mentions it. Two majorities share a member. This argument does not
//! depend on clocks or failure detectors.
//!
//! **One leader at a time.** The lease of a leader counts from when the leader *requested* the
//! promises of a majority, and ends at the hard stop. Each promise counts from when a member *made*
//! it, which is later, and lasts for the lease duration, which is longer. Suppose that another
//! candidate wins with its own majority. Some member is in both majorities. If that member promised
//! to the second candidate after its first promise had ended, the first lease was over. If it
//! promised before, it knew the greater epoch of the second candidate and refused the renewal of
//! the first. If the first candidate has the greater epoch, the same argument holds with the two
//! exchanged. A member that restarts keeps its promise for a whole lease duration again, also its
//! promise to itself.
//!
//! A promise is for one process of a candidate. Another process of the same member, which has
//! restarted or runs with a copy of the state, is another candidate, so both arguments hold for it.
//!
//! **A candidate that can't lead does not block others.** A candidate first sends a pre-vote, which
//! binds nobody. A candidate that reaches no majority raises no epoch, and reports that it could
//! not lead, so that worse candidates do not wait for it.

mod lead;
mod vote;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::node_state::{Context, NodeState, Process};
use super::{NodeId, PeerInput, PeerMessage, QuorumKind, QuorumMessage};
use crate::{Epoch, Instant};

/// The number of times in a row that a candidate defers to a better one that could lead. After that
/// it asks for votes itself: a member that could lead but never does must not block the others for
/// ever.
const MAX_DEFERRALS: u32 = 3;

/// The divisor of the message lifetime that gives the shortest time between two pre-votes of a
/// candidate.
const SOONEST: u32 = 50;

/// The largest number of doublings of the back-off after failed votes.
const MAX_DOUBLINGS: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quorum {
    pub(super) role: Role,
    /// The time until which the promise of the record's epoch binds; `None` if it no longer binds.
    pub(super) promise_until: Option<Instant>,
    /// The process to which this process has made that promise; `None` after a restart, when no
    /// process may be promised a new epoch before the promise ends.
    pub(super) promised: Option<Process>,
    /// The greatest epoch that other members know.
    pub(super) known: Option<Epoch>,
    /// Whether this member reached a majority when it last tried.
    pub(super) connected: bool,
    /// The members that a pre-vote does not wait for: the detector suspects them, or they did not
    /// answer the last pre-vote. A member leaves the set with its next message.
    pub(super) silent: BTreeSet<NodeId>,
    pub(super) deferrals: u32,
    pub(super) failures: u32,
    pub(super) round: u64,
    pub(super) tick_at: Instant,
    pub(super) followed_since: Instant,
    pub(super) store: Store,
}

/// The part of the store in a group in which it is a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    /// The epoch that the store has promised to this member, and the time at which the request for
    /// that promise was sent.
    pub(super) promise: Option<(Epoch, Instant)>,
    /// Whether the store gives no promise now: it is silent, or it can't promise the epoch of the
    /// term.
    pub(super) away: bool,
    /// Whether this member may ask the store for the lease: enough members beside it are free.
    pub(super) may_ask: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// The member votes, and follows the leader if it knows one.
    Following { leader: Option<NodeId> },
    /// The member asks whether a majority would vote for it.
    PreVoting {
        replies: BTreeMap<NodeId, PreVoteAnswer>,
    },
    /// The member has asked for votes.
    Voting {
        epoch: Epoch,
        asked: Instant,
        acks: BTreeSet<NodeId>,
    },
    /// The member has won, and asks for renewals.
    Leading(Round),
}

/// A leader's current round of renewals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    pub(super) epoch: Epoch,
    pub(super) number: u64,
    pub(super) asked: Instant,
    pub(super) acks: BTreeSet<NodeId>,
    /// The members that have refused this round, because they have promised a greater epoch.
    pub(super) refused: BTreeSet<NodeId>,
    /// Whether this round was sent to all members.
    pub(super) to_all: bool,
    /// The members that get renewals although the store carries the term.
    pub(super) followers: BTreeSet<NodeId>,
    pub(super) at_risk: bool,
    /// The start of the last round that enough members beside the store have answered.
    pub(super) beside_store: Option<Instant>,
    /// The start of the last round that enough members without the store have answered.
    pub(super) without_store: Option<Instant>,
}

impl Round {
    /// Creates the round of a term that these members have promised.
    pub(super) const fn new(epoch: Epoch, asked: Instant, acks: BTreeSet<NodeId>) -> Self {
        Self {
            epoch,
            number: 0,
            asked,
            acks,
            refused: BTreeSet::new(),
            to_all: true,
            followers: BTreeSet::new(),
            at_risk: false,
            beside_store: None,
            without_store: None,
        }
    }
}

impl Role {
    /// Returns the name of the variant in kebab case.
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
    /// How long a promise to another member binds the answering member.
    bound: Option<Duration>,
    can_lead: bool,
}

impl Quorum {
    pub(super) fn new(state: &NodeState, now: Instant) -> Self {
        let bound = state.quarantine();
        Self {
            role: Role::Following { leader: None },
            promise_until: bound.map(|bound| now + bound),
            promised: None,
            known: None,
            connected: true,
            silent: BTreeSet::new(),
            deferrals: 0,
            failures: 0,
            round: 0,
            tick_at: now,
            followed_since: now,
            store: Store::default(),
        }
    }

    /// Returns the number of members that are enough without the store; more than there are if the
    /// store is required.
    fn without_store(state: &NodeState) -> usize {
        let quorums = &state.settings.quorums;
        if quorums.requires_store() {
            return usize::MAX;
        }
        quorums.without_store()
    }

    /// Returns the number of members that are enough beside the store; `None` if the store has no
    /// vote.
    fn beside_store(state: &NodeState) -> Option<usize> {
        state.settings.quorums.with_store()
    }

    /// Returns whether these members are enough, with the store's promise of `epoch` or without it.
    fn is_quorum(&self, state: &NodeState, epoch: Epoch, acks: usize) -> bool {
        let promised = self.store.promise.is_some_and(|(of, _)| of == epoch);
        let beside = Self::beside_store(state).filter(|_| promised && !self.store.away);
        beside.is_some_and(|needed| acks >= needed) || acks >= Self::without_store(state)
    }

    /// Returns the epoch that this member votes for itself under or leads under.
    pub(super) const fn stands_under(&self) -> Option<Epoch> {
        match &self.role {
            Role::Voting { epoch, .. } => Some(*epoch),
            Role::Leading(round) => Some(round.epoch),
            Role::Following { .. } | Role::PreVoting { .. } => None,
        }
    }

    /// Returns whether this member may ask the store for the lease now: it is a candidate, no
    /// promise binds it, and enough members beside the store were free when it last asked them.
    pub(super) fn may_ask_store(&self, state: &NodeState, now: Instant) -> bool {
        let stands_aside = matches!(
            self.role,
            Role::Following { leader: None } | Role::PreVoting { .. }
        );
        let is_bound = self
            .bound_elsewhere(state, now, state.own_process())
            .is_some();
        let is_free = stands_aside && !is_bound;
        self.store.may_ask && is_free && state.may_campaign(now)
    }

    /// Returns the kind of quorum that carries the term. One late answer of the store makes no
    /// difference: the store carries the term until two renewals have failed, or until it has taken
    /// its promise back. If the store is required, nothing else carries a term.
    pub(super) fn carried_by(&self, state: &NodeState, now: Instant) -> Option<QuorumKind> {
        let Role::Leading(round) = &self.role else {
            return None;
        };
        let patience = state.settings.timings.term().renew_interval() * 2;
        let promised = self.store.promise.filter(|(of, _)| *of == round.epoch);
        let carries = promised.is_some_and(|(_, sent)| now < sent + patience);
        let quorums = &state.settings.quorums;
        let has_vote = quorums.with_store().is_some();
        Some(match (carries && has_vote) || quorums.requires_store() {
            true => QuorumKind::Store,
            false => QuorumKind::Members,
        })
    }

    /// Returns the member to which a promise binds this member now.
    pub(super) fn promised_to(&self, state: &NodeState, now: Instant) -> Option<NodeId> {
        let binds = self.promise_until.is_some_and(|until| now < until);
        state.record.voted.filter(|_| binds)
    }

    /// Returns the member that this member follows, or this member while it leads.
    pub(super) const fn leader_or_organiser(&self, me: NodeId) -> Option<NodeId> {
        match self.role {
            Role::Following { leader } => leader,
            Role::Leading { .. } => Some(me),
            Role::PreVoting { .. } | Role::Voting { .. } => None,
        }
    }

    /// Returns how long a promise to another process than `to` still binds this member.
    pub(super) fn bound_elsewhere(
        &self,
        state: &NodeState,
        now: Instant,
        to: Process,
    ) -> Option<Duration> {
        self.promised_to(state, now)?;
        let until = self.promise_until.filter(|_| self.promised != Some(to));
        until.map(|until| until.since(now))
    }

    /// Starts the lease duration of the promise of the record's epoch to this process at `now`.
    fn promise(&mut self, cx: &Context<'_>, to: Process) {
        self.promised = Some(to);
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
                    && self
                        .bound_elsewhere(cx.state, cx.now, cx.state.own_process())
                        .is_none()
                {
                    self.stand(cx);
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
        self.store.may_ask = false;
        self.tick_at = cx.now;
        cx.state.see_leader(None);
    }

    /// Schedules a tick now, because this member is a candidate from now on.
    pub(super) const fn wake(&mut self, now: Instant) {
        if matches!(self.role, Role::Following { leader: None }) {
            self.tick_at = now;
        }
    }

    /// Ends the vote or the pre-vote, because this member is no longer a candidate.
    pub(super) fn withdraw(&mut self, cx: &mut Context<'_>) {
        match self.role {
            Role::Voting { .. } => self.give_up(cx),
            Role::PreVoting { .. } => self.lose_leader(cx),
            Role::Following { .. } | Role::Leading { .. } => {}
        }
    }

    pub(super) fn handle_input(&mut self, cx: &mut Context<'_>, input: PeerInput) {
        match input {
            PeerInput::Message {
                from: node,
                incarnation,
                message,
            } => {
                if let PeerMessage::Quorum(message) = message {
                    self.handle_message(cx, Process { node, incarnation }, message);
                }
            }
            PeerInput::Suspected(node) => {
                self.silent.insert(node);
                self.decide_pre_vote_early(cx);
            }
            PeerInput::Alive(node) => {
                self.silent.remove(&node);
            }
            // With a quorum the machine sends its own questions to the members.
            PeerInput::Answer { .. } | PeerInput::Persisted => {}
        }
    }

    fn handle_message(&mut self, cx: &mut Context<'_>, sender: Process, message: QuorumMessage) {
        let from = sender.node;
        self.silent.remove(&from);
        match message {
            QuorumMessage::PreVote { round } => self.handle_pre_vote(cx, sender, round),
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
            QuorumMessage::RequestVote { epoch } => self.handle_request_vote(cx, sender, epoch),
            QuorumMessage::VoteGranted { epoch: granted } => {
                if let Role::Voting { epoch, acks, .. } = &mut self.role
                    && *epoch == granted
                {
                    acks.insert(from);
                    self.try_win(cx);
                }
            }
            QuorumMessage::VoteRejected { epoch, highest } => {
                self.handle_vote_rejected(cx, (from, epoch), highest)
            }
            QuorumMessage::Renew { epoch, round } => {
                self.handle_renew(cx, (sender, epoch), round);
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
