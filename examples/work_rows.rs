//! A leader that hands out work and is not the bottleneck: it only writes rows to a table, and all
//! instances take rows from it, the leader too. While there is no leader, the instances continue
//! with the rows that exist.
//!
//! Start a store with `tenure serve`, then several instances, and kill the leader:
//!
//! ```text
//! export TENURE_ELECTION=jobs/planner
//! cargo run -p tenure-examples --example work_rows -- work.db
//! ```
//!
//! Planning needs one leader, because two planners would hand out the same work twice. Taking a row
//! needs none: one statement of the database gives a row to one instance.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tenure::{Candidate, Config, Leadership};

/// The number of rows that should wait for a worker.
const AHEAD: i64 = 10;

/// Simulated duration of the work of one row.
const ONE_ROW: Duration = Duration::from_millis(200);

/// The seconds after which another instance may take a row that is not done. It must be longer than
/// the work of one row.
const TAKEN_FOR: f64 = 5.0;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let database = std::env::args_os().nth(1).map(PathBuf::from);
    let database = database.context("usage: work_rows DATABASE")?;
    prepare(&database)?;

    let candidate = Candidate::start(Config::from_env()?).await?;
    let shutdown = tenure::shutdown_signal()?;
    let planner =
        candidate.run_while_leader(shutdown, |leadership| plan(database.clone(), leadership));
    tokio::select! {
        // The work stops with the process. A row that was begun is taken again later.
        ended = planner => ended?,
        ended = work(database.clone()) => ended?,
    }
    Ok(())
}

/// The leader's task: it keeps rows waiting for workers.
async fn plan(database: PathBuf, leadership: Leadership) -> anyhow::Result<()> {
    while let Ok(epoch) = leadership.check() {
        let file = database.clone();
        // A part of the task: the lease is not released while it runs.
        let planned = leadership.spawn_blocking(move |_| plan_rows(&file, epoch.get()));
        if let Some((first, last)) = planned.await?? {
            println!("planned rows {first} to {last} under epoch {epoch}");
        }
        tokio::select! {
            _ = leadership.lost() => break,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
    Ok(())
}

/// Adds rows unless enough of them wait, and returns the first and the last new row.
fn plan_rows(database: &Path, epoch: u64) -> anyhow::Result<Option<(i64, i64)>> {
    let mut database = open(database)?;
    let write = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The fence: a planner that was frozen must not add the rows of its successor again.
    let fence = "UPDATE fence SET epoch = ?1 WHERE epoch <= ?1";
    if write.execute(fence, [epoch.cast_signed()])? == 0 {
        anyhow::bail!("epoch {epoch} is stale: another leader has planned already");
    }
    let count = "SELECT count(*) FROM work WHERE taken_by IS NULL";
    let waiting: i64 = write.query_row(count, [], |row| row.get(0))?;
    let last = "SELECT coalesce(max(id), 0) FROM work";
    let last: i64 = write.query_row(last, [], |row| row.get(0))?;
    let new = last + 1..=last + AHEAD - waiting;
    for id in new.clone() {
        write.execute("INSERT INTO work (id) VALUES (?1)", [id])?;
    }
    write.commit()?;
    Ok((!new.is_empty()).then(|| new.into_inner()))
}

/// The work of every instance, with or without a leader.
async fn work(database: PathBuf) -> anyhow::Result<()> {
    let worker = format!("process {}", std::process::id());
    loop {
        let (file, me) = (database.clone(), worker.clone());
        let Some(id) = tokio::task::spawn_blocking(move || take(&file, &me)).await?? else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        tokio::time::sleep(ONE_ROW).await;
        let (file, me) = (database.clone(), worker.clone());
        if tokio::task::spawn_blocking(move || finish(&file, id, &me)).await?? {
            println!("done row {id}");
        } else {
            println!("row {id} took too long, and another instance has it");
        }
    }
}

/// Takes a row that no instance has, or that an instance has had for too long. One statement: two
/// instances never take the same row.
fn take(database: &Path, me: &str) -> anyhow::Result<Option<i64>> {
    let taken = open(database)?.query_row(
        "UPDATE work SET taken_by = ?1, taken_until = unixepoch('subsec') + ?2
         WHERE id = (SELECT min(id) FROM work WHERE NOT done
                     AND (taken_by IS NULL OR taken_until < unixepoch('subsec')))
         RETURNING id",
        params![me, TAKEN_FOR],
        |row| row.get(0),
    );
    Ok(taken.optional()?)
}

/// Marks the row as done, if this instance still has it.
fn finish(database: &Path, id: i64, me: &str) -> anyhow::Result<bool> {
    let done = "UPDATE work SET done = 1 WHERE id = ?1 AND taken_by = ?2";
    Ok(open(database)?.execute(done, params![id, me])? == 1)
}

fn prepare(database: &Path) -> anyhow::Result<()> {
    let tables = open(database)?.execute_batch(
        "CREATE TABLE IF NOT EXISTS fence (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL) STRICT;
         INSERT OR IGNORE INTO fence (id, epoch) VALUES (1, 0);
         CREATE TABLE IF NOT EXISTS work (
             id INTEGER PRIMARY KEY, taken_by TEXT, taken_until REAL, done INTEGER NOT NULL DEFAULT 0
         ) STRICT;",
    );
    tables.context("cannot create the tables")
}

fn open(database: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(database)
        .with_context(|| format!("cannot open {}", database.display()))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    Ok(connection)
}
