//! Copies of a data directory with its blobs.
//!
//! A backup of a store with blobs is two files: `FILE` has the leases, and `FILE.blobs` the blobs.
//! Each is the state of a database after one commit. They are not of the same moment: a blob whose
//! lease is in the backup may be missing, as after an interrupted deletion.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::blobs::{DATABASE, Watermark, check, copy, restoring};
use tenure_server::companion::check_log;
use tenure_server::{BackupError, Contents, Existing, OpenError, RestoreError, Restored};

/// Copies the leases in `data_dir` to `file`, with every change that was acknowledged before this
/// call. Containers and blobs, if there are any, go to `file` with the suffix `.blobs`. A store may
/// use the directory at the same time, and is not disturbed.
///
/// Only their owner can read the files: **they have lease ids**, with which leases can be taken
/// over. Each gets its name when it is complete, checked as at a start, and on disk.
///
/// It blocks.
///
/// # Errors
///
/// [`BackupError`].
pub fn backup(data_dir: &Path, file: &Path, existing: Existing) -> Result<Contents, BackupError> {
    let blobs = data_dir.join(DATABASE);
    let target = beside(file);
    let failed = |error| BackupError::Io {
        path: target.clone(),
        error,
    };
    if existing == Existing::Keep && fs::symlink_metadata(&target).is_ok() {
        return Err(BackupError::Exists { path: target });
    }
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Read before the copy, because a running store continues to write.
    let marked = Watermark::of(data_dir).read(&blobs)?;
    let copied = if blobs.exists() {
        // It has mode 0600, and is removed if this fails.
        let copied = tempfile::Builder::new()
            .prefix(".tenure-backup-")
            .tempfile_in(folder)
            .map_err(failed)?;
        check_log(data_dir, &blobs)?;
        let number = copy(&blobs, copied.path())?;
        check(&blobs, marked, number)?;
        Some(copied)
    } else {
        None
    };
    let contents = tenure_server::backup(data_dir, file, existing)?;
    match copied {
        Some(copied) => {
            let named = copied.persist(&target);
            named.map_err(|failure| failed(failure.error))?;
        }
        // The file of an earlier backup does not belong to this one.
        None => remove(&target).map_err(failed)?,
    }
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(failed)?;
    Ok(contents)
}

/// Creates a store in `data_dir` from the backup `file`, and from `file` with the suffix `.blobs`
/// if that exists.
///
/// Its leases are as in the backup; held ones count as renewed when the store starts, as always.
/// Every later grant of any lease has an epoch above all grants of the lost store, if its wall
/// clock was at most a day ahead of this machine's, and revisions continue far above. So do the
/// ETags of blobs, if the wall clock is not behind.
///
/// **The backup does not know terms that began after it.** Stop the old store first, and start the restored
/// one when the longest lease duration in use has passed: then all leaders of that time have
/// stopped. [`Contents::longest`] is the longest duration in the backup.
///
/// After an interrupted restore no store starts in the directory. The restore can be repeated.
///
/// It blocks.
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(file: &Path, data_dir: &Path) -> Result<Restored, RestoreError> {
    let blobs = beside(file);
    let database = data_dir.join(DATABASE);
    if fs::symlink_metadata(&database).is_ok() {
        return Err(RestoreError::StoreThere { path: database });
    }
    if let Some(path) = Watermark::of(data_dir).trace() {
        return Err(RestoreError::StoreThere { path: path.into() });
    }
    if fs::symlink_metadata(&blobs).is_err() {
        return tenure_server::restore(file, data_dir);
    }
    // It is complete and checked before there is a store. If the restore is interrupted, the next
    // one overwrites it; if the leases were restored already, the next start gives it its name: see
    // `Disk::open`.
    let part = restoring(data_dir);
    let make = || {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(data_dir)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&part).map(|_| ())
    };
    make().map_err(OpenError::io(&part))?;
    let restored = copy(&blobs, &part)
        .map_err(refused)
        .and_then(|_| tenure_server::restore(file, data_dir));
    if restored.is_err() {
        // Nothing must remain that looks like the blobs of a store.
        let _ = fs::remove_file(&part);
        return restored;
    }
    let name = || {
        fs::rename(&part, &database)?;
        File::open(data_dir)?.sync_all()
    };
    name().map_err(OpenError::io(&database))?;
    restored
}

/// The file with the blobs of a backup.
fn beside(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".blobs");
    path.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The reason why the file cannot be restored.
fn refused(error: OpenError) -> RestoreError {
    match error {
        OpenError::Damaged { path, detail } => RestoreError::Damaged { path, detail },
        error => RestoreError::Backup(error),
    }
}
