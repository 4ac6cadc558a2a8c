//! The leader's job: count the lines of log files by level, and keep the counts in a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use nix::time::{ClockId, clock_gettime};
use rusqlite::{Connection, TransactionBehavior, params};
use tenure::Leadership;

/// The source and the target of the job.
#[derive(Clone, Debug)]
pub(crate) struct LogRollup {
    /// The directory with the `*.log` files.
    pub logs: PathBuf,
    /// The SQLite database with the summary.
    pub database: PathBuf,
    /// How long one run takes at least.
    pub pace: Duration,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The numbers are in the summary.
    Accepted,
    /// A leader with a greater epoch has written before: the fence rejected the numbers.
    Refused,
}

impl LogRollup {
    /// Leads: one run after the other, each under an epoch that was checked before it.
    pub(crate) async fn lead(self, leadership: Leadership) -> anyhow::Result<()> {
        prepare(&self.database)?;
        // Check before each run.
        while let Ok(epoch) = leadership.check() {
            let pass = Pass {
                rollup: self.clone(),
                candidate: leadership.candidate().to_string(),
                epoch: epoch.get(),
                checked_at: monotonic_nanos(),
            };
            // Reading files blocks, so it runs on another thread. The end of the term does not
            // interrupt a run: it is short, and if this process freezes during a run for longer than
            // the term lasts, the fence rejects its writes afterwards.
            if tokio::task::spawn_blocking(move || pass.run()).await?? == Written::Refused {
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
struct Pass {
    rollup: LogRollup,
    candidate: String,
    epoch: u64,
    checked_at: i64,
}

impl Pass {
    fn run(&self) -> anyhow::Result<Written> {
        let counts = count_levels(&self.rollup.logs)?;
        std::thread::sleep(self.rollup.pace);
        self.write(&counts)
    }

    fn write(&self, counts: &BTreeMap<String, i64>) -> anyhow::Result<Written> {
        let mut database = open(&self.rollup.database)?;
        // One writer at a time from here on, so times and epochs in `passes` are in order.
        let write = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcome = Written::Accepted;
        for (level, lines) in counts {
            // The fence: a write under a greater epoch ends this leader's right to write. The statement
            // that writes checks this. An earlier check would leave a gap, and a check of one row
            // would leave the other rows open.
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
            "INSERT INTO passes (at, checked_at, candidate, epoch, accepted)
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

/// Creates the tables if they do not exist.
pub(crate) fn prepare(database: &Path) -> anyhow::Result<()> {
    open(database)?
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS summary (
                 level TEXT PRIMARY KEY, lines INTEGER NOT NULL, epoch INTEGER NOT NULL
             ) STRICT;
             CREATE INDEX IF NOT EXISTS summary_by_epoch ON summary (epoch);
             -- Who wrote when: nanoseconds of a clock that all processes of this machine share.
             CREATE TABLE IF NOT EXISTS passes (
                 id INTEGER PRIMARY KEY, at INTEGER NOT NULL, checked_at INTEGER NOT NULL,
                 candidate TEXT NOT NULL, epoch INTEGER NOT NULL, accepted INTEGER NOT NULL
             ) STRICT;",
        )
        .context("can't make the summary tables")
}

fn open(database: &Path) -> anyhow::Result<Connection> {
    let connection =
        Connection::open(database).with_context(|| format!("can't open {}", database.display()))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Counts the lines of each level: the first word of a line.
fn count_levels(logs: &Path) -> anyhow::Result<BTreeMap<String, i64>> {
    let mut counts: BTreeMap<String, i64> = ["ERROR", "INFO", "WARN"]
        .map(|level| (level.to_owned(), 0))
        .into();
    for entry in fs::read_dir(logs).with_context(|| format!("can't list {}", logs.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        for line in text.lines() {
            let level = line.split_whitespace().next().unwrap_or("(empty)");
            *counts.entry(level.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

fn monotonic_nanos() -> i64 {
    // This clock can be read on every Linux of the last ten years.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .unwrap_or_default();
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
