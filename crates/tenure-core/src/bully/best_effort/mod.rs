//! Bully_FD, repaired: the best member that stands for election organises it, and stops one worse
//! member after the other before it leads.
//!
//! ```text
//!            all better are down            all worse wait for me        durable
//!   asking -----------------------> halting -----------------> crowning -------> leading
//!     ^                                |                                           |
//!     +--- refused, or too late -------+               a better leader is met      |
//!     ^                                                                            |
//!     |   organiser is down, or has moved on              won                      |
//!     +---------------------------------------- waiting ------> following          |
//!     +---------------------------------------------------------------+------------+
//! ```
//!
//! From any of them a node goes to *waiting* when it obeys: a better organiser's `Halt`, or the
//! `Norm` of a leader whom it joins. The papers call them Elec1, Elec2, Wait and Norm.
//!
//! **Why two don't lead at once, while no message outlives its sender's detection.** An organiser
//! stops the worse members *in the order of their ranks*. So of two organisers the better one stops
//! the worse one before it touches anyone whom that one needs, too; and whoever has obeyed the better
//! one refuses the worse one, also after a restart. With a detector that is wrong, or a parted
//! network, there may be two leaders: they learn of each other by `Norm`, and the worse one follows.

mod hear;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::node_state::NodeState;
use super::settings::lacks;
use super::{ElectionId, NodeId, PeerEffect, PeerMessage};
use crate::detector::Verdict;
use crate::{Epoch, Instant, Random};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BestEffort {
    pub(super) status: Status,
    /// The election that it organises, obeys or follows.
    pub(super) election: ElectionId,
    /// The newest election of each member that was *obeyed*. Those that were refused don't count: an
    /// organiser that was refused comes again with the same one.
    pub(super) obeyed: BTreeMap<NodeId, ElectionId>,
    /// Tells the detector's answers of one question from those of an earlier one.
    pub(super) round: u64,
    /// Whom the detector was asked about in this round and has not answered yet.
    pub(super) asked: BTreeSet<NodeId>,
    pub(super) look_at: Instant,
    /// Since when it follows the same leader.
    pub(super) followed_since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// Are all better members down? (Elec1)
    Asking {
        down: BTreeSet<NodeId>,
        /// A better one is up, so this round decides nothing.
        void: bool,
        /// Whether a leader that works is to give way.
        preempt: bool,
    },
    /// All worse members are to wait. (Elec2)
    Halting {
        acks: BTreeSet<NodeId>,
        down: BTreeSet<NodeId>,
        highest: Option<Epoch>,
        /// Whether a leader that works is to give way.
        preempt: bool,
    },
    /// Won; the epoch is on its way to the disk.
    PersistingEpoch {
        acks: BTreeSet<NodeId>,
        epoch: Epoch,
    },
    /// For the organiser of the election that it has obeyed. (Wait)
    Waiting,
    /// The organiser leads. (Norm)
    Following { epoch: Epoch },
    /// (Norm)
    Leading { epoch: Epoch },
}

impl Status {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Asking { .. } => "electing",
            Self::Halting { .. } | Self::PersistingEpoch { .. } => "halting",
            Self::Waiting => "waiting",
            Self::Following { .. } => "following",
            Self::Leading { .. } => "leading",
        }
    }

    const fn asking() -> Self {
        Self::Asking {
            down: BTreeSet::new(),
            void: false,
            preempt: false,
        }
    }
}

impl BestEffort {
    /// The machine of a node that starts. One that was waiting or following when it stopped takes
    /// that up again: others rely on it, and it is told if it is over.
    pub(super) fn new(base: &NodeState, now: Instant) -> Self {
        let fresh = ElectionId {
            organiser: base.me(),
            incarnation: base.record.incarnation,
            number: 0,
        };
        let (status, election) = match base.record.obeyed {
            Some(obeyed) => (Status::Waiting, obeyed),
            None => (Status::asking(), fresh),
        };
        let obeyed = base.record.obeyed.into_iter();
        Self {
            status,
            election,
            obeyed: obeyed
                .map(|election| (election.organiser, election))
                .collect(),
            round: 0,
            asked: BTreeSet::new(),
            look_at: now,
            followed_since: now,
        }
    }

    /// Whom it obeys or follows, itself if it leads.
    pub(super) fn leader_or_organiser(&self) -> Option<NodeId> {
        match self.status {
            Status::Waiting | Status::Following { .. } | Status::Leading { .. } => {
                Some(self.election.organiser)
            }
            Status::Asking { .. } | Status::Halting { .. } | Status::PersistingEpoch { .. } => None,
        }
    }

    pub(super) const fn due(&self) -> Instant {
        self.look_at
    }

    pub(super) fn handle_timeout(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        if now >= self.look_at {
            self.look(base, now);
            self.look_at = now + random.jitter(self.pace(base));
        }
    }

    /// How often to look. What is settled needs no hurry.
    fn pace(&self, base: &NodeState) -> Duration {
        let timings = &base.settings.timings;
        match self.status {
            Status::Following { .. } | Status::Leading { .. } => timings.term().renew_interval(),
            _ => timings.message_lifetime(),
        }
    }

    /// Says and asks again what matters: anything may have been lost.
    fn look(&mut self, base: &mut NodeState, now: Instant) {
        match &self.status {
            Status::Asking { void, .. } => {
                let first = self.election.number == 0 || self.election.organiser != base.me();
                if first || (*void && !lacks!(base.settings, AskAgain)) {
                    self.organise(base, now);
                }
            }
            Status::Halting { .. } => {
                if !lacks!(base.settings, HaltAgain) {
                    // It may have gone since it was asked about.
                    if let Some(&open) = self.open(base).first() {
                        self.ask(base, open);
                    }
                    self.halt(base, now);
                }
            }
            Status::PersistingEpoch { .. } => {}
            Status::Waiting | Status::Following { .. } => {
                if self.may_take_over(base, now) {
                    self.organise(base, now);
                    return;
                }
                let organiser = self.election.organiser;
                let ack = self.ack(base);
                base.send(organiser, ack);
                self.ask(base, organiser);
            }
            Status::Leading { epoch } => base.send_all(PeerMessage::Norm {
                election: self.election,
                epoch: *epoch,
            }),
        }
    }

    /// Whether it takes the place of the leader that it follows: it is better, wants to, and has not
    /// come and gone lately.
    fn may_take_over(&self, base: &NodeState, now: Instant) -> bool {
        let settings = &base.settings;
        matches!(self.status, Status::Following { .. })
            && settings.preempt()
            && base.may_stand(now)
            && base.is_better(base.me(), self.election.organiser)
            && now >= self.followed_since + settings.timings.hold_down()
    }

    fn ack(&self, base: &NodeState) -> PeerMessage {
        PeerMessage::Ack {
            election: self.election,
            highest: base.record.highest,
        }
    }

    fn ask(&mut self, base: &mut NodeState, node: NodeId) {
        if self.asked.insert(node) {
            base.outbox.effect(PeerEffect::Ask {
                node,
                round: self.round,
            });
        }
    }

    fn new_round(&mut self) {
        self.round += 1;
        self.asked.clear();
    }

    /// Begins an election of its own (the papers' Stage 1), or stays aside.
    ///
    /// Its number is new, so that no message of an earlier election counts for this one. It need not
    /// be durable, because the incarnation is.
    pub(super) fn organise(&mut self, base: &mut NodeState, now: Instant) {
        let preempt = self.may_take_over(base, now);
        let earlier = match &self.status {
            Status::Asking { down, .. } if lacks!(base.settings, SameRound) => down.clone(),
            _ => BTreeSet::new(),
        };
        self.idle(base, now);
        if !base.may_stand(now) {
            return;
        }
        let me = base.me();
        let mine = self.obeyed.get(&me).map_or(0, |newest| newest.number);
        let number = if lacks!(base.settings, FreshElection) {
            1
        } else {
            mine + 1
        };
        self.election = ElectionId {
            organiser: me,
            incarnation: base.record.incarnation,
            number,
        };
        self.obeyed.insert(me, self.election);
        self.status = Status::Asking {
            down: earlier,
            void: false,
            preempt,
        };
        let settings = base.settings.clone();
        for better in settings.members.better(me) {
            self.ask(base, better);
        }
        self.decide(base, now);
    }

    /// Leaves whatever it was in. Whom it had obeyed no longer counts on it: it was down, or has said
    /// that it has moved on. And an acknowledgement that still waits for a slow disk never leaves: it
    /// would make a leader of one who is up again, beside the next one.
    fn idle(&mut self, base: &mut NodeState, now: Instant) {
        base.outbox.take_back();
        if base.record.obeyed.take().is_some() {
            base.persist();
        }
        self.step_down(base, now);
        self.new_round();
        self.status = Status::asking();
        self.election.organiser = base.me();
        self.election.incarnation = base.record.incarnation;
        self.election.number = 0;
        self.look_at = now;
    }

    /// Ends the term that it leads, if it does.
    fn step_down(&mut self, base: &mut NodeState, now: Instant) {
        if matches!(self.status, Status::Leading { .. }) {
            base.supersede(now);
        }
        base.see_leader(None);
    }

    /// Goes on to halting if all better members are down, *in this round*: who was down in an earlier
    /// one may be up again, and follow a leader.
    fn decide(&mut self, base: &mut NodeState, now: Instant) {
        let Status::Asking {
            down,
            void,
            preempt,
        } = &self.status
        else {
            return;
        };
        let settings = base.settings.clone();
        let all_down = settings
            .members
            .better(base.me())
            .all(|b| down.contains(&b));
        if !all_down || (*void && !lacks!(base.settings, SameRound)) {
            return;
        }
        let preempt = *preempt;
        self.new_round();
        self.status = Status::Halting {
            acks: BTreeSet::new(),
            down: BTreeSet::new(),
            highest: None,
            preempt,
        };
        // About all at once: should several be down, it takes no longer than for one.
        for worse in self.open(base) {
            self.ask(base, worse);
        }
        self.halt(base, now);
        if !lacks!(base.settings, CompletionEverywhere) {
            self.try_win(base, now);
        }
    }

    /// Halts the best of the worse members that is neither waiting nor down.
    ///
    /// **One after the other, in the order of their ranks** (Stoller 1997). Were all halted at once,
    /// a worse organiser could still get the acknowledgement of one who has obeyed this one.
    fn halt(&mut self, base: &mut NodeState, now: Instant) {
        let Status::Halting { preempt, .. } = self.status else {
            return;
        };
        let halt = PeerMessage::Halt {
            election: self.election,
            preempt,
        };
        let mut open = self.open(base);
        if !lacks!(base.settings, OneAfterTheOther) {
            open.truncate(1);
        }
        for worse in open {
            base.send(worse, halt);
        }
        self.look_at = now + base.settings.timings.message_lifetime();
    }

    /// Who of the worse members is neither waiting nor down, best first.
    fn open(&self, base: &NodeState) -> Vec<NodeId> {
        let Status::Halting { acks, down, .. } = &self.status else {
            return Vec::new();
        };
        let worse = base.settings.members.worse(base.me());
        worse
            .filter(|worse| !acks.contains(worse) && !down.contains(worse))
            .collect()
    }

    /// Wins if all worse members wait or are down. Called wherever one of them is accounted for: the
    /// last one may be down, and then there is no `Ack` to wait for.
    fn try_win(&mut self, base: &mut NodeState, now: Instant) {
        let Status::Halting { acks, highest, .. } = &self.status else {
            return;
        };
        if !self.open(base).is_empty() {
            return;
        }
        let (acks, known) = (acks.clone(), *highest);
        let Some(epoch) = base.next_epoch(now, known) else {
            return self.idle(base, now);
        };
        // Whoever was to be halted and is down by now need not hear of it when it is back.
        base.outbox.take_back();
        // The epoch is durable before anybody hears of it: it is never given to another term.
        base.record.highest = Some(epoch);
        base.record.voted = None;
        base.persist();
        self.status = Status::PersistingEpoch { acks, epoch };
    }

    /// Everything is on disk.
    pub(super) fn persisted(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Status::PersistingEpoch { acks, epoch } = &self.status else {
            return;
        };
        let (acks, epoch) = (acks.clone(), *epoch);
        if !base.may_stand(now) {
            return self.idle(base, now);
        }
        self.status = Status::Leading { epoch };
        base.begin(now, epoch, now);
        for ack in acks {
            let election = self.election;
            base.send(ack, PeerMessage::Ldr { election, epoch });
        }
        self.look_at = now + random.jitter(self.pace(base));
    }

    /// The term that it led is over and its task gone, or it stands aside: who waits for it or
    /// follows it is told, and need not find out.
    pub(super) fn abdicate(&mut self, base: &mut NodeState, now: Instant) {
        let organises = matches!(
            self.status,
            Status::Halting { .. } | Status::PersistingEpoch { .. } | Status::Leading { .. }
        );
        if organises {
            let election = self.election;
            self.idle(base, now);
            base.send_all(PeerMessage::Stale { election });
        }
    }

    /// It stands for election from now on.
    pub(super) fn wake(&mut self, base: &mut NodeState, now: Instant) {
        if matches!(self.status, Status::Asking { .. }) {
            self.organise(base, now);
        }
    }

    /// The detector suspects a member: ask about it now, if it matters.
    pub(super) fn suspected(&mut self, base: &mut NodeState, node: NodeId) {
        let matters = matches!(self.status, Status::Waiting | Status::Following { .. });
        if matters && node == self.election.organiser {
            self.ask(base, node);
        }
    }

    /// The detector's answer. One of another round is void: much may have happened since.
    pub(super) fn answered(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (node, round, verdict): (NodeId, u64, Verdict),
    ) {
        let own = round == self.round && self.asked.remove(&node);
        if !own && !lacks!(base.settings, OwnRound) {
            return;
        }
        match &mut self.status {
            Status::Asking {
                down,
                void,
                preempt,
            } => {
                // Who stands aside does not organise. It is stopped, or joins, like anybody.
                if verdict == Verdict::Up {
                    *void = true;
                    *preempt = false;
                    self.look_at = now + base.settings.timings.message_lifetime();
                } else {
                    down.insert(node);
                    self.decide(base, now);
                }
            }
            Status::Halting { down, .. } => {
                if verdict == Verdict::Down {
                    down.insert(node);
                    self.halt(base, now);
                    if !lacks!(base.settings, CompletionEverywhere) {
                        self.try_win(base, now);
                    }
                }
            }
            Status::Waiting | Status::Following { .. } => {
                let misses =
                    !lacks!(base.settings, MissAnyLeader) || base.is_better(node, base.me());
                if verdict != Verdict::Up && node == self.election.organiser && misses {
                    self.organise(base, now);
                }
            }
            Status::PersistingEpoch { .. } | Status::Leading { .. } => {}
        }
    }
}
