//! What a node does about what others say.

use super::{BestEffort, Status};
use crate::bully::node_state::NodeState;
use crate::bully::settings::lacks;
use crate::bully::{ElectionId, NodeId, PeerMessage};
use crate::election::EndReason;
use crate::{Epoch, Instant};

/// Who was refused tries again after this part of a message's lifetime.
const AGAIN: u32 = 5;

impl BestEffort {
    pub(in crate::bully) fn hear(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, message): (NodeId, PeerMessage),
    ) {
        match message {
            PeerMessage::Halt { election, preempt } if election.organiser == from => {
                self.hear_halt(base, now, election, preempt);
            }
            PeerMessage::Ack { election, highest } if election.organiser == base.me() => {
                base.learn(highest);
                self.hear_ack(base, now, (from, election), highest);
            }
            PeerMessage::Rej { election, holds_to } if election == self.election => {
                self.hear_rej(base, now, holds_to);
            }
            PeerMessage::Stale { election } if election == self.election => {
                self.hear_stale(base, now, from);
            }
            PeerMessage::Ldr { election, epoch } if election.organiser == from => {
                base.learn(Some(epoch));
                self.hear_ldr(base, now, election, epoch);
            }
            PeerMessage::Norm { election, epoch } if election.organiser == from => {
                base.learn(Some(epoch));
                self.hear_norm(base, now, election, epoch);
            }
            // Of another election, of the guard, or not as any member says it.
            _ => {}
        }
        self.give_way_to_a_greater_epoch(base, now);
    }

    /// A leader that learns of a greater epoch than its own, such as of one that led beyond a cut,
    /// begins a new term, in order: receivers that have seen that epoch refuse its writes.
    fn give_way_to_a_greater_epoch(&self, base: &mut NodeState, now: Instant) {
        if let Status::Leading { epoch } = self.status
            && base.record.highest > Some(epoch)
            && !lacks!(base.settings, GreaterEpoch)
            && let Some(term) = &mut base.term
        {
            term.begin_ending(now, EndReason::Superseded, &mut base.outbox.ready);
        }
    }

    fn hear_halt(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        election: ElectionId,
        preempt: bool,
    ) {
        let from = election.organiser;
        if !base.is_better(from, base.me()) {
            return;
        }
        // A message may come late and twice. What was obeyed once is not obeyed again: who has moved
        // on since must not be drawn back.
        if let Some(&newest) = self.obeyed.get(&from)
            && !lacks!(base.settings, ObeyOnce)
        {
            if election < newest {
                return;
            }
            if election == newest {
                let answer = if self.election == election {
                    self.ack(base)
                } else {
                    PeerMessage::Stale { election }
                };
                return base.send(from, answer);
            }
        }
        if let Some(holds_to) = self.leader_or_organiser()
            && holds_to != from
        {
            let better = base.is_better(holds_to, from) && !lacks!(base.settings, Refuse);
            let spares = !preempt && !lacks!(base.settings, Spare);
            let works = spares && !matches!(self.status, Status::Waiting);
            if better || (works && !base.is_better(holds_to, from)) {
                base.send(from, PeerMessage::Rej { election, holds_to });
                // The organiser has found it down, so it may be.
                if holds_to != base.me() {
                    self.ask(base, holds_to);
                }
                // A leader says so itself, too: the organiser may join at once.
                if let Status::Leading { epoch } = self.status {
                    let election = self.election;
                    base.send(from, PeerMessage::Norm { election, epoch });
                }
                return;
            }
        }
        self.obey(base, now, election);
    }

    /// Waits for the organiser of `election`. The acknowledgement leaves when that is durable: a node
    /// that forgot it could obey a worse one while the better one counts on it.
    fn obey(&mut self, base: &mut NodeState, now: Instant, election: ElectionId) {
        base.outbox.take_back();
        self.step_down(base, now);
        self.new_round();
        self.obeyed.insert(election.organiser, election);
        self.election = election;
        self.status = Status::Waiting;
        self.look_at = now + base.settings.timings.message_lifetime();
        if !lacks!(base.settings, DurablePromise) {
            base.record.obeyed = Some(election);
            base.record.voted = None;
            base.persist();
        }
        let ack = self.ack(base);
        base.send(election.organiser, ack);
    }

    fn hear_ack(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        (from, election): (NodeId, ElectionId),
        known: Option<Epoch>,
    ) {
        let matches = election == self.election || lacks!(base.settings, MatchAck);
        match &mut self.status {
            Status::Halting { acks, highest, .. } if matches => {
                *highest = (*highest).max(known);
                if acks.insert(from) {
                    self.halt(base, now);
                    self.try_win(base, now);
                }
            }
            // Late: it was taken for down, or joins.
            Status::PersistingEpoch { acks, .. } if matches => {
                acks.insert(from);
            }
            Status::Leading { .. } if matches && lacks!(base.settings, Join) => {
                self.organise(base, now);
            }
            Status::Leading { epoch } if matches => {
                let epoch = *epoch;
                base.send(from, PeerMessage::Ldr { election, epoch });
            }
            // It waits for an election that is no more: its organiser will never count on it again.
            _ => base.send(from, PeerMessage::Stale { election }),
        }
    }

    fn hear_rej(&mut self, base: &mut NodeState, now: Instant, holds_to: NodeId) {
        match self.status {
            // With a fresh election and not at once: whoever has already obeyed is told that this one
            // is over, and a leader that was named has time to say so itself. Soon, though: most often
            // the other one will find out in a moment what this one has.
            Status::Halting { .. } | Status::PersistingEpoch { .. } => {
                self.idle(base, now);
                self.look_at = now + base.settings.timings.message_lifetime() / AGAIN;
            }
            Status::Leading { .. } if base.is_better(holds_to, base.me()) => {
                self.organise(base, now);
            }
            _ => {}
        }
    }

    fn hear_stale(&mut self, base: &mut NodeState, now: Instant, from: NodeId) {
        let organiser = self.election.organiser;
        match self.status {
            // The organiser's election only moves forward, so it will not count on this node again:
            // the promise is over.
            Status::Waiting | Status::Following { .. } if from == organiser => {
                self.organise(base, now);
            }
            Status::Halting { .. } => self.organise(base, now),
            _ => {}
        }
    }

    fn hear_ldr(&mut self, base: &mut NodeState, now: Instant, election: ElectionId, epoch: Epoch) {
        if election == self.election && matches!(self.status, Status::Waiting) {
            self.status = Status::Following { epoch };
            self.followed_since = now;
            self.new_round();
            base.see_leader(Some((election.organiser, epoch)));
        }
    }

    fn hear_norm(
        &mut self,
        base: &mut NodeState,
        now: Instant,
        election: ElectionId,
        epoch: Epoch,
    ) {
        let from = election.organiser;
        if election == self.election {
            return self.hear_ldr(base, now, election, epoch);
        }
        // Late: it has been obeyed since, in a newer election.
        if self
            .obeyed
            .get(&from)
            .is_some_and(|&newest| election < newest)
        {
            return;
        }
        match self.status {
            // Who works for another leader tells the worse of the two about the better one.
            Status::Following { .. } | Status::Leading { .. } => {
                if lacks!(base.settings, Conflict) {
                    return;
                }
                let holds_to = self.election.organiser;
                if holds_to == from || base.is_better(from, holds_to) {
                    self.obey(base, now, election);
                } else {
                    base.send(from, PeerMessage::Rej { election, holds_to });
                }
            }
            // It is bound until its organiser answers, or is down.
            Status::Waiting if base.is_better(self.election.organiser, from) => {}
            // It is about to take a working leader's place, on purpose.
            Status::Asking { preempt: true, .. } | Status::Halting { preempt: true, .. }
                if base.is_better(base.me(), from) => {}
            // There is a leader, so there is nothing to organise: join it.
            Status::Asking { .. }
            | Status::Halting { .. }
            | Status::PersistingEpoch { .. }
            | Status::Waiting => self.obey(base, now, election),
        }
    }
}
