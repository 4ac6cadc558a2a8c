//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use tenure::{ElectionName, Name};

use crate::exit;
use crate::logging::LogFormat;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Leader election: one process out of many does a job, and stops before anyone else may start.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, styles = STYLES, after_help = exit::HELP, subcommand_required = true)]
pub(crate) struct Cli {
    /// How log lines on stderr look; TENURE_LOG sets their level (error, warn, info, debug)
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "TENURE_LOG_FORMAT"
    )]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Host a lease store
    Serve(Serve),
    /// Run a command while this process leads, and only then
    Run(Run),
    /// List the leases of a namespace
    List(List),
    /// Show one lease
    Status(Status),
    /// End somebody's term: the lease goes to the next candidate
    Break(Break),
    /// See it work: a store, workers, and what happens when leaders die, freeze and stop
    Demo(Demo),
    #[command(hide = true)]
    Watchdog(Watchdog),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
}

/// Settings may also stand in the table [serve] of the configuration file, or in TENURE_LISTEN,
/// TENURE_DATA_DIR and TENURE_ENGINE. When the store is ready it prints one line on stdout.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the embedded engine keeps its data [default: tenure-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// "embedded" (on disk) or "memory" (forgets everything, for development) [default: embedded]
    #[arg(long)]
    pub(crate) engine: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// End when this process, which started this one, ends
    #[arg(long, hide = true)]
    pub(crate) parent: Option<i32>,
}

/// Where the store is.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Address of the store; may be given several times [default: http://127.0.0.1:7400]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Vec<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The command is started when this process begins to lead, without a shell, in a process group of
/// its own, with TENURE_ELECTION, TENURE_CANDIDATE and TENURE_EPOCH in its environment. When the
/// term ends the group gets SIGTERM, and SIGKILL after the stop grace: by this machine's clock,
/// before anyone else may lead, also when the store can't be reached and when this process itself
/// is killed or frozen. The lease is released after the group is gone.
///
/// Settings may also stand in the configuration file or in TENURE_* variables.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to compete for
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) election: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// This candidate's id, unique per start [default: host-pid-random]
    #[arg(long, value_name = "ID")]
    pub(crate) candidate: Option<String>,
    /// How long the store keeps the lease without a renewal [default: 15s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_duration: Option<String>,
    /// Time between SIGTERM and SIGKILL [default: 4/15 of the lease duration, 4s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) stop_grace: Option<String>,
    /// End after one term, with the command's exit code
    #[arg(long)]
    pub(crate) once: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only names that begin with this
    pub(crate) prefix: Option<Name>,
    /// The namespace to list
    #[arg(long, default_value = ElectionName::DEFAULT_NAMESPACE)]
    pub(crate) namespace: Name,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    /// How long the holder has to notice and stop; below its renew interval plus stop grace it may
    /// still be acting when the next one starts
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) period: std::time::Duration,
    /// Why, for the store's log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

/// Starts a store and workers as processes of their own, in a temporary folder. The leading worker
/// rolls up log files into a fenced table. Leaders are killed, frozen and stopped, and what the
/// workers did is measured at the table.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How many workers compete
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20))]
    pub(crate) workers: u32,
    /// How long it takes, about
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(12..=3600))]
    pub(crate) seconds: u64,
    /// Print one JSON object a line; the last is the summary
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Watchdog {
    /// The inherited file descriptor to read deadlines from
    #[arg(long)]
    pub(crate) deadlines: i32,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoWorker {
    #[arg(long)]
    pub(crate) parent: i32,
    #[arg(long)]
    pub(crate) store: SocketAddr,
    #[arg(long)]
    pub(crate) candidate: String,
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) lease_duration: std::time::Duration,
    #[arg(long)]
    pub(crate) logs: PathBuf,
    #[arg(long)]
    pub(crate) database: PathBuf,
}
