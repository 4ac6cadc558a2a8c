//! The term history of a lease.

use std::sync::Arc;

use tenure_core::Epoch;
use tenure_core::wire::{Code, Problem, TermView, WithoutStoreView};
use tracing::error;

use super::Store;
use super::observe::{IfMissing, unknown};
use super::transaction::LeaseTransaction;
use crate::clock;
use crate::engine::TermHistory;
use crate::model::{LeaseKey, TermRecord};

impl Store {
    /// Returns the terms of the lease, newest first; with `before` only those with a smaller epoch.
    ///
    /// The history is that of one moment: the lease is read under its lock, and the disk is read up
    /// to the last term that the lease had then. If that term ends meanwhile, its end belongs to a
    /// later moment. The ends of all terms before it are on disk once the ticket of the read
    /// reports success.
    pub(crate) async fn history(
        &self,
        key: &LeaseKey,
        before: Option<Epoch>,
    ) -> Result<Vec<TermView>, Problem> {
        self.ready()?;
        let read_lease = |transaction: &mut LeaseTransaction<'_>| {
            let last = transaction.record().last_epoch();
            (transaction.running_term(), last, transaction.past_terms())
        };
        let seen = self.execute(key, IfMissing::Refuse, read_lease).await?;
        let (running, last, past) = seen.value.ok_or_else(|| unknown(key))?;
        let most = self.inner.limits.max_history;
        let mut terms = match (&self.inner.term_history, last) {
            (Some(history), Some(last)) => read(history, key, last, most).await?,
            _ => past,
        };
        if let Some(running) = running {
            add_running(&mut terms, running);
        }
        terms.truncate(most);
        let is_before = |term: &TermRecord| before.is_none_or(|before| term.epoch < before);
        Ok(terms.into_iter().filter(is_before).map(view).collect())
    }
}

/// Reads the terms on disk, on a thread that may block.
async fn read(
    history: &Arc<dyn TermHistory>,
    key: &LeaseKey,
    last: Epoch,
    most: usize,
) -> Result<Vec<TermRecord>, Problem> {
    let (history, of) = (Arc::clone(history), key.clone());
    let reading = tokio::task::spawn_blocking(move || history.terms(&of, last, most));
    let read = reading.await.map_err(|error| error.to_string());
    read.and_then(|terms| terms).map_err(|error| {
        error!(election = %key.as_str(), error, "the history can't be read");
        let detail = "the history can't be read, see the store's log";
        Problem::new(Code::EngineUnavailable, detail)
    })
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
