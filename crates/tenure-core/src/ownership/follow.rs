//! What a server knows of the log: the newest head, and since when.

use core::cmp::Ordering;

use super::{EngineId, Found, Head, HeadState, OwnerId, OwnershipTimings, Refusal, Sighting};
use crate::Instant;

/// The view of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// The newest head, and when its first sighting arrived.
    known: Option<(Head, Instant)>,
    /// The service, if it has shown an empty log and no head.
    empty: Option<EngineId>,
    /// The reason why the server takes nothing over.
    refusal: Option<Refusal>,
    /// The arrival of the first answer since a read failed; `None` if the last read failed.
    answering_since: Option<Instant>,
    /// The arrival of the last answer.
    answered: Instant,
    /// The first of the last answers, if all of them show older heads than the known one.
    older_since: Option<Instant>,
}

/// The source of a sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A read, which may be stale.
    Read,
    /// A refused append, which shows the current head.
    Append,
}

/// The relation of a sighting to the known head.
enum Relation {
    /// There is no head, and there was none before.
    Empty,
    Newer(Head),
    Same(Refusal),
    /// An earlier head of the chain, or none.
    Older(Refusal),
    /// Not a head of the chain.
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

    pub(super) fn known(&self) -> Option<Head> {
        self.known.map(|(head, _)| head)
    }

    pub(super) const fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Notes that a call failed.
    pub(super) const fn fail(&mut self) {
        self.answering_since = None;
    }

    /// Notes the server's own head, after its append.
    pub(super) const fn own(&mut self, head: Head, now: Instant) {
        self.known = Some((head, now));
        self.answered = now;
        self.answering_since = Some(now);
        self.older_since = None;
        self.refusal = None;
    }

    /// Notes an answer that arrived at `now`.
    pub(super) fn see(
        &mut self,
        now: Instant,
        sighting: Sighting,
        source: Source,
        timings: &OwnershipTimings,
    ) {
        if now.since(self.answered) > timings.settle() {
            self.answering_since = None;
        }
        self.answered = now;
        // Argument 9: no later head shows that the log has again what it lost.
        if matches!(self.refusal, Some(Refusal::WentBack { .. })) {
            return;
        }
        match (self.relation(sighting), source) {
            (Relation::Empty, _) => {
                self.empty = Some(sighting.engine);
                self.accept(now);
            }
            (Relation::Newer(head), _) => {
                // Argument 4: T counts from the arrival of the first answer with this head. Later
                // answers with the same head do not change the instant.
                self.known = Some((head, now));
                self.accept(now);
            }
            (Relation::Same(_), Source::Read) => self.accept(now),
            (Relation::Older(refusal), Source::Read) => {
                let since = *self.older_since.get_or_insert(now);
                if now.since(since) < timings.ownership() {
                    // Argument 8: the read is stale. It says nothing about the known head, and the
                    // service refuses a take-over if the known head is no longer current.
                    self.answering_since.get_or_insert(now);
                } else {
                    self.refuse(refusal);
                }
            }
            (Relation::Same(refusal) | Relation::Older(refusal), Source::Append)
            | (Relation::Foreign(refusal), _) => self.refuse(refusal),
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

    fn relation(&self, Sighting { engine, found }: Sighting) -> Relation {
        let head = match found {
            Found::Empty => None,
            Found::Head(head) => Some(head),
            Found::Unusable(refusal) => return Relation::Foreign(refusal),
        };
        // Another service may run beside this one, or may have lost what this one acknowledged.
        let mut heads = [head, self.known()].into_iter().flatten();
        if let Some(other) = heads.find(|it| it.engine != engine) {
            return Relation::Foreign(Refusal::OtherEngine {
                written: other.engine,
                answering: engine,
            });
        }
        let (known, head) = match (self.known(), head) {
            (None, None) => return Relation::Empty,
            (None, Some(head)) => return Relation::Newer(head),
            (Some(known), head) => (known, head),
        };
        let refusal = Refusal::WentBack { known, found: head };
        let Some(head) = head else {
            return Relation::Older(refusal);
        };
        if head == known {
            return Relation::Same(refusal);
        }
        // Argument 1: in one chain each append adds one to the sequence, the generation never
        // decreases, and each generation has one owner.
        let generation = head.generation.cmp(&known.generation);
        match head.sequence.cmp(&known.sequence) {
            _ if generation.is_eq() && head.owner != known.owner => Relation::Foreign(refusal),
            Ordering::Greater if generation.is_ge() => Relation::Newer(head),
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
        let Some((head, seen)) = self.known else {
            return self.empty.map(|_| self.answered);
        };
        match head.state {
            HeadState::Restoring | HeadState::Retired => None,
            // The owner accepted its last request before it sent this head. A server that has
            // resigned itself leaves the head to the others for as long as that of another owner.
            HeadState::Vacant if head.owner != me => Some(self.answered),
            HeadState::Owned | HeadState::Vacant => {
                // The owner counts its own T. It stands in the head, because the two servers may be
                // configured differently.
                let ownership = timings.ownership().max(head.ownership);
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

    /// Returns the head of a take-over by `me`.
    pub(super) fn successor(&self, me: OwnerId, timings: &OwnershipTimings) -> Option<Head> {
        let (engine, generation, sequence) = match (self.known(), self.empty) {
            (Some(head), _) => (head.engine, head.generation, head.sequence),
            (None, engine) => (engine?, 0, 0),
        };
        Some(Head {
            engine,
            generation: generation.saturating_add(1),
            sequence: sequence.saturating_add(1),
            undone: 0,
            state: HeadState::Owned,
            owner: me,
            ownership: timings.ownership(),
        })
    }
}
