//! Bully_FD, repaired: the best candidate organises the election, and stops one worse member after
//! the other before it leads.
//!
//! ```text
//!            all better are down          all worse wait for it              durable
//!   asking -----------------------> halting ------------> persisting-epoch ---------> leading
//!     ^                                |                                                 |
//!     +--- refused, or too late -------+                     a better leader is met      |
//!     ^                                                                                  |
//!     |   organiser is down, or has moved on              it has won                     |
//!     +---------------------------------------- waiting ------------> following          |
//!     +---------------------------------------------------------------+------------------+
//! ```
//!
//! From any state a member goes to *waiting* when it accepts an election: by a better organiser's
//! `Halt`, or by the `Norm` of a leader that it joins. The papers call the states Elec1, Elec2,
//! Wait and Norm.
//!
//! **Why two members do not lead at once, while no message outlives the detection of its sender's
//! crash.** An organiser stops the worse members *in the order of their ranks*. So of two
//! organisers, the better one stops the worse one before it stops any other member that the worse
//! one needs. A member that has accepted the better organiser refuses the worse one, also after a
//! restart. With a detector that is wrong, or in a partitioned network, there may be two leaders.
//! They learn of each other from `Norm` messages, and the worse one follows the better one.

mod handle;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::node_state::{Context, NodeState};
use super::{ElectionId, NodeId, PeerEffect, PeerInput, PeerMessage};
use crate::detector::Verdict;
use crate::{Epoch, Instant};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BestEffort {
    pub(super) status: Status,
    /// The election that this member organises, has accepted or follows.
    pub(super) election: ElectionId,
    /// The newest election of each member that was *accepted*. Refused elections are not stored: a
    /// refused organiser may ask again with the same election.
    pub(super) accepted: BTreeMap<NodeId, ElectionId>,
    /// The number of the current round of questions. Answers of the detector to earlier rounds are
    /// ignored.
    pub(super) round: u64,
    /// The members that the detector was asked about in this round and has not answered for yet.
    pub(super) asked: BTreeSet<NodeId>,
    pub(super) tick_at: Instant,
    /// The time since which this member follows the same leader.
    pub(super) followed_since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// The member asks whether all better members are down (Elec1 in the papers).
    Asking(Asking),
    /// The member stops all worse members (Elec2).
    Halting {
        acks: BTreeSet<NodeId>,
        down: BTreeSet<NodeId>,
        highest: Option<Epoch>,
        /// Whether a working leader must step down.
        preempt: bool,
    },
    /// The member has won, and its epoch is being written to disk.
    PersistingEpoch {
        acks: BTreeSet<NodeId>,
        epoch: Epoch,
    },
    /// The member waits for the organiser of the election that it has accepted (Wait).
    Waiting,
    /// The organiser leads (Norm).
    Following { epoch: Epoch },
    /// The member leads (Norm).
    Leading { epoch: Epoch },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    pub(super) down: BTreeSet<NodeId>,
    /// Whether a better member is up, so that this round decides nothing.
    pub(super) void: bool,
    /// Whether a working leader must step down.
    pub(super) preempt: bool,
}

impl Status {
    /// Returns the name of the variant in kebab case.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Asking { .. } => "asking",
            Self::Halting { .. } => "halting",
            Self::PersistingEpoch { .. } => "persisting-epoch",
            Self::Waiting => "waiting",
            Self::Following { .. } => "following",
            Self::Leading { .. } => "leading",
        }
    }
}

impl BestEffort {
    /// Creates the machine of a member that starts. A member that was waiting or following when it
    /// stopped continues to do so: other members rely on it, and they notify it if that election is
    /// over.
    pub(super) fn new(state: &NodeState, now: Instant) -> Self {
        let fresh = ElectionId {
            organiser: state.me(),
            incarnation: state.record.incarnation,
            number: 0,
        };
        let (status, election) = match state.record.accepted {
            Some(accepted) => (Status::Waiting, accepted),
            None => (Status::Asking(Asking::default()), fresh),
        };
        let accepted = state.record.accepted.into_iter();
        Self {
            status,
            election,
            accepted: accepted
                .map(|election| (election.organiser, election))
                .collect(),
            round: 0,
            asked: BTreeSet::new(),
            tick_at: now,
            followed_since: now,
        }
    }

    /// Returns the member that this member waits for or follows, or this member while it leads.
    pub(super) fn leader_or_organiser(&self) -> Option<NodeId> {
        match self.status {
            Status::Waiting | Status::Following { .. } | Status::Leading { .. } => {
                Some(self.election.organiser)
            }
            Status::Asking { .. } | Status::Halting { .. } | Status::PersistingEpoch { .. } => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.tick_at {
            self.tick(cx);
            self.tick_at = cx.now + cx.random.jitter(self.pace(cx.state));
        }
    }

    /// Returns the tick interval. It is longer while the member follows or leads.
    fn pace(&self, state: &NodeState) -> Duration {
        let timings = &state.settings.timings;
        match self.status {
            Status::Following { .. } | Status::Leading { .. } => timings.term().renew_interval(),
            _ => timings.message_lifetime(),
        }
    }

    /// Repeats the messages and questions that matter in the current state, since any message may
    /// have been lost.
    fn tick(&mut self, cx: &mut Context<'_>) {
        match &self.status {
            Status::Asking(asking) => {
                let first = self.election.number == 0 || self.election.organiser != cx.state.me();
                if first || asking.void {
                    self.organise(cx);
                }
            }
            Status::Halting { .. } => {
                // The member may have failed since the last question.
                if let Some(&open) = self.open(cx.state).first() {
                    self.ask(cx, open);
                }
                self.halt(cx);
            }
            Status::PersistingEpoch { .. } => {}
            Status::Waiting | Status::Following { .. } => {
                if self.may_take_over(cx) {
                    self.organise(cx);
                    return;
                }
                let organiser = self.election.organiser;
                let ack = self.ack(cx.state);
                cx.state.send(organiser, ack);
                self.ask(cx, organiser);
            }
            Status::Leading { epoch } => cx.state.send_all(PeerMessage::Norm {
                election: self.election,
                epoch: *epoch,
            }),
        }
    }

    /// Returns whether this member replaces the leader that it follows: it is better, is configured
    /// to do so, and has followed the leader for the hold-down.
    fn may_take_over(&self, cx: &Context<'_>) -> bool {
        let settings = &cx.state.settings;
        matches!(self.status, Status::Following { .. })
            && settings.preempt()
            && cx.state.may_campaign(cx.now)
            && cx.state.is_better(cx.state.me(), self.election.organiser)
            && cx.now >= self.followed_since + settings.timings.hold_down()
    }

    fn ack(&self, state: &NodeState) -> PeerMessage {
        PeerMessage::Ack {
            election: self.election,
            highest: state.record.highest,
        }
    }

    fn ask(&mut self, cx: &mut Context<'_>, node: NodeId) {
        if self.asked.insert(node) {
            cx.state.outbox.ready.effect(PeerEffect::Ask {
                node,
                round: self.round,
            });
        }
    }

    fn new_round(&mut self) {
        self.round += 1;
        self.asked.clear();
    }

    /// Begins an election that this member organises (Stage 1 in the papers), unless it is not a
    /// candidate.
    ///
    /// The number of the election is new, so that no message of an earlier election counts for this
    /// one. The number need not be durable, because the incarnation is.
    pub(super) fn organise(&mut self, cx: &mut Context<'_>) {
        let preempt = self.may_take_over(cx);
        self.reset(cx);
        if !cx.state.may_campaign(cx.now) {
            return;
        }
        let me = cx.state.me();
        let mine = self.accepted.get(&me).map_or(0, |newest| newest.number);
        self.election = ElectionId {
            organiser: me,
            incarnation: cx.state.record.incarnation,
            number: mine + 1,
        };
        self.accepted.insert(me, self.election);
        self.status = Status::Asking(Asking {
            down: BTreeSet::new(),
            void: false,
            preempt,
        });
        let settings = cx.state.settings.clone();
        for better in settings.members.better(me) {
            self.ask(cx, better);
        }
        self.decide(cx);
    }

    /// Leaves the current state. The organiser that this member had accepted no longer counts on
    /// it: the organiser was down, or has reported that its election is over. An acknowledgement
    /// that still waits for a slow disk is discarded: it could make that organiser a leader beside
    /// the next one, if the organiser is up again.
    fn reset(&mut self, cx: &mut Context<'_>) {
        cx.state.outbox.discard_held();
        if cx.state.record.accepted.take().is_some() {
            cx.state.persist();
        }
        self.step_down(cx);
        self.new_round();
        self.status = Status::Asking(Asking::default());
        self.election.organiser = cx.state.me();
        self.election.incarnation = cx.state.record.incarnation;
        self.election.number = 0;
        self.tick_at = cx.now;
    }

    /// Ends this member's own term, if it leads.
    fn step_down(&mut self, cx: &mut Context<'_>) {
        if matches!(self.status, Status::Leading { .. }) {
            cx.state.supersede(cx.now);
        }
        cx.state.see_leader(None);
    }

    /// Begins to halt the worse members if all better members are down *in this round*: a member
    /// that was down in an earlier round may be up again and follow a leader.
    fn decide(&mut self, cx: &mut Context<'_>) {
        let Status::Asking(asking) = &self.status else {
            return;
        };
        let (members, me) = (&cx.state.settings.members, cx.state.me());
        let all_down = members.better(me).all(|it| asking.down.contains(&it));
        if !all_down || asking.void {
            return;
        }
        let preempt = asking.preempt;
        self.new_round();
        self.status = Status::Halting {
            acks: BTreeSet::new(),
            down: BTreeSet::new(),
            highest: None,
            preempt,
        };
        // All questions start at once, so several members that are down take no longer than one.
        for worse in self.open(cx.state) {
            self.ask(cx, worse);
        }
        self.halt(cx);
        self.try_win(cx);
    }

    /// Halts the best of the worse members that are neither waiting nor down.
    ///
    /// **One after the other, in the order of their ranks** (Stoller 1997). If this member halted
    /// all of them at once, a worse organiser could still receive the acknowledgement of a member
    /// that has accepted this one.
    fn halt(&mut self, cx: &mut Context<'_>) {
        let Status::Halting { preempt, .. } = self.status else {
            return;
        };
        let halt = PeerMessage::Halt {
            election: self.election,
            preempt,
        };
        if let Some(&worse) = self.open(cx.state).first() {
            cx.state.send(worse, halt);
        }
        self.tick_at = cx.now + cx.lifetime();
    }

    /// Returns the worse members that are neither waiting nor down, best first.
    fn open(&self, state: &NodeState) -> Vec<NodeId> {
        let Status::Halting { acks, down, .. } = &self.status else {
            return Vec::new();
        };
        let worse = state.settings.members.worse(state.me());
        worse
            .filter(|worse| !acks.contains(worse) && !down.contains(worse))
            .collect()
    }

    /// Wins the election if all worse members wait or are down. Every change of a worse member's
    /// state calls this method: the last open member may be down, and then no `Ack` arrives.
    fn try_win(&mut self, cx: &mut Context<'_>) {
        let Status::Halting { acks, highest, .. } = &self.status else {
            return;
        };
        if !self.open(cx.state).is_empty() {
            return;
        }
        let (acks, known) = (acks.clone(), *highest);
        let Some(epoch) = cx.state.next_epoch(cx.now, known) else {
            return self.reset(cx);
        };
        // Messages to a member that is down by now are discarded: it need not learn of this
        // election after its restart.
        cx.state.outbox.discard_held();
        // The epoch is durable before any member learns of it, so no other term gets it.
        cx.state.record.highest = Some(epoch);
        cx.state.record.voted = None;
        cx.state.persist();
        self.status = Status::PersistingEpoch { acks, epoch };
    }

    /// Handles the acknowledgement that all records are on disk.
    pub(super) fn handle_persisted(&mut self, cx: &mut Context<'_>) {
        let Status::PersistingEpoch { acks, epoch } = &self.status else {
            return;
        };
        let (acks, epoch) = (acks.clone(), *epoch);
        if !cx.state.may_campaign(cx.now) {
            return self.reset(cx);
        }
        self.status = Status::Leading { epoch };
        cx.state.begin(cx.now, epoch, cx.now);
        for ack in acks {
            let election = self.election;
            cx.state.send(ack, PeerMessage::Ldr { election, epoch });
        }
        self.tick_at = cx.now + cx.random.jitter(self.pace(cx.state));
    }

    /// Notifies the members that wait for this one or follow it that its election is over: its task
    /// is gone after its term, or it is no longer a candidate. Without this message they would have
    /// to detect it.
    pub(super) fn abdicate(&mut self, cx: &mut Context<'_>) {
        let organises = matches!(
            self.status,
            Status::Halting { .. } | Status::PersistingEpoch { .. } | Status::Leading { .. }
        );
        if organises {
            let election = self.election;
            self.reset(cx);
            cx.state.send_all(PeerMessage::Stale { election });
        }
    }

    /// Begins to compete, because this member is a candidate from now on.
    pub(super) fn wake(&mut self, cx: &mut Context<'_>) {
        if matches!(self.status, Status::Asking { .. }) {
            self.organise(cx);
        }
    }

    pub(super) fn handle_input(&mut self, cx: &mut Context<'_>, input: PeerInput) {
        match input {
            PeerInput::Message { from, message, .. } => self.handle_message(cx, from, message),
            PeerInput::Answer {
                node,
                round,
                verdict,
            } => self.handle_answer(cx, node, round, verdict),
            // Ask about the suspected member now if this member depends on it.
            PeerInput::Suspected(node) => {
                let matters = matches!(self.status, Status::Waiting | Status::Following { .. });
                if matters && node == self.election.organiser {
                    self.ask(cx, node);
                }
            }
            PeerInput::Alive(_) | PeerInput::Persisted => {}
        }
    }

    /// Handles an answer of the detector. An answer of another round has no effect, because the
    /// state of the members may have changed since.
    fn handle_answer(&mut self, cx: &mut Context<'_>, node: NodeId, round: u64, verdict: Verdict) {
        if round != self.round || !self.asked.remove(&node) {
            return;
        }
        match &mut self.status {
            // A member that is not a candidate does not organise. It is halted or joins like any
            // other member.
            Status::Asking(asking) if verdict == Verdict::Up => {
                asking.void = true;
                asking.preempt = false;
                self.tick_at = cx.now + cx.lifetime();
            }
            Status::Asking(asking) => {
                asking.down.insert(node);
                self.decide(cx);
            }
            Status::Halting { down, .. } => {
                if verdict == Verdict::Down {
                    down.insert(node);
                    self.halt(cx);
                    self.try_win(cx);
                }
            }
            Status::Waiting | Status::Following { .. } => {
                if verdict != Verdict::Up && node == self.election.organiser {
                    self.organise(cx);
                }
            }
            Status::PersistingEpoch { .. } | Status::Leading { .. } => {}
        }
    }
}
