//! Restores into a shared log.
//!
//! The first append writes a head in the state *restoring*, with which no server takes the log
//! over. Further appends write the places, and the last one makes the head vacant. So a restore
//! that was interrupted leaves no log that a server would use, and it can be repeated.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use tenure_core::ownership::{Tail, TailState};

use super::change::{Written, new_owner, note_of, record, try_write, used_by};
use super::head::{ContentRecord, HeadRecord};
use super::leftover::leftover;
use super::log::{Edit, MOST_BYTES, MOST_EDITS, Place, SharedLog};
use super::pending::SEGMENT;
use super::places::{self, DeletedLease, KINDS, Segment};
use super::recover::RecoverError;
use crate::engine::restore::Backup;
use crate::engine::{Loaded, RestoreError, Restored};
use crate::model::{LeaseKey, TermRecord};

/// Writes the content of a backup into an empty log. `place` names the log in errors.
pub(crate) fn restore(
    log: &mut dyn SharedLog,
    place: &str,
    file: &Path,
    mut wait: impl FnMut(Duration),
) -> Result<Restored, RestoreError> {
    let backup = Backup::open(file)?;
    let next = backup.next(file)?;
    let count = backup.loaded.documents.len();
    if count > 0 {
        return Err(RestoreError::Documents {
            path: file.into(),
            count,
            log: place.into(),
        });
    }
    let Some(store) = backup.loaded.store_id.clone() else {
        return Err(RestoreError::Damaged {
            path: file.into(),
            detail: "it has no id of the store".into(),
        });
    };
    let content = ContentRecord {
        store,
        revision: next.revision,
        floors: next.floors,
        placed: 0,
        placed_revision: next.revision,
        kept: 0,
        leases: backup.loaded.leases.len() as u64,
        is_guarded: backup.loaded.is_guarded,
    };
    let note = note_of("restored from", &file.display().to_string());
    let written = Filling::begin(log, content, note, &mut wait)
        .and_then(|filling| fill(filling, &backup.loaded));
    written.map_err(|error| RestoreError::Log {
        log: place.into(),
        error,
    })?;
    Ok(next.restored)
}

/// Writes everything in the backup.
fn fill(mut filling: Filling<'_>, loaded: &Loaded) -> Result<(), RecoverError> {
    let mut segments: BTreeMap<&LeaseKey, Vec<TermRecord>> = BTreeMap::new();
    for (key, term) in loaded.history.iter() {
        segments.entry(key).or_default().push(term.clone());
    }
    for (key, terms) in segments {
        for terms in terms.chunks(SEGMENT) {
            let segment = Segment {
                first_epoch: terms.first().map_or(0, |first| first.epoch.get()),
                terms: terms.to_vec(),
            };
            filling.put(places::segment(key, &segment))?;
        }
    }
    // A place of a deleted lease has the revision of the deletion, which only gives the order. These
    // numbers are below all revisions.
    for (number, (key, retired)) in (1..).zip(&loaded.deleted) {
        filling.put(places::deleted(&DeletedLease {
            key: key.clone(),
            revision: number,
            retired: retired.clone(),
        }))?;
    }
    for (key, stored, revision) in &loaded.leases {
        filling.put(places::lease(key, stored, *revision))?;
    }
    filling.finish()
}

/// A log that is being filled.
struct Filling<'a> {
    log: &'a mut dyn SharedLog,
    wait: &'a mut dyn FnMut(Duration),
    /// The head: its bytes and their content.
    bytes: Option<Bytes>,
    record: HeadRecord,
    /// The edits of the next append, and their bytes.
    edits: Vec<Edit>,
    size: usize,
}

impl<'a> Filling<'a> {
    /// Closes an empty log, or one that an interrupted restore left. It will have this content.
    fn begin(
        log: &'a mut dyn SharedLog,
        content: ContentRecord,
        note: String,
        wait: &'a mut dyn FnMut(Duration),
    ) -> Result<Self, RecoverError> {
        let seen = log.head()?;
        let mut head = Tail {
            engine: seen.engine,
            generation: 0,
            sequence: 0,
            undone: 0,
            state: TailState::Restoring,
            owner: new_owner(),
            ownership: Duration::ZERO,
        };
        match &seen.head {
            None => {
                if let Some(leftover) = leftover(log)? {
                    return Err(RecoverError::NotEmpty(leftover.entry()));
                }
            }
            Some(bytes) => {
                let before = HeadRecord::decode(bytes)?;
                if before.head.state != TailState::Restoring {
                    return Err(RecoverError::NotEmpty(format!(
                        "the log has the store {}, last written by {}",
                        before.content.store.as_str(),
                        before.server.name
                    )));
                }
                (head.generation, head.sequence) = (before.head.generation, before.head.sequence);
            }
        }
        head.generation += 1;
        let mut filling = Self {
            log,
            wait,
            bytes: seen.head,
            record: HeadRecord {
                note: Some(note),
                ..record(head, content)
            },
            edits: Vec::new(),
            size: 0,
        };
        filling.append()?;
        filling.clear()?;
        Ok(filling)
    }

    /// Deletes what an interrupted restore left.
    fn clear(&mut self) -> Result<(), RecoverError> {
        for kind in KINDS {
            loop {
                let page = self.log.places(&places::all(kind, None))?;
                if page.is_empty() {
                    break;
                }
                for Place { key, .. } in page {
                    self.add(key.len(), Edit::Delete(key))?;
                }
                self.append()?;
            }
        }
        Ok(())
    }

    fn put(&mut self, place: Place) -> Result<(), RecoverError> {
        self.add(place.key.len() + place.value.len(), Edit::Put(place))
    }

    /// Adds an edit of this size.
    fn add(&mut self, size: usize, edit: Edit) -> Result<(), RecoverError> {
        if self.edits.len() == MOST_EDITS || self.size + size > MOST_BYTES {
            self.append()?;
        }
        self.size += size;
        self.edits.push(edit);
        Ok(())
    }

    /// Writes the edits.
    fn append(&mut self) -> Result<(), RecoverError> {
        self.record.head.sequence += 1;
        let (expected, record) = (self.bytes.as_deref(), &self.record);
        let written = try_write(self.log, expected, record, None, &self.edits, self.wait);
        match written? {
            Written::Done(bytes) => self.bytes = Some(bytes),
            Written::Refused(now) => return Err(used_by(&now)),
        }
        self.edits.clear();
        self.size = 0;
        Ok(())
    }

    /// Writes the last edits, and leaves the log to any server.
    fn finish(mut self) -> Result<(), RecoverError> {
        self.record.head.state = TailState::Vacant;
        self.record.content.placed = self.record.head.sequence;
        self.append()
    }
}
