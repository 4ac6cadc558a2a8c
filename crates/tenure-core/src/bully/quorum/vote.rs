//! Becoming the leader, and helping others to.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{MAX_DEFERRALS, MAX_DOUBLINGS, Quorum, Reply, Role};
use crate::bully::base::Base;
use crate::bully::settings::lacks;
use crate::bully::{GuardMessage, Message, NodeId};
use crate::{Epoch, Instant, Random};

impl Quorum {
    /// Asks everybody, binding nobody.
    pub(super) fn poll(&mut self, base: &mut Base, now: Instant, random: &mut dyn Random) {
        self.round += 1;
        self.role = Role::Polling {
            replies: BTreeMap::new(),
        };
        self.look_at = now + base.settings.timings.message_lifetime();
        base.send_all(Message::Guard(GuardMessage::PreVote { round: self.round }));
        self.judge_if_all_replied(base, now, random);
    }

    pub(super) fn hear_pre_vote(&self, base: &mut Base, now: Instant, from: NodeId, round: u64) {
        let reply = GuardMessage::PreVoteReply {
            round,
            highest: base.record.highest,
            promised: self.is_promised_elsewhere(base, now, from),
            can_lead: self.connected && base.may_stand(now),
        };
        base.send(from, Message::Guard(reply));
    }

    /// Nobody waits for an answer of a member that the detector suspects.
    pub(super) fn judge_if_all_replied(
        &mut self,
        base: &mut Base,
        now: Instant,
        random: &mut dyn Random,
    ) {
        if let Role::Polling { replies } = &self.role {
            let settings = base.settings.clone();
            let mut others = settings.members.others(settings.me);
            if others.all(|other| replies.contains_key(&other) || self.suspected.contains(&other)) {
                self.judge(base, now, random);
            }
        }
    }

    /// The pre-vote is over: stand, or leave it.
    pub(super) fn judge(&mut self, base: &mut Base, now: Instant, random: &mut dyn Random) {
        let Role::Polling { replies } = &self.role else {
            return;
        };
        let enough = |votes: usize| votes + 1 >= Self::majority(base);
        self.connected = enough(replies.len());
        let free = enough(replies.values().filter(|reply| !reply.promised).count());
        let settings = base.settings.clone();
        let mut better = settings.members.better(settings.me);
        let could = |reply: &Reply| reply.can_lead;
        let defers = better.any(|better| replies.get(&better).is_some_and(could));
        let defers = defers && self.deferrals < MAX_DEFERRALS;
        if free && !defers && base.may_stand(now) && base.outbox.is_durable() {
            return self.stand(base, now);
        }
        self.deferrals += u32::from(free && defers);
        self.role = Role::Following { leader: None };
        self.look_at = now + random.jitter(settings.timings.message_lifetime());
    }

    /// Asks for votes, for an epoch greater than all that it has heard of.
    pub(in crate::bully) fn stand(&mut self, base: &mut Base, now: Instant) {
        let Some(epoch) = base.next_epoch(now, self.known) else {
            self.role = Role::Following { leader: None };
            return;
        };
        self.deferrals = 0;
        self.grant(base, now, base.me(), epoch);
        self.role = Role::Voting {
            epoch,
            // Before the first request leaves: the lease counts from here.
            asked: now,
            acks: BTreeSet::new(),
        };
        self.look_at = now + base.settings.timings.message_lifetime() * 2;
        base.send_all(Message::Guard(GuardMessage::Halt { epoch }));
    }

    /// Promises `epoch` to one member. The record is on its way to the disk before the promise can be
    /// spoken of.
    pub(super) fn grant(&mut self, base: &mut Base, now: Instant, to: NodeId, epoch: Epoch) {
        base.record.highest = Some(epoch);
        base.record.voted = Some(to);
        if !lacks!(base.settings, DurablePromise) {
            base.persist();
        }
        self.promise(base, now);
    }

    /// Everything is on disk: its own vote counts now.
    pub(in crate::bully) fn persisted(
        &mut self,
        base: &mut Base,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let me = base.me();
        if let Role::Voting { acks, .. } = &mut self.role
            && acks.insert(me)
        {
            self.look_at = now + base.settings.timings.message_lifetime() * 2;
            self.try_win(base, now, random);
        }
    }

    /// A vote is refused while a promise binds, and then the epoch is *not* raised: a candidate that
    /// is refused leaves no trace.
    pub(super) fn hear_halt(&mut self, base: &mut Base, now: Instant, from: NodeId, epoch: Epoch) {
        let highest = base.record.highest;
        let stale =
            Some(epoch) < highest || (Some(epoch) == highest && base.record.voted != Some(from));
        let bound = self.is_promised_elsewhere(base, now, from) && !lacks!(base.settings, Promise);
        if stale || bound {
            let nack = GuardMessage::Nack { epoch, highest };
            return base.send(from, Message::Guard(nack));
        }
        // The same once more: the answer was lost. It is promised already, and on disk or on its way.
        if Some(epoch) == highest {
            self.promise(base, now);
        } else {
            self.grant(base, now, from, epoch);
        }
        let leader = Some(from);
        if self.role != (Role::Following { leader }) {
            self.lose_leader(base, now);
        }
        base.send(from, Message::Guard(GuardMessage::Ack { epoch }));
    }

    pub(super) fn hear_ack(
        &mut self,
        base: &mut Base,
        now: Instant,
        (from, voted): (NodeId, Epoch),
        random: &mut dyn Random,
    ) {
        if let Role::Voting { epoch, acks, .. } = &mut self.role
            && *epoch == voted
        {
            acks.insert(from);
            self.try_win(base, now, random);
        }
    }

    fn try_win(&mut self, base: &mut Base, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, asked, acks } = &self.role else {
            return;
        };
        let lease = base.settings.timings.term().renew_deadline();
        // Votes that come too late are of no use: the lease that they give is over.
        let in_time = now < *asked + lease;
        let durable = base.outbox.is_durable();
        if acks.len() < Self::majority(base) || !in_time || !durable || !base.may_stand(now) {
            return;
        }
        let (epoch, asked) = (*epoch, *asked);
        let asked = if lacks!(base.settings, CountFromRequest) {
            now
        } else {
            asked
        };
        self.failures = 0;
        base.begin(epoch, asked);
        self.lead(base, now, epoch, random);
    }

    /// Too few votes: they are given back, so that nobody has to wait until they end. No late one
    /// counts, because the next vote is for another epoch.
    pub(super) fn give_up(&mut self, base: &mut Base, now: Instant, random: &mut dyn Random) {
        let Role::Voting { epoch, .. } = self.role else {
            return;
        };
        base.send_all(Message::Guard(GuardMessage::Release { epoch, to: None }));
        self.promise_until = None;
        self.role = Role::Following { leader: None };
        let lifetime = base.settings.timings.message_lifetime();
        let most = lifetime * 2 * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.look_at = now + lifetime / 2 + random.up_to(most);
    }
}
