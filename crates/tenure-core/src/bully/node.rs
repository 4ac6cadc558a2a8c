//! A member: one of the two machines, and what surrounds both.

use core::time::Duration;

use super::best_effort::BestEffort;
use super::node_state::{NodeState, Started};
use super::quorum::Quorum;
use super::{
    ElectionId, GroupGuarantee, GroupSettings, HardState, NodeId, PeerEffect, PeerInput,
    PeerMessage,
};
use crate::election::{ElectionMachine, EndReason, Output, Standing, TaskEnd, TermEvent};
use crate::{Epoch, Instant, Random};

/// A member of an election among peers; see the [module](super) for how to drive it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerCandidate {
    pub(super) base: NodeState,
    pub(super) machine: Machine,
    /// Whom the failure detector watches.
    pub(super) watched: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Machine {
    BestEffort(BestEffort),
    Quorum(Quorum),
}

impl PeerCandidate {
    /// A member that has just started, with the record that it last wrote; the default one if it has
    /// never run. It follows and votes, and does not stand for election yet.
    #[must_use]
    pub fn new(settings: GroupSettings, record: HardState, started: Started) -> Self {
        let base = NodeState::new(settings, record, started);
        let machine = match base.guarantee() {
            GroupGuarantee::BestEffort => Machine::BestEffort(BestEffort::new(&base, started.at)),
            GroupGuarantee::Quorum => Machine::Quorum(Quorum::new(&base, started.at)),
        };
        Self {
            base,
            machine,
            watched: None,
        }
    }

    /// What this election promises.
    #[must_use]
    pub fn guarantee(&self) -> GroupGuarantee {
        self.base.guarantee()
    }

    /// What it is made of.
    #[must_use]
    pub fn settings(&self) -> &GroupSettings {
        &self.base.settings
    }

    /// How often it has started.
    #[must_use]
    pub const fn incarnation(&self) -> u64 {
        self.base.record.incarnation
    }

    /// Whether it would lead if it won: what the failure detectors of others are told, as
    /// [`Verdict::Up`](super::Verdict::Up) or [`Aside`](super::Verdict::Aside).
    #[must_use]
    pub fn stands(&self, now: Instant) -> bool {
        self.base.term.is_some() || self.base.may_stand(now)
    }

    /// While it leads: how long a member may be silent until it counts as gone, two renew intervals and
    /// the time of a message. Every follower speaks once in each. `None` for others, who watch whom
    /// they follow.
    #[must_use]
    pub fn longest_silence(&self) -> Option<Duration> {
        let timings = &self.base.settings.timings;
        let longest = timings.term().renew_interval() * 2 + timings.message_lifetime();
        (self.leader_or_organiser() == Some(self.base.me())).then_some(longest)
    }

    /// Whom it follows or waits for; itself while it leads, nobody while that is open.
    fn leader_or_organiser(&self) -> Option<NodeId> {
        match &self.machine {
            Machine::BestEffort(machine) => machine.leader_or_organiser(),
            Machine::Quorum(machine) => machine.leader_or_organiser(self.base.me()),
        }
    }

    /// Moves the watch to whom it follows. A leader watches nobody: with a quorum its rounds show who
    /// is there, and without one it does nothing about a follower that is gone; another leader shows
    /// itself. While it is open who leads, the last one stays under watch.
    fn move_watch(&mut self) -> Option<PeerEffect> {
        let me = self.base.me();
        let holds_to = self.leader_or_organiser()?;
        match self.watched {
            Some(watched) if watched == holds_to => None,
            Some(watched) => {
                self.watched = None;
                Some(PeerEffect::Unwatch(watched))
            }
            None if holds_to == me => None,
            None => {
                self.watched = Some(holds_to);
                Some(PeerEffect::Watch(holds_to))
            }
        }
    }

    /// The leader that it knows, and the epoch of its term; itself while it leads.
    #[must_use]
    pub const fn leader(&self) -> Option<(NodeId, Epoch)> {
        self.base.seen
    }

    /// Whether a message to this member waits until a record is on disk.
    #[must_use]
    pub fn holds_message_to(&self, node: NodeId) -> bool {
        self.base.outbox.holds_message_to(node)
    }

    /// What it does now, as one word, for people: `electing`, `halting`, `waiting`, `following` or
    /// `leading`; with a quorum `voting` in place of `halting`, and `idle` for who follows nobody.
    #[must_use]
    pub const fn role(&self) -> &'static str {
        match &self.machine {
            Machine::BestEffort(machine) => machine.status.as_str(),
            Machine::Quorum(machine) => machine.role.as_str(),
        }
    }

    /// Without a quorum: the election that it organises, obeys or follows, once it does.
    #[must_use]
    pub fn election(&self) -> Option<ElectionId> {
        match &self.machine {
            Machine::BestEffort(machine) => Some(machine.election).filter(|it| it.number > 0),
            Machine::Quorum(_) => None,
        }
    }

    /// With a quorum: whether it follows a leader, whom a majority has promised itself to, or reached
    /// a majority when it last tried.
    #[must_use]
    pub const fn reaches_majority(&self) -> Option<bool> {
        match &self.machine {
            Machine::BestEffort(_) => None,
            Machine::Quorum(machine) => Some(machine.connected || machine.follows()),
        }
    }

    /// Input: this epoch was given to a term outside of this election, so the terms that this member
    /// begins from now on have greater ones.
    pub fn taken(&mut self, epoch: Epoch) {
        self.base.taken = self.base.taken.max(Some(epoch));
    }

    /// The task is gone, and with it the term.
    pub(super) fn end_term(&mut self, now: Instant, end: TaskEnd) {
        let Some(mut term) = self.base.term.take() else {
            return;
        };
        term.begin_ending(now, EndReason::of_task(end), &mut self.base.outbox.ready);
        let (epoch, reason) = (term.epoch(), term.reason());
        self.base.candidate_since = None;
        if reason.calls_for_cool_down() {
            let cool_down = self.base.settings.timings.term().cool_down();
            self.base.cooldown_until = now + cool_down;
        }
        match &mut self.machine {
            Machine::BestEffort(machine) if !term.is_lost() => {
                machine.abdicate(&mut self.base, now);
            }
            Machine::BestEffort(_) => {}
            Machine::Quorum(machine) => {
                machine.release(&mut self.base, now, epoch, term.take_successor());
            }
        }
        self.base.outbox.emit(TermEvent::Ended(epoch, reason));
    }

    /// Looks at the term. A leader whose machine stood still past the renew deadline leads no more,
    /// whichever way it was elected: the others will not have waited.
    pub(super) fn look_at_term(&mut self, now: Instant) {
        let Some(term) = &mut self.base.term else {
            return;
        };
        let timings = self.base.settings.timings.term();
        term.tick(now, timings, &mut self.base.outbox.ready);
        let lost = term.is_lost();
        match &mut self.machine {
            Machine::BestEffort(machine) if lost => machine.abdicate(&mut self.base, now),
            // Nobody grants such a term, so it lasts as long as the leader is awake.
            Machine::BestEffort(_) => term.renew(now),
            Machine::Quorum(machine) if lost => machine.lost(&mut self.base, now),
            Machine::Quorum(_) => {}
        }
    }
}

impl ElectionMachine for PeerCandidate {
    type Message = PeerInput;
    type Effect = PeerEffect;
    type Peer = NodeId;

    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        if self.base.candidate_since.is_none() && self.base.term.is_none() {
            let from = self.base.cooldown_until.max(now);
            self.base.candidate_since = Some(from);
            match &mut self.machine {
                Machine::BestEffort(machine) if from <= now => machine.wake(&mut self.base, now),
                Machine::BestEffort(_) => {}
                Machine::Quorum(machine) => machine.wake(now),
            }
            self.handle_timeout(now, random);
        }
    }

    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        if let Some(term) = &mut self.base.term {
            let timings = self.base.settings.timings.term();
            term.resign(now, reason, timings, &mut self.base.outbox.ready);
            self.look_at_term(now);
        } else if self.base.candidate_since.take().is_some() {
            match &mut self.machine {
                Machine::BestEffort(machine) => machine.abdicate(&mut self.base, now),
                Machine::Quorum(machine) => machine.withdraw(&mut self.base, now, random),
            }
            self.base.outbox.emit(TermEvent::Withdrawn);
        }
    }

    fn hand_over(&mut self, now: Instant, to: NodeId) {
        if let Some(term) = &mut self.base.term {
            term.hand_over(now, to, &mut self.base.outbox.ready);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        // Time first: a task that stops because the term has passed has not ended the term.
        self.handle_timeout(now, random);
        self.end_term(now, end);
    }

    fn handle_message(&mut self, now: Instant, input: PeerInput, random: &mut dyn Random) {
        // Time first: an answer must not prolong what time has ended before it came.
        self.look_at_term(now);
        let base = &mut self.base;
        match (&mut self.machine, input) {
            // Another election's member, or a node that talks to itself.
            (_, PeerInput::Message { from, .. })
                if from == base.me() || !base.settings.members.contains(from) => {}
            (Machine::BestEffort(machine), PeerInput::Message { from, message }) => {
                machine.hear(base, now, (from, message));
            }
            (
                Machine::BestEffort(machine),
                PeerInput::Answer {
                    node,
                    round,
                    verdict,
                },
            ) => {
                machine.answered(base, now, (node, round, verdict));
            }
            (Machine::BestEffort(machine), PeerInput::Suspected(node)) => {
                machine.suspected(base, node);
            }
            (Machine::BestEffort(_), PeerInput::Alive(_)) => {}
            (Machine::Quorum(machine), PeerInput::Message { from, message }) => {
                if let PeerMessage::Quorum(message) = message {
                    machine.hear(base, now, (from, message), random);
                }
            }
            (Machine::Quorum(machine), PeerInput::Suspected(node)) => {
                machine.suspected(base, now, node, random);
            }
            (Machine::Quorum(machine), PeerInput::Alive(node)) => machine.alive(node),
            // It asks the members themselves.
            (Machine::Quorum(_), PeerInput::Answer { .. }) => {}
            (machine, PeerInput::Persisted) => {
                base.outbox.persisted();
                if base.outbox.is_durable() {
                    match machine {
                        Machine::BestEffort(machine) => machine.persisted(base, now, random),
                        Machine::Quorum(machine) => machine.persisted(base, now, random),
                    }
                }
            }
        }
    }

    fn handle_progress(&mut self, at: Instant) {
        if let Some(term) = &mut self.base.term {
            term.handle_progress(at);
        }
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        self.look_at_term(now);
        match &mut self.machine {
            Machine::BestEffort(machine) => machine.handle_timeout(&mut self.base, now, random),
            Machine::Quorum(machine) => machine.handle_timeout(&mut self.base, now, random),
        }
    }

    fn poll_output(&mut self) -> Option<Output<PeerEffect>> {
        let output = self.base.outbox.poll();
        output.or_else(|| self.move_watch().map(Output::Effect))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = match &self.machine {
            Machine::BestEffort(machine) => machine.due(),
            Machine::Quorum(machine) => machine.due(),
        };
        let timings = self.base.settings.timings.term();
        let term = self.base.term.as_ref();
        Some(term.map_or(due, |term| term.poll_timeout(timings).min(due)))
    }

    fn standing(&self, now: Instant) -> Standing {
        match &self.base.term {
            Some(term) => term.standing(now, self.base.settings.timings.term()),
            None if self.base.candidate_since.is_some() => Standing::Campaigning,
            None => Standing::Idle,
        }
    }

    fn stop_by(&self) -> Option<Instant> {
        let timings = self.base.settings.timings.term();
        self.base.term.as_ref().map(|term| term.abort_at(timings))
    }
}
