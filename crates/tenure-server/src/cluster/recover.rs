//! Changes of a cluster's log by an operator, and copies of it.

use std::path::Path;

use super::ClusterMember;
use crate::config::ClusterConfig;
use crate::engine::{self, BackupError, Contents, Existing, RecoverError, RestoreError, Restored};

impl ClusterMember {
    /// Begins the log of a cluster, so that its servers need no right to create it. Returns the id of
    /// the new store.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`RecoverError`]. If the log exists, it stays as it is.
    pub fn init(config: &ClusterConfig) -> Result<String, RecoverError> {
        let store = engine::init_cluster(config)?;
        Ok(store.as_str().into())
    }

    /// Lets a log go on whose service was restored or promoted, or lost what it had acknowledged.
    /// All later grants have an epoch above all that can have been lost, under the conditions of a
    /// [`restore`](fn@crate::restore); revisions continue far above, too.
    ///
    /// **The log may lack the last terms.** Stop all servers before, and start them only after the
    /// longest lease duration in use has passed; [`Contents::longest`](crate::Contents::longest) is
    /// the longest one in the log.
    ///
    /// The call blocks, at first for the ownership duration: a server that appends meanwhile is
    /// still running, and the log stays as it is.
    ///
    /// # Errors
    ///
    /// [`RecoverError`].
    pub fn recover(config: &ClusterConfig) -> Result<Restored, RecoverError> {
        engine::recover_cluster(config)
    }

    /// Copies the log of a cluster to `file`, like [`backup`](crate::backup) for a data directory.
    /// The copy has every change that was acknowledged before this call. The servers may run, and
    /// are not disturbed.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`BackupError`].
    pub fn backup(
        config: &ClusterConfig,
        file: &Path,
        existing: Existing,
    ) -> Result<Contents, BackupError> {
        engine::backup_cluster(config, file, existing, false)
    }

    /// Makes the last backup of a cluster, like [`final_backup`](crate::final_backup) for a data
    /// directory: from then on no server takes its log over. An active server is deposed; nothing
    /// that it acknowledged is missing. The call then takes the ownership duration, because that
    /// server may not know it yet; if all servers were stopped before, it does not wait.
    ///
    /// **Restore the file once.** Two stores that go on from it would grant the same epochs.
    ///
    /// If the call fails after the log was retired, repeat it. The call blocks.
    ///
    /// # Errors
    ///
    /// [`BackupError`].
    pub fn final_backup(
        config: &ClusterConfig,
        file: &Path,
        existing: Existing,
    ) -> Result<Contents, BackupError> {
        engine::backup_cluster(config, file, existing, true)
    }

    /// Creates the log of a cluster from the backup `file`, like [`restore`](crate::restore) for a
    /// data directory. The log must be empty, or be left by a restore that was interrupted.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]. While a restore is not complete, no server takes the log over.
    pub fn restore(file: &Path, config: &ClusterConfig) -> Result<Restored, RestoreError> {
        engine::restore_cluster(file, config)
    }
}
