//! The state that both machines of a member share: the record, the outbox and the term.

use alloc::sync::Arc;
use core::time::Duration;

use super::outbox::Outbox;
use super::{GroupGuarantee, GroupSettings, HardState, NodeId, PeerMessage};
use crate::election::{CampaignFailure, EndReason, Term, TermEvent};
use crate::{Epoch, Incarnation, Instant, Random, UnixMillis};

/// The time at which a member started, on both clocks.
///
/// The source of epochs is the wall clock at the start plus the monotonic time since then: a wall
/// clock that is set while the member runs does not affect them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Started {
    /// The start on the monotonic clock that all `now` arguments come from.
    pub at: Instant,
    /// The start on the wall clock.
    pub wall: UnixMillis,
}

/// A process of a member, to which a promise is made. A promise does not pass to a later process of
/// the member: the state of the member may have been copied, and then the earlier process still
/// relies on the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Process {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

/// The arguments and the shared state of one call of a machine.
pub(super) struct Context<'a> {
    pub(super) state: &'a mut NodeState,
    pub(super) now: Instant,
    pub(super) random: &'a mut dyn Random,
}

impl Context<'_> {
    pub(super) fn lifetime(&self) -> Duration {
        self.state.settings.timings.message_lifetime()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeState {
    pub(super) settings: Arc<GroupSettings>,
    pub(super) record: HardState,
    pub(super) outbox: Outbox,
    /// The time since which the member is a candidate; `None` if it only follows and votes.
    pub(super) candidate_since: Option<Instant>,
    pub(super) cooldown_until: Instant,
    /// The term, from its beginning until its task is gone.
    pub(super) term: Option<Term<NodeId>>,
    started: Started,
    /// The greatest epoch that another authority is known to have used.
    pub(super) taken_epoch: Option<Epoch>,
    pub(super) seen: Option<(NodeId, Epoch)>,
}

impl NodeState {
    pub(super) fn new(settings: GroupSettings, mut record: HardState, started: Started) -> Self {
        record.incarnation = record.incarnation.saturating_add(1);
        let mut state = Self {
            settings: Arc::new(settings),
            record,
            outbox: Outbox::default(),
            candidate_since: None,
            cooldown_until: Instant::default(),
            term: None,
            started,
            taken_epoch: None,
            seen: None,
        };
        if state.settings.guarantee() == GroupGuarantee::BestEffort
            && let Some(bound) = state.quarantine()
        {
            // The member was in a group with a quorum before, and the leader of that group may
            // still count on it.
            state.cooldown_until = started.at + bound;
        }
        // The incarnation is durable before the first message of this incarnation leaves.
        state.persist();
        state
    }

    pub(super) fn me(&self) -> NodeId {
        self.settings.me
    }

    /// Returns this process as a candidate.
    pub(super) fn own_process(&self) -> Process {
        Process {
            node: self.me(),
            incarnation: Incarnation(self.record.incarnation),
        }
    }

    /// Returns how long a promise of an earlier incarnation binds. The member may have made that
    /// promise just before it stopped. The promise was for the lease duration of that time, which
    /// the leader may still rely on. That leader may be the earlier process of this member: it may
    /// still run, beside a copy of its state.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        self.record.voted?;
        let promised = Duration::from_millis(self.record.promised_ms.unwrap_or_default());
        Some(promised.max(self.settings.timings.quarantine()))
    }

    pub(super) fn is_better(&self, one: NodeId, other: NodeId) -> bool {
        self.settings.members.is_better(one, other)
    }

    pub(super) fn send(&mut self, to: NodeId, message: impl Into<PeerMessage>) {
        self.outbox.send(to, message.into());
    }

    pub(super) fn send_all(&mut self, message: impl Into<PeerMessage>) {
        let message = message.into();
        for to in self.settings.members.others(self.settings.me) {
            self.outbox.send(to, message);
        }
    }

    pub(super) fn persist(&mut self) {
        self.outbox.persist(self.record);
    }

    /// Returns whether the member may organise an election now. It may not while the task of an
    /// earlier term still runs.
    pub(super) fn may_campaign(&self, now: Instant) -> bool {
        self.term.is_none() && self.candidate_since.is_some_and(|from| now >= from)
    }

    /// Returns the epoch of a term that begins after all known terms; `None` if no epoch is left,
    /// so that the member can't lead any more.
    pub(super) fn next_epoch(&mut self, now: Instant, known: Option<Epoch>) -> Option<Epoch> {
        let millis = crate::time::millis(now.since(self.started.at));
        let wall = UnixMillis::new(self.started.wall.get().saturating_add(millis));
        let last = self.record.highest.max(known).max(self.taken_epoch);
        let epoch = Epoch::following(last, wall);
        if epoch.is_none() {
            self.candidate_since = None;
            let why = "the epochs are used up: a member has promised the greatest one";
            let failure = CampaignFailure::Barred(why.into());
            self.outbox.ready.emit(TermEvent::Failed(failure));
        }
        epoch
    }

    pub(super) fn learn(&mut self, epoch: Option<Epoch>) {
        self.record.highest = self.record.highest.max(epoch);
    }

    pub(super) fn see_leader(&mut self, seen: Option<(NodeId, Epoch)>) {
        if self.seen != seen {
            self.seen = seen;
            let other = seen.filter(|(leader, _)| *leader != self.me());
            let other = other.map(|(leader, epoch)| (leader.into(), epoch));
            if seen.is_none() || other.is_some() {
                self.outbox.ready.emit(TermEvent::LeaderSeen(other));
            }
        }
    }

    /// Begins a term whose votes were requested at `asked`.
    pub(super) fn begin(&mut self, now: Instant, epoch: Epoch, asked: Instant) {
        debug_assert!(self.term.is_none() && self.outbox.is_durable());
        self.term = Some(Term::new(epoch, asked, now));
        self.outbox.ready.emit(TermEvent::Began(epoch));
        self.see_leader(Some((self.me(), epoch)));
    }

    /// Ends the term because another member leads or may lead: the task gets no stop grace.
    pub(super) fn supersede(&mut self, now: Instant) {
        if let Some(term) = &mut self.term {
            let (timings, outputs) = (self.settings.timings.term(), &mut self.outbox.ready);
            term.lose(now, EndReason::Superseded, Some(now), timings, outputs);
        }
    }
}
