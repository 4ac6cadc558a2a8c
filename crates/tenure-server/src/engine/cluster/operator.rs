//! Changes of a log by an operator, and copies of it: the first entry of an empty log, a log whose home
//! may have lost entries, backups, and restores.

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure_core::ownership::{Found, HomeId, Observation, Refusal, Tail, TailState};
use tenure_core::ring::{Base, SlotRead, SlotReplaced};
use tenure_register::Failure;

use super::home::LogHome;
use super::log::{Closed, new_owner};
use super::report::other_home;
use super::standby::leftover;
use crate::clock;
use crate::engine::backup::BackupFile;
use crate::engine::replica::Replica;
use crate::engine::restore::open_backup;
use crate::engine::ring::{About, BaseError, Draft, RingLog, SlotValue};
use crate::engine::{BackupError, Batch, Contents, RestoreError, Restored, first_revision};
use crate::model::{HistoryLimits, StoreId};
use crate::random::OsRandom;

/// How often a request is repeated whose outcome is not known, and how often the log is read again that
/// has moved on meanwhile.
const ATTEMPTS: usize = 20;

/// The pause before each further attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// How often the end of a log is tried again because a server appended first. An append takes
/// milliseconds, so a server that is not much quicker than this one loses the race before.
const RACES: usize = 10_000;

/// Time, of which an operator needs none.
const NOW: tenure_core::Instant = tenure_core::Instant::from_nanos(0);

/// The name that stands in an entry in place of a server's.
const NAME: &str = "tenure-cluster";

/// The reason why the log of a cluster was not changed, or not read, by an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The home did not answer, or refused for now.
    #[error("{0}")]
    Service(String),
    /// The home refuses until a setting, a password or a right is changed.
    #[error("{0}")]
    Misconfigured(String),
    /// The log permits no such change: it is empty, or it has entries; a server appends to it; a backup is
    /// being restored into it; or it was moved away.
    #[error("{0}")]
    Refused(String),
    /// A newer version wrote the log, the log is damaged, or hardly any epoch is left above those of it.
    #[error("{0}")]
    Damaged(String),
}

impl From<Failure> for RecoverError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Misconfigured(text) => Self::Misconfigured(text),
            other => Self::Service(other.to_string()),
        }
    }
}

impl From<BaseError> for RecoverError {
    fn from(error: BaseError) -> Self {
        match error {
            BaseError::Home(failure) => failure.into(),
            error => Self::Damaged(format!(
                "the log is damaged ({error}); it was left as it is: an active server repairs it with \
                 its next snapshot. Else restore a backup into another prefix, schema or cluster name"
            )),
        }
    }
}

impl From<Closed> for RecoverError {
    fn from(reason: Closed) -> Self {
        Self::Refused(reason.to_string())
    }
}

/// The log, for a command of an operator.
pub(in crate::engine) struct OperatorLog<'a> {
    home: &'a LogHome,
    ring: RingLog,
    /// The place of the log from which it was read last.
    seen: HomeId,
    wait: &'a dyn Fn(Duration),
}

impl<'a> OperatorLog<'a> {
    pub(in crate::engine) fn new(home: &'a LogHome, wait: &'a dyn Fn(Duration)) -> Self {
        let viewer = Box::new(|value: &SlotValue| value.tail.state);
        let (files, place) = (std::sync::Arc::clone(&home.files), home.place.clone());
        Self {
            ring: RingLog::new(files, &home.folder, place, viewer, Duration::ZERO),
            home,
            seen: HomeId(0),
            wait,
        }
    }

    /// Repeats a request that got no answer.
    fn repeat<T>(
        &mut self,
        mut request: impl AsyncFnMut(&mut RingLog) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut attempt = 1;
        loop {
            match self.home.block_on(request(&mut self.ring)) {
                Err(Failure::Unknown(_) | Failure::NotApplied(_)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    (self.wait)(PAUSE);
                }
                definite => return definite,
            }
        }
    }

    /// Reads all slots. Returns the newest entry; `None` if the log is empty.
    fn load(&mut self) -> Result<Option<SlotValue>, RecoverError> {
        let Observation { home, found } = self.repeat(async |ring| {
            ring.forget();
            ring.load().await
        })?;
        self.seen = home;
        match found {
            Found::Unusable(Refusal::NewerFormat { found }) => {
                let text = format!("the log has format {found}: use the version that wrote it");
                Err(RecoverError::Damaged(text))
            }
            Found::Unusable(refusal) => {
                let text = format!(
                    "{refusal}: another program writes to the log, or a part of it was deleted. Restore \
                     a backup into another prefix, schema or cluster name"
                );
                Err(RecoverError::Damaged(text))
            }
            Found::Empty => match self.repeat(async |ring| leftover(ring).await)? {
                Some(text) => Err(RecoverError::Damaged(text)),
                None => Ok(None),
            },
            Found::Tail(_) => Ok(self.ring.tail().cloned()),
        }
    }

    /// Returns the state of the log as of its newest entry.
    fn copy(&mut self) -> Result<(SlotValue, Replica), RecoverError> {
        let history = HistoryLimits::NONE;
        let mut replica = Replica::empty(history);
        let mut attempt = 1;
        loop {
            let tail = self.load()?.ok_or_else(empty)?;
            let brought = self.home.block_on(self.ring.bring(&mut replica, history));
            match brought {
                Ok(()) => return Ok((tail, replica)),
                Err(BaseError::Missing(_) | BaseError::Home(_)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    (self.wait)(PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Appends an entry after the newest one that was read, to a log that nobody else appends to.
    fn append(
        &mut self,
        tail: Tail,
        draft: Draft<'_>,
        base: Option<Base>,
    ) -> Result<(), RecoverError> {
        match self.try_append(tail, draft, base)? {
            true => Ok(()),
            false => Err(self.load()?.as_ref().map_or_else(empty, in_use)),
        }
    }

    /// The same. If the outcome of an attempt is not known, exactly the same bytes are sent again until it
    /// is. Returns whether the entry was appended: another one may stand there.
    fn try_append(
        &mut self,
        tail: Tail,
        draft: Draft<'_>,
        base: Option<Base>,
    ) -> Result<bool, RecoverError> {
        let home = self.home;
        // Argument 5 of the ring.
        let base = match self.ring.rules().needs_base(base) {
            true => {
                let mut replica = Replica::empty(HistoryLimits::NONE);
                let brought = self.ring.bring(&mut replica, HistoryLimits::NONE);
                home.block_on(brought)?;
                Some(home.block_on(self.ring.files.write_state(&mut replica))?.0)
            }
            false => base,
        };
        let prepared = home.block_on(self.ring.prepare(NOW, tail, draft, base));
        let (append, bytes) = match prepared {
            Ok(prepared) => prepared,
            Err((_, Some(failure))) => return Err(failure.into()),
            Err((_, None)) => return Ok(false),
        };
        let mut failure = Failure::Unknown(String::new());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                (self.wait)(PAUSE);
            }
            let replaced = self.ring.replace(&append, bytes.clone(), tail.home);
            match home.block_on(replaced) {
                (_, SlotReplaced::Done(_), _) => return Ok(true),
                // No other entry has these bytes, so an attempt before was applied.
                (_, SlotReplaced::Changed(SlotRead::Found(slot)), _)
                    if slot.checksum == append.checksum =>
                {
                    return Ok(true);
                }
                (_, SlotReplaced::Changed(_), _) => return Ok(false),
                (_, SlotReplaced::NotApplied, error) if attempt == 0 => {
                    return Err(error.unwrap_or(failure).into());
                }
                (_, _, error) => failure = error.unwrap_or(failure),
            }
        }
        let text = format!("{failure}; whether the log was changed is not known: run it again");
        Err(RecoverError::Service(text))
    }

    /// Returns the tail of the next entry that no server writes.
    fn next(&self, before: Option<&SlotValue>, state: TailState) -> Tail {
        let before = before.map(|it| &it.tail);
        Tail {
            home: self.seen,
            generation: before.map_or(0, |it| it.generation) + 1,
            sequence: before.map_or(0, |it| it.sequence) + 1,
            undone: 0,
            state,
            owner: new_owner(),
            ownership: before.map_or(Duration::ZERO, |it| it.ownership),
        }
    }

    /// Returns the content of an entry that no server writes.
    fn draft(
        &self,
        store: StoreId,
        is_guarded: bool,
        revision: u64,
        note: Option<String>,
    ) -> Draft<'static> {
        Draft {
            about: About {
                store,
                home: self.ring.home_text(),
                server: NAME.into(),
                address: String::new(),
                since: clock::wall(),
                successor: None,
                is_guarded,
            },
            note,
            batch: Cow::Owned(Batch::empty(revision, revision)),
        }
    }
}

/// The refusal of a log to which the server of this entry appends.
fn in_use(tail: &SlotValue) -> RecoverError {
    let server = &tail.about.server;
    let text = format!("{server} writes to the log: stop all servers of the cluster first");
    RecoverError::Refused(text)
}

fn empty() -> RecoverError {
    let text = "the log is empty: `tenure cluster init` begins it, or check home, prefix and name";
    RecoverError::Refused(text.into())
}

fn exists(tail: &SlotValue) -> String {
    let (store, server) = (tail.about.store.as_str(), &tail.about.server);
    format!("the log exists: it has the store {store}, last written by {server}")
}

/// Returns the note of an operator's change, for the audit log.
fn note_of(change: &str, subject: &str) -> String {
    match clock::rfc3339(clock::wall()) {
        Some(at) => format!("{change} {subject} at {at}"),
        None => format!("{change} {subject}"),
    }
}

impl OperatorLog<'_> {
    /// Writes the first entry of an empty log, so that any server may take the log over. Returns the id of
    /// the new store.
    pub(in crate::engine) fn init(mut self) -> Result<StoreId, RecoverError> {
        if let Some(tail) = self.load()? {
            return Err(RecoverError::Refused(exists(&tail)));
        }
        let store = StoreId::random(&mut OsRandom);
        let revision = first_revision(clock::wall());
        let draft = self.draft(store.clone(), false, revision, None);
        self.append(self.next(None, TailState::Vacant), draft, None)?;
        Ok(store)
    }

    /// Lets a log go on whose home is another one than before, or lost entries that it had acknowledged.
    /// Epochs and revisions continue far above everything that can have been lost. It counts from one
    /// entry on: an interrupted recovery has changed nothing, and may be repeated.
    pub(in crate::engine) fn recover(mut self) -> Result<Restored, RecoverError> {
        let before = self.load()?.ok_or_else(empty)?;
        match before.tail.state {
            // A server that runs appends more often than this.
            TailState::Owned => (self.wait)(before.tail.ownership),
            TailState::Vacant => {}
            state => return Err(Closed::of(state).map_or_else(empty, Into::into)),
        }
        let (tail, mut replica) = self.copy()?;
        if tail != before {
            return Err(in_use(&tail));
        }
        let loaded = replica.loaded();
        let mut loaded = loaded.map_err(|error| RecoverError::Damaged(error.to_string()))?;
        let restored = Restored::above(&mut loaded).map_err(|last| {
            RecoverError::Damaged(format!(
                "the greatest epoch is {last}, which leaves too few epochs for grants"
            ))
        })?;
        let note = note_of("recovered in", &self.ring.home_text());
        let (store, is_guarded) = (before.about.store.clone(), before.about.is_guarded);
        let batch = Batch::of_floors(before.revision, loaded.revision, &loaded.floors);
        let draft = Draft {
            batch: Cow::Owned(batch),
            ..self.draft(store, is_guarded, before.revision, Some(note))
        };
        self.append(self.next(Some(&before), TailState::Vacant), draft, None)?;
        Ok(restored)
    }

    /// Replaces the newest entry by the last one of the log. It is a take-over: everything that the owner
    /// committed is before it, and no append of the owner is applied after it. A log that is retired
    /// already stays as it is.
    ///
    /// Returns how long the owner may answer renewals from memory, counted from the end of this call.
    fn retire(&mut self) -> Result<Duration, RecoverError> {
        for _ in 0..RACES {
            let before = self.load()?.ok_or_else(empty)?;
            let ownership = match before.tail.state {
                TailState::Owned => before.tail.ownership,
                TailState::Retired => return Ok(before.tail.ownership),
                // The owner answered its last request before it gave the log up.
                TailState::Vacant => Duration::ZERO,
                TailState::Restoring => return Err(Closed::Restoring.into()),
            };
            if before.tail.home != self.seen {
                let text = other_home(Some(&before.about.home), &self.ring.home_text());
                return Err(RecoverError::Refused(text));
            }
            let tail = Tail {
                ownership,
                ..self.next(Some(&before), TailState::Retired)
            };
            let (store, is_guarded) = (before.about.store, before.about.is_guarded);
            let draft = self.draft(store, is_guarded, before.revision, None);
            if self.try_append(tail, draft, None)? {
                return Ok(ownership);
            }
        }
        let text = "a server appends without a pause: stop all servers of the cluster first";
        Err(RecoverError::Service(text.into()))
    }

    /// Copies the content of the log to this file. A final backup retires the log before.
    pub(in crate::engine) fn backup(
        mut self,
        file: BackupFile,
        is_final: bool,
    ) -> Result<Contents, BackupError> {
        let log = self.home.place.clone();
        let of_log = |error| BackupError::Log { log, error };
        // The owner may answer from memory until then. A restored store must not start before.
        let mut silent_at = None;
        let mut copy = || {
            if is_final {
                let ownership = self.retire()?;
                silent_at = Some(Instant::now() + ownership);
            }
            let (tail, replica) = self.copy()?;
            match tail.tail.state {
                TailState::Restoring => Err(Closed::Restoring.into()),
                _ => Ok(replica),
            }
        };
        let contents = file.write(&mut copy().map_err(of_log)?, is_final)?;
        if let Some(silent_at) = silent_at {
            (self.wait)(silent_at.saturating_duration_since(Instant::now()));
        }
        file.publish(contents)
    }

    /// Writes the content of a backup into an empty log, or one that an interrupted restore left.
    ///
    /// The first entry says that a restore is going on, with which no server takes the log over. The
    /// second one names the snapshot of the backup. So a restore that was interrupted leaves no log that a
    /// server would use, and it can be repeated.
    pub(in crate::engine) fn restore(mut self, file: &Path) -> Result<Restored, RestoreError> {
        let (replica, restored) = open_backup(file)?;
        let note = note_of("restored from", &file.display().to_string());
        self.put(replica, note).map_err(|error| RestoreError::Log {
            log: self.home.place.clone(),
            error,
        })?;
        Ok(restored)
    }

    /// Makes this the content of the log.
    fn put(&mut self, mut replica: Replica, note: String) -> Result<(), RecoverError> {
        let before = self.load()?;
        if let Some(tail) = &before
            && tail.tail.state != TailState::Restoring
        {
            return Err(RecoverError::Refused(format!(
                "{}: a restore overwrites nothing, use an empty prefix, schema or cluster name",
                exists(tail)
            )));
        }
        let store = replica.content.store_id.clone().unwrap_or_default();
        let (is_guarded, revision) = (replica.content.is_guarded, replica.revision());
        let draft = self.draft(store.clone(), is_guarded, revision, None);
        let restoring = self.next(before.as_ref(), TailState::Restoring);
        self.append(restoring, draft, None)?;
        let begun = self.load()?.ok_or_else(empty)?;
        if begun.tail != restoring {
            return Err(in_use(&begun));
        }
        replica.at = begun.position;
        let written = self.ring.files.write_state(&mut replica);
        let (base, _) = self.home.block_on(written)?;
        let draft = self.draft(store, is_guarded, revision, Some(note));
        self.append(
            self.next(Some(&begun), TailState::Vacant),
            draft,
            Some(base),
        )
    }
}
