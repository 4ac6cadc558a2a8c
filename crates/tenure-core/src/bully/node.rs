//! A member: one of the two machines, and the parts that both share.

use core::time::Duration;

use super::best_effort::BestEffort;
use super::node_state::{Context, NodeState, Started};
use super::quorum::{Quorum, Role};
use super::{
    ElectionId, GroupGuarantee, GroupSettings, HardState, NodeId, PeerEffect, PeerInput, QuorumKind,
};
use crate::election::{ElectionMachine, EndReason, Output, Standing, TaskEnd, TermEvent};
use crate::{CandidateId, Epoch, Instant, Random};

/// A member of an election among peers; see the [module](super) for how to drive it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerCandidate {
    pub(super) state: NodeState,
    pub(super) machine: Machine,
    /// The member that the failure detector watches.
    pub(super) watched: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Machine {
    BestEffort(BestEffort),
    Quorum(Quorum),
}

impl PeerCandidate {
    /// Creates a member that has just started. `record` is the record that it last wrote, or the
    /// default record if it has never run. The member follows and votes, and is not a candidate
    /// yet.
    #[must_use]
    pub fn new(settings: GroupSettings, record: HardState, started: Started) -> Self {
        let state = NodeState::new(settings, record, started);
        let machine = match state.settings.guarantee() {
            GroupGuarantee::BestEffort => Machine::BestEffort(BestEffort::new(&state, started.at)),
            GroupGuarantee::Quorum => Machine::Quorum(Quorum::new(&state, started.at)),
        };
        Self {
            state,
            machine,
            watched: None,
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &GroupSettings {
        &self.state.settings
    }

    /// Returns the member that is this candidate.
    #[must_use]
    pub fn member_of(&self, candidate: &CandidateId) -> Option<NodeId> {
        let mut members = self.settings().members().iter();
        members.find(|&member| CandidateId::from(member) == *candidate)
    }

    /// Returns the member's incarnation: how often it has started.
    #[must_use]
    pub const fn incarnation(&self) -> u64 {
        self.state.record.incarnation
    }

    /// Returns whether the member is a candidate, so that it leads if it wins. The failure
    /// detectors of other members report this as [`Verdict::Up`](crate::detector::Verdict::Up) or
    /// [`Verdict::NonCandidate`](crate::detector::Verdict::NonCandidate).
    #[must_use]
    pub fn is_candidate(&self, now: Instant) -> bool {
        self.state.term.is_some() || self.state.may_campaign(now)
    }

    /// Returns how long another member may be silent until this leader considers it gone: two renew
    /// intervals and a message lifetime. Every follower sends one message per renew interval.
    /// Returns `None` if this member does not lead, since such a member watches only its leader.
    #[must_use]
    pub fn longest_silence(&self) -> Option<Duration> {
        let timings = &self.state.settings.timings;
        let longest = timings.term().renew_interval() * 2 + timings.message_lifetime();
        (self.leader_or_organiser() == Some(self.state.me())).then_some(longest)
    }

    /// Returns the member that this member follows or waits for, or this member while it leads;
    /// `None` while no leader is known.
    fn leader_or_organiser(&self) -> Option<NodeId> {
        match &self.machine {
            Machine::BestEffort(machine) => machine.leader_or_organiser(),
            Machine::Quorum(machine) => machine.leader_or_organiser(self.state.me()),
        }
    }

    /// Moves the watch to the member that this member follows. A leader watches no member: with a
    /// quorum, its rounds of renewals show which members are up, and without one, a failed follower
    /// needs no action and another leader announces itself. While no leader is known, the last one
    /// stays under watch.
    fn move_watch(&mut self) -> Option<PeerEffect> {
        let me = self.state.me();
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

    /// Returns the known leader and the epoch of its term; the leader may be this member.
    #[must_use]
    pub const fn leader(&self) -> Option<(NodeId, Epoch)> {
        self.state.seen
    }

    /// Returns whether a message to this member waits until a record is on disk.
    #[must_use]
    pub fn holds_message_to(&self, node: NodeId) -> bool {
        self.state.outbox.holds_message_to(node)
    }

    /// Returns the name of the member's role, for display. Without a quorum: `asking`, `halting`,
    /// `persisting-epoch`, `waiting`, `following` or `leading`. With a quorum: `following` (also
    /// while no leader is known), `pre-voting`, `voting` or `leading`.
    #[must_use]
    pub const fn role(&self) -> &'static str {
        match &self.machine {
            Machine::BestEffort(machine) => machine.status.as_str(),
            Machine::Quorum(machine) => machine.role.as_str(),
        }
    }

    /// Returns, without a quorum, the election that the member organises, has accepted or follows;
    /// `None` before the first election.
    #[must_use]
    pub fn election(&self) -> Option<ElectionId> {
        match &self.machine {
            Machine::BestEffort(machine) => Some(machine.election).filter(|it| it.number > 0),
            Machine::Quorum(_) => None,
        }
    }

    /// Returns, with a quorum, whether the member reaches a majority: it follows a leader, which
    /// has the promises of a majority, or it reached a majority when it last tried.
    #[must_use]
    pub const fn reaches_majority(&self) -> Option<bool> {
        match &self.machine {
            Machine::BestEffort(_) => None,
            Machine::Quorum(machine) => {
                let follows = matches!(machine.role, Role::Following { leader: Some(_) });
                Some(machine.connected || follows)
            }
        }
    }

    /// Returns the kind of quorum that carries this member's term now; `None` if it does not lead
    /// with a quorum.
    #[must_use]
    pub fn carried_by(&self, now: Instant) -> Option<QuorumKind> {
        match &self.machine {
            Machine::BestEffort(_) => None,
            Machine::Quorum(machine) => machine.carried_by(&self.state, now),
        }
    }

    /// Returns the epoch that this member votes for itself under or leads under.
    pub(crate) fn stands_under(&self) -> Option<Epoch> {
        let of_term = self.state.term.as_ref().map(|term| term.epoch);
        let of_vote = match &self.machine {
            Machine::BestEffort(_) => None,
            Machine::Quorum(machine) => machine.stands_under(),
        };
        of_term.or(of_vote)
    }

    /// Returns whether this member may ask the store for the lease now.
    pub(crate) fn may_ask_store(&self, now: Instant) -> bool {
        match &self.machine {
            Machine::BestEffort(_) => false,
            Machine::Quorum(machine) => machine.may_ask_store(&self.state, now),
        }
    }

    /// Returns whether this member, which asks the store for the lease, must stop asking.
    pub(crate) fn must_leave_store(&self, now: Instant) -> bool {
        !self.may_ask_store(now)
    }

    /// Returns an epoch above all epochs that this member knows, for a request to the store.
    pub(crate) fn epoch_to_ask_for(&mut self, now: Instant) -> Option<Epoch> {
        let known = match &self.machine {
            Machine::BestEffort(_) => None,
            Machine::Quorum(machine) => machine.known,
        };
        self.state.next_epoch(now, known)
    }

    /// Input: news of the store's promise. `away` says that the store gives none now.
    pub(crate) fn handle_store(
        &mut self,
        now: Instant,
        promise: Option<(Epoch, Instant)>,
        away: bool,
        random: &mut dyn Random,
    ) {
        if let (Machine::Quorum(machine), mut cx) = self.parts(now, random) {
            machine.handle_store(&mut cx, promise, away);
        }
        self.tick_term(now, random);
    }

    /// Input: the store has granted this epoch to this member. Returns whether the member can lead
    /// under it.
    pub(crate) fn claim(&mut self, now: Instant, epoch: Epoch, random: &mut dyn Random) -> bool {
        match self.parts(now, random) {
            (Machine::Quorum(machine), mut cx) => machine.claim(&mut cx, epoch),
            (Machine::BestEffort(_), _) => false,
        }
    }

    /// Input: an operator broke the lease in the store. The term ends, and its task must be gone by
    /// `ceiling`.
    pub(crate) fn break_term(&mut self, now: Instant, ceiling: Instant, random: &mut dyn Random) {
        if let Some(term) = &mut self.state.term {
            let (timings, outputs) = (
                self.state.settings.timings.term(),
                &mut self.state.outbox.ready,
            );
            term.lose(now, EndReason::Broken, Some(ceiling), timings, outputs);
            self.tick_term(now, random);
        }
    }

    /// Returns whether this member's term is over although its task may still run.
    pub(crate) fn has_lost_term(&self) -> bool {
        self.state.term.as_ref().is_some_and(|term| term.lost)
    }

    /// Returns the member that the current term is handed over to.
    pub(crate) fn successor(&self) -> Option<NodeId> {
        self.state.term.as_ref()?.successor
    }

    /// Input: the store names the holder of the lease. A member that follows no leader sees it as
    /// the leader.
    pub(crate) fn see_holder(&mut self, holder: Option<(NodeId, Epoch)>) {
        if self.leader_or_organiser().is_none() {
            self.state.see_leader(holder);
        }
    }

    /// Input: another authority has used this epoch. The later terms of this member have greater
    /// epochs.
    pub fn learn_taken_epoch(&mut self, epoch: Epoch) {
        self.state.taken_epoch = self.state.taken_epoch.max(Some(epoch));
    }

    pub(super) fn parts<'a>(
        &'a mut self,
        now: Instant,
        random: &'a mut dyn Random,
    ) -> (&'a mut Machine, Context<'a>) {
        let state = &mut self.state;
        (&mut self.machine, Context { state, now, random })
    }

    /// Ends the term after its task has ended.
    pub(super) fn end_term(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        let Some(mut term) = self.state.term.take() else {
            return;
        };
        let (machine, mut cx) = self.parts(now, random);
        term.begin_ending(now, EndReason::of_task(end), &mut cx.state.outbox.ready);
        let (epoch, reason) = (term.epoch, term.reason());
        cx.state.candidate_since = None;
        if reason.calls_for_cool_down() {
            cx.state.cooldown_until = now + cx.state.settings.timings.term().cool_down();
        }
        match machine {
            Machine::BestEffort(_) if term.lost => {}
            Machine::BestEffort(machine) => machine.abdicate(&mut cx),
            Machine::Quorum(machine) => machine.release(&mut cx, epoch, term.successor),
        }
        cx.state.outbox.ready.emit(TermEvent::Ended(epoch, reason));
    }

    /// Advances the term to `now`. A leader whose machine was suspended past the renew deadline no
    /// longer leads, with either guarantee: the other members may have elected another leader.
    pub(super) fn tick_term(&mut self, now: Instant, random: &mut dyn Random) {
        let (machine, mut cx) = self.parts(now, random);
        let Some(term) = &mut cx.state.term else {
            return;
        };
        let timings = cx.state.settings.timings.term();
        term.tick(now, timings, &mut cx.state.outbox.ready);
        match machine {
            Machine::BestEffort(machine) if term.lost => machine.abdicate(&mut cx),
            // No other member renews such a term, so it lasts while the leader's process runs.
            Machine::BestEffort(_) => term.renew(now),
            Machine::Quorum(machine) if term.lost => machine.lost(&mut cx),
            Machine::Quorum(_) => {}
        }
    }
}

impl ElectionMachine for PeerCandidate {
    type Message = PeerInput;
    type Effect = PeerEffect;

    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        if self.state.candidate_since.is_none() && self.state.term.is_none() {
            let from = self.state.cooldown_until.max(now);
            self.state.candidate_since = Some(from);
            match self.parts(now, random) {
                (Machine::BestEffort(machine), mut cx) if from <= now => machine.wake(&mut cx),
                (Machine::BestEffort(_), _) => {}
                (Machine::Quorum(machine), _) => machine.wake(now),
            }
            self.handle_timeout(now, random);
        }
    }

    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        if let Some(term) = &mut self.state.term {
            let timings = self.state.settings.timings.term();
            term.resign(now, reason, timings, &mut self.state.outbox.ready);
            self.tick_term(now, random);
        } else if self.state.candidate_since.take().is_some() {
            match self.parts(now, random) {
                (Machine::BestEffort(machine), mut cx) => machine.abdicate(&mut cx),
                (Machine::Quorum(machine), mut cx) => machine.withdraw(&mut cx),
            }
            self.state.outbox.ready.emit(TermEvent::Withdrawn);
        }
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        if let (Some(to), Some(term)) = (self.member_of(&to), &mut self.state.term) {
            term.hand_over(now, to, &mut self.state.outbox.ready);
        }
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        // The time is checked first: if the term has passed already, a task that stops now has not
        // ended it.
        self.handle_timeout(now, random);
        self.end_term(now, end, random);
    }

    fn handle_message(&mut self, now: Instant, input: PeerInput, random: &mut dyn Random) {
        // The time is checked first: an answer must not extend a term that ended before the answer
        // arrived.
        self.tick_term(now, random);
        if let PeerInput::Message { from, .. } = input {
            let settings = &self.state.settings;
            if from == settings.me || !settings.members.contains(from) {
                return; // The sender is not another member of this election.
            }
        }
        let (machine, mut cx) = self.parts(now, random);
        if input == PeerInput::Persisted {
            cx.state.outbox.handle_persisted();
            if cx.state.outbox.is_durable() {
                match machine {
                    Machine::BestEffort(machine) => machine.handle_persisted(&mut cx),
                    Machine::Quorum(machine) => machine.handle_persisted(&mut cx),
                }
            }
            return;
        }
        match machine {
            Machine::BestEffort(machine) => machine.handle_input(&mut cx, input),
            Machine::Quorum(machine) => machine.handle_input(&mut cx, input),
        }
    }

    fn handle_progress(&mut self, at: Instant) {
        if let Some(term) = &mut self.state.term {
            term.handle_progress(at);
        }
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        self.tick_term(now, random);
        match self.parts(now, random) {
            (Machine::BestEffort(machine), mut cx) => machine.handle_timeout(&mut cx),
            (Machine::Quorum(machine), mut cx) => machine.handle_timeout(&mut cx),
        }
    }

    fn poll_output(&mut self) -> Option<Output<PeerEffect>> {
        let output = self.state.outbox.ready.poll();
        output.or_else(|| self.move_watch().map(Output::Effect))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = match &self.machine {
            Machine::BestEffort(machine) => machine.tick_at,
            Machine::Quorum(machine) => machine.due(),
        };
        let timings = self.state.settings.timings.term();
        let term = self.state.term.as_ref();
        Some(term.map_or(due, |term| term.poll_timeout(timings).min(due)))
    }

    fn standing(&self, now: Instant) -> Standing {
        match &self.state.term {
            Some(term) => term.standing(now, self.state.settings.timings.term()),
            None if self.state.candidate_since.is_some() => Standing::Campaigning,
            None => Standing::Idle,
        }
    }

    fn stop_by(&self) -> Option<Instant> {
        let timings = self.state.settings.timings.term();
        self.state.term.as_ref().map(|term| term.abort_at(timings))
    }

    fn overrun_at(&self) -> Option<Instant> {
        let timings = self.state.settings.timings.term();
        let term = self.state.term.as_ref();
        term.map(|term| term.overrun_at(timings))
    }
}
