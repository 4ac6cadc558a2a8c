//! A lease that the candidates judge by themselves: a record in a service that stores it, and that
//! does not know when it expires. A `Lease` of Kubernetes is such a record.
//!
//! **Why two candidates never hold the record at once**, if the duration passes on all clocks at
//! the same rate:
//!
//! 1. **A write replaces the version that its writer has read.** The service refuses a write if the
//!    record has changed since. So each version has one successor.
//! 2. **The holder counts from before the send** of its last successful write
//!    ([`lease::candidate`](super::candidate)).
//! 3. **Another candidate counts from the arrival** of the first answer that showed this version
//!    ([`ObservedRecord::claim`]). The version was written before it was shown, so this is later
//!    than the time from which the holder counts. The times in the record are those of another
//!    clock, and decide nothing.
//! 4. When the duration has passed, the candidate writes. If the holder has renewed meanwhile, the
//!    service refuses the write, because of 1.
//! 5. **A renewal changes the record**, even if the clock of the holder stands still. Otherwise
//!    other candidates would not see it.
//!
//! These are the rules of the leader election in Kubernetes' `client-go`, so its candidates and
//! these may compete for one record.
//!
//! 6. **The holder in the record says nothing about a term of this project**, because other programs
//!    write the record too. Some of them decide by an old copy: `client-go` 0.34 to 0.37 can empty a
//!    record that it no longer holds. So each term has a [`TermMark`] in the record. A grant writes
//!    it, each renewal changes it, and a release marks it as ended; it is never removed.
//!    1. *A candidate takes the record* only if the holder permits it (3), **and** the mark has ended
//!       or was unchanged for the duration that the mark names. A mark that is missing, unreadable,
//!       longer than [`LONGEST`], or older than one that this candidate has seen counts as a running
//!       term of the longest duration that the candidate knows, from the first answer with this
//!       version of the record. So the first term on a record of another program waits once, and no
//!       candidate waits for ever.
//!    2. *A leader renews* although another program has emptied the record or removed its mark. The
//!       renewal writes both back, in place of the version that it read. It is refused if the record
//!       has another holder, the mark of another term, or the end of this one. A leader renews only
//!       while its own clock permits, so no other candidate of this project can have taken the record.
//!       Another program can take an emptied record until it is written back, so the leader also looks
//!       at the record between renewals ([`ElectionRecord::look`]). A look extends nothing.
//!    3. *A release* ends the mark, and empties the record only if the record still shows this holder.
//!       It may be late, so it writes only into a record that contains the last mark of this term: an
//!       older mark was put back by another program, and a later term may be running.
//!    4. *Every mark differs from all others*, so it has the time of its write. A number does not
//!       suffice: it repeats after a renewal whose answer was lost and whose mark was removed.
//!    5. *The mark of an own earlier campaign* counts as ended ([`ObservedRecord::claim`]), as if its
//!       release had been written: a candidate begins a campaign only when its last task has ended.
//!
//! Argument 6 fails if other programs remove the mark **and** a candidate starts that has seen no
//! mark and whose own duration is shorter than that of the leader; if they put an older mark back;
//! and if the record is deleted.
//!
//! **Why epochs increase.** The record contains the last epoch twice, in the mark and beside it, and
//! each write of a new epoch replaces the version from which the last one was read. Other programs
//! count the changes of the holder, and may remove both. So the next epoch is greater than that
//! count, than each epoch that this candidate has seen, and than the wall clock of the service.
//!
//! An epoch beside the mark is the only trace of a term if another program has removed its mark. It
//! counts up to a hundred years above the clock and the marks ([`Epoch::most_asked_for`]). By these
//! rules no term has a greater epoch, unless the clock was set back by more than that. So a greater
//! number is that of another program, and must not use up the epochs.

use alloc::string::{String, ToString};
use core::time::Duration;

use super::LeaseId;
use crate::{CandidateId, Epoch, Instant, UnixMillis};

/// The longest duration of a term. A mark with a longer one was not written by a candidate.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The record of an election, as a service stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElectionRecord {
    /// The part that every program understands.
    pub holding: Holding,
    /// The last term of a candidate of this project; `None` if there was none, or if another program
    /// has removed it.
    pub mark: Option<TermMark>,
    /// The greatest epoch that was ever written.
    pub epoch: Option<Epoch>,
}

/// The holder and its times. Any change of it is a sign of life of the holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The holder; `None` if the record is free.
    pub holder: Option<String>,
    /// The time without a change after which others may take the record, as its holder chose it.
    pub duration: Option<Duration>,
    /// The time at which the holder took the record, on its own clock. It is only compared.
    pub acquired: Option<String>,
    /// The time of the last renewal, on the holder's clock. It is only compared.
    pub renewed: Option<String>,
    /// How often the holder has changed, as far as all programs count that.
    pub transitions: u32,
}

/// The state of a term of this project. Any change of it is a sign of life of the term (argument 6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TermMark {
    /// The candidate.
    pub holder: CandidateId,
    /// The lease id of the term. Two candidates with the same name have different lease ids.
    pub lease_id: LeaseId,
    /// The epoch of the term.
    pub epoch: Epoch,
    /// The number of changes of the holder when this mark was written.
    pub transitions: u32,
    /// The lease duration of the term.
    pub duration: Duration,
    /// The number of writes of this term before this one, as far as the writer knows.
    pub number: u64,
    /// The time of this write, which differs in each write of the term (argument 5). The number may
    /// repeat, after an answer was lost and another program has removed the mark.
    pub written: String,
    /// Whether the term was released.
    pub has_ended: bool,
}

impl ElectionRecord {
    /// Returns the term that leads, as far as the record shows: its mark has not ended, and no other
    /// program has taken the record. Another program may have emptied it.
    #[must_use]
    pub fn running(&self) -> Option<&TermMark> {
        let mark = self.mark.as_ref()?;
        (!mark.has_ended && !self.is_taken_from(mark)).then_some(mark)
    }

    /// Returns whether another program has taken the record since this mark was written, maybe under
    /// the same name.
    fn is_taken_from(&self, mark: &TermMark) -> bool {
        let holding = &self.holding;
        let is_same = |holder: &String| {
            holder == mark.holder.as_str() && holding.transitions == mark.transitions
        };
        !holding.holder.as_ref().is_none_or(is_same)
    }

    /// Returns the record after a grant to this candidate, which replaces `previous`.
    #[must_use]
    pub fn granted(
        previous: Option<&Self>,
        (holder, lease_id): (&CandidateId, LeaseId),
        epoch: Epoch,
        duration: Duration,
        wall: &str,
    ) -> Self {
        // The first holder of a record changes nothing, so other programs count it as 0.
        let most = i32::MAX.unsigned_abs();
        let transitions =
            previous.map_or(0, |it| it.holding.transitions.saturating_add(1).min(most));
        let mark = TermMark {
            holder: holder.clone(),
            lease_id,
            epoch,
            transitions,
            duration,
            number: 0,
            written: wall.into(),
            has_ended: false,
        };
        Self {
            holding: Holding::of(&mark, wall, wall),
            mark: Some(mark),
            epoch: Some(epoch),
        }
    }

    /// Returns the record after a renewal of the term with this last mark; `None` if the term is over
    /// (argument 6.2). `wall` must differ from all times that the holder has written (argument 5).
    #[must_use]
    pub fn renewed(&self, last: &TermMark, duration: Duration, wall: &str) -> Option<Self> {
        let mut mark = match &self.mark {
            Some(mark) if mark.lease_id != last.lease_id || mark.has_ended => return None,
            Some(mark) if mark.order() > last.order() => mark.clone(),
            _ => last.clone(),
        };
        if self.is_taken_from(&mark) {
            return None;
        }
        mark.transitions = mark.transitions.max(self.holding.transitions);
        mark.duration = duration;
        mark.number += 1;
        mark.written = wall.into();
        let acquired = self
            .holding
            .holder
            .as_ref()
            .and(self.holding.acquired.as_deref());
        Some(Self {
            holding: Holding::of(&mark, acquired.unwrap_or(wall), wall),
            epoch: Some(mark.epoch),
            mark: Some(mark),
        })
    }

    /// Returns what the leader with this last mark finds in this version of the record.
    #[must_use]
    pub fn look(&self, last: &TermMark) -> RecordLook {
        if self.renewed(last, last.duration, &last.written).is_none() {
            return RecordLook::Over;
        }
        // A renewal whose answer was lost may have written a later mark of the same term.
        let mark = self.mark.as_ref();
        let has_mark = mark.is_some_and(|mark| mark.order() >= last.order());
        match has_mark && self.holding.holder.is_some() {
            true => RecordLook::Kept,
            false => RecordLook::Removed,
        }
    }

    /// Returns the record after a release of the term with this last mark; `None` if there is nothing
    /// to release (argument 6.3). Programs that do not understand a record without a holder wait for
    /// one second.
    #[must_use]
    pub fn released(&self, last: &TermMark, wall: &str) -> Option<Self> {
        let mark = self.mark.as_ref()?;
        if mark.lease_id != last.lease_id || mark.has_ended || mark.order() < last.order() {
            return None;
        }
        let mut record = self.clone();
        if !self.is_taken_from(mark) {
            record.holding.holder = None;
            record.holding.duration = Some(Duration::from_secs(1));
            record.holding.acquired = Some(wall.into());
            record.holding.renewed = Some(wall.into());
        }
        record.mark = Some(TermMark {
            number: mark.number + 1,
            written: wall.into(),
            has_ended: true,
            ..mark.clone()
        });
        Some(record)
    }
}

impl TermMark {
    /// Returns the place of this mark in the order of all marks.
    const fn order(&self) -> (Epoch, u64) {
        (self.epoch, self.number)
    }
}

impl Holding {
    /// Returns the holding of a running term.
    fn of(mark: &TermMark, acquired: &str, renewed: &str) -> Self {
        Self {
            holder: Some(mark.holder.to_string()),
            duration: Some(mark.duration),
            acquired: Some(acquired.into()),
            renewed: Some(renewed.into()),
            transitions: mark.transitions,
        }
    }
}

/// What a leader finds in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordLook {
    /// The record shows the term.
    Kept,
    /// Another program has removed the holder or the mark: a renewal writes both back.
    Removed,
    /// The term is over: the record has another holder, the mark of another term, or the end of this
    /// one.
    Over,
}

/// What a candidate may do with a record that it has just read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordClaim {
    /// The term of its own lease id runs, with this mark: it may renew.
    Own(TermMark),
    /// It may take the record.
    Free,
    /// The record is held.
    Held,
}

/// A wait that the record does not explain by its holder, or that is long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AwaitedTerm {
    /// The holder, if it is valid and its duration is long; `None` if a term keeps the record although
    /// another program has emptied or taken it (argument 6.1).
    pub holder: Option<String>,
    /// The candidate of such a term and its epoch; `None` if the mark does not tell.
    pub leader: Option<(CandidateId, Epoch)>,
    /// The time until this process may take the record, if the record does not change.
    pub remaining: Duration,
}

/// The record as one process has seen it: since when it is unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObservedRecord {
    /// The last version, and the arrival of the first answer that showed it.
    last: Option<(Holding, Option<TermMark>, Instant)>,
    /// The arrival of the first answer with the mark of the last version.
    mark_seen: Instant,
    /// The epoch and the number of the latest mark that was ever seen.
    latest: Option<(Epoch, u64)>,
    /// The longest duration that was ever seen.
    longest: Duration,
    /// The greatest number that was ever seen as an epoch or as a count of holders.
    greatest: Option<Epoch>,
    /// The lease ids of this process: of its campaign, and of the one before.
    campaigns: [Option<LeaseId>; 2],
}

impl ObservedRecord {
    /// Notes an answer that arrived at `now`. `wall` is the clock of the service.
    pub fn observe(&mut self, now: Instant, wall: UnixMillis, record: &ElectionRecord) {
        let (holding, mark) = (&record.holding, &record.mark);
        let transitions = Epoch::new(holding.transitions.into());
        let epochs = [transitions, mark.as_ref().map(|it| it.epoch)];
        self.greatest = epochs.into_iter().fold(self.greatest, Option::max);
        // A greater epoch beside the mark is none of a term (see the argument for epochs).
        let most = Epoch::most_asked_for(self.greatest, wall, true);
        self.greatest = self.greatest.max(record.epoch.filter(|it| *it <= most));
        let durations = [holding.duration, mark.as_ref().map(|it| it.duration)];
        let durations = durations.into_iter().flatten();
        let longest = durations
            .filter(|it| *it <= LONGEST)
            .fold(self.longest, Duration::max);
        self.longest = longest;
        self.latest = self.latest.max(mark.as_ref().map(TermMark::order));
        // Argument 3: later answers with the same version do not change the instants.
        let (last_holding, last_mark) = match &self.last {
            Some((holding, mark, _)) => (Some(holding), Some(mark)),
            None => (None, None),
        };
        if last_mark != Some(mark) {
            self.mark_seen = now;
        }
        if last_holding != Some(holding) || last_mark != Some(mark) {
            self.last = Some((holding.clone(), mark.clone(), now));
        }
    }

    /// Notes an answer that arrived at `now`, and decides whether this lease id may hold the
    /// record. `wall` is the clock of the service, and `duration` that of this candidate. Another
    /// lease id than in the last claim begins a campaign: the task of the last one must have ended.
    ///
    /// A record that is missing was deleted, which does not stop its holder. So the last version
    /// counts until it expires.
    pub fn claim(
        &mut self,
        now: Instant,
        wall: UnixMillis,
        record: Option<&ElectionRecord>,
        lease_id: LeaseId,
        duration: Duration,
    ) -> RecordClaim {
        // A late request of the last campaign begins none.
        if !self.campaigns.contains(&Some(lease_id)) {
            self.campaigns = [Some(lease_id), self.campaigns[0]];
        }
        if let Some(record) = record {
            self.observe(now, wall, record);
            match &record.mark {
                Some(mark) if mark.lease_id != lease_id => {}
                // A lease id whose term has ended never leads again.
                Some(mark) if mark.has_ended => return RecordClaim::Held,
                // An older mark was put back, and a later term may be running.
                Some(mark) if self.speaks_for_a_term(mark) && !record.is_taken_from(mark) => {
                    return RecordClaim::Own(mark.clone());
                }
                _ => {}
            }
        }
        match self.remaining(now, duration) {
            Some(_) => RecordClaim::Held,
            None => RecordClaim::Free,
        }
    }

    /// Returns how long the last version is still held if it does not change, as far as this process
    /// knows: by its holder, or by a term of this project. Returns `None` if it is not held.
    #[must_use]
    pub fn remaining(&self, now: Instant, duration: Duration) -> Option<Duration> {
        self.holder_remaining(now, duration)
            .max(self.term_remaining(now, duration))
    }

    /// Returns the term for whose end this process waits, although the holder would permit it to take
    /// the record, or else the holder, if it may keep the record for more than twice `duration`.
    #[must_use]
    pub fn awaited(&self, now: Instant, duration: Duration) -> Option<AwaitedTerm> {
        let (holding, mark, _) = self.last.as_ref()?;
        let remaining = self.remaining(now, duration)?;
        let is_held = self.holder_remaining(now, duration).is_some();
        let is_shown = is_held && remaining <= 2 * duration;
        let leader = mark.as_ref().map(|it| (it.holder.clone(), it.epoch));
        (!is_shown).then(|| AwaitedTerm {
            holder: holding.holder.clone().filter(|_| is_held),
            leader: leader.filter(|_| !is_held),
            remaining,
        })
    }

    fn holder_remaining(&self, now: Instant, duration: Duration) -> Option<Duration> {
        let (holding, _, seen) = self.last.as_ref()?;
        holding.holder.as_ref()?;
        left_of(holding.duration.unwrap_or(duration), *seen, now)
    }

    /// Returns how long the term of the mark may still run (argument 6.1); `None` if it is over.
    fn term_remaining(&self, now: Instant, duration: Duration) -> Option<Duration> {
        let (_, mark, seen) = self.last.as_ref()?;
        let (until, since) = match mark {
            Some(mark) if self.speaks_for_a_term(mark) => {
                // Argument 6.5.
                let is_own_past = Some(mark.lease_id) == self.campaigns[1];
                if mark.has_ended || is_own_past {
                    return None;
                }
                (mark.duration, self.mark_seen)
            }
            // Records without a mark cannot be told apart, so the whole record must be unchanged.
            _ => (self.longest.max(duration), *seen),
        };
        left_of(until, since, now)
    }

    /// Returns whether this is the latest mark that this process has seen, and one that a candidate
    /// can have written.
    fn speaks_for_a_term(&self, mark: &TermMark) -> bool {
        Some(mark.order()) >= self.latest && mark.duration <= LONGEST
    }

    /// Returns the epoch of a new term. `wall` is the clock of the service. Returns `None` if no
    /// epoch is left.
    #[must_use]
    pub fn next_epoch(&self, wall: UnixMillis) -> Option<Epoch> {
        Epoch::following(self.greatest, wall)
    }
}

/// Returns how much is left of a duration that began at `since`; `None` if it has passed.
fn left_of(duration: Duration, since: Instant, now: Instant) -> Option<Duration> {
    let left = duration.checked_sub(now.since(since));
    left.filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
