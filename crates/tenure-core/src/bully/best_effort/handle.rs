//! Messages from other members.

use super::{Asking, BestEffort, Status};
use crate::Epoch;
use crate::bully::node_state::Context;
use crate::bully::settings::mutation;
use crate::bully::{ElectionId, NodeId, PeerMessage};
use crate::election::EndReason;

/// A candidate that was refused tries again after this part of a message's lifetime.
const AGAIN: u32 = 5;

impl BestEffort {
    pub(super) fn handle_message(
        &mut self,
        cx: &mut Context<'_>,
        from: NodeId,
        message: PeerMessage,
    ) {
        match message {
            PeerMessage::Halt { election, preempt } if election.organiser == from => {
                self.handle_halt(cx, election, preempt);
            }
            PeerMessage::Ack { election, highest } if election.organiser == cx.state.me() => {
                cx.state.learn(highest);
                self.handle_ack(cx, (from, election), highest);
            }
            PeerMessage::Rej { election, holds_to } if election == self.election => {
                self.handle_rej(cx, holds_to);
            }
            PeerMessage::Stale { election } if election == self.election => {
                self.handle_stale(cx, from);
            }
            PeerMessage::Ldr { election, epoch } if election.organiser == from => {
                cx.state.learn(Some(epoch));
                self.handle_ldr(cx, election, epoch);
            }
            PeerMessage::Norm { election, epoch } if election.organiser == from => {
                cx.state.learn(Some(epoch));
                self.handle_norm(cx, election, epoch);
            }
            // Of another election, of a group with a quorum, or sent by the wrong member.
            _ => {}
        }
        self.give_way_to_a_greater_epoch(cx);
    }

    /// A leader that learns of a greater epoch than its own (for instance of a leader on the other
    /// side of a partition) begins a new term in order: receivers that have seen the greater epoch
    /// refuse its writes.
    fn give_way_to_a_greater_epoch(&self, cx: &mut Context<'_>) {
        if let Status::Leading { epoch } = self.status
            && cx.state.record.highest > Some(epoch)
            && !mutation!(cx.state.settings, GreaterEpoch)
            && let Some(term) = &mut cx.state.term
        {
            term.begin_ending(cx.now, EndReason::Superseded, &mut cx.state.outbox.ready);
        }
    }

    fn handle_halt(&mut self, cx: &mut Context<'_>, election: ElectionId, preempt: bool) {
        let from = election.organiser;
        if !cx.state.is_better(from, cx.state.me()) {
            return;
        }
        // A message may come late and twice. An election that was accepted once is not accepted
        // again: a member that has moved on must not be drawn back.
        if let Some(&newest) = self.accepted.get(&from)
            && !mutation!(cx.state.settings, ObeyOnce)
        {
            if election < newest {
                return;
            }
            if election == newest {
                let answer = if self.election == election {
                    self.ack(cx.state)
                } else {
                    PeerMessage::Stale { election }
                };
                return cx.state.send(from, answer);
            }
        }
        if let Some(holds_to) = self.leader_or_organiser()
            && holds_to != from
        {
            let better =
                cx.state.is_better(holds_to, from) && !mutation!(cx.state.settings, Refuse);
            let spares = !preempt && !mutation!(cx.state.settings, Spare);
            let works = spares && !matches!(self.status, Status::Waiting);
            if better || (works && !cx.state.is_better(holds_to, from)) {
                cx.state.send(from, PeerMessage::Rej { election, holds_to });
                // The organiser has found that member down, so it may be.
                if holds_to != cx.state.me() {
                    self.ask(cx, holds_to);
                }
                // A leader also announces itself: the organiser may join at once.
                if let Status::Leading { epoch } = self.status {
                    let election = self.election;
                    cx.state.send(from, PeerMessage::Norm { election, epoch });
                }
                return;
            }
        }
        self.wait_for(cx, election);
    }

    /// Waits for the organiser of `election`. The acknowledgement leaves when that is durable: a
    /// member that forgot it could accept a worse organiser while the better one counts on it.
    fn wait_for(&mut self, cx: &mut Context<'_>, election: ElectionId) {
        cx.state.outbox.discard_held();
        self.step_down(cx);
        self.new_round();
        self.accepted.insert(election.organiser, election);
        self.election = election;
        self.status = Status::Waiting;
        self.tick_at = cx.now + cx.lifetime();
        if !mutation!(cx.state.settings, DurablePromise) {
            cx.state.record.accepted = Some(election);
            cx.state.record.voted = None;
            cx.state.persist();
        }
        let ack = self.ack(cx.state);
        cx.state.send(election.organiser, ack);
    }

    fn handle_ack(
        &mut self,
        cx: &mut Context<'_>,
        (from, election): (NodeId, ElectionId),
        known: Option<Epoch>,
    ) {
        let matches = election == self.election || mutation!(cx.state.settings, MatchAck);
        match &mut self.status {
            Status::Halting { acks, highest, .. } if matches => {
                *highest = (*highest).max(known);
                if acks.insert(from) {
                    self.halt(cx);
                    self.try_win(cx);
                }
            }
            // Late: the member was taken for down, or joins.
            Status::PersistingEpoch { acks, .. } if matches => {
                acks.insert(from);
            }
            Status::Leading { .. } if matches && mutation!(cx.state.settings, Join) => {
                self.organise(cx);
            }
            Status::Leading { epoch } if matches => {
                let epoch = *epoch;
                cx.state.send(from, PeerMessage::Ldr { election, epoch });
            }
            // It waits for an election that is over: its organiser will never count on it again.
            _ => cx.state.send(from, PeerMessage::Stale { election }),
        }
    }

    fn handle_rej(&mut self, cx: &mut Context<'_>, holds_to: NodeId) {
        match self.status {
            // With a fresh election and not at once: members that have accepted this one learn that
            // it is over, and a leader that was named has time to announce itself. Soon, though:
            // most often the other member will notice in a moment what this one has noticed.
            Status::Halting { .. } | Status::PersistingEpoch { .. } => {
                self.reset(cx);
                self.tick_at = cx.now + cx.lifetime() / AGAIN;
            }
            Status::Leading { .. } if cx.state.is_better(holds_to, cx.state.me()) => {
                self.organise(cx);
            }
            _ => {}
        }
    }

    fn handle_stale(&mut self, cx: &mut Context<'_>, from: NodeId) {
        let organiser = self.election.organiser;
        match self.status {
            // The organiser's election only moves forward, so it will not count on this member
            // again: the promise is over.
            Status::Waiting | Status::Following { .. } if from == organiser => {
                self.organise(cx);
            }
            Status::Halting { .. } => self.organise(cx),
            _ => {}
        }
    }

    fn handle_ldr(&mut self, cx: &mut Context<'_>, election: ElectionId, epoch: Epoch) {
        if election == self.election && matches!(self.status, Status::Waiting) {
            self.status = Status::Following { epoch };
            self.followed_since = cx.now;
            self.new_round();
            cx.state.see_leader(Some((election.organiser, epoch)));
        }
    }

    fn handle_norm(&mut self, cx: &mut Context<'_>, election: ElectionId, epoch: Epoch) {
        let from = election.organiser;
        if election == self.election {
            return self.handle_ldr(cx, election, epoch);
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
                if mutation!(cx.state.settings, Conflict) {
                    return;
                }
                let holds_to = self.election.organiser;
                if holds_to == from || cx.state.is_better(from, holds_to) {
                    self.wait_for(cx, election);
                } else {
                    cx.state.send(from, PeerMessage::Rej { election, holds_to });
                }
            }
            // It is bound until its organiser answers, or is down.
            Status::Waiting if cx.state.is_better(self.election.organiser, from) => {}
            // It is about to take a working leader's place, on purpose.
            Status::Asking(Asking { preempt: true, .. })
            | Status::Halting { preempt: true, .. }
                if cx.state.is_better(cx.state.me(), from) => {}
            // There is a leader, so there is nothing to organise: join it.
            Status::Asking { .. }
            | Status::Halting { .. }
            | Status::PersistingEpoch { .. }
            | Status::Waiting => self.wait_for(cx, election),
        }
    }
}
