//! The fenced receiver's record: which worker wrote when, under which epoch.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, TransactionBehavior, params};

use super::fleet::Worker;

/// One pass of a worker, as the receiver recorded it. Times are of a clock that all processes of
/// this machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// When the receiver took or refused it.
    pub(super) at: Duration,
    /// When the worker last knew itself to lead before it.
    pub(super) checked_at: Duration,
    pub(super) worker: Worker,
    pub(super) epoch: u64,
    pub(super) accepted: bool,
}

/// Reads passes as they come in.
#[derive(Debug)]
pub(super) struct Passes {
    database: Connection,
    seen: i64,
    pub(super) all: Vec<Pass>,
}

impl Passes {
    pub(super) fn open(database: &Path) -> anyhow::Result<Self> {
        super::job::prepare(database)?;
        let database = Connection::open(database)?;
        database.busy_timeout(Duration::from_millis(20))?;
        Ok(Self {
            database,
            seen: 0,
            all: Vec::new(),
        })
    }

    /// Reads what is new, in the order in which it was written.
    pub(super) fn read(&mut self) -> anyhow::Result<&[Pass]> {
        let known = self.all.len();
        let mut query = self.database.prepare_cached(
            "SELECT id, at, checked_at, candidate, epoch, accepted FROM work_log
             WHERE id > ?1 ORDER BY id",
        )?;
        let mut rows = query.query(params![self.seen])?;
        while let Some(row) = rows.next().context("can't read the passes")? {
            self.seen = row.get(0)?;
            self.all.push(Pass {
                at: Duration::from_nanos(row.get::<_, i64>(1)?.cast_unsigned()),
                checked_at: Duration::from_nanos(row.get::<_, i64>(2)?.cast_unsigned()),
                worker: Worker(row.get::<_, String>(3)?.parse()?),
                epoch: row.get::<_, i64>(4)?.cast_unsigned(),
                accepted: row.get(5)?,
            });
        }
        Ok(&self.all[known..])
    }

    /// Whether no worker is in the middle of a write. One that is frozen there would keep the
    /// table locked for everybody, which says something about SQLite and nothing about leases.
    pub(super) fn is_unlocked(&mut self) -> bool {
        self.database
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .is_ok()
    }
}
