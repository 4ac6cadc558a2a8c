//! One worker of the demo: a candidate whose task is the log roll-up of the examples. Its settings
//! choose the strategy.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tenure::{Candidate, Config, OnOverrun};
use tokio::signal::unix::{SignalKind, signal};

use super::job::LogRollup;
use crate::{parent, runtime};

#[derive(Debug, Args)]
pub(crate) struct DemoWorker {
    #[arg(long)]
    parent: i32,
    #[arg(long)]
    logs: PathBuf,
    #[arg(long)]
    database: PathBuf,
}

/// The shortest time of one roll-up, as if the directory had more log files.
const PACE: Duration = Duration::from_millis(40);

impl DemoWorker {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // If the demo is killed, its workers end too.
        parent::end_with(self.parent)?;
        // All writes are behind a fence, and the demo freezes workers while they write.
        let config = Config::from_env()?.with_on_overrun(OnOverrun::Report);
        let rollup = LogRollup {
            logs: self.logs,
            database: self.database,
            pace: PACE,
        };
        runtime::multi_thread(runtime::workers())?.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let shutdown = async move {
                terminate.recv().await;
            };
            let candidate = Candidate::start(config).await?;
            candidate
                .run_while_leader(shutdown, |leadership| rollup.clone().lead(leadership))
                .await?;
            Ok(())
        })
    }
}
