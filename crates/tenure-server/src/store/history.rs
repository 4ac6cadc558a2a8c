//! The terms that a lease has had.

use std::sync::Arc;

use tenure_core::Epoch;
use tenure_core::wire::{Code, History, Problem, TermView};
use tracing::error;

use super::Store;
use super::operate::unknown;
use super::work::Work;
use crate::clock;
use crate::engine::{Archive, Term};
use crate::table::Key;

/// A lease as it was looked at.
struct Seen {
    running: Option<Term>,
    /// The greatest epoch granted.
    last: Option<Epoch>,
    /// What is remembered in memory, newest first.
    past: Vec<Term>,
}

impl Store {
    /// The terms of the lease, newest first.
    ///
    /// It is the history as of one moment: the lease is looked at under its lock, and what is on disk
    /// is taken up to the last term seen there. That term's end, if it comes in between, belongs to a
    /// later moment; the ends of all terms before are on disk once the ticket of the look is good.
    pub(crate) async fn history(&self, key: &Key) -> Result<History, Problem> {
        self.ready()?;
        let look = |work: &mut Work<'_>| Seen {
            running: work.running_term(),
            last: work.entry.lease.record().last_epoch(),
            past: work
                .entry
                .past
                .iter()
                .flat_map(|past| past.terms())
                .collect(),
        };
        let seen = self.look_at(key, look).await?;
        let seen = seen.value.ok_or_else(|| unknown(key))?;
        let most = self.inner.limits.max_history;
        let past = match (&self.inner.archive, seen.last) {
            (Some(archive), Some(last)) => read(archive, key, last, most).await?,
            _ => seen.past,
        };
        let mut terms = with_running(past, seen.running);
        terms.truncate(most);
        let terms = terms.into_iter().map(view).collect();
        Ok(History { terms })
    }
}

/// Reads the terms on disk, where blocking is allowed.
async fn read(
    archive: &Arc<dyn Archive>,
    key: &Key,
    last: Epoch,
    most: usize,
) -> Result<Vec<Term>, Problem> {
    let (archive, of) = (Arc::clone(archive), key.clone());
    let reading = tokio::task::spawn_blocking(move || archive.terms(&of, last, most));
    let read = reading.await.map_err(|error| error.to_string());
    read.and_then(|terms| terms).map_err(|error| {
        let (namespace, lease) = (key.namespace(), key.lease());
        error!(namespace, lease, error, "the history can't be read");
        let detail = "the history can't be read, see the store's log";
        Problem::new(Code::EngineUnavailable, detail)
    })
}

/// Puts the term that goes on before the others. If something was noted of it, that has its reason;
/// if it is noted as ended, that was after it was looked at.
fn with_running(mut past: Vec<Term>, running: Option<Term>) -> Vec<Term> {
    if let Some(running) = running {
        let noted = past
            .first()
            .is_some_and(|term| term.epoch == running.epoch)
            .then(|| past.remove(0));
        past.insert(
            0,
            match noted {
                Some(noted) if noted.ended.is_none() => running.after(noted),
                _ => running,
            },
        );
    }
    past
}

fn view(term: Term) -> TermView {
    TermView {
        epoch: term.epoch.get(),
        holder: term.holder.to_string(),
        began_at: clock::rfc3339(term.began_at),
        ended_at: term.ended.and_then(|(_, at)| clock::rfc3339(at)),
        end: term.ended.map(|(end, _)| end),
        reason: term.reason.map(Into::into),
    }
}
