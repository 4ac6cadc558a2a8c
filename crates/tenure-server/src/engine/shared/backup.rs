//! Backups of a shared log: a copy in the form of the embedded engine's database.
//!
//! The copy is made while a server writes. It follows the rules of a data directory, whose tables
//! may be ahead of the revision up to which they are complete:
//!
//! 1. The head says up to which batch everything was in its place.
//! 2. The places are read: at first the leases, then the terms. A lease is written after its terms,
//!    so the terms are never older than their lease.
//! 3. All batches since then are read, up to a head that is read after the last place.
//!
//! The batches are read between the pages of the places, because a server under load soon deletes
//! them. The terms are read from the last one on: only the newest segment of a lease grows, so a
//! segment that is read later has all terms between.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use tenure_core::ownership::TailState;

use super::head::{Closed, ContentRecord, HeadRecord};
use super::leftover::without_head;
use super::log::{Place, PlaceRange, SharedLog};
use super::places::{self, BadPlace};
use super::recover::RecoverError;
use super::retire::retire;
use crate::engine::embedded::{BackupFile, Import};
use crate::engine::{BackupError, Batch, Contents, Loaded, OpenError};

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
    let loaded = copy(log, &file, is_final).map_err(|error| match error {
        Failed::File(error) => error,
        Failed::Log(error) => of_log(error),
        Failed::NotWhole(detail) => of_log(RecoverError::Damaged(format!(
            "the log is damaged ({detail}); it was left as it is: use an older backup"
        ))),
    })?;
    if let Some(silent_at) = silent_at {
        wait(silent_at.saturating_duration_since(Instant::now()));
    }
    file.publish(&loaded)
}

/// The reason why a copy was not made.
enum Failed {
    File(BackupError),
    Log(RecoverError),
    /// The parts do not fit together: batches were deleted meanwhile, or the log is damaged.
    NotWhole(String),
}

impl From<BackupError> for Failed {
    fn from(error: BackupError) -> Self {
        Self::File(error)
    }
}

impl<E: Into<RecoverError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Log(error.into())
    }
}

fn damaged(place: &BadPlace) -> Failed {
    Failed::NotWhole(place.to_string())
}

fn copy(log: &mut dyn SharedLog, file: &BackupFile, is_final: bool) -> Result<Loaded, Failed> {
    let mut attempt = 1;
    loop {
        match LogCopy::make(log, file).and_then(|content| check(&content, file, is_final)) {
            Err(Failed::NotWhole(_)) if attempt < ATTEMPTS => attempt += 1,
            copied => return copied,
        }
    }
}

/// Checks the copy as of this content.
fn check(content: &ContentRecord, file: &BackupFile, is_final: bool) -> Result<Loaded, Failed> {
    // The file has no name yet that would help in a message.
    let loaded = file
        .complete(file.path(), is_final)
        .map_err(|error| match error {
            BackupError::Store(OpenError::Damaged { detail, .. }) => Failed::NotWhole(detail),
            error => Failed::File(error),
        })?;
    match loaded.leases.len() as u64 == content.leases {
        true => Ok(loaded),
        false => Err(Failed::NotWhole(format!(
            "it has {} leases and should have {}",
            loaded.leases.len(),
            content.leases
        ))),
    }
}

/// A copy that is being made.
struct LogCopy<'a> {
    log: &'a mut dyn SharedLog,
    file: &'a BackupFile,
    import: Import,
    /// The sequence number and the revision of the last batch that was read.
    sequence: u64,
    revision: u64,
}

impl<'a> LogCopy<'a> {
    /// Copies the log. Returns the content as of which the copy is.
    fn make(log: &'a mut dyn SharedLog, file: &'a BackupFile) -> Result<ContentRecord, Failed> {
        let before = head(log)?.content;
        // An earlier attempt may have left something.
        let emptied = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(file.path());
        emptied.map_err(|error| BackupError::Io {
            path: file.name().into(),
            error,
        })?;
        let import = Import::begin(file.path(), &before.store, before.placed_revision);
        let mut copy = Self {
            import: import.map_err(|error| file.failed(&error))?,
            log,
            file,
            sequence: before.placed,
            revision: before.placed_revision,
        };
        copy.read_places(
            |after| places::all("lease/", after),
            |import, place| {
                let (key, stored, revision) = places::read_lease(place)?;
                Ok(import.add_lease(&key, &stored, revision))
            },
        )?;
        copy.read_places(places::all_terms, |import, place| {
            let (key, terms) = places::read_terms(place)?;
            Ok(import.add_terms(&key, &terms))
        })?;
        copy.read_places(
            |after| places::all("deleted/", after),
            |import, place| {
                let deleted = places::read_deleted(place)?;
                Ok(import.add_deleted(&deleted.key, &deleted.retired))
            },
        )?;
        let last = head(copy.log)?;
        while copy.revision != last.content.revision {
            if !copy.read_batches(last.head.sequence)? {
                return Err(Failed::NotWhole(format!(
                    "the log ends at revision {}, and its head is at revision {}",
                    copy.revision, last.content.revision
                )));
            }
        }
        if last.content.store != before.store {
            return Err(Failed::NotWhole("another store was restored there".into()));
        }
        let finished = copy.import.finish(last.content.floors.clone());
        finished.map_err(|error| copy.file.failed(&error))?;
        Ok(last.content)
    }

    /// Reads all places of a kind, and adds each to the copy.
    fn read_places(
        &mut self,
        range: impl Fn(Option<&str>) -> PlaceRange,
        add: impl Fn(&mut Import, &Place) -> Result<rusqlite::Result<()>, BadPlace>,
    ) -> Result<(), Failed> {
        let mut read: Option<String> = None;
        loop {
            let page = self.log.places(&range(read.as_deref()))?;
            for place in &page {
                let added = add(&mut self.import, place).map_err(|bad| damaged(&bad))?;
                added.map_err(|error| self.file.failed(&error))?;
            }
            match page.into_iter().next_back() {
                Some(last) => read = Some(last.key),
                None => return Ok(()),
            }
            self.read_batches(u64::MAX)?;
        }
    }

    /// Reads a page of batches, up to this sequence number. Returns whether there was one.
    fn read_batches(&mut self, last: u64) -> Result<bool, Failed> {
        let page = self.log.batches(self.sequence)?;
        let mut has_one = false;
        for logged in page.into_iter().take_while(|it| it.sequence <= last) {
            let batch = Batch::from_bytes(&logged.bytes).map_err(Failed::NotWhole)?;
            let added = self.import.add_batch(&batch);
            if !added.map_err(|error| self.file.failed(&error))? {
                return Err(Failed::NotWhole(format!(
                    "the batch after revision {} is missing: the next one follows revision {}",
                    self.revision, batch.previous
                )));
            }
            (self.sequence, self.revision) = (logged.sequence, batch.revision);
            has_one = true;
        }
        Ok(has_one)
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
