//! The options of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::faults::Fault;

/// Runs a lease store under random faults, and checks all answers and events that its clients
/// receive.
///
/// A run is a series of rounds. Each round has a store, clients and faults of its own, which the
/// seed determines. The run ends with exit code 1 at the first round with a violation: it shows the
/// operations around the violation and keeps the round's folder. Exit code 2 means that the run
/// itself failed.
#[derive(Clone, Debug, Parser)]
#[command(name = "tenure-torture")]
pub(crate) struct Options {
    /// Duration of the run, in minutes. The last round is completed.
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,

    /// Seed of all faults and of all choices of clients. Default: from the clock.
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Run only this round of the seed.
    #[arg(long)]
    pub(crate) round: Option<u64>,

    /// Inject only this fault; may be repeated.
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Fault>,

    /// Ignore the findings of this check; may be repeated.
    #[arg(long, value_name = "CHECK")]
    pub(crate) ignore: Vec<String>,

    /// Time for clients and faults in each round, in seconds.
    #[arg(long, default_value_t = 15.0)]
    pub(crate) round_seconds: f64,

    /// Number of clients that acquire leases.
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: usize,

    /// The `tenure` binary under test. Default: the one that was built with this program.
    #[arg(long, env = "TENURE_BIN")]
    pub(crate) bin: Option<PathBuf>,

    /// Folder for the rounds. Default: the folder for temporary files.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,

    /// Keep the folders of rounds without violations, too.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// The time for clients and faults in each round.
    pub(crate) fn round_time(&self) -> Duration {
        Duration::from_secs_f64(self.round_seconds.clamp(0.5, 3_600.0))
    }
}
