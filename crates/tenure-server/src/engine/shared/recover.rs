//! Changes of a shared log by an operator, while no server runs: the first head of an empty log, and
//! a log whose service may have lost appends.

use std::time::Duration;

use tenure_core::ownership::{EngineId, Tail, TailState};

use super::change::{new_owner, note_of, record, write};
use super::follow::first_content;
use super::head::{Closed, ContentRecord, HeadError, HeadRecord};
use super::leftover::{leftover, without_head};
use super::log::{LogError, LoggedBatch, SharedLog};
use super::shadow::{CopyError, Copying, Shadow};
use crate::engine::restore::REVISIONS_AHEAD;
use crate::engine::{Batch, Contents, Restored};
use crate::model::StoreId;

/// The reason why the log of a cluster was not changed, or not read, by an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The service did not answer, or refused for now.
    #[error("{0}")]
    Service(String),
    /// The service refuses until a setting, a password or a right is changed.
    #[error("{0}")]
    Misconfigured(String),
    /// There is nothing to recover.
    #[error("the log is empty: `tenure cluster init` begins it, or check engine, prefix and name")]
    Empty,
    /// The log has a head already.
    #[error("the log exists: it has the store {store}, last written by {server}")]
    Exists {
        /// The id of the store.
        store: String,
        /// The server that wrote the head.
        server: String,
    },
    /// A server appends to the log.
    #[error("{server} writes to the log: stop all servers of the cluster first")]
    InUse {
        /// The server.
        server: String,
    },
    /// A backup is being restored into the log, or its content was moved elsewhere for good.
    #[error("{0}")]
    Closed(String),
    /// A restore needs an empty log.
    #[error("{0}: a restore overwrites nothing, use an empty prefix, schema or cluster name")]
    NotEmpty(String),
    /// The service is another one than before, so the log may lack what a server acknowledged.
    #[error(
        "the head was written in {written} and this is {answering}: a restored snapshot, or a wrong \
         address. If the address is right: tenure cluster recover"
    )]
    OtherEngine {
        /// The service that wrote the head.
        written: EngineId,
        /// The service that answers.
        answering: EngineId,
    },
    /// A newer version wrote the log, or the log is damaged.
    #[error("{0}")]
    Damaged(String),
    /// Hardly any epoch is left above those of the log.
    #[error("the greatest epoch is {last}, which leaves too few epochs for grants")]
    EpochsUsedUp {
        /// The greatest epoch.
        last: u64,
    },
}

impl From<LogError> for RecoverError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Misconfigured(text) => Self::Misconfigured(text),
            other => Self::Service(other.to_string()),
        }
    }
}

impl From<Closed> for RecoverError {
    fn from(reason: Closed) -> Self {
        Self::Closed(reason.to_string())
    }
}

impl From<HeadError> for RecoverError {
    fn from(error: HeadError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Writes the first head of an empty log, so that any server may take the log over. Returns the id
/// of the new store.
pub(crate) fn init(
    log: &mut dyn SharedLog,
    mut wait: impl FnMut(Duration),
) -> Result<StoreId, RecoverError> {
    let sighting = log.head()?;
    if let Some(bytes) = &sighting.head {
        let record = HeadRecord::decode(bytes)?;
        return Err(RecoverError::Exists {
            store: record.content.store.as_str().into(),
            server: record.server.name,
        });
    }
    if let Some(leftover) = leftover(log)? {
        return Err(RecoverError::Damaged(leftover.to_string()));
    }
    let content = first_content();
    let store = content.store.clone();
    let head = Tail {
        engine: sighting.engine,
        generation: 1,
        sequence: 1,
        undone: 0,
        state: TailState::Vacant,
        owner: new_owner(),
        ownership: Duration::ZERO,
    };
    write(log, &sighting, &record(head, content), None, &mut wait)?;
    Ok(store)
}

/// Lets a log go on whose service is another one than before, or lost appends that it had
/// acknowledged. Epochs and revisions continue far above everything that can have been lost. It is
/// one append: an interrupted recovery has changed nothing, and may be repeated.
pub(crate) fn recover(
    log: &mut dyn SharedLog,
    mut wait: impl FnMut(Duration),
) -> Result<Restored, RecoverError> {
    let sighting = log.head()?;
    let Some(bytes) = &sighting.head else {
        return Err(without_head(log));
    };
    let before = HeadRecord::decode(bytes)?;
    match before.head.state {
        TailState::Owned => {
            // A server that runs appends more often than this.
            wait(before.head.ownership);
            if log.head()?.head != sighting.head {
                let server = before.server.name;
                return Err(RecoverError::InUse { server });
            }
        }
        TailState::Vacant => {}
        TailState::Restoring => return Err(Closed::Restoring.into()),
        TailState::Retired => return Err(Closed::Retired.into()),
    }
    let mut shadow = Shadow::default();
    loop {
        match shadow.step(log, &before.content, before.head.sequence) {
            Ok(Copying::Right) => break,
            // No server writes, so the head is still the right one; the append checks that.
            Ok(Copying::More | Copying::NeedsHead) => {}
            Err(CopyError::Log(error)) => return Err(error.into()),
            Err(CopyError::NotWhole(detail)) => {
                let text = format!(
                    "the log is damaged ({detail}): restore a backup into another prefix, schema or \
                     cluster name"
                );
                return Err(RecoverError::Damaged(text));
            }
        }
    }
    let loaded = shadow.into_copied(&before.content).loaded;
    let floors = loaded.restored_floors();
    let floors = floors.map_err(|last| RecoverError::EpochsUsedUp { last: last.get() })?;
    let above = floors.of_all();
    let revision = before.content.revision.saturating_add(REVISIONS_AHEAD);
    let head = Tail {
        engine: sighting.engine,
        generation: before.head.generation + 1,
        sequence: before.head.sequence + 1,
        undone: 0,
        state: TailState::Vacant,
        owner: new_owner(),
        ..before.head
    };
    // A batch without changes, so that the chain of revisions has no gap.
    let jump = Batch {
        previous: before.content.revision,
        revision,
        changes: Vec::new(),
    };
    let batch = LoggedBatch {
        sequence: head.sequence,
        bytes: jump.to_bytes().into(),
    };
    let content = ContentRecord {
        revision,
        floors,
        ..before.content
    };
    let recovered = HeadRecord {
        note: Some(note_of("recovered in", &sighting.engine.to_string())),
        ..record(head, content)
    };
    write(log, &sighting, &recovered, Some(batch), &mut wait)?;
    Ok(Restored {
        contents: Contents::of_all(&loaded),
        is_final: false,
        epochs_above: above.map_or(0, tenure_core::Epoch::get),
        revisions_above: revision,
    })
}

#[cfg(test)]
mod tests;
