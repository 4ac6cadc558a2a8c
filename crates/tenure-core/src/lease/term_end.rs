//! How terms end, for whoever keeps a history of them.

use super::Record;
use super::record::Phase;
use crate::Instant;

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TermEnd {
    /// The holder gave it up.
    Released,
    /// The holder did not renew in time.
    Expired,
    /// Somebody broke it; also if the holder gave it up before the break's period was over.
    Broken,
    /// The holder, or an operator, handed it over.
    HandedOver,
}

impl TermEnd {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Released,
        Self::Expired,
        Self::Broken,
        Self::HandedOver,
    ];

    /// The end as one word, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Broken => "broken",
            Self::HandedOver => "handed_over",
        }
    }
}

/// A term that no step has ended yet. Taken before a step, it tells afterwards whether the step ended
/// the term.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    phase: Phase,
}

impl Record {
    /// The term that no step has ended yet, if there is one; its time may be over.
    #[must_use]
    pub const fn running(&self) -> Option<Running> {
        match self.phase {
            Phase::Leased { .. } | Phase::Breaking { .. } => Some(Running { phase: self.phase }),
            Phase::Available | Phase::Broken | Phase::Expired => None,
        }
    }
}

impl Running {
    /// How and when the step at `now` that has made the record what it is in `after` ended the term;
    /// `None` if it goes on. The step is one call of [`Record::settle`], or one of
    /// [`apply`](super::apply) on a record that was settled at `now`.
    #[must_use]
    pub fn ended(self, after: &Record, now: Instant) -> Option<(TermEnd, Instant)> {
        let end = match (after.phase, self.phase) {
            (Phase::Leased { .. } | Phase::Breaking { .. }, _) => return None,
            // A grant clears the reservation, so this one was made in this very term: by its
            // holder with its last breath, or by an operator with the break that ended it.
            _ if after.reserved.is_some() => TermEnd::HandedOver,
            (_, Phase::Breaking { .. }) | (Phase::Broken, _) => TermEnd::Broken,
            (Phase::Expired, _) => TermEnd::Expired,
            (Phase::Available, _) => TermEnd::Released,
        };
        let over = match self.phase {
            Phase::Leased { expires } => expires,
            Phase::Breaking { until } => Some(until),
            Phase::Available | Phase::Broken | Phase::Expired => None,
        };
        // However late somebody looks, time ended it when it was over.
        Some((end, over.map_or(now, |over| over.min(now))))
    }
}
