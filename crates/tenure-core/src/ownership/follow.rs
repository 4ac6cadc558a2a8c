//! What a server knows of the log: the newest tail, and since when.

use core::cmp::Ordering;

use super::{Found, HomeId, Observation, OwnerId, OwnershipTimings, Refusal, Tail, TailState};
use crate::Instant;

/// The view of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// The newest tail, and when it was observed first.
    known: Option<(Tail, Instant)>,
    /// The service, if it has shown an empty log and no tail.
    empty: Option<HomeId>,
    /// The reason why the server takes nothing over.
    refusal: Option<Refusal>,
    /// The arrival of the first answer since a read failed; `None` if the last read failed.
    answering_since: Option<Instant>,
    /// The arrival of the last answer.
    answered: Instant,
    /// The first of the last answers, if all of them show older tails than the known one.
    older_since: Option<Instant>,
}

/// The relation of an observation to the known tail.
enum Relation {
    /// There is no tail, and there was none before.
    Empty,
    Newer(Tail),
    Same,
    /// An earlier tail of the chain, or none.
    Older(Refusal),
    /// Not a tail of the chain.
    Foreign(Refusal),
}

impl View {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            known: None,
            empty: None,
            refusal: None,
            answering_since: None,
            answered: now,
            older_since: None,
        }
    }

    pub(super) fn known(&self) -> Option<Tail> {
        self.known.map(|(tail, _)| tail)
    }

    pub(super) const fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Notes that a call failed.
    pub(super) const fn fail(&mut self) {
        self.answering_since = None;
    }

    /// Notes the server's own tail, after its append.
    pub(super) const fn own(&mut self, tail: Tail, now: Instant) {
        self.known = Some((tail, now));
        self.answered = now;
        self.answering_since = Some(now);
        self.older_since = None;
        self.refusal = None;
    }

    /// Notes an answer that arrived at `now`, to a read or to an append. Each may be stale: a former primary
    /// of the home also answers appends, until its connections end.
    pub(super) fn see(
        &mut self,
        now: Instant,
        observation: Observation,
        timings: &OwnershipTimings,
    ) {
        if now.since(self.answered) > timings.settle() {
            self.answering_since = None;
        }
        self.answered = now;
        // Argument 9: no later tail shows that the log has again what it lost.
        if matches!(self.refusal, Some(Refusal::WentBack { .. })) {
            return;
        }
        match self.relation(observation) {
            Relation::Empty => {
                self.empty = Some(observation.home);
                self.accept(now);
            }
            Relation::Newer(tail) => {
                // Argument 4: T counts from the arrival of the first answer with this tail. Later
                // answers with the same tail do not change the instant.
                self.known = Some((tail, now));
                self.accept(now);
            }
            Relation::Same => self.accept(now),
            Relation::Older(refusal) => {
                let since = *self.older_since.get_or_insert(now);
                if now.since(since) < timings.ownership() {
                    // Argument 8: the answer is stale. It says nothing about the known tail, and the
                    // service refuses a take-over if the known tail is no longer current.
                    self.answering_since.get_or_insert(now);
                } else {
                    self.refuse(refusal);
                }
            }
            Relation::Foreign(refusal) => self.refuse(refusal),
        }
    }

    fn accept(&mut self, now: Instant) {
        self.refusal = None;
        self.older_since = None;
        self.answering_since.get_or_insert(now);
    }

    const fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.answering_since = None;
    }

    fn relation(&self, Observation { home, found }: Observation) -> Relation {
        let tail = match found {
            Found::Empty => None,
            Found::Tail(tail) => Some(tail),
            Found::Unusable(refusal) => return Relation::Foreign(refusal),
        };
        // Another service may run beside this one, or may have lost what this one acknowledged.
        let mut tails = [tail, self.known()].into_iter().flatten();
        if let Some(other) = tails.find(|it| it.home != home) {
            return Relation::Foreign(Refusal::OtherHome {
                written: other.home,
                answering: home,
            });
        }
        let (known, tail) = match (self.known(), tail) {
            (None, None) => return Relation::Empty,
            (None, Some(tail)) => return Relation::Newer(tail),
            (Some(known), tail) => (known, tail),
        };
        let refusal = Refusal::WentBack { known, found: tail };
        let Some(tail) = tail else {
            return Relation::Older(refusal);
        };
        if tail == known {
            return Relation::Same;
        }
        // Argument 1: in one chain each append adds one to the sequence, the generation never
        // decreases, and each generation has one owner.
        let generation = tail.generation.cmp(&known.generation);
        match tail.sequence.cmp(&known.sequence) {
            _ if generation.is_eq() && tail.owner != known.owner => Relation::Foreign(refusal),
            Ordering::Greater if generation.is_ge() => Relation::Newer(tail),
            Ordering::Less if generation.is_le() => Relation::Older(refusal),
            _ => Relation::Foreign(refusal),
        }
    }

    /// Returns when the server `me` may take over, as far as it knows; `None` if it may not.
    pub(super) fn take_over_at(&self, me: OwnerId, timings: &OwnershipTimings) -> Option<Instant> {
        let since = match self.refusal {
            None => self.answering_since?,
            Some(_) => return None,
        };
        let Some((tail, seen)) = self.known else {
            return self.empty.map(|_| self.answered);
        };
        match tail.state {
            TailState::Restoring | TailState::Retired => None,
            // The owner accepted its last request before it sent this tail. A server that has
            // resigned itself leaves the tail to the others for as long as that of another owner.
            TailState::Vacant if tail.owner != me => Some(self.answered),
            TailState::Owned | TailState::Vacant => {
                // The owner counts its own T. It stands in the tail, because the two servers may be
                // configured differently.
                let ownership = timings.ownership().max(tail.ownership);
                // Liveness only: after an outage of the service the owner comes first, because it
                // repeats its append within an attempt (T/6) and a pause (T/12).
                let settled = since + timings.settle();
                Some(settled.max(seen + ownership))
            }
        }
    }

    /// Returns whether the last answer is recent enough to take over without another read.
    pub(super) fn is_recent(&self, now: Instant, timings: &OwnershipTimings) -> bool {
        now.since(self.answered) <= timings.settle()
    }

    /// Returns the tail of a take-over by `me`.
    pub(super) fn successor(&self, me: OwnerId, timings: &OwnershipTimings) -> Option<Tail> {
        let (home, generation, sequence) = match (self.known(), self.empty) {
            (Some(tail), _) => (tail.home, tail.generation, tail.sequence),
            (None, home) => (home?, 0, 0),
        };
        Some(Tail {
            home,
            generation: generation.saturating_add(1),
            sequence: sequence.saturating_add(1),
            undone: 0,
            state: TailState::Owned,
            owner: me,
            ownership: timings.ownership(),
        })
    }
}
