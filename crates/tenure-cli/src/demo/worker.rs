//! One worker of the demo: a candidate whose task is the example's log roll-up.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tenure::{Candidate, Config, Timings, TimingsOptions};
use tokio::signal::unix::{SignalKind, signal};

use super::job::LogRollup;
use super::script::ELECTION;
use crate::cli::DemoWorker;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::parent;

/// How long a pass over the log files takes at least: like a directory with some more of them.
const PACE: Duration = Duration::from_millis(40);

pub(crate) fn worker(arguments: DemoWorker) -> Result<ExitCode, Failure> {
    // A demo that is killed leaves no workers behind.
    parent::end_with(arguments.parent)?;
    let bad = |error: anyhow::Error| Failure::new(BAD_CONFIGURATION, error);
    let options = TimingsOptions {
        lease_duration: Some(arguments.lease_duration),
        ..Default::default()
    };
    let timings = Timings::new(&options).map_err(|error| bad(error.into()))?;
    let candidate = arguments
        .candidate
        .parse()
        .map_err(|error| bad(anyhow::Error::new(error)))?;
    let store = format!("http://{}", arguments.store);
    let config = Config::new(
        ELECTION
            .parse()
            .map_err(|error| bad(anyhow::Error::new(error)))?,
    )
    .with_candidate(candidate)
    .with_servers([store.parse().context("not an address").map_err(bad)?])
    .with_timings(timings);
    let rollup = LogRollup {
        logs: arguments.logs,
        database: arguments.database,
        pace: PACE,
    };

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = async move {
            terminate.recv().await;
        };
        let candidate = Candidate::connect(config).await?;
        candidate
            .run_while_leader(shutdown, |leadership| rollup.clone().lead(leadership))
            .await?;
        Ok(ExitCode::SUCCESS)
    })
}
