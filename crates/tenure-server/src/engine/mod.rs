//! The persistence of changes: an engine over a [`Log`].
//!
//! ```text
//!                                  cluster: an owner and standbys
//!                                              |
//! file log (one process, one folder)      ring (slots at a home)
//!                    \                         /
//!               snapshot: the state up to an entry
//!                              |
//!               entry: one commit
//! ```
//!
//! The engine encodes the changes that it gets from the commit queue as one [`Batch`], and appends
//! that batch to the log. A store in memory has no engine.

mod backup;
mod cluster;
mod entry;
mod error;
mod file_log;
mod loaded;
mod log;
mod replica;
mod restore;
mod ring;
mod snapshot;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tenure_core::UnixMillis;
use tenure_core::ownership::OwnershipTimings;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::ClusterConfig;
use crate::model::{ChangeSet, HistoryLimits, StoreId};

use backup::BackupFile;
use cluster::{LogHome, OperatorLog, StandbyError};

pub use backup::{BackupError, Contents, Existing, backup, final_backup};
pub use cluster::RecoverError;
#[cfg(feature = "simulation")]
pub use cluster::simulation;
#[cfg(test)]
pub(crate) use cluster::tests::faulty_home::{Fault, FaultyHome};
pub(crate) use cluster::{ClusterStatus, Ended, OwnershipClock, Standby};
pub(crate) use entry::Batch;
pub use error::OpenError;
pub(crate) use file_log::sizes;
pub use file_log::{is_guarded, mark_guarded};
pub use loaded::Document;
pub(crate) use loaded::{LeaseList, Loaded, LoadedLease};
pub(crate) use log::{AppendError, Log};
pub use restore::{RestoreError, Restored, accept_copy, forget_restore, restore, restore_note};

/// Appends changes to a log.
pub(crate) struct Engine {
    pub(crate) log: Box<dyn Log>,
    /// The revision of the last batch in the log.
    revision: u64,
    /// The last appended batch, kept to reuse its memory.
    batch: Batch,
}

impl Engine {
    /// Creates an engine over a log whose last batch has this revision.
    pub(crate) fn over(log: Box<dyn Log>, revision: u64) -> Self {
        Self {
            log,
            revision,
            batch: Batch::default(),
        }
    }

    /// Makes all these changes durable, or none of them.
    ///
    /// # Errors
    ///
    /// [`AppendError`] says whether the engine may be used again.
    pub(crate) fn commit(&mut self, sets: &[ChangeSet]) -> Result<(), AppendError> {
        if sets.is_empty() {
            return self.log.confirm();
        }
        self.batch.encode(self.revision, sets);
        self.log.append(&self.batch, sets)?;
        self.revision = self.batch.revision;
        Ok(())
    }
}

/// Begins to follow the log of a cluster: reads it once. The token `stop` ends all waits.
pub(crate) fn follow(
    config: &ClusterConfig,
    history: HistoryLimits,
    stop: CancellationToken,
) -> Result<Standby, OpenError> {
    let home = open_home(config)?;
    warn(home.probe().map_err(|error| refused(config, error))?);
    let place = home.place.clone();
    let clock = OwnershipClock::System;
    let standby = Standby::new(home, config, history, stop, clock).and_then(|mut standby| {
        standby.look_first()?;
        Ok(standby)
    });
    standby.map_err(|error| match error {
        StandbyError::Refused(detail) => OpenError::Log { log: place, detail },
        other => refused(config, other),
    })
}

/// Checks the settings of the home and the files that they name, without a connection.
pub(crate) fn check_access(config: &ClusterConfig) -> Result<(), OpenError> {
    open_home(config).map(drop)
}

/// Checks a bucket as a server does at its start. Other homes are not asked. Returns a warning.
pub(crate) fn probe_home(config: &ClusterConfig) -> Result<Option<String>, OpenError> {
    let probed = open_home(config)?.probe();
    probed.map_err(|error| refused(config, error))
}

/// Opens the home for a server, whose requests take a part of the ownership.
fn open_home(config: &ClusterConfig) -> Result<LogHome, OpenError> {
    let timings = OwnershipTimings::new(config.ownership).map_err(|it| refused(config, it))?;
    LogHome::open(config, timings.attempt()).map_err(|error| refused(config, error))
}

fn refused(config: &ClusterConfig, error: impl std::fmt::Display) -> OpenError {
    OpenError::Cluster {
        engine: config.home.name(),
        detail: error.to_string(),
    }
}

/// Opens the engine in `data_dir`. A store in memory has no engine.
///
/// It adds the leases to `leases`, one by one, while it reads them.
pub(crate) fn open(
    data_dir: Option<&Path>,
    history: HistoryLimits,
    leases: &mut impl Extend<LoadedLease>,
) -> Result<(Loaded, Option<Engine>), OpenError> {
    let revision = first_revision(clock::wall());
    let Some(data_dir) = data_dir else {
        let loaded = Loaded {
            revision,
            ..Loaded::default()
        };
        return Ok((loaded, None));
    };
    let (loaded, log) = file_log::open(data_dir, history, revision, leases)?;
    let engine = Engine::over(Box::new(log), loaded.revision);
    Ok((loaded, Some(engine)))
}

/// Opens the home of a cluster for a command of an operator.
fn operator_home(config: &ClusterConfig) -> Result<LogHome, RecoverError> {
    let home = LogHome::open(config, ATTEMPT)?;
    warn(home.probe()?);
    Ok(home)
}

/// Logs the warning of a probe.
fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
}

/// Writes the first entry of an empty log. Returns the id of the new store.
pub(crate) fn init_cluster(config: &ClusterConfig) -> Result<StoreId, RecoverError> {
    OperatorLog::new(&operator_home(config)?, &sleep).init()
}

/// Lets a log go on whose home may have lost what it acknowledged.
pub(crate) fn recover_cluster(config: &ClusterConfig) -> Result<Restored, RecoverError> {
    OperatorLog::new(&operator_home(config)?, &sleep).recover()
}

/// Copies the log of a cluster to a file. A final backup retires the log before.
pub(crate) fn backup_cluster(
    config: &ClusterConfig,
    file: &Path,
    existing: Existing,
    is_final: bool,
) -> Result<Contents, BackupError> {
    let file = BackupFile::create(file, existing, None)?;
    let home = operator_home(config).map_err(|error| BackupError::Log {
        log: format!("cluster {}", config.name),
        error,
    })?;
    OperatorLog::new(&home, &sleep).backup(file, is_final)
}

/// Writes the content of a backup into the log of a cluster.
pub(crate) fn restore_cluster(
    file: &Path,
    config: &ClusterConfig,
) -> Result<Restored, RestoreError> {
    let home = operator_home(config).map_err(|error| RestoreError::Log {
        log: format!("cluster {}", config.name),
        error,
    })?;
    OperatorLog::new(&home, &sleep).restore(file)
}

/// The time of a request of an operator's change.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Returns the least revision of a store that starts now: the wall clock in microseconds.
///
/// A watcher may resume after a revision of another store: a store in memory that ended, or a store
/// whose data directory was lost. That store made less than one change per microsecond. So unless
/// the clock was set back to before its start, all its revisions are below this one, and this store
/// does not mistake them for its own.
fn first_revision(wall: UnixMillis) -> u64 {
    let micros = wall.get().saturating_mul(1_000);
    // A clock past the year 2112 must not use up the revisions: many JSON readers represent only
    // integers below 2^53 exactly.
    if micros < 1 << 52 { micros } else { 0 }
}
