//! The state machine: the inputs, commands, outputs and getters.

use alloc::collections::VecDeque;

use super::follow::View;
use super::own::{Attempt, Owned};
use super::{
    AppendOutcome, Found, Look, Observation, OwnerId, OwnershipOutput, OwnershipRole,
    OwnershipTimings, Refusal, Tail, TailState,
};
use crate::Instant;

/// The ownership of a shared log, as one server sees it; see the [module](super).
///
/// The order of calls:
///
/// - inputs: [`handle_tail`](Self::handle_tail), [`handle_appended`](Self::handle_appended),
///   [`handle_loaded`](Self::handle_loaded), [`handle_timeout`](Self::handle_timeout);
/// - commands: [`append`](Self::append), [`resign`](Self::resign), [`vacate`](Self::vacate),
///   [`stand_by`](Self::stand_by), [`bar`](Self::bar);
/// - outputs, to be drained after each of the above: [`poll_output`](Self::poll_output), then
///   [`next_timeout`](Self::next_timeout) for the next call of `handle_timeout`;
/// - getters, at any time: [`serves_until`](Self::serves_until), [`role`](Self::role),
///   [`known`](Self::known), [`refusal`](Self::refusal).
///
/// At most one call of the shared log is under way: a read, or an attempt of an append. The caller
/// limits each of them by [`OwnershipTimings::attempt`], and reports its result exactly once.
///
/// All `now` arguments come from a clock that also counts while the machine is suspended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ownership {
    timings: OwnershipTimings,
    me: OwnerId,
    view: View,
    owned: Option<Owned>,
    append: Option<Attempt>,
    /// The number of appends that were undone since the last one that was applied.
    undone: u64,
    next_read: Read,
    has_resigned: bool,
    /// Whether the server can't load the content, so that it takes nothing over.
    is_barred: bool,
    outputs: VecDeque<OwnershipOutput>,
}

/// The next read of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Read {
    At(Instant),
    /// The read was sent at this instant.
    InFlight(Instant),
}

impl Ownership {
    /// Creates the machine of a server that follows. `owner` is a fresh random number: two starts
    /// of a server must have different ones.
    #[must_use]
    pub fn new(timings: OwnershipTimings, owner: OwnerId, now: Instant) -> Self {
        let mut machine = Self {
            timings,
            me: owner,
            view: View::new(now),
            owned: None,
            append: None,
            next_read: Read::At(now),
            has_resigned: false,
            is_barred: false,
            undone: 0,
            outputs: VecDeque::new(),
        };
        machine.handle_timeout(now);
        machine
    }

    /// Input: the result of the read that [`OwnershipOutput::Look`] asked for. `now` is the instant at which
    /// the answer arrived, or a later one.
    pub fn handle_tail(&mut self, now: Instant, look: Look) {
        let Read::InFlight(sent) = self.next_read else {
            return;
        };
        self.next_read = Read::At(now.max(sent + self.timings.poll()));
        match look {
            Look::Failed => self.view.fail(),
            Look::Found(observation) => self.see(now, observation),
        }
        self.handle_timeout(now);
    }

    /// Input: the result of one attempt of the append that [`append`](Self::append),
    /// [`vacate`](Self::vacate) or [`OwnershipOutput::Append`] returned last. Returns what is known of this
    /// append now.
    #[must_use]
    pub fn handle_appended(&mut self, now: Instant, outcome: AppendOutcome) -> AppendOutcome {
        // The time is checked first, so that an append which succeeds after the deadline is seen to
        // resume.
        self.check_deadline(now);
        let Some(mut attempt) = self.append.take() else {
            return AppendOutcome::Unknown;
        };
        match outcome {
            AppendOutcome::Committed => self.applied(now, &attempt),
            // An earlier attempt was applied: its outcome is known now. No other append has this
            // tail, not even one that this server has undone because the service said, wrongly,
            // that it was not applied.
            AppendOutcome::Superseded(Observation { home, found })
                if home == attempt.tail.home && found == Found::Tail(attempt.tail) =>
            {
                self.applied(now, &attempt)
            }
            // Argument 1: another tail stands in the log, so no attempt of this append, and no
            // later append of this ownership, is ever applied. An earlier attempt may have been
            // applied before the other tail was.
            AppendOutcome::Superseded(observation) => {
                self.lose(now, observation);
                outcome
            }
            // Argument 7: another attempt may still be applied. Undone, its batch would be in the
            // log and not in memory.
            AppendOutcome::Refused if !attempt.is_unknown => {
                let pause_ends = now.max(attempt.sent + self.timings.poll());
                self.view.fail();
                // Argument 7 has this second line of defence.
                self.undone = self.undone.saturating_add(1);
                self.next_read = Read::At(pause_ends);
                if let Some(owned) = &mut self.owned {
                    owned.beat_at = pause_ends;
                }
                AppendOutcome::Refused
            }
            AppendOutcome::Refused | AppendOutcome::Unknown => {
                attempt.is_unknown |= outcome == AppendOutcome::Unknown;
                attempt.repeat_at = Some(now.max(attempt.sent + self.timings.poll()));
                self.append = Some(attempt);
                self.handle_timeout(now);
                AppendOutcome::Unknown
            }
        }
    }

    /// Input: the content of the log is in memory, as of the take-over of this generation. The
    /// server may accept requests.
    pub fn handle_loaded(&mut self, now: Instant, generation: u64) {
        let is_current = self
            .view
            .known()
            .is_some_and(|it| it.generation == generation);
        if let Some(owned) = &mut self.owned
            && is_current
        {
            owned.is_loaded = true;
            self.check_deadline(now);
        }
    }

    /// Input: time has passed. The caller may call it at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_deadline(now);
        match (&mut self.append, &self.owned) {
            (Some(attempt), _) => {
                if attempt.repeat_at.is_some_and(|at| at <= now) {
                    attempt.send_again(now);
                    self.outputs
                        .push_back(OwnershipOutput::Append(attempt.tail));
                }
            }
            (None, Some(owned)) => {
                if owned.beat_at <= now
                    && let Some(tail) = self.next_tail(TailState::Owned)
                {
                    self.begin(tail, now);
                    self.outputs.push_back(OwnershipOutput::Append(tail));
                }
            }
            (None, None) => self.follow(now),
        }
    }

    /// Command: append a batch. Returns the tail to append with it, and afterwards the caller calls
    /// [`handle_appended`](Self::handle_appended); `None` if the server is not the owner, if it has
    /// not loaded the content yet, or if an append is under way.
    ///
    /// The machine asks for an append without a batch by itself, if there is no other for
    /// [`OwnershipTimings::beat`].
    #[must_use]
    pub fn append(&mut self, now: Instant) -> Option<Tail> {
        let is_loaded = self.owned.as_ref().is_some_and(|it| it.is_loaded);
        if !is_loaded || self.append.is_some() {
            return None;
        }
        let tail = self.next_tail(TailState::Owned)?;
        self.begin(tail, now);
        Some(tail)
    }

    /// Command: accept nothing more, from now on, and take nothing over. An owner goes on to append
    /// until it vacates the log. A take-over that is under way is completed, and the content is not
    /// loaded.
    pub const fn resign(&mut self) {
        self.has_resigned = true;
    }

    /// Command: resign, and leave the log to the other servers. Returns the vacant tail to append;
    /// `None` if the server is not the owner, or if an append is under way. After the last batch,
    /// the caller calls this until the append of the vacant tail is [`AppendOutcome::Committed`].
    #[must_use]
    pub fn vacate(&mut self, now: Instant) -> Option<Tail> {
        self.resign();
        if self.owned.is_none() || self.append.is_some() {
            return None;
        }
        let tail = self.next_tail(TailState::Vacant)?;
        self.begin(tail, now);
        Some(tail)
    }

    /// Command: take nothing over, because the content can't be loaded; or again, because it can. The
    /// server goes on to read the tail meanwhile, so it still notices a log that went back (argument
    /// 9). An ownership that has begun is not ended.
    pub const fn bar(&mut self, is_barred: bool) {
        self.is_barred = is_barred;
    }

    /// Command: follow again after a hand-over. It has no effect before the log is vacated. The
    /// server takes its own vacant tail over only if nobody else does for T.
    pub fn stand_by(&mut self, now: Instant) {
        if self.has_resigned && self.owned.is_none() && self.append.is_none() {
            self.has_resigned = false;
            self.handle_timeout(now);
        }
    }

    /// OwnershipOutput: the next output; `None` if there is none.
    pub fn poll_output(&mut self) -> Option<OwnershipOutput> {
        self.outputs.pop_front()
    }

    /// OwnershipOutput: when to call [`handle_timeout`](Self::handle_timeout) at the latest; `None` if only
    /// another input can change anything.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let deadline = self.deadline().filter(|_| !self.has_told_lapse());
        let due = match (&self.append, &self.owned, self.next_read) {
            (Some(attempt), ..) => attempt.repeat_at,
            (None, Some(owned), _) => Some(owned.beat_at),
            (None, None, Read::At(at)) if !self.has_resigned => {
                Some(self.take_over_at().map_or(at, |it| it.min(at)))
            }
            (None, None, _) => None,
        };
        match (deadline, due) {
            (Some(deadline), Some(due)) => Some(deadline.min(due)),
            (deadline, due) => deadline.or(due),
        }
    }

    /// Returns the instant until which the server accepts requests, unless an append succeeds
    /// before; `None` if it accepts none.
    ///
    /// The caller reads the clock after it has looked at the content, and answers only if the clock
    /// reads less (argument 3 of the [module](super)).
    #[must_use]
    pub fn serves_until(&self) -> Option<Instant> {
        if self.has_resigned {
            return None;
        }
        self.deadline()
    }

    /// Returns the server's role at `now`.
    #[must_use]
    pub fn role(&self, now: Instant) -> OwnershipRole {
        match &self.owned {
            _ if self.has_resigned => OwnershipRole::Resigned,
            Some(owned) if !owned.is_loaded => OwnershipRole::Loading,
            Some(_) if self.serves_until().is_some_and(|until| now < until) => {
                OwnershipRole::Active
            }
            Some(_) => OwnershipRole::Lapsed,
            None if self.append.is_some() => OwnershipRole::Taking,
            None if self.is_barred || self.view.refusal().is_some() => OwnershipRole::Refusing,
            None => OwnershipRole::Following,
        }
    }

    /// Returns the newest tail that the server knows. The append that is under way replaces it.
    #[must_use]
    pub fn known(&self) -> Option<Tail> {
        self.view.known()
    }

    /// Returns the reason why the server takes nothing over, if there is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        self.view.refusal()
    }

    /// Returns the timings.
    #[must_use]
    pub const fn timings(&self) -> &OwnershipTimings {
        &self.timings
    }

    /// Returns whether the outcome of an attempt of the append under way is unknown.
    #[cfg(test)]
    pub(super) fn is_unknown(&self) -> bool {
        self.append.as_ref().is_some_and(|it| it.is_unknown)
    }

    /// Reads the tail, or takes over.
    fn follow(&mut self, now: Instant) {
        let Read::At(read_at) = self.next_read else {
            return;
        };
        if self.has_resigned {
            return;
        }
        if self.take_over_at().is_some_and(|at| at <= now)
            && self.view.is_recent(now, &self.timings)
            && let Some(tail) = self.view.successor(self.me, &self.timings)
        {
            let tail = Tail {
                undone: self.undone,
                ..tail
            };
            self.begin(tail, now);
            self.outputs.push_back(OwnershipOutput::Append(tail));
        } else if read_at <= now {
            self.next_read = Read::InFlight(now);
            self.outputs.push_back(OwnershipOutput::Look);
        }
    }

    /// Returns when the server may take over, as far as it knows; `None` if it may not.
    fn take_over_at(&self) -> Option<Instant> {
        let at = self.view.take_over_at(self.me, &self.timings);
        at.filter(|_| !self.is_barred)
    }

    /// Begins an append. Nobody appends to this tail before: `now` was read before the first byte
    /// leaves.
    fn begin(&mut self, tail: Tail, now: Instant) {
        self.append = Some(Attempt::new(tail, now));
    }

    fn next_tail(&self, state: TailState) -> Option<Tail> {
        let known = self.view.known()?;
        Some(Tail {
            sequence: known.sequence.saturating_add(1),
            undone: self.undone,
            state,
            ..known
        })
    }

    /// Handles the success of an append.
    fn applied(&mut self, now: Instant, attempt: &Attempt) -> AppendOutcome {
        let sent = attempt.first_sent;
        let tail = attempt.tail;
        self.view.own(tail, now);
        self.undone = 0;
        match &mut self.owned {
            None => {
                self.owned = Some(Owned::new(sent, &self.timings));
                if !self.has_resigned {
                    let generation = tail.generation;
                    self.outputs.push_back(OwnershipOutput::Took { generation });
                }
            }
            Some(_) if tail.state == TailState::Vacant => {
                self.owned = None;
                self.next_read = Read::At(now);
            }
            Some(owned) => {
                owned.extend(sent, &self.timings);
                if self.deadline().is_some_and(|until| now < until)
                    && let Some(owned) = self.owned.as_mut().filter(|it| it.has_lapsed)
                {
                    owned.has_lapsed = false;
                    self.outputs.push_back(OwnershipOutput::Resumed);
                }
            }
        }
        AppendOutcome::Committed
    }

    /// Gives up the ownership or the take-over, after a refused append.
    fn lose(&mut self, now: Instant, observation: Observation) {
        if self.owned.take().is_some() {
            self.outputs.push_back(OwnershipOutput::Deposed);
        }
        let known = self.view.known();
        self.see(now, observation);
        if self.view.known() == known {
            // The answer may be stale, so a read comes before the next attempt.
            self.view.fail();
        }
        self.next_read = Read::At(now + self.timings.poll());
    }

    /// Notes an answer of the service.
    fn see(&mut self, now: Instant, observation: Observation) {
        let before = self.view.refusal();
        self.view.see(now, observation, &self.timings);
        if let Some(refusal) = self.view.refusal()
            && before != Some(refusal)
        {
            self.outputs.push_back(OwnershipOutput::Refuses(refusal));
        }
    }

    /// Returns the instant from which the owner accepts nothing unless an append succeeds before.
    fn deadline(&self) -> Option<Instant> {
        let owned = self.owned.as_ref().filter(|it| it.is_loaded)?;
        // Arguments 3 to 5: a follower takes over T after it has seen this tail, on its own clock.
        // The margin covers clocks whose rates differ.
        let margin = self.timings.margin();
        Some(owned.sent + self.timings.ownership().saturating_sub(margin))
    }

    fn has_told_lapse(&self) -> bool {
        self.has_resigned || self.owned.as_ref().is_some_and(|it| it.has_lapsed)
    }

    /// Tells the server once that it has lapsed.
    fn check_deadline(&mut self, now: Instant) {
        if self.deadline().is_some_and(|until| until <= now)
            && !self.has_told_lapse()
            && let Some(owned) = &mut self.owned
        {
            owned.has_lapsed = true;
            self.outputs.push_back(OwnershipOutput::Lapsed);
        }
    }
}
