//! The log of the fenced table: which worker wrote when, under which epoch.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, TransactionBehavior, params};

use super::fleet::Worker;
use super::job::prepare;

/// One write of a worker, accepted or refused. Times are of a clock that all processes of this
/// machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// When the table accepted or refused it.
    pub(super) at: Duration,
    /// When the worker last checked before the write that it leads.
    pub(super) checked_at: Duration,
    pub(super) worker: Worker,
    pub(super) epoch: u64,
    pub(super) accepted: bool,
}

/// Reads the log while workers write to it.
#[derive(Debug)]
pub(super) struct WorkLog {
    database: Connection,
    last_id: i64,
    pub(super) all: Vec<Work>,
}

impl WorkLog {
    pub(super) fn open(database: &Path) -> anyhow::Result<Self> {
        prepare(database)?;
        let database = Connection::open(database)?;
        database.busy_timeout(Duration::from_millis(20))?;
        Ok(Self {
            database,
            last_id: 0,
            all: Vec::new(),
        })
    }

    /// Reads new work, in the order of the writes.
    pub(super) fn read(&mut self) -> anyhow::Result<&[Work]> {
        let known = self.all.len();
        let mut query = self.database.prepare_cached(
            "SELECT id, at, checked_at, candidate, epoch, accepted FROM work_log
             WHERE id > ?1 ORDER BY id",
        )?;
        let mut rows = query.query(params![self.last_id])?;
        while let Some(row) = rows.next().context("can't read the work log")? {
            self.last_id = row.get(0)?;
            self.all.push(Work {
                at: Duration::from_nanos(row.get::<_, i64>(1)?.cast_unsigned()),
                checked_at: Duration::from_nanos(row.get::<_, i64>(2)?.cast_unsigned()),
                worker: Worker(row.get::<_, String>(3)?.parse()?),
                epoch: row.get::<_, i64>(4)?.cast_unsigned(),
                accepted: row.get(5)?,
            });
        }
        Ok(&self.all[known..])
    }

    /// Whether no worker is in the middle of a write. A worker that is frozen in a write keeps the
    /// table locked for all others. That would show the locks of SQLite, and not the effect of
    /// leases.
    pub(super) fn is_unlocked(&mut self) -> bool {
        self.database
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .is_ok()
    }
}
