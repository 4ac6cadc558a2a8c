//! Bully_FD under the quorum guard: the order of candidacy is Bully's, and nobody leads without the
//! promise of a majority.
//!
//! ```text
//!              nobody is promised anything         a majority would, and no better one could lead
//!   following ------------------------------> polling -----------------> voting -----> leading
//!     ^ ^                                        |     too few                |            |
//!     | +----------------------------------------+----------------------------+            |
//!     +----------------------------------------------- lease over, handed over ------------+
//! ```
//!
//! **One leader per epoch.** A member promises an epoch to one candidate only, and that is on disk
//! before it says so; two majorities share a member. This holds whatever clocks and detectors do.
//!
//! **One leader at a time.** A leader's lease counts from when it *asked* a majority for the promises
//! that it rests on, and ends at the hard stop; each promise counts from when it was *given*, which is
//! later, and lasts the lease duration, which is longer. Let another one win with its own majority. A
//! member that is in both has either promised to it after the first promise had ended, so the first
//! lease was over; or before, and then it knew the greater epoch and refused the first one's renewal;
//! or the first one has the greater epoch, and the argument is the same the other way round. A member
//! that restarts keeps to its promise for a whole lease duration again.
//!
//! **Who can't lead does not block.** A candidate asks first, binding nobody (the pre-vote): one that
//! reaches no majority raises no epoch, and says that it could not lead, so worse ones don't wait
//! for it.

mod lead;
mod vote;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::node_state::NodeState;
use super::settings::lacks;
use super::{NodeId, PeerMessage, QuorumMessage};
use crate::{Epoch, Instant, Random};

/// How often in a row a candidate leaves it to a better one that could lead. After that it stands
/// itself: a member that says so and never does must not block the others for ever.
const MAX_DEFERRALS: u32 = 3;

/// A pre-vote is not made again sooner than this part of a message's lifetime after the last one.
const SOONEST: u32 = 50;

/// The back-off after a failed vote doubles up to this many times.
const MAX_DOUBLINGS: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quorum {
    pub(super) role: Role,
    /// Until when the promise of the record's epoch binds; `None` once it does not.
    pub(super) promise_until: Option<Instant>,
    /// The greatest epoch that others know of.
    pub(super) known: Option<Epoch>,
    /// Whether it reached a majority when it last tried.
    pub(super) connected: bool,
    /// Who is not waited for in a pre-vote: the detector suspects it, or it did not answer the last
    /// one. Until it speaks, or another leader is known.
    pub(super) silent: BTreeSet<NodeId>,
    pub(super) deferrals: u32,
    pub(super) failures: u32,
    pub(super) round: u64,
    pub(super) look_at: Instant,
    pub(super) followed_since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// It votes, and follows the leader if it knows one.
    Following { leader: Option<NodeId> },
    /// Would a majority vote for it?
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
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Following { leader: None } => "idle",
            Self::Following { leader: Some(_) } => "following",
            Self::PreVoting { .. } => "electing",
            Self::Voting { .. } => "voting",
            Self::Leading { .. } => "leading",
        }
    }
}

/// What a member says to a pre-vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PreVoteAnswer {
    /// For how long it is promised to another one.
    bound: Option<Duration>,
    can_lead: bool,
}

impl Quorum {
    pub(super) fn new(base: &NodeState, now: Instant) -> Self {
        let bound = base
            .quarantine()
            .filter(|_| !lacks!(base.settings, Quarantine));
        Self {
            role: Role::Following { leader: None },
            promise_until: bound.map(|bound| now + bound),
            known: None,
            connected: true,
            silent: BTreeSet::new(),
            deferrals: 0,
            failures: 0,
            round: 0,
            look_at: now,
            followed_since: now,
        }
    }

    /// Whether it follows a leader.
    pub(super) const fn follows(&self) -> bool {
        matches!(self.role, Role::Following { leader: Some(_) })
    }

    fn majority(base: &NodeState) -> usize {
        if lacks!(base.settings, Majority) {
            1
        } else {
            base.settings.members.majority()
        }
    }

    /// To whom a promise binds it now.
    pub(super) fn promised_to(&self, base: &NodeState, now: Instant) -> Option<NodeId> {
        let binds = self.promise_until.is_some_and(|until| now < until);
        base.record.voted.filter(|_| binds)
    }

    /// Whom it follows; itself while it leads.
    pub(super) const fn leader_or_organiser(&self, me: NodeId) -> Option<NodeId> {
        match self.role {
            Role::Following { leader } => leader,
            Role::Leading { .. } => Some(me),
            Role::PreVoting { .. } | Role::Voting { .. } => None,
        }
    }

    fn is_promised_elsewhere(&self, base: &NodeState, now: Instant, to: NodeId) -> bool {
        self.bound_elsewhere(base, now, to).is_some()
    }

    /// For how long its promise to another one than this still binds it.
    fn bound_elsewhere(&self, base: &NodeState, now: Instant, to: NodeId) -> Option<Duration> {
        let other = self.promised_to(base, now).filter(|&other| other != to);
        other.and(self.promise_until).map(|until| until.since(now))
    }

    /// Promises the record's epoch for a lease duration from now on.
    fn promise(&mut self, base: &NodeState, now: Instant) {
        self.promise_until = Some(now + base.settings.timings.term().lease_duration());
    }

    pub(super) fn due(&self) -> Instant {
        self.promise_until
            .map_or(self.look_at, |until| until.min(self.look_at))
    }

    pub(super) fn handle_timeout(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        if self.promise_until.is_some_and(|until| now >= until) {
            self.promise_until = None;
            if matches!(self.role, Role::Following { .. }) {
                self.lose_leader(base, now);
            }
        }
        if now >= self.look_at {
            self.look(base, now, random);
        }
    }

    fn look(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        let lifetime = base.settings.timings.message_lifetime();
        match &self.role {
            Role::Following { leader } => {
                self.look_at = now + random.jitter(lifetime);
                if let Some(leader) = *leader {
                    self.look_at = now + base.settings.timings.term().renew_interval();
                    self.want_to_take_over(base, now, leader);
                } else if base.may_stand(now) && !self.is_promised_elsewhere(base, now, base.me()) {
                    self.poll(base, now, random);
                }
            }
            Role::PreVoting { replies } => {
                let others = base.settings.members.others(base.me());
                self.silent = others.filter(|it| !replies.contains_key(it)).collect();
                self.judge(base, now, random);
            }
            Role::Voting { .. } => self.give_up(base, now, random),
            Role::Leading { .. } => self.next_round(base, now, random),
        }
    }

    fn want_to_take_over(&self, base: &mut NodeState, now: Instant, leader: NodeId) {
        let settings = base.settings.clone();
        let long = now >= self.followed_since + settings.timings.hold_down();
        let wants = settings.preempt() && base.may_stand(now);
        if wants
            && long
            && base.is_better(base.me(), leader)
            && let Some(epoch) = base.record.highest
        {
            base.send(
                leader,
                PeerMessage::Quorum(QuorumMessage::TransferRequest { epoch }),
            );
        }
    }

    fn lose_leader(&mut self, base: &mut NodeState, now: Instant) {
        self.role = Role::Following { leader: None };
        self.look_at = now;
        base.see_leader(None);
    }

    /// It stands for election from now on.
    pub(super) const fn wake(&mut self, now: Instant) {
        if matches!(self.role, Role::Following { leader: None }) {
            self.look_at = now;
        }
    }

    /// It stands aside.
    pub(super) fn withdraw(&mut self, base: &mut NodeState, now: Instant, random: &mut dyn Random) {
        match self.role {
            Role::Voting { .. } => self.give_up(base, now, random),
            Role::PreVoting { .. } => self.lose_leader(base, now),
            Role::Following { .. } | Role::Leading { .. } => {}
        }
    }

    pub(super) fn suspected(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        node: NodeId,
        random: &mut dyn Random,
    ) {
        self.silent.insert(node);
        self.judge_if_decided(base, now, random);
    }

    pub(super) fn alive(&mut self, node: NodeId) {
        self.silent.remove(&node);
    }

    pub(super) fn hear(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, message): (NodeId, QuorumMessage),
        random: &mut dyn Random,
    ) {
        self.silent.remove(&from);
        match message {
            QuorumMessage::PreVote { round } => self.hear_pre_vote(base, now, from, round),
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
                    self.judge_if_decided(base, now, random);
                }
            }
            QuorumMessage::RequestVote { epoch } => self.hear_halt(base, now, from, epoch),
            QuorumMessage::VoteGranted { epoch } => self.hear_ack(base, now, (from, epoch), random),
            QuorumMessage::VoteRejected { epoch, highest } => {
                self.hear_nack(base, now, epoch, highest)
            }
            QuorumMessage::Renew { epoch, round } => {
                self.hear_renew(base, now, (from, epoch), round);
            }
            QuorumMessage::RenewAck { epoch, round } => {
                self.hear_renew_ack(base, now, (from, epoch, round), random);
            }
            QuorumMessage::Release { epoch, to } => {
                self.hear_release(base, now, (from, epoch, to), random);
            }
            QuorumMessage::TransferRequest { epoch } => {
                self.handle_transfer_request(base, now, from, epoch)
            }
        }
    }
}
