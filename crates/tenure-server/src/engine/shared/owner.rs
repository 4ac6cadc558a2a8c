//! The engine of a server that owns a shared log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::ownership::OwnershipRole;
use tracing::warn;

use super::backlog::{Backlog, Position, Slice, Tables};
use super::chain::{Chain, Parts};
use super::head::ContentRecord;
use super::log::{MOST_BYTES, MOST_EDITS};
use super::shadow::Copied;
use crate::clock;
use crate::engine::{AppendError, Batch, Load, Loaded, Log, Progress};
use crate::model::{ChangeSet, Content, Floors};

/// The time between two calls of [`SharedLog::maintain`].
const MAINTAIN_AFTER: Duration = Duration::from_secs(1);

/// The part of the backlog's limit from which commits carry edits of places. In a larger backlog
/// more changes are of the same lease, which is written only once.
const CARRY_FROM: usize = 2;

/// The used share of the service's space from which changes are refused. Beats go on, so that the
/// server stays active and leaders renew; a service without any space refuses beats, too.
const FULL_FROM: f64 = 0.9;

/// The least number of edits that a commit then carries.
const LEAST_CARRIED: usize = 8;

/// The chain of a server while no engine has it.
pub(super) type Seat = Arc<Mutex<Option<Chain>>>;

/// The engine over a shared log, while this server owns it.
///
/// Dropping it gives the connection back to the follower.
#[derive(Debug)]
pub(crate) struct SharedEngine {
    /// `None` only while this value is dropped.
    chain: Option<Chain>,
    seat: Seat,
    backlog: Backlog,
    tables: Tables,
    maintained_at: Instant,
}

impl SharedEngine {
    /// Creates the engine of an owner that has just loaded this content.
    pub(super) fn new(
        chain: Chain,
        seat: Seat,
        copied: Copied,
        max_history: usize,
    ) -> (Loaded, Self) {
        let content = chain.record().map(|record| &record.content);
        let placed = content.map_or_else(Position::default, |content| Position {
            sequence: content.placed,
            revision: content.placed_revision,
        });
        let backlog = Backlog::after(placed, copied.recent);
        let engine = Self {
            maintained_at: chain.now(),
            backlog,
            tables: Tables::new(max_history, copied.deleted),
            seat,
            chain: Some(chain),
        };
        (copied.loaded, engine)
    }

    /// Returns the chain, or an error that ends the store.
    fn chain(&mut self) -> Result<&mut Chain, AppendError> {
        let gone = || AppendError::Unknown("the engine was closed".into());
        self.chain.as_mut().ok_or_else(gone)
    }

    /// Makes edits of the next leases, until there are `most`, or until an append is due: a lease
    /// may need a read of its terms, and many reads of a slow service would delay the append for
    /// so long that another server takes over.
    fn make_edits(&mut self, most: usize) {
        let mut has_made = false;
        while let Some((key, pending)) = self.backlog.take_lease(most) {
            let Some(chain) = &mut self.chain else {
                return;
            };
            let due = chain.machine.next_timeout();
            // One lease in each append, so that the places are written however slow the service is.
            if has_made && due.is_some_and(|due| due <= chain.now()) {
                return;
            }
            has_made = true;
            match self.tables.edits(&mut *chain.log, &key, &pending) {
                Ok(edits) => self.backlog.set_edits(edits),
                Err(error) => {
                    let text =
                        format!("terms can't be read; the places will be written later: {error}");
                    if chain.is_news(&text) {
                        warn!("{text}");
                    }
                    return;
                }
            }
        }
    }

    /// Appends edits of places, at most `most`, if there are any; or nothing but a head, if that is
    /// due. Returns whether it appended.
    pub(super) fn advance(&mut self, most: usize) -> Result<bool, AppendError> {
        if most > 0 {
            self.make_edits(most);
        }
        let slice = self.backlog.slice(most, MOST_BYTES);
        let has_edits = !slice.edits.is_empty() || self.backlog.placed != slice.placed;
        let chain = self.chain()?;
        chain.machine.handle_timeout(chain.now());
        let head = match chain.drain() {
            Some(head) if chain.is_prepared(head) => {
                let detail = "the outcome of an earlier append is unknown";
                return Err(AppendError::Unknown(detail.into()));
            }
            None if has_edits => chain.machine.append(chain.now()),
            head => head,
        };
        let Some(head) = head else {
            return match chain.machine.role(chain.now()) {
                OwnershipRole::Active | OwnershipRole::Lapsed | OwnershipRole::Resigned => {
                    Ok(false)
                }
                _ => Err(chain.not_owner()),
            };
        };
        let content = chain.record().map(|it| content_after(&it.content, &slice));
        let content = content.ok_or_else(|| chain.not_owner())?;
        let edits = slice.edits.clone();
        chain.prepare(head, content, Parts { batch: None, edits });
        match chain.append() {
            Ok(()) => {
                self.backlog.remove(&slice);
                Ok(true)
            }
            Err(error) if error.is_transient() => {
                let text = format!("an append was refused; it will be tried again: {error}");
                if chain.is_news(&text) {
                    warn!("{text}");
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Does the periodic work of the service, if it is due.
    fn maintain(&mut self) -> Result<(), AppendError> {
        let last = self.maintained_at;
        let chain = self.chain()?;
        let now = chain.now();
        if now.since(last) >= MAINTAIN_AFTER {
            chain.log.maintain();
            chain.publish();
            self.maintained_at = now;
        }
        Ok(())
    }
}

impl Log for SharedEngine {
    fn append(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        if sets.iter().any(|set| !set.documents.is_empty()) {
            let detail = "documents of other protocols have no place in a shared log";
            return Err(AppendError::Busy(detail.into()));
        }
        let chain = self.chain()?;
        let used = chain.log.facts().used_space();
        if let Some(used) = used.filter(|used| *used >= FULL_FROM) {
            return Err(AppendError::DiskFull(format!(
                "{} has used {:.0} % of its space, and from {:.0} % on only renewals are accepted: compact \
                 and defragment it, or raise its quota",
                chain.shell.service(),
                used * 100.0,
                FULL_FROM * 100.0
            )));
        }
        let changes: usize = sets.iter().map(|set| set.changes.len()).sum();
        let bytes = batch.to_bytes();
        let carried = match self.backlog.is_over(CARRY_FROM) {
            // As many places as changes, so that the backlog does not grow.
            true => changes.clamp(LEAST_CARRIED, MOST_EDITS),
            false => 0,
        };
        self.make_edits(carried);
        let room = MOST_BYTES.saturating_sub(bytes.len());
        let slice = self.backlog.slice(carried, room);
        let chain = self.chain()?;
        let Some(record) = chain.record() else {
            return Err(chain.not_owner());
        };
        if record.content.revision != batch.previous {
            return Err(AppendError::NotOwner(format!(
                "the log is at revision {}, and the batch follows revision {}",
                record.content.revision, batch.previous
            )));
        }
        let content = ContentRecord {
            revision: batch.revision,
            floors: floors_after(&record.content.floors, sets),
            leases: count(record.content.leases, sets),
            ..content_after(&record.content, &slice)
        };
        let Some(head) = chain.machine.append(chain.now()) else {
            return Err(chain.not_owner());
        };
        let at = Position {
            sequence: head.sequence,
            revision: batch.revision,
        };
        let len = bytes.len();
        let parts = Parts {
            batch: Some(bytes.into()),
            edits: slice.edits.clone(),
        };
        chain.prepare(head, content, parts);
        chain.append()?;
        let backlog = &mut self.backlog;
        backlog.remove(&slice);
        for change in sets.iter().flat_map(|set| &set.changes) {
            let term = change.term.as_deref();
            backlog.add_change(at, &change.key, change.revision, &change.content, term);
        }
        backlog.add_batch(at, changes, len);
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), AppendError> {
        let chain = self.chain()?;
        let content = chain.record().map(|record| record.content.clone());
        let head = chain.machine.append(chain.now());
        let (Some(content), Some(head)) = (content, head) else {
            return Err(chain.not_owner());
        };
        chain.prepare(head, content, Parts::default());
        chain.append()
    }

    fn checkpoint(&mut self, load: Load) -> Result<Progress, AppendError> {
        let mut has_advanced = true;
        match load {
            Load::Idle => has_advanced = self.advance(MOST_EDITS)?,
            Load::Busy => {
                // A beat, if it is due: the last append may have been long ago.
                self.advance(0)?;
                loop {
                    let is_over = self.backlog.is_over(1);
                    if !is_over || !self.advance(MOST_EDITS)? {
                        break;
                    }
                }
            }
        }
        self.maintain()?;
        // After a refusal the next attempt is made when the machine allows it.
        Ok(match self.backlog.is_empty() || !has_advanced {
            true => Progress::Done,
            false => Progress::More,
        })
    }

    fn checkpoint_within(&self) -> Option<Duration> {
        let chain = self.chain.as_ref()?;
        let due = chain.machine.next_timeout()?;
        Some(due.since(chain.now()))
    }

    fn close(&mut self) -> Result<(), AppendError> {
        self.chain()?.leave();
        Ok(())
    }
}

impl Drop for SharedEngine {
    fn drop(&mut self) {
        if let Some(mut chain) = self.chain.take() {
            // The store ends, so nothing may be answered from its memory. If the log is not vacated
            // yet, the follower does that.
            chain.machine.resign();
            chain.publish();
            *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Some(chain);
        }
    }
}

/// Returns the content after a slice was written.
fn content_after(content: &ContentRecord, slice: &Slice) -> ContentRecord {
    ContentRecord {
        placed: slice.placed.sequence,
        placed_revision: slice.placed.revision,
        kept: content.kept.max(slice.kept),
        ..content.clone()
    }
}

/// Returns the floors after these changes.
fn floors_after(floors: &Floors, sets: &[ChangeSet]) -> Floors {
    let mut floors = floors.clone();
    for change in sets.iter().flat_map(|set| &set.changes) {
        if let Content::Deleted(deleted) = &change.content {
            floors.raise(change.key.namespace(), deleted.last);
            floors.merge_passed(clock::wall());
        }
    }
    floors
}

/// Returns the number of leases after these changes of `leases` leases.
fn count(leases: u64, sets: &[ChangeSet]) -> u64 {
    sets.iter().fold(leases, |leases, set| {
        let was = set.before.record.last_grant().is_some();
        let is = match set.changes.last().map(|change| &change.content) {
            Some(Content::Lease(_)) => true,
            Some(Content::Deleted(_)) => false,
            None => was,
        };
        (leases + u64::from(is)).saturating_sub(u64::from(was))
    })
}
