//! What another face of the store does with leases, by rules of its own.
//!
//! It goes through the same locks, the same [`lease::apply`] and the same journal as the native calls, so
//! a lease that was taken through one face is seen and refused through all.

use tenure_core::lease::{
    self, Change, LeaseDuration, LeaseId, Operation, Record, Rejection, Rules, State, Usage,
    UsageRefusal,
};
use tenure_core::wire::Problem;
use tenure_core::{Epoch, Instant};

use super::Store;
use super::observe::IfMissing;
use super::transaction::LeaseTransaction;
use crate::model::Key;

/// A lease as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) state: State,
    /// How long the lease lasts without a renewal, while somebody holds it.
    pub(crate) duration: Option<LeaseDuration>,
    /// The number of the current term, or of the last one.
    pub(crate) epoch: Option<Epoch>,
}

/// What becomes of a lease when the thing that it is on is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It stays as it is.
    Stays,
    /// The thing changes: a lease that has expired or was broken is nobody's any more, so its last
    /// holder can't renew it.
    Changes,
    /// The thing goes, and the lease with it.
    Goes,
}

impl Store {
    /// Does one operation by these rules. A lease that is not there is made by an acquire.
    pub(crate) async fn operate_by(
        &self,
        rules: &Rules,
        key: &Key,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Result<(Change, Option<Epoch>), Rejection>, Problem> {
        if !matches!(operation, Operation::Renew(..) | Operation::Release(_)) {
            self.ready()?;
        }
        let if_missing = match operation {
            Operation::Acquire(..) => IfMissing::Create,
            _ => IfMissing::Refuse,
        };
        let work = |work: &mut LeaseTransaction<'_>| {
            let applied = work.apply_by(rules, operation, reason.clone())?;
            let epoch = work.record().last_grant().map(|grant| grant.epoch);
            Ok((applied.change, epoch))
        };
        let refuse = |work: &LeaseTransaction<'_>| work.refusal(rules, operation).map(Err);
        let seen = self.change(key, if_missing, work, refuse).await?;
        Ok(seen.value.unwrap_or_else(|| {
            // What nobody ever acquired is available.
            let mut nothing = Record::default();
            lease::apply(&mut nothing, operation, Instant::default(), rules)
                .map(|applied| (applied.change, None))
        }))
    }

    /// The lease as it is.
    pub(crate) async fn look(&self, key: &Key) -> Result<Look, Problem> {
        let used = self.use_it(key, None, Then::Stays).await?;
        Ok(used.unwrap_or(Look::NOTHING))
    }

    /// Whether the thing that the lease is on may be used so, by whoever gives this lease id, or none;
    /// and what becomes of the lease then. Without a usage nobody is asked.
    ///
    /// Both are one step: nobody acquires the lease in between.
    pub(crate) async fn use_it(
        &self,
        key: &Key,
        usage: Option<(Usage, Option<LeaseId>)>,
        then: Then,
    ) -> Result<Result<Look, UsageRefusal>, Problem> {
        self.ready()?;
        let may = |record: &Record, now| match usage {
            Some((usage, lease_id)) => lease::usable(record, usage, lease_id, now),
            None => Ok(()),
        };
        let work = |work: &mut LeaseTransaction<'_>| {
            may(work.record(), work.now())?;
            let look = Look::of(work.record(), work.now());
            let ends = match then {
                Then::Stays => false,
                Then::Changes => matches!(look.state, State::Expired | State::Broken),
                Then::Goes => look.state != State::Available,
            };
            let last = work.record().last_grant().map(|grant| grant.lease_id);
            if let (true, Some(last)) = (ends, last) {
                // Its own id releases a lease in each of these states.
                let _ = work.apply_by(&Rules::AZURE, &Operation::Release(last), None);
            }
            if then == Then::Goes {
                // It stays as an available one if it was handed over and is kept for somebody.
                let _ = work.delete();
            }
            Ok(look)
        };
        let seen = match then {
            Then::Stays => self.read(key, work).await?,
            Then::Changes | Then::Goes => {
                let refuse =
                    |work: &LeaseTransaction<'_>| may(work.record(), work.now()).err().map(Err);
                self.change(key, IfMissing::Refuse, work, refuse).await?
            }
        };
        Ok(seen
            .value
            .unwrap_or_else(|| may(&Record::default(), Instant::default()).map(|()| Look::NOTHING)))
    }

    /// The engine of something that stands beside the leases has failed for good: nothing more is
    /// acknowledged, and the server ends.
    pub(crate) fn fail(&self) {
        self.inner.failed.cancel();
    }
}

impl Look {
    const NOTHING: Self = Self {
        state: State::Available,
        duration: None,
        epoch: None,
    };

    fn of(record: &Record, now: Instant) -> Self {
        Self {
            state: record.state(now),
            duration: record.held(now).map(|grant| grant.duration),
            epoch: record.last_grant().map(|grant| grant.epoch),
        }
    }
}
