//! `tenure watch`: a line for each change.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use chrono::Local;
use tenure::store::{LeaseView, StoreClient, StoreError};
use tenure::{ElectionName, Name};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::cli::Watch;
use crate::exit::Failure;
use crate::output;
use crate::store::{self, none, state, tame};

/// How long one question may wait in the store for a change: a path that died silently is noticed
/// after so long, and proxies don't cut it.
const WAIT: Duration = Duration::from_secs(30);

/// How long to leave a store alone that can't be asked, or does not know the lease.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) fn watch(arguments: &Watch) -> Result<ExitCode, Failure> {
    let client = store::client(&arguments.store)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut changes = Changes::new(arguments.json);
        let watched = async {
            match (&arguments.name, &arguments.namespace) {
                (Some(name), _) => changes.of_lease(&client, name).await,
                (None, Some(namespace)) => changes.of_namespace(&client, namespace).await,
                (None, None) => Ok(()),
            }
        };
        tokio::select! {
            done = watched => done?,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints what has changed, as long as anybody reads.
struct Changes {
    json: bool,
    /// What was said last of the store's state, to say it once.
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Unreachable,
    Unknown,
}

impl Changes {
    const fn new(json: bool) -> Self {
        Self {
            json,
            trouble: None,
        }
    }

    /// Until nobody reads any more.
    async fn of_lease(&mut self, client: &StoreClient, name: &ElectionName) -> Result<(), Failure> {
        let mut last: Option<LeaseView> = None;
        // Zero asks for the lease as it is.
        let mut revision = 0;
        loop {
            match client.lease_after(name, revision, WAIT).await {
                Ok(Some(view)) => {
                    self.well();
                    revision = view.revision;
                    if !last.as_ref().is_some_and(|last| is_same(last, &view)) {
                        if !self.print(&view)? {
                            return Ok(());
                        }
                        last = Some(view);
                    }
                    continue;
                }
                Ok(None) => {
                    if self.enter(Trouble::Unknown) {
                        info!(lease = %name, "nobody has ever competed for this lease; waiting");
                    }
                }
                Err(error) => self.unreachable(error)?,
            }
            // Whatever answers next may count its revisions from elsewhere.
            revision = 0;
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Until nobody reads any more.
    async fn of_namespace(&mut self, client: &StoreClient, name: &Name) -> Result<(), Failure> {
        let mut last = BTreeMap::new();
        loop {
            match store::all(client, name, None).await {
                Ok(views) => {
                    self.well();
                    let mut now = BTreeMap::new();
                    for view in views {
                        let before = last.get(&view.lease);
                        if !before.is_some_and(|before| is_same(before, &view))
                            && !self.print(&view)?
                        {
                            return Ok(());
                        }
                        now.insert(view.lease.clone(), view);
                    }
                    last = now;
                }
                Err(error) => self.unreachable(error)?,
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// A failure that passes is told once, and waited for.
    fn unreachable(&mut self, error: StoreError) -> Result<(), Failure> {
        match &error {
            StoreError::Problem(problem) if !problem.code.is_transient() => Err(error.into()),
            _ => {
                if self.enter(Trouble::Unreachable) {
                    warn!(%error, "the store can't be asked; trying again");
                }
                Ok(())
            }
        }
    }

    fn enter(&mut self, trouble: Trouble) -> bool {
        self.trouble.replace(trouble) != Some(trouble)
    }

    fn well(&mut self) {
        if self.trouble.take() == Some(Trouble::Unreachable) {
            info!("the store answers again");
        }
    }

    /// Prints a change; false if nobody reads any more.
    fn print(&self, view: &LeaseView) -> io::Result<bool> {
        if self.json {
            return output::try_line(serde_json::to_string(view)?);
        }
        let time = Local::now().format("%H:%M:%S%.3f");
        let name = format!("{}/{}", tame(&view.namespace), tame(&view.lease));
        let holder = view.holder.as_deref().map_or_else(none, tame);
        let epoch = view.epoch.map_or_else(none, |epoch| epoch.to_string());
        let state = state(view.state);
        output::try_line(format_args!(
            "{time}  {name}  {state:<9}  {holder}  {epoch}"
        ))
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
