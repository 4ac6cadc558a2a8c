//! What a model checker needs: fewer states of a voter.

use super::{Phase, StoreVoter};
use crate::Instant;
use crate::lease::candidate::machine::Pending;

/// The time of a request that is due. The model decides when it is sent.
const DUE: Pending = Pending::At(Instant::from_nanos(0));

impl StoreVoter {
    /// Returns the number of requests so far.
    pub(crate) const fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Returns the number of the request whose answer is awaited.
    pub(crate) const fn awaited(&self) -> Option<u64> {
        let pending = match &self.phase {
            Phase::Idle => return None,
            Phase::Asking(campaign) => campaign.pending,
            Phase::Holding(holding) => holding.pending,
        };
        match pending {
            Pending::InFlight { attempt, .. } => Some(attempt),
            Pending::At(_) => None,
        }
    }

    /// Forgets a release that was sent. Returns whether there was one.
    pub(crate) fn forget_release(&mut self) -> bool {
        !core::mem::take(&mut self.unreleased).is_none()
    }

    /// Resets the state that does not affect safety, so that states which differ only in it are
    /// equal.
    pub(crate) fn settle(&mut self) {
        self.heard = Instant::default();
        let pending = match &mut self.phase {
            Phase::Idle => return,
            Phase::Asking(campaign) => {
                campaign.started = Instant::default();
                campaign.failures = 0;
                &mut campaign.pending
            }
            Phase::Holding(holding) => {
                holding.since = Instant::default();
                holding.failures = holding.failures.min(1);
                &mut holding.pending
            }
        };
        if let Pending::At(_) = pending {
            *pending = DUE;
        }
    }
}
