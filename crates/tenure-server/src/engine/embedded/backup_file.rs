//! The file of a backup while it is written, whatever the engine of the store.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::backup::{BackupError, Contents, Existing};
use super::check::Checked;
use super::{check, final_mark, schema};
use crate::engine::{LeaseList, Loaded};

/// A backup that does not have its name yet. Only the owner can read it. It is removed when this is
/// dropped.
#[derive(Debug)]
pub(in crate::engine) struct BackupFile {
    /// The name that the backup gets.
    name: PathBuf,
    /// The directory of that name.
    folder: PathBuf,
    existing: Existing,
    copy: NamedTempFile,
}

impl BackupFile {
    /// Creates the file beside its later name, outside of the data directory `store`.
    pub(in crate::engine) fn create(
        name: &Path,
        existing: Existing,
        store: Option<&Path>,
    ) -> Result<Self, BackupError> {
        let folder = target_folder(name, store)?;
        if existing == Existing::Keep && fs::symlink_metadata(name).is_ok() {
            return Err(BackupError::Exists { path: name.into() });
        }
        // The file has mode 0600.
        let copy = tempfile::Builder::new()
            .prefix(".tenure-backup-")
            .tempfile_in(&folder);
        Ok(Self {
            copy: copy.map_err(|error| not_written(name, error))?,
            name: name.into(),
            folder,
            existing,
        })
    }

    /// The path of the file while it has no name.
    pub(in crate::engine) fn path(&self) -> &Path {
        self.copy.path()
    }

    /// The name that the file gets.
    pub(in crate::engine) fn name(&self) -> &Path {
        &self.name
    }

    /// Checks the whole content, which is a copy of `store`, and brings its tables up to date, for
    /// people who read them. Then the content is durable. A final backup says that it is one.
    pub(in crate::engine) fn complete(
        &self,
        store: &Path,
        is_final: bool,
    ) -> Result<Loaded, BackupError> {
        let failed = |error: rusqlite::Error| self.failed(&error);
        let connection = schema::connect_to_copy(self.path()).map_err(failed)?;
        let mut checked = check::load(&connection, store, LeaseList::new())?;
        apply_batches(&connection, &mut checked).map_err(failed)?;
        let loaded = checked.loaded;
        if is_final {
            final_mark::write(&connection, loaded.revision).map_err(failed)?;
        }
        drop(connection);
        let synced = self.copy.as_file().sync_all();
        synced.map_err(|error| not_written(&self.name, error))?;
        Ok(loaded)
    }

    /// Gives the file its name.
    pub(in crate::engine) fn publish(self, loaded: &Loaded) -> Result<Contents, BackupError> {
        let failed = |error| not_written(&self.name, error);
        let bytes = fs::metadata(self.copy.path()).map_err(failed)?.len();
        let named = match self.existing {
            Existing::Keep => self.copy.persist_noclobber(&self.name),
            Existing::Replace => self.copy.persist(&self.name),
        };
        named.map_err(|failure| match failure.error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists {
                path: self.name.clone(),
            },
            _ => failed(failure.error),
        })?;
        let sync = || File::open(&self.folder)?.sync_all();
        sync().map_err(failed)?;
        Ok(Contents::of(loaded, bytes))
    }

    /// Returns the error for a database that can't be written.
    pub(in crate::engine) fn failed(&self, error: &rusqlite::Error) -> BackupError {
        not_written(&self.name, io::Error::other(error.to_string()))
    }
}

fn not_written(file: &Path, error: io::Error) -> BackupError {
    BackupError::Io {
        path: file.into(),
        error,
    }
}

/// Returns the directory that contains `file`. It must not be the data directory.
fn target_folder(file: &Path, store: Option<&Path>) -> Result<PathBuf, BackupError> {
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let target = parent.canonicalize();
    let target = target.map_err(|error| not_written(file, error))?;
    if store.is_some_and(|store| store.canonicalize().is_ok_and(|store| store == target)) {
        return Err(BackupError::InsideStore { path: file.into() });
    }
    Ok(target)
}

/// Applies the batches of the copy to its tables. No term is forgotten here.
pub(super) fn apply_batches(
    copy: &rusqlite::Connection,
    checked: &mut Checked,
) -> rusqlite::Result<()> {
    let transaction = copy.unchecked_transaction()?;
    let Checked { meta, backlog, .. } = checked;
    backlog.write_slice(&transaction, meta, u32::MAX as usize, usize::MAX)?;
    transaction.commit()
}
