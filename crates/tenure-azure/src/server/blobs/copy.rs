//! Copies of the database, for backups and from them.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::disk::open_error;
use super::rows;
use tenure_server::OpenError;

/// Copies the database `from`, as after one commit, to the file `to`, checks the copy, and makes it
/// durable. Returns the number of the last change in it.
pub(in crate::server) fn copy(from: &Path, to: &Path) -> Result<u64, OpenError> {
    let read = |error: rusqlite::Error| open_error(from, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(from, flags).map_err(read)?;
    store.busy_timeout(Duration::from_secs(5)).map_err(read)?;
    {
        let mut copied = Connection::open(to).map_err(|error| open_error(to, &error))?;
        copied
            .execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;")
            .map_err(|error| open_error(to, &error))?;
        let backup = Backup::new(&store, &mut copied).map_err(|error| open_error(to, &error))?;
        // All pages in one step, which is one transaction.
        if backup.step(-1).map_err(read)? != StepResult::Done {
            return Err(OpenError::Database {
                path: from.into(),
                detail: "another program has it locked, end that first".into(),
            });
        }
    }
    let copied = Connection::open(to).map_err(|error| open_error(to, &error))?;
    copied
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .map_err(|error| open_error(to, &error))?;
    let (meta, _) = rows::load(&copied, from)?;
    drop(copied);
    let sync = || File::open(to)?.sync_all();
    sync().map_err(OpenError::io(to))?;
    Ok(meta.number)
}
