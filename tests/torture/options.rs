//! What a run is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::faults::Fault;

/// Runs a lease store under faults at random, and checks everything that its clients were told.
///
/// A run is a series of rounds, each with a store, clients and faults of its own, by the seed. It ends with
/// exit code 1 at the first round in which something is wrong, shows the operations around it, and keeps
/// that round's folder; with 2 if it could not do its work.
#[derive(Clone, Debug, Parser)]
#[command(name = "tenure-torture")]
pub(crate) struct Options {
    /// For how long, in minutes. The round that is under way is ended.
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,

    /// Decides all faults and all that clients choose. By default from the clock.
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Only this round of the seed.
    #[arg(long)]
    pub(crate) round: Option<u64>,

    /// Only this fault; may be given several times.
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Fault>,

    /// Goes on when this check finds something; may be given several times.
    #[arg(long, value_name = "CHECK")]
    pub(crate) ignore: Vec<String>,

    /// How long clients and faults are at work in each round, in seconds.
    #[arg(long, default_value_t = 15.0)]
    pub(crate) round_seconds: f64,

    /// How many clients acquire leases.
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: usize,

    /// The `tenure` to torture, instead of the one that was built with this program.
    #[arg(long, env = "TENURE_BIN")]
    pub(crate) bin: Option<PathBuf>,

    /// Where to keep rounds. By default in the folder for temporary files.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,

    /// Keeps the folders of rounds in which nothing was wrong, too.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Prints the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// For how long clients and faults are at work in each round.
    pub(crate) fn round_time(&self) -> Duration {
        Duration::from_secs_f64(self.round_seconds.clamp(0.5, 3_600.0))
    }
}
