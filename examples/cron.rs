//! Cron on several machines: the leader runs a program once per period, and skips periods that an
//! earlier leader has completed.
//!
//! Start a store with `tenure serve`, then several instances with the same database:
//!
//! ```text
//! export TENURE_ELECTION=ops/cron
//! cargo run -p tenure-examples --example cron -- 10s runs.db sh -c 'echo "tick $CRON_TICK"'
//! ```
//!
//! If a leader dies during a run, the next leader starts the run again unless the period is over.
//! So a program may run twice for one tick, but never after it has succeeded once. Ticks without a
//! leader are skipped.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rusqlite::{Connection, params};
use tenure::{Candidate, Config, Epoch, Leadership};
use tokio::process::Command;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let usage = "usage: cron PERIOD DATABASE PROGRAM [ARGUMENT...]";
    let mut arguments = std::env::args().skip(1);
    let period = humantime::parse_duration(&arguments.next().context(usage)?)?;
    anyhow::ensure!(
        period >= Duration::from_secs(1),
        "the period must be 1s or more"
    );
    let cron = Cron {
        period,
        database: arguments.next().context(usage)?.into(),
        program: arguments.next().context(usage)?,
        arguments: arguments.collect(),
    };
    let candidate = Candidate::start(Config::from_env()?).await?;
    let shutdown = tenure::shutdown_signal()?;
    candidate
        .run_while_leader(shutdown, |leadership| cron.clone().lead(leadership))
        .await?;
    Ok(())
}

#[derive(Clone)]
struct Cron {
    period: Duration,
    database: PathBuf,
    program: String,
    arguments: Vec<String>,
}

impl Cron {
    async fn lead(self, leadership: Leadership) -> anyhow::Result<()> {
        // Renewals have their own thread, so blocking on the database does not delay them.
        let runs = Runs::open(&self.database)?;
        loop {
            let Ok(epoch) = leadership.check() else {
                return Ok(());
            };
            let (tick, next) = self.now()?;
            if runs.claim(tick, epoch)? {
                println!("tick {tick}: running under epoch {epoch}");
                let done = tokio::select! {
                    status = self.run(tick, epoch) => status?.success(),
                    _ = leadership.lost() => return Ok(()),
                };
                let done = done && runs.finish(tick, epoch)?;
                println!("tick {tick}: {}", if done { "done" } else { "failed" });
            } else {
                println!("tick {tick}: nothing to do");
            }
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                _ = leadership.lost() => return Ok(()),
            }
        }
    }

    /// Dropping this future kills the program, but not the processes that the program has started.
    /// `tenure run` kills those as well.
    async fn run(&self, tick: i64, epoch: Epoch) -> anyhow::Result<std::process::ExitStatus> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env("CRON_TICK", tick.to_string())
            .env("TENURE_EPOCH", epoch.to_string())
            .kill_on_drop(true)
            .status()
            .await
            .with_context(|| format!("cannot run {}", self.program))
    }

    /// Returns the current tick and the time until it ends.
    fn now(&self) -> anyhow::Result<(i64, Duration)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let tick = now.as_nanos() / self.period.as_nanos();
        let elapsed = now.as_nanos() % self.period.as_nanos();
        let left = self
            .period
            .saturating_sub(Duration::from_nanos(elapsed.try_into()?));
        Ok((tick.try_into()?, left))
    }
}

/// The table of runs: tick, epoch, and whether the run succeeded.
struct Runs(Connection);

impl Runs {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let database =
            Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        database.busy_timeout(Duration::from_secs(10))?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS runs (
                 tick INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, done INTEGER NOT NULL
             ) STRICT;
             CREATE INDEX IF NOT EXISTS runs_by_epoch ON runs (epoch);",
        )?;
        Ok(Self(database))
    }

    /// Claims this tick for this epoch. Returns false if the tick is done, or if a run was started
    /// under this epoch or a greater one. One statement checks and claims, so it is atomic.
    fn claim(&self, tick: i64, epoch: Epoch) -> rusqlite::Result<bool> {
        let changed = self.0.execute(
            "INSERT INTO runs (tick, epoch, done)
             SELECT ?1, ?2, 0 WHERE ?2 >= (SELECT coalesce(max(epoch), 0) FROM runs)
             ON CONFLICT (tick) DO UPDATE SET epoch = excluded.epoch
             WHERE NOT runs.done AND runs.epoch < excluded.epoch",
            params![tick, epoch.get().cast_signed()],
        )?;
        Ok(changed == 1)
    }

    /// Marks the tick as done. Returns false if a newer leader has started it again.
    fn finish(&self, tick: i64, epoch: Epoch) -> rusqlite::Result<bool> {
        let changed = self.0.execute(
            "UPDATE runs SET done = 1 WHERE tick = ?1 AND epoch = ?2",
            params![tick, epoch.get().cast_signed()],
        )?;
        Ok(changed == 1)
    }
}
