//! A term that both halves hold.

use crate::Epoch;
use crate::election::EndReason;

#[derive(Debug)]
pub(super) struct JointTerm {
    pub(super) epoch: Epoch,
    /// Why it ends; the first reason stays.
    reason: Option<EndReason>,
    pub(super) lease_at_risk: bool,
    pub(super) peers_at_risk: bool,
    pub(super) aborted: bool,
    pub(super) overrun: bool,
    pub(super) task_gone: bool,
}

impl JointTerm {
    pub(super) const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            reason: None,
            lease_at_risk: false,
            peers_at_risk: false,
            aborted: false,
            overrun: false,
            task_gone: false,
        }
    }

    /// Begins to end the term; whether it did not end yet.
    pub(super) fn begin_ending(&mut self, reason: EndReason) -> bool {
        let first = self.reason.is_none();
        self.reason = self.reason.or(Some(reason));
        first
    }

    pub(super) fn reason(&self) -> EndReason {
        self.reason.unwrap_or(EndReason::Resigned)
    }

    pub(super) const fn is_at_risk(&self) -> bool {
        self.lease_at_risk || self.peers_at_risk
    }
}
