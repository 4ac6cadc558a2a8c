//! Messages from other members.

use super::{Asking, BestEffort, Status};
use crate::Epoch;
use crate::bully::node_state::Context;
use crate::bully::{ElectionId, NodeId, PeerMessage};
use crate::election::EndReason;

/// The divisor of the message lifetime that gives the wait of a refused candidate before its next
/// attempt.
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
            // The message is of another election or of a group with a quorum, or the wrong member
            // sent it.
            _ => {}
        }
        self.give_way_to_a_greater_epoch(cx);
    }

    /// Begins a new term in order if this leader learns of an epoch greater than its own, for
    /// example of a leader on the other side of a partition. Receivers that have seen the greater
    /// epoch refuse the writes of the present term.
    fn give_way_to_a_greater_epoch(&self, cx: &mut Context<'_>) {
        if let Status::Leading { epoch } = self.status
            && cx.state.record.highest > Some(epoch)
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
        // A message may arrive late or twice. A member accepts an election at most once: a late
        // `Halt` must not draw a member back into an election that it has left.
        if let Some(&newest) = self.accepted.get(&from) {
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
            let works = !preempt && !matches!(self.status, Status::Waiting);
            if works || cx.state.is_better(holds_to, from) {
                cx.state.send(from, PeerMessage::Rej { election, holds_to });
                // The organiser found that member down. It may be right, so ask the detector.
                if holds_to != cx.state.me() {
                    self.ask(cx, holds_to);
                }
                // A leader also announces itself, so that the organiser can join without delay.
                if let Status::Leading { epoch } = self.status {
                    let election = self.election;
                    cx.state.send(from, PeerMessage::Norm { election, epoch });
                }
                return;
            }
        }
        self.wait_for(cx, election);
    }

    /// Waits for the organiser of `election`. The acknowledgement leaves after the acceptance is
    /// durable: a member that forgot the acceptance could accept a worse organiser while the better
    /// one counts on this member.
    fn wait_for(&mut self, cx: &mut Context<'_>, election: ElectionId) {
        cx.state.outbox.discard_held();
        self.step_down(cx);
        self.new_round();
        self.accepted.insert(election.organiser, election);
        self.election = election;
        self.status = Status::Waiting;
        self.tick_at = cx.now + cx.lifetime();
        cx.state.record.accepted = Some(election);
        cx.state.record.voted = None;
        cx.state.persist();
        let ack = self.ack(cx.state);
        cx.state.send(election.organiser, ack);
    }

    fn handle_ack(
        &mut self,
        cx: &mut Context<'_>,
        (from, election): (NodeId, ElectionId),
        known: Option<Epoch>,
    ) {
        let matches = election == self.election;
        match &mut self.status {
            Status::Halting { acks, highest, .. } if matches => {
                *highest = (*highest).max(known);
                if acks.insert(from) {
                    self.halt(cx);
                    self.try_win(cx);
                }
            }
            // The acknowledgement is late: the detector reported the member as down, or the member
            // joins.
            Status::PersistingEpoch { acks, .. } if matches => {
                acks.insert(from);
            }
            Status::Leading { epoch } if matches => {
                let epoch = *epoch;
                cx.state.send(from, PeerMessage::Ldr { election, epoch });
            }
            // The member waits for an election that is over. Its organiser will never count on this
            // member again.
            _ => cx.state.send(from, PeerMessage::Stale { election }),
        }
    }

    fn handle_rej(&mut self, cx: &mut Context<'_>, holds_to: NodeId) {
        match self.status {
            // The next attempt is a new election, after a pause. In the pause, the members that
            // have accepted this election learn that it is over, and the leader named in the
            // refusal can announce itself. The pause is short, because the refusing member usually
            // notices the failed leader soon as well.
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
            // The election numbers of an organiser only increase, so this organiser will not count
            // on this member again: the promise is over.
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
        // The message is late: this member has accepted a newer election of that organiser since.
        if self
            .accepted
            .get(&from)
            .is_some_and(|&newest| election < newest)
        {
            return;
        }
        match self.status {
            // A member that follows another leader tells the worse leader about the better one.
            Status::Following { .. } | Status::Leading { .. } => {
                let holds_to = self.election.organiser;
                if holds_to == from || cx.state.is_better(from, holds_to) {
                    self.wait_for(cx, election);
                } else {
                    cx.state.send(from, PeerMessage::Rej { election, holds_to });
                }
            }
            // The member is bound until its organiser answers or is found down.
            Status::Waiting if cx.state.is_better(self.election.organiser, from) => {}
            // The member is replacing a working leader on purpose.
            Status::Asking(Asking { preempt: true, .. })
            | Status::Halting { preempt: true, .. }
                if cx.state.is_better(cx.state.me(), from) => {}
            // There is a leader, so no election is needed: join the leader.
            Status::Asking { .. }
            | Status::Halting { .. }
            | Status::PersistingEpoch { .. }
            | Status::Waiting => self.wait_for(cx, election),
        }
    }
}
