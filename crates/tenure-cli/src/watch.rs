//! `tenure watch`: a line for each change.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local};
use serde::Serialize;
use tenure::store::{
    EventKind, LeaseEvent, LeaseView, State, StoreClient, StoreError, StoreEvent, Watched,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::cli::Watch;
use crate::exit::Failure;
use crate::output;
use crate::store::{self, none, state, tame};

/// How long to leave a store alone that can't be asked.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) fn watch(arguments: &Watch) -> Result<ExitCode, Failure> {
    let client = store::client(&arguments.store)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let watched = match (&arguments.name, &arguments.namespace) {
            (Some(name), _) => Watched::Lease(name.clone()),
            (None, Some(namespace)) => Watched::Namespace(namespace.clone()),
            (None, None) => return Ok(ExitCode::SUCCESS),
        };
        let mut changes = Changes {
            client,
            watched,
            json: arguments.json,
            known: BTreeMap::new(),
            is_unreachable: false,
        };
        tokio::select! {
            done = changes.follow() => done?,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints what has changed, as long as anybody reads.
struct Changes {
    client: StoreClient,
    watched: Watched,
    json: bool,
    /// The leases as they were printed last.
    known: BTreeMap<String, LeaseView>,
    /// To say it once.
    is_unreachable: bool,
}

/// Whether anybody still reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Reads,
    Gone,
}

/// What is printed in JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// What happened; null for a lease as it was found.
    event: Option<EventKind>,
    #[serde(flatten)]
    change: &'a LeaseEvent,
}

impl Changes {
    /// Until nobody reads any more.
    async fn follow(&mut self) -> Result<(), Failure> {
        let mut last_id = None;
        loop {
            match self.listen(&mut last_id).await {
                Ok(()) => return Ok(()),
                Err(Stopped::ByStore(error)) => self.unreachable(error)?,
                Err(Stopped::Printing(error)) => return Err(error.into()),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Prints what one stream tells, until it ends or nobody reads any more.
    async fn listen(&mut self, last_id: &mut Option<u64>) -> Result<(), Stopped> {
        let mut stream = self.client.events(&self.watched, *last_id).await?;
        if std::mem::take(&mut self.is_unreachable) {
            info!("the store answers again");
        }
        loop {
            let reader = match stream.next().await? {
                StoreEvent::Lease(kind, change) => self.happened(kind, &change)?,
                StoreEvent::Reset => {
                    // If looking fails, the next stream begins with a reset, too.
                    *last_id = None;
                    let found = self.look().await?;
                    self.found(found)?
                }
                _ => continue,
            };
            if reader == Reader::Gone {
                return Ok(());
            }
            *last_id = stream.last_id();
        }
    }

    async fn look(&self) -> Result<Vec<LeaseView>, StoreError> {
        match &self.watched {
            Watched::Lease(name) => Ok(self.client.lease(name).await?.into_iter().collect()),
            Watched::Namespace(namespace) => store::all(&self.client, namespace, None).await,
            _ => Ok(Vec::new()),
        }
    }

    /// These are the leases as they are: prints what is not known.
    fn found(&mut self, views: Vec<LeaseView>) -> io::Result<Reader> {
        if let (Watched::Lease(lease), true, true) =
            (&self.watched, views.is_empty(), self.known.is_empty())
        {
            info!(%lease, "nobody has ever competed for this lease; waiting");
        }
        let before = std::mem::take(&mut self.known);
        let mut changes = Vec::new();
        for view in views {
            if !before
                .get(&view.lease)
                .is_some_and(|last| is_same(last, &view))
            {
                changes.push((None, view.clone()));
            }
            self.known.insert(view.lease.clone(), view);
        }
        for (lease, last) in before {
            if !self.known.contains_key(&lease) {
                changes.push((Some(EventKind::Deleted), deleted(last)));
            }
        }
        for (kind, view) in changes {
            let change = LeaseEvent {
                view,
                term: None,
                reason: None,
            };
            if self.print(kind, &change)? == Reader::Gone {
                return Ok(Reader::Gone);
            }
        }
        Ok(Reader::Reads)
    }

    fn happened(&mut self, kind: EventKind, change: &LeaseEvent) -> io::Result<Reader> {
        let view = &change.view;
        let known = self.known.get(&view.lease);
        // It was in what was found.
        if known.is_some_and(|known| view.revision <= known.revision) {
            return Ok(Reader::Reads);
        }
        if kind == EventKind::Deleted {
            self.known.remove(&view.lease);
        } else {
            self.known.insert(view.lease.clone(), view.clone());
        }
        self.print(Some(kind), change)
    }

    /// A failure that passes is told once, and waited for.
    fn unreachable(&mut self, error: StoreError) -> Result<(), Failure> {
        match &error {
            StoreError::Problem(problem) if !problem.code.is_transient() => Err(error.into()),
            _ => {
                if !std::mem::replace(&mut self.is_unreachable, true) {
                    warn!(%error, "the store can't be asked; trying again");
                }
                Ok(())
            }
        }
    }

    fn print(&self, kind: Option<EventKind>, change: &LeaseEvent) -> io::Result<Reader> {
        let is_read = if self.json {
            let line = Line {
                event: kind,
                change,
            };
            output::try_line(serde_json::to_string(&line)?)
        } else {
            output::try_line(text(kind, change))
        };
        Ok(if is_read? {
            Reader::Reads
        } else {
            Reader::Gone
        })
    }
}

/// Why a stream was listened to no longer.
enum Stopped {
    ByStore(StoreError),
    Printing(io::Error),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::ByStore(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Printing(error)
    }
}

/// A line for people.
fn text(kind: Option<EventKind>, change: &LeaseEvent) -> String {
    let view = &change.view;
    let time = DateTime::<Local>::from(SystemTime::now()).format("%H:%M:%S%.3f");
    let name = format!("{}/{}", tame(&view.namespace), tame(&view.lease));
    let holder = view.holder.as_deref().map_or_else(none, tame);
    let epoch = view.epoch.map_or_else(none, |epoch| epoch.to_string());
    let state = state(view.state);
    let mut line = format!("{time}  {name}  {state:<9}  {holder}  {epoch}");
    if let Some(kind) = kind {
        line += &format!("  {}", kind.as_str());
    }
    if let Some(term) = &change.term {
        line += &format!(" ({}, {})", tame(&term.holder), term.epoch);
    }
    if let Some(reason) = &change.reason {
        line += &format!(": {}", tame(reason));
    }
    line
}

/// What there is of a lease that was there.
fn deleted(last: LeaseView) -> LeaseView {
    LeaseView {
        state: State::Available,
        holder: None,
        epoch: None,
        duration_ms: None,
        remaining_ms: None,
        granted_at: None,
        metadata: None,
        waiters: 0,
        ..last
    }
}

/// Whether nothing has changed but time. A store that was restarted may say it with another revision.
fn is_same(last: &LeaseView, view: &LeaseView) -> bool {
    last.state == view.state
        && last.holder == view.holder
        && last.epoch == view.epoch
        && last.metadata == view.metadata
        && last.duration_ms == view.duration_ms
}
