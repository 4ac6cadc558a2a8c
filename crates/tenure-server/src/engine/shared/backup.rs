//! Backups of a shared log: snapshots, as a data directory has them.
//!
//! The copy is made as a standby makes its own, while a server writes.

use std::time::{Duration, Instant};

use tenure_core::ownership::TailState;

use super::head::{Closed, HeadRecord};
use super::leftover::without_head;
use super::log::SharedLog;
use super::recover::RecoverError;
use super::retire::retire;
use super::shadow::{CopyError, Copying, Shadow};
use crate::engine::backup::BackupFile;
use crate::engine::{BackupError, Contents, Loaded};

/// How often the copy is begun anew, if the log has deleted batches that it lacks.
const ATTEMPTS: usize = 5;

/// Copies the content of the log to this file. `place` names the log in errors. A final backup
/// retires the log before.
pub(crate) fn backup(
    log: &mut dyn SharedLog,
    place: &str,
    file: BackupFile,
    is_final: bool,
    mut wait: impl FnMut(Duration),
) -> Result<Contents, BackupError> {
    let of_log = |error| BackupError::Log {
        log: place.to_owned(),
        error,
    };
    // The owner may answer from memory until then. A restored store must not start before.
    let mut silent_at = None;
    if is_final {
        let retired = retire(log, &mut wait).map_err(of_log)?;
        silent_at = Some(Instant::now() + retired.head.ownership);
    }
    let loaded = copy(log).map_err(of_log)?;
    let contents = file.write(loaded, is_final)?;
    if let Some(silent_at) = silent_at {
        wait(silent_at.saturating_duration_since(Instant::now()));
    }
    file.publish(contents)
}

/// Returns the content of the log.
pub(super) fn copy(log: &mut dyn SharedLog) -> Result<Loaded, RecoverError> {
    let mut shadow = Shadow::default();
    let mut attempt = 1;
    let mut record = head(log)?;
    loop {
        match shadow.step(log, &record.content, record.head.sequence) {
            Ok(Copying::Right) => return Ok(shadow.into_copied(&record.content).loaded),
            Ok(Copying::More) => {}
            Ok(Copying::NeedsHead) => {
                let store = record.content.store;
                record = head(log)?;
                if record.content.store != store {
                    let text = "another store was restored into the log meanwhile: begin again";
                    return Err(RecoverError::Damaged(text.into()));
                }
            }
            Err(CopyError::Log(error)) => return Err(error.into()),
            // A server under load may have deleted batches meanwhile.
            Err(CopyError::NotWhole(_)) if attempt < ATTEMPTS => {
                attempt += 1;
                record = head(log)?;
            }
            Err(CopyError::NotWhole(detail)) => {
                return Err(RecoverError::Damaged(format!(
                    "the log is damaged ({detail}); it was left as it is: use an older backup, or \
                     restore one into another prefix, schema or cluster name"
                )));
            }
        }
    }
}

/// Reads the head of a log with content.
fn head(log: &mut dyn SharedLog) -> Result<HeadRecord, RecoverError> {
    let sighting = log.head()?;
    let Some(bytes) = &sighting.head else {
        return Err(without_head(log));
    };
    let record = HeadRecord::decode(bytes)?;
    match record.head.state {
        TailState::Restoring => Err(Closed::Restoring.into()),
        TailState::Owned | TailState::Vacant | TailState::Retired => Ok(record),
    }
}
