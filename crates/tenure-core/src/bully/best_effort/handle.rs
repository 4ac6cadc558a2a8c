//! Messages from other members.

use super::{BestEffort, Status};
use crate::bully::node_state::NodeState;
use crate::bully::settings::mutation;
use crate::bully::{ElectionId, NodeId, PeerMessage};
use crate::election::EndReason;
use crate::{Epoch, Instant};

/// A candidate that was refused tries again after this part of a message's lifetime.
const AGAIN: u32 = 5;

impl BestEffort {
    pub(in crate::bully) fn handle_message(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        (from, message): (NodeId, PeerMessage),
    ) {
        match message {
            PeerMessage::Halt { election, preempt } if election.organiser == from => {
                self.handle_halt(state, now, election, preempt);
            }
            PeerMessage::Ack { election, highest } if election.organiser == state.me() => {
                state.learn(highest);
                self.handle_ack(state, now, (from, election), highest);
            }
            PeerMessage::Rej { election, holds_to } if election == self.election => {
                self.handle_rej(state, now, holds_to);
            }
            PeerMessage::Stale { election } if election == self.election => {
                self.handle_stale(state, now, from);
            }
            PeerMessage::Ldr { election, epoch } if election.organiser == from => {
                state.learn(Some(epoch));
                self.handle_ldr(state, now, election, epoch);
            }
            PeerMessage::Norm { election, epoch } if election.organiser == from => {
                state.learn(Some(epoch));
                self.handle_norm(state, now, election, epoch);
            }
            // Of another election, of a group with a quorum, or sent by the wrong member.
            _ => {}
        }
        self.give_way_to_a_greater_epoch(state, now);
    }

    /// A leader that learns of a greater epoch than its own (for instance of a leader on the other
    /// side of a partition) begins a new term in order: receivers that have seen the greater epoch
    /// refuse its writes.
    fn give_way_to_a_greater_epoch(&self, state: &mut NodeState, now: Instant) {
        if let Status::Leading { epoch } = self.status
            && state.record.highest > Some(epoch)
            && !mutation!(state.settings, GreaterEpoch)
            && let Some(term) = &mut state.term
        {
            term.begin_ending(now, EndReason::Superseded, &mut state.outbox.ready);
        }
    }

    fn handle_halt(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        election: ElectionId,
        preempt: bool,
    ) {
        let from = election.organiser;
        if !state.is_better(from, state.me()) {
            return;
        }
        // A message may come late and twice. An election that was accepted once is not accepted
        // again: a member that has moved on must not be drawn back.
        if let Some(&newest) = self.accepted.get(&from)
            && !mutation!(state.settings, ObeyOnce)
        {
            if election < newest {
                return;
            }
            if election == newest {
                let answer = if self.election == election {
                    self.ack(state)
                } else {
                    PeerMessage::Stale { election }
                };
                return state.send(from, answer);
            }
        }
        if let Some(holds_to) = self.leader_or_organiser()
            && holds_to != from
        {
            let better = state.is_better(holds_to, from) && !mutation!(state.settings, Refuse);
            let spares = !preempt && !mutation!(state.settings, Spare);
            let works = spares && !matches!(self.status, Status::Waiting);
            if better || (works && !state.is_better(holds_to, from)) {
                state.send(from, PeerMessage::Rej { election, holds_to });
                // The organiser has found that member down, so it may be.
                if holds_to != state.me() {
                    self.ask(state, holds_to);
                }
                // A leader also announces itself: the organiser may join at once.
                if let Status::Leading { epoch } = self.status {
                    let election = self.election;
                    state.send(from, PeerMessage::Norm { election, epoch });
                }
                return;
            }
        }
        self.wait_for(state, now, election);
    }

    /// Waits for the organiser of `election`. The acknowledgement leaves when that is durable: a
    /// member that forgot it could accept a worse organiser while the better one counts on it.
    fn wait_for(&mut self, state: &mut NodeState, now: Instant, election: ElectionId) {
        state.outbox.discard_held();
        self.step_down(state, now);
        self.new_round();
        self.accepted.insert(election.organiser, election);
        self.election = election;
        self.status = Status::Waiting;
        self.tick_at = now + state.settings.timings.message_lifetime();
        if !mutation!(state.settings, DurablePromise) {
            state.record.accepted = Some(election);
            state.record.voted = None;
            state.persist();
        }
        let ack = self.ack(state);
        state.send(election.organiser, ack);
    }

    fn handle_ack(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        (from, election): (NodeId, ElectionId),
        known: Option<Epoch>,
    ) {
        let matches = election == self.election || mutation!(state.settings, MatchAck);
        match &mut self.status {
            Status::Halting { acks, highest, .. } if matches => {
                *highest = (*highest).max(known);
                if acks.insert(from) {
                    self.halt(state, now);
                    self.try_win(state, now);
                }
            }
            // Late: the member was taken for down, or joins.
            Status::PersistingEpoch { acks, .. } if matches => {
                acks.insert(from);
            }
            Status::Leading { .. } if matches && mutation!(state.settings, Join) => {
                self.organise(state, now);
            }
            Status::Leading { epoch } if matches => {
                let epoch = *epoch;
                state.send(from, PeerMessage::Ldr { election, epoch });
            }
            // It waits for an election that is over: its organiser will never count on it again.
            _ => state.send(from, PeerMessage::Stale { election }),
        }
    }

    fn handle_rej(&mut self, state: &mut NodeState, now: Instant, holds_to: NodeId) {
        match self.status {
            // With a fresh election and not at once: members that have accepted this one learn that
            // it is over, and a leader that was named has time to announce itself. Soon, though:
            // most often the other member will notice in a moment what this one has noticed.
            Status::Halting { .. } | Status::PersistingEpoch { .. } => {
                self.reset(state, now);
                self.tick_at = now + state.settings.timings.message_lifetime() / AGAIN;
            }
            Status::Leading { .. } if state.is_better(holds_to, state.me()) => {
                self.organise(state, now);
            }
            _ => {}
        }
    }

    fn handle_stale(&mut self, state: &mut NodeState, now: Instant, from: NodeId) {
        let organiser = self.election.organiser;
        match self.status {
            // The organiser's election only moves forward, so it will not count on this member
            // again: the promise is over.
            Status::Waiting | Status::Following { .. } if from == organiser => {
                self.organise(state, now);
            }
            Status::Halting { .. } => self.organise(state, now),
            _ => {}
        }
    }

    fn handle_ldr(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        election: ElectionId,
        epoch: Epoch,
    ) {
        if election == self.election && matches!(self.status, Status::Waiting) {
            self.status = Status::Following { epoch };
            self.followed_since = now;
            self.new_round();
            state.see_leader(Some((election.organiser, epoch)));
        }
    }

    fn handle_norm(
        &mut self,
        state: &mut NodeState,
        now: Instant,
        election: ElectionId,
        epoch: Epoch,
    ) {
        let from = election.organiser;
        if election == self.election {
            return self.handle_ldr(state, now, election, epoch);
        }
        // Late: a newer election of that organiser has been accepted since.
        if self
            .accepted
            .get(&from)
            .is_some_and(|&newest| election < newest)
        {
            return;
        }
        match self.status {
            // A member that works for another leader tells the worse of the two about the better
            // one.
            Status::Following { .. } | Status::Leading { .. } => {
                if mutation!(state.settings, Conflict) {
                    return;
                }
                let holds_to = self.election.organiser;
                if holds_to == from || state.is_better(from, holds_to) {
                    self.wait_for(state, now, election);
                } else {
                    state.send(from, PeerMessage::Rej { election, holds_to });
                }
            }
            // It is bound until its organiser answers, or is down.
            Status::Waiting if state.is_better(self.election.organiser, from) => {}
            // It is about to take a working leader's place, on purpose.
            Status::Asking { preempt: true, .. } | Status::Halting { preempt: true, .. }
                if state.is_better(state.me(), from) => {}
            // There is a leader, so there is nothing to organise: join it.
            Status::Asking { .. }
            | Status::Halting { .. }
            | Status::PersistingEpoch { .. }
            | Status::Waiting => self.wait_for(state, now, election),
        }
    }
}
