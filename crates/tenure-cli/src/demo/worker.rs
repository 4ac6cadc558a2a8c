//! One worker of the demo: a candidate whose task is the example's log roll-up. It is the same
//! whichever way it is elected: its settings say that.

use std::process::ExitCode;
use std::time::Duration;

use tenure::{Candidate, Config};
use tokio::signal::unix::{SignalKind, signal};

use super::job::LogRollup;
use crate::cli::DemoWorker;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::parent;

/// How long a pass over the log files takes at least: like a directory with some more of them.
const PACE: Duration = Duration::from_millis(40);

pub(crate) fn worker(arguments: DemoWorker) -> Result<ExitCode, Failure> {
    // A demo that is killed leaves no workers behind.
    parent::end_with(arguments.parent)?;
    let config = Config::from_env().map_err(|error| Failure::new(BAD_CONFIGURATION, error))?;
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
        let candidate = Candidate::start(config).await?;
        candidate
            .run_while_leader(shutdown, |leadership| rollup.clone().lead(leadership))
            .await?;
        Ok(ExitCode::SUCCESS)
    })
}
