//! The leader's job: count the lines of log files by level and store the counts in a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use nix::time::{ClockId, clock_gettime};
use rusqlite::{Connection, TransactionBehavior, params};
use tenure::Leadership;

/// The job: its input, its output and its pace.
#[derive(Clone, Debug)]
pub(crate) struct LogRollup {
    /// The directory whose `*.log` files are counted.
    pub logs: PathBuf,
    /// The SQLite database with the summary.
    pub database: PathBuf,
    /// The minimum duration of one run.
    pub pace: Duration,
}

/// The result of writing the counts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The counts are in the summary.
    Accepted,
    /// The fence refused them: a leader with a greater epoch has written before.
    Refused,
}

impl LogRollup {
    /// Runs the job repeatedly, each time under an epoch that was checked right before the run.
    pub(crate) async fn lead(self, leadership: Leadership) -> anyhow::Result<()> {
        prepare(&self.database)?;
        // Checked before every run: only a leader may start one.
        while let Ok(epoch) = leadership.check() {
            let run = Run {
                rollup: self.clone(),
                candidate: leadership.candidate().to_string(),
                epoch: epoch.get(),
                checked_at: monotonic_nanos(),
            };
            // Reading files blocks, so it must not happen on the runtime. A run is not interrupted
            // at the end of the term: it is short, and the lease is not released while it runs. If
            // this process is frozen during the run for longer than the term, the fence refuses the
            // write afterwards.
            if leadership.spawn_blocking(move |_| run.execute()).await?? == Written::Refused {
                anyhow::bail!("epoch {epoch} is stale: another leader has written already");
            }
            if leadership.cancellation().is_cancelled() {
                break;
            }
        }
        Ok(())
    }
}

/// One run under one epoch.
struct Run {
    rollup: LogRollup,
    candidate: String,
    epoch: u64,
    checked_at: i64,
}

impl Run {
    fn execute(&self) -> anyhow::Result<Written> {
        let counts = count_levels(&self.rollup.logs)?;
        std::thread::sleep(self.rollup.pace);
        self.write(&counts)
    }

    fn write(&self, counts: &BTreeMap<String, i64>) -> anyhow::Result<Written> {
        let mut database = open(&self.rollup.database)?;
        // One writer at a time from here on, so times and epochs in `work_log` are in order.
        let write = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcome = Written::Accepted;
        for (level, lines) in counts {
            // The fence: after a write under a greater epoch this leader may not write. The
            // statement that writes also checks. A separate check before it would leave a gap, and
            // a check of a single row would leave the other rows unprotected.
            let changed = write.execute(
                "INSERT INTO summary (level, lines, epoch)
                 SELECT ?1, ?2, ?3 WHERE ?3 >= (SELECT coalesce(max(epoch), 0) FROM summary)
                 ON CONFLICT (level) DO UPDATE SET lines = excluded.lines, epoch = excluded.epoch",
                params![level, lines, self.epoch.cast_signed()],
            )?;
            if changed == 0 {
                outcome = Written::Refused;
                break;
            }
        }
        write.execute(
            "INSERT INTO work_log (at, checked_at, candidate, epoch, accepted)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                monotonic_nanos(),
                self.checked_at,
                self.candidate,
                self.epoch.cast_signed(),
                outcome == Written::Accepted,
            ],
        )?;
        write.commit()?;
        Ok(outcome)
    }
}

/// Creates the tables unless they exist.
pub(crate) fn prepare(database: &Path) -> anyhow::Result<()> {
    open(database)?
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS summary (
                 level TEXT PRIMARY KEY, lines INTEGER NOT NULL, epoch INTEGER NOT NULL
             ) STRICT;
             CREATE INDEX IF NOT EXISTS summary_by_epoch ON summary (epoch);
             -- One row per write. Times are nanoseconds of a clock that all processes share.
             CREATE TABLE IF NOT EXISTS work_log (
                 id INTEGER PRIMARY KEY, at INTEGER NOT NULL, checked_at INTEGER NOT NULL,
                 candidate TEXT NOT NULL, epoch INTEGER NOT NULL, accepted INTEGER NOT NULL
             ) STRICT;",
        )
        .context("cannot create the summary tables")
}

fn open(database: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(database)
        .with_context(|| format!("cannot open {}", database.display()))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Counts the lines of each level. The level of a line is its first word.
fn count_levels(logs: &Path) -> anyhow::Result<BTreeMap<String, i64>> {
    let mut counts: BTreeMap<String, i64> = ["ERROR", "INFO", "WARN"]
        .map(|level| (level.to_owned(), 0))
        .into();
    for entry in fs::read_dir(logs).with_context(|| format!("cannot list {}", logs.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            let level = line.split_whitespace().next().unwrap_or("(empty)");
            *counts.entry(level.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

fn monotonic_nanos() -> i64 {
    // Linux has had this clock for more than ten years, so reading it does not fail.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .unwrap_or_default();
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
