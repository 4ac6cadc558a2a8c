//! `tenure watch`: a line for each change of a lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local};
use clap::Args;
use serde::Serialize;
use tenure::store::{
    EventKind, LeaseEvent, LeaseView, State, StoreClient, StoreError, StoreEvent, Watched,
};
use tenure::{ElectionName, Name};
use tracing::{info, warn};

use crate::lease_view::state;
use crate::output::{self, escape, or_dash};
use crate::settings::ClientArgs;
use crate::{runtime, store};

/// Print a line for each change of a lease, until interrupted
///
/// The first line is the current state of the lease. A line follows for each change, including
/// deletion, but not for renewals. The command waits for a store that can't be reached and for a
/// lease that does not exist yet. After a reconnect it resumes; if the store's history no longer
/// reaches back, it prints the leases that changed.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Lease
    #[arg(
        value_name = "[NAMESPACE/]NAME",
        required_unless_present = "namespace",
        conflicts_with = "namespace"
    )]
    name: Option<ElectionName>,
    /// Watch all leases of this namespace
    #[arg(long)]
    namespace: Option<Name>,
    #[command(flatten)]
    store: ClientArgs,
    /// Print one JSON object per line with the field names of the HTTP API, and "event": the kind
    /// of change, null for the state that was found
    #[arg(long)]
    json: bool,
}

/// How long to wait before the store is asked again after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Watch {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let watched = match (&self.name, &self.namespace) {
            (Some(name), _) => Watched::Lease(name.clone()),
            (None, Some(namespace)) => Watched::Namespace(namespace.clone()),
            (None, None) => return Ok(()),
        };
        let mut watcher = Watcher {
            client: store::client(&self.store)?,
            watched,
            json: self.json,
            known: BTreeMap::new(),
            is_unreachable: false,
        };
        runtime::block_on(async {
            let stopped = runtime::stop_signal()?;
            tokio::select! {
                Err(error) = watcher.run() => Err(error),
                _ = stopped => Ok(()),
            }
        })
    }
}

/// Prints changes.
struct Watcher {
    client: StoreClient,
    watched: Watched,
    json: bool,
    /// The leases as they were last printed.
    known: BTreeMap<String, LeaseView>,
    /// Whether a warning was logged that the store can't be reached.
    is_unreachable: bool,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: Option<EventKind>,
    #[serde(flatten)]
    change: &'a LeaseEvent,
}

impl Watcher {
    /// Prints changes until an error that is not transient.
    async fn run(&mut self) -> anyhow::Result<Infallible> {
        let mut last_id = None;
        loop {
            let Err(error) = self.read_stream(&mut last_id).await;
            self.check_transient(error)?;
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Prints the changes of one stream until an error.
    async fn read_stream(&mut self, last_id: &mut Option<u64>) -> anyhow::Result<Infallible> {
        let mut stream = self.client.events(&self.watched, *last_id).await?;
        if std::mem::take(&mut self.is_unreachable) {
            info!("the store answers again");
        }
        loop {
            match stream.next().await? {
                StoreEvent::Lease(kind, change) => self.print_event(kind, &change)?,
                StoreEvent::Reset => {
                    // If the following request fails, the next stream begins with a reset as well.
                    *last_id = None;
                    let leases = self.read_leases().await?;
                    self.print_differences(leases)?;
                }
                _ => {}
            }
            *last_id = stream.last_id();
        }
    }

    async fn read_leases(&self) -> Result<Vec<LeaseView>, StoreError> {
        match &self.watched {
            Watched::Lease(name) => Ok(self.client.lease(name).await?.into_iter().collect()),
            Watched::Namespace(namespace) => store::list(&self.client, namespace, None).await,
            _ => Ok(Vec::new()),
        }
    }

    /// Prints how the current leases differ from the known ones.
    fn print_differences(&mut self, leases: Vec<LeaseView>) -> io::Result<()> {
        if let (Watched::Lease(lease), true, true) =
            (&self.watched, leases.is_empty(), self.known.is_empty())
        {
            info!(election = %lease, "no candidate has ever competed for this lease; waiting");
        }
        let mut before = std::mem::take(&mut self.known);
        let mut changes = Vec::new();
        for view in leases {
            let known = before.remove(&view.lease);
            if !known.is_some_and(|known| is_same(&known, &view)) {
                changes.push((None, view.clone()));
            }
            self.known.insert(view.lease.clone(), view);
        }
        let deleted = before.into_values().map(deleted);
        changes.extend(deleted.map(|view| (Some(EventKind::Deleted), view)));
        for (kind, view) in changes {
            self.print(kind, &LeaseEvent::new(view))?;
        }
        Ok(())
    }

    fn print_event(&mut self, kind: EventKind, change: &LeaseEvent) -> io::Result<()> {
        let view = &change.view;
        let known = self.known.get(&view.lease);
        // The state that was read after a reset includes this change already.
        if known.is_some_and(|known| view.revision <= known.revision) {
            return Ok(());
        }
        if kind == EventKind::Deleted {
            self.known.remove(&view.lease);
        } else {
            self.known.insert(view.lease.clone(), view.clone());
        }
        self.print(Some(kind), change)
    }

    /// Logs the first of several transient errors of the store; returns all other errors.
    fn check_transient(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match error.downcast_ref::<StoreError>() {
            Some(StoreError::Problem(problem)) if !problem.code.is_transient() => Err(error),
            Some(error) => {
                if !std::mem::replace(&mut self.is_unreachable, true) {
                    warn!(%error, "the store can't be reached, retrying");
                }
                Ok(())
            }
            None => Err(error),
        }
    }

    fn print(&self, kind: Option<EventKind>, change: &LeaseEvent) -> io::Result<()> {
        if !self.json {
            return output::line(text(kind, change));
        }
        let line = Line {
            event: kind,
            change,
        };
        output::line(serde_json::to_string(&line)?)
    }
}

/// A line for people.
fn text(kind: Option<EventKind>, change: &LeaseEvent) -> String {
    let view = &change.view;
    let time = DateTime::<Local>::from(SystemTime::now()).format("%H:%M:%S%.3f");
    let name = format!("{}/{}", escape(&view.namespace), escape(&view.lease));
    let holder = or_dash(view.holder.as_deref().map(escape));
    let (epoch, state) = (or_dash(view.epoch), state(view.state));
    let mut line = format!("{time}  {name}  {state:<9}  {holder}  {epoch}");
    if let Some(kind) = kind {
        line += &format!("  {kind}");
    }
    if let Some(term) = &change.term {
        line += &format!(" ({}, {})", escape(&term.holder), term.epoch);
    }
    if let Some(reason) = &change.reason {
        line += &format!(": {}", escape(reason));
    }
    line
}

/// The view of a deleted lease.
fn deleted(last: LeaseView) -> LeaseView {
    let mut view = LeaseView::new(last.namespace, last.lease, State::Available);
    view.revision = last.revision;
    view
}

/// Whether nothing but times has changed. Another store may report the same state with another
/// revision.
fn is_same(last: &LeaseView, view: &LeaseView) -> bool {
    last.state == view.state
        && last.holder == view.holder
        && last.epoch == view.epoch
        && last.metadata == view.metadata
        && last.duration_ms == view.duration_ms
}
