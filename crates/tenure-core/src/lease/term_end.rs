//! How terms end, for the history of terms.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::Record;
use super::record::Phase;
use crate::Instant;

/// The way in which a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TermEnd {
    /// The holder released the lease.
    Released,
    /// The holder did not renew in time.
    Expired,
    /// The lease was broken, even if the holder released it before the end of the break's period.
    Broken,
    /// The holder or an operator handed the lease over.
    HandedOver,
}

/// Writes the name as in JSON.
impl fmt::Display for TermEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The running term before a step. After the step, [`Running::ended`] returns whether the step
/// ended the term.
#[derive(Clone, Copy, Debug)]
pub struct Running(Phase);

impl Record {
    /// Returns the term that no step has ended yet, if there is one. Its time may be over.
    #[must_use]
    pub const fn running(&self) -> Option<Running> {
        match self.phase {
            Phase::Leased { .. } | Phase::Breaking { .. } => Some(Running(self.phase)),
            Phase::Available | Phase::Broken { .. } | Phase::Expired { .. } => None,
        }
    }
}

impl Running {
    /// Returns how and when the step at `now` ended the term; `None` if the term continues. `after`
    /// is the record after the step. The step is one call of [`Record::settle`], or one call of
    /// [`apply`](super::apply) on a record that was settled at `now`.
    #[must_use]
    pub fn ended(self, after: &Record, now: Instant) -> Option<(TermEnd, Instant)> {
        let end = match (after.phase, self.0) {
            (Phase::Leased { .. } | Phase::Breaking { .. }, _) => return None,
            // A grant clears the reservation, so this one was made in this term: by the holder's
            // hand-over, or by an operator's switch-over that broke the lease.
            _ if after.rare.as_ref().is_some_and(|it| it.reserved.is_some()) => TermEnd::HandedOver,
            (_, Phase::Breaking { .. }) | (Phase::Broken { .. }, _) => TermEnd::Broken,
            (Phase::Expired { .. }, _) => TermEnd::Expired,
            (Phase::Available, _) => TermEnd::Released,
        };
        let over = self.0.end();
        // Even if the step is late, the term ended when its time was over.
        Some((end, over.map_or(now, |over| over.min(now))))
    }
}
