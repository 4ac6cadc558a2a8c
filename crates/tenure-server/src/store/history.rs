//! The term history of a lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::Epoch;
use tenure_core::wire::{Problem, TermView, WithoutStoreView};
use tracing::warn;

use super::Store;
use super::observe::{IfMissing, unknown};
use super::transaction::LeaseTransaction;
use crate::clock;
use crate::model::{Content, History, LeaseChange, LeaseKey, Sink, TermRecord};

impl Store {
    /// Returns the terms of the lease, newest first; with `before` only those with a smaller epoch.
    ///
    /// The history is that of one moment: the lease is read under its lock, and its past terms up to
    /// the last term that it had then. If that term ends meanwhile, its end belongs to a later moment.
    /// The ends of all terms before it are known once the read is answered.
    pub(crate) async fn history(
        &self,
        key: &LeaseKey,
        before: Option<Epoch>,
    ) -> Result<Vec<TermView>, Problem> {
        self.ready()?;
        let read_lease = |transaction: &mut LeaseTransaction<'_>| {
            let last = transaction.record().last_epoch();
            (transaction.running_term(), last)
        };
        let seen = self.execute(key, IfMissing::Refuse, read_lease).await?;
        let (running, last) = seen.value.ok_or_else(|| unknown(key))?;
        let most = self.inner.limits.max_history;
        let history = self.inner.history.lock();
        let past = history.terms(key).filter(|term| Some(term.epoch) <= last);
        let mut terms: Vec<TermRecord> = past.take(most).cloned().collect();
        drop(history);
        if let Some(running) = running {
            add_running(&mut terms, running);
        }
        terms.truncate(most);
        let is_before = |term: &TermRecord| before.is_none_or(|before| term.epoch < before);
        Ok(terms.into_iter().filter(is_before).map(view).collect())
    }
}

/// The past terms of all leases, as of the last durable change.
#[derive(Debug)]
pub(super) struct PastTerms {
    terms: Mutex<History>,
    /// Whether it was logged that terms are forgotten.
    has_warned: AtomicBool,
}

impl PastTerms {
    pub(super) fn new(history: History) -> Self {
        Self {
            terms: Mutex::new(history),
            has_warned: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, History> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for PastTerms {
    fn durable(&self, change: &LeaseChange) {
        let is_deleted = matches!(change.content, Content::Deleted(_));
        if change.term.is_none() && !is_deleted {
            return;
        }
        let mut history = self.lock();
        if is_deleted {
            history.forget(&change.key);
        }
        if let Some(term) = &change.term {
            history.record(&change.key, (**term).clone());
        }
        if history.forgotten() > 0 && !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(
                terms = history.len(),
                "the oldest past terms are forgotten, because there are more than serve.max_terms"
            );
        }
    }

    fn committed(&self, _: &[LeaseChange]) {}
}

/// Puts the running term before the others. If there is a record of the running term already, its
/// reason is used. If that record has an end, the end is from after the read and is ignored.
fn add_running(terms: &mut Vec<TermRecord>, running: TermRecord) {
    match terms.first_mut() {
        Some(recorded) if recorded.epoch == running.epoch => {
            *recorded = match recorded.ended {
                None => running.replacing(recorded.clone()),
                Some(_) => running,
            };
        }
        _ => terms.insert(0, running),
    }
}

fn view(term: TermRecord) -> TermView {
    let mut view = TermView::new(term.epoch.get(), term.holder.to_string());
    view.owner = term.owner.map(|owner| owner.as_str().to_owned());
    view.began_at = clock::rfc3339(term.began_at);
    view.ended_at = term.ended.and_then(|(_, at)| clock::rfc3339(at));
    view.end = term.ended.map(|(end, _)| end);
    view.reason = term.reason.map(Into::into);
    let periods = term.without_store.as_deref();
    view.without_store =
        periods.map(|periods| WithoutStoreView::of(periods, clock::rfc3339).into());
    view
}
