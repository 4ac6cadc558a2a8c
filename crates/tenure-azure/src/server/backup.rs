//! Copies of a store's folder with its blobs.
//!
//! A backup of a store that has blobs is two files: `FILE`, the leases, and `FILE.blobs`, the blobs.
//! Each is a database as of one commit. They are not of the same instant: a blob whose lease is in the
//! backup may be missing, which is how deletions look that are cut short, too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::blobs::{DATABASE, Watermark, check, copy, restoring};
use tenure_server::companion::check_log;
use tenure_server::{BackupError, Contents, Existing, OpenError, RestoreError, Restored};

/// Copies the leases in `data_dir` to `file`, as of now: every change that was acknowledged before
/// this call is in it. Where there are containers and blobs they are copied too, to `file` with
/// `.blobs` behind its name. A store may use the folder meanwhile, and is not disturbed.
///
/// The files are for their owner only: **they have lease ids**, with which leases can be taken over.
/// Each gets its name when it is whole, was checked as at a start, and is on disk.
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
    // Before the copy is made: a store that runs goes on.
    let marked = Watermark::of(data_dir).read(&blobs)?;
    let copied = if blobs.exists() {
        // Its mode is 0600, and it is gone again if this fails.
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
        // What an earlier backup left is not this one's.
        None => remove(&target).map_err(failed)?,
    }
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(failed)?;
    Ok(contents)
}

/// Makes a store in `data_dir` from the backup `file`, and from `file` with `.blobs` behind its name,
/// if that is there.
///
/// Its leases are as they were when the backup was taken; those that were held count as renewed when
/// the store is started, as always. Every later grant of any lease has an epoch above all that the
/// lost store can have granted, as long as its wall clock was not more than a day ahead of this
/// machine's, and revisions go on from far above. So do the ETags of blobs, as long as the wall clock
/// is not behind.
///
/// **Terms that began after the backup are unknown to it.** See to it that the old store is stopped,
/// and start the restored one when the longest lease duration in use has passed since: by then all
/// leaders of that time have stopped. [`Contents::longest`] tells the longest of the backup.
///
/// A restore that was cut short leaves a folder in which no store starts, and may be done again.
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
    // Whole and checked before there is a store. What a restore that is cut short leaves of it is written
    // anew, or named at the next start, if the leases were restored: see `Disk::open`.
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
        // There is nothing that could pass for blobs of a store.
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

/// The file of the blobs that belong to a backup.
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

/// Why this is no backup to restore from.
fn refused(error: OpenError) -> RestoreError {
    match error {
        OpenError::Damaged { path, detail } => RestoreError::Damaged { path, detail },
        error => RestoreError::Backup(error),
    }
}
