//! Several workers, of which the leader summarises the log files of a directory in an SQLite table.
//!
//! Start a store with `tenure serve`, then several instances:
//!
//! ```text
//! cargo run -p tenure-examples --example log_rollup -- /var/log/my-service summary.db
//! ```
//!
//! Stop the leader with Ctrl-C, `kill -9` or `kill -STOP`: another worker continues, and
//! `sqlite3 summary.db 'SELECT * FROM summary'` never shows a count from a stale leader.

mod job;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tenure::{Candidate, Config, OnOverrun};

use job::LogRollup;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (logs, database) = arguments
        .next()
        .zip(arguments.next())
        .context("usage: log_rollup DIRECTORY-OF-LOGS DATABASE")?;

    // All writes are behind a fence, so a run that outlives its term does no harm.
    let config = Config::new("log-rollup".parse()?).with_on_overrun(OnOverrun::Report);
    let candidate = Candidate::start(config).await?;
    let rollup = LogRollup {
        logs,
        database,
        pace: Duration::from_secs(1),
    };
    let shutdown = tenure::shutdown_signal()?;
    candidate
        .run_while_leader(shutdown, |leadership| rollup.clone().lead(leadership))
        .await?;
    Ok(())
}
