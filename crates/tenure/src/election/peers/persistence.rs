//! Writes a member's hard state to its disk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::bully::HardState;
use tokio::task::JoinSet;
use tracing::error;

use crate::peers::state::StateFile;

/// The pause before a record that could not be written is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// A member's state file.
pub(crate) type Disk = Arc<Mutex<StateFile>>;

/// Writes records to the disk, one write at a time.
pub(super) struct Persistence {
    /// The disk; `None` for a member that has no state to store.
    disk: Option<Disk>,
    /// The newest record.
    record: HardState,
    /// The number of records that no write includes yet.
    unwritten: usize,
    /// The current write.
    writing: JoinSet<io::Result<()>>,
    /// The number of records that the current write includes.
    covers: usize,
}

impl Persistence {
    pub(super) fn new(disk: Option<Disk>) -> Self {
        Self {
            disk,
            record: HardState::default(),
            unwritten: 0,
            writing: JoinSet::new(),
            covers: 0,
        }
    }

    /// Starts to write a record. Returns true if the member has no disk, so that the record counts
    /// as written at once.
    pub(super) fn persist(&mut self, record: HardState) -> bool {
        if self.disk.is_none() {
            return true;
        }
        self.record = record;
        self.unwritten += 1;
        self.write(Duration::ZERO);
        false
    }

    /// Writes the newest record, unless a write is in progress. It contains the promises of all
    /// older records.
    fn write(&mut self, after: Duration) {
        let Some(disk) = self.disk.clone() else {
            return;
        };
        if self.unwritten == 0 || !self.writing.is_empty() {
            return;
        }
        self.covers = std::mem::take(&mut self.unwritten);
        let record = self.record;
        self.writing.spawn(async move {
            tokio::time::sleep(after).await;
            let write = move || {
                let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
                disk.write(&record).map_err(io::Error::other)
            };
            let written = tokio::task::spawn_blocking(write).await;
            written.unwrap_or_else(|error| Err(io::Error::other(error)))
        });
    }

    /// Waits for the end of a write. This method is cancel safe: no result is lost.
    pub(super) async fn next_written(&mut self) -> io::Result<()> {
        match self.writing.join_next().await {
            Some(written) => written.unwrap_or_else(|error| Err(io::Error::other(error))),
            None => std::future::pending().await,
        }
    }

    /// Handles the end of a write. Returns the number of records that are newly on disk.
    pub(super) fn handle_written(&mut self, me: NodeId, written: io::Result<()>) -> usize {
        let covered = std::mem::take(&mut self.covers);
        match written {
            Ok(()) => {
                self.write(Duration::ZERO);
                covered
            }
            Err(error) => {
                // The member sends nothing until the record is written, so it can't break its
                // promises. A leader loses its term if this takes too long.
                error!(node = %me, %error, "can't write the state of this member, trying again");
                self.unwritten += covered;
                self.write(WRITE_AGAIN);
                0
            }
        }
    }
}
