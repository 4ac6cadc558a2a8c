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
            Phase::Releasing(release) => release.pending,
        };
        match pending {
            Pending::InFlight { attempt, .. } => Some(attempt),
            Pending::At(_) => None,
        }
    }

    /// Stops waiting for the answer to a release. Returns whether there was a release.
    pub(crate) fn give_up_release(&mut self) -> bool {
        let releases = matches!(self.phase, Phase::Releasing(_));
        if releases {
            self.phase = Phase::Idle;
        }
        releases
    }

    /// Resets the state that does not affect safety, so that states which differ only in it are
    /// equal.
    pub(crate) fn settle(&mut self) {
        self.heard = Instant::default();
        let pending = match &mut self.phase {
            Phase::Idle | Phase::Releasing(_) => return,
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
