//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure::config::Strategy;
use tenure::{CandidateId, ElectionName, Name};

use crate::exit;
use crate::logging::LogFormat;
use crate::processes::NetworkKind;
use crate::serve;

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
        display_order = 900,
        value_name = "FORMAT",
        env = "TENURE_LOG_FORMAT"
    )]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Run(Box<Run>),
    List(List),
    Status(Status),
    History(History),
    Watch(Watch),
    Break(Break),
    Handover(Handover),
    Peers(Peers),
    Doctor(Doctor),
    Backup(Backup),
    Restore(Restore),
    Config(ConfigArgs),
    Compare(Box<Compare>),
    Demo(Demo),
    Completions(Completions),
    Man(Man),
    #[command(hide = true)]
    Watchdog(Watchdog),
    #[command(hide = true)]
    SecondWatchdog(SecondWatchdog),
    #[command(hide = true)]
    Watched(Watched),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
    #[command(hide = true)]
    CompareWorker(CompareWorker),
}

impl Command {
    /// Whether the environment says something to it that its user has written.
    pub(crate) const fn has_settings(&self) -> bool {
        !matches!(
            self,
            Self::Completions(_)
                | Self::Man(_)
                | Self::Watchdog(_)
                | Self::SecondWatchdog(_)
                | Self::Watched(_)
                | Self::DemoWorker(_)
                | Self::CompareWorker(_)
        )
    }
}

/// Compare ways to elect a leader, in simulated time or live
///
/// Runs every contestant through every scenario on this machine, in virtual time, and says how long
/// there was no leader, whether two acted at once, and what it cost. Nothing is started and no network
/// is used. The same seeds give the same figures everywhere.
///
/// With "--live" a store and candidates are started as processes of their own, in a temporary folder,
/// and killed, frozen, stopped and cut off; all are ended before this command ends.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Compare {
    #[command(subcommand)]
    pub(crate) what: Option<CompareWhat>,
    /// Only this one; may be given several times [default: lease, bully and older ways]
    #[arg(long, value_name = "NAME")]
    pub(crate) contestant: Vec<String>,
    /// Only in this one; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// A candidate's configuration file, to be compared with the others; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Which runs: each seed is one run of each contestant in each scenario
    #[arg(long, value_name = "FROM..TO", default_value = "0..20", value_parser = seeds)]
    pub(crate) seeds: std::ops::Range<u64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Write a page with plots too, also of a live run: HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// List the contestants and the scenarios, and do nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Start real processes on this machine and measure those, in real time [default: lease, bully and
    /// bully-no-quorum, in kill-leader, stop-leader, freeze-leader, restart-loop and cut-leader]
    #[arg(long, conflicts_with = "seeds")]
    pub(crate) live: bool,
    /// With --live: how many candidates compete
    #[arg(long, requires = "live", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=9))]
    pub(crate) candidates: u32,
    /// With --live: what lies between the processes [default: namespaces where they can be, else proxy]
    #[arg(long, requires = "live", value_enum)]
    pub(crate) network: Option<NetworkKind>,
    /// With --live: how many runs of each contestant in each scenario
    #[arg(long, requires = "live", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompareWhat {
    Check(CompareCheck),
    Papers(ComparePapers),
}

/// Measure what the papers on Bully and Bully_FD claim: messages and response times
///
/// Each formula is put beside what the algorithm does under the paper's own assumptions. Times are in
/// T_m, the time that a message takes.
#[derive(Debug, Args)]
pub(crate) struct ComparePapers {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// Look for broken promises in many runs with random faults
///
/// Each run is ten virtual minutes with crashes, standstills, parted networks, late and repeated
/// messages, slow disks and wrong clocks. What is found is told with the command that shows it again.
#[derive(Debug, Args)]
pub(crate) struct CompareCheck {
    /// Who; may be given several times [default: lease, bully, bully-no-quorum]
    #[arg(long, value_name = "NAME")]
    pub(crate) contestant: Vec<String>,
    /// Which runs
    #[arg(long, value_name = "FROM..TO", default_value = "0..2000", value_parser = seeds)]
    pub(crate) seeds: std::ops::Range<u64>,
    /// How many members, or candidates beside a store
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) members: u32,
    /// Run this fault script instead of random faults; each seed varies it a little; "all": every script
    #[arg(long, value_name = "NAME", conflicts_with_all = ["contestant", "members"])]
    pub(crate) script: Option<String>,
    /// Print everything that happens; for one seed and one contestant
    #[arg(long)]
    pub(crate) trace: bool,
    /// Switch on this bug and verify that it is caught; "all" tries each. Test builds only
    #[arg(long, value_name = "NAME")]
    pub(crate) mutation: Option<String>,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let wrong = || format!("write FROM..TO, such as 0..20, and not {text:?}");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let (from, to) = (number(from)?, number(to)?);
    if from < to {
        Ok(from..to)
    } else {
        Err(format!(
            "FROM must be below TO, and {from} is not below {to}"
        ))
    }
}

/// Host a lease store
///
/// Settings may also stand in the table "serve" of the configuration file, or in TENURE_LISTEN,
/// TENURE_DATA_DIR and TENURE_ENGINE. When the store is ready it prints one line on stdout.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the embedded engine keeps its data [default: tenure-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where leases are kept: on disk, or nowhere (forgets everything, for development) [default: embedded]
    #[arg(long, value_parser = serve::ENGINES)]
    pub(crate) engine: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store's certificate (PEM), to be spoken to over TLS alone; with --tls-key
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<String>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// Also speak the Azure Blob lease protocol, for the accounts of the table "azure" of the
    /// configuration file or of TENURE_AZURE_ACCOUNTS
    #[arg(long)]
    pub(crate) azure: bool,
    /// The same, also for the well-known account of emulators, devstoreaccount1; on a loopback address
    /// only
    #[arg(long)]
    pub(crate) azure_dev: bool,
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
    /// Certificates (PEM) that vouch for a store at an https address [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What makes a candidate.
#[derive(Debug, Args)]
pub(crate) struct CandidateArgs {
    /// What to compete for
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) election: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// This candidate's id, unique per start [default: host-pid-random]
    #[arg(long, value_name = "ID")]
    pub(crate) candidate: Option<String>,
    /// Who goes first among those who wait: the lower one [default: 100]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) priority: Option<String>,
    /// How long the store keeps the lease without a renewal [default: 15s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_duration: Option<String>,
    /// Time between SIGTERM and SIGKILL [default: 4/15 of the lease duration, 4s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) stop_grace: Option<String>,
    /// Which way to elect: "lease" (in a store), "azure-blob" (by the lease of a blob), "bully" (among
    /// peers), "both" (on the way from one to the other), or "static" (nobody else competes)
    /// [default: lease]
    #[arg(long, value_parser = Strategy::NAMES, hide_possible_values = true)]
    pub(crate) strategy: Option<String>,
    /// Among peers: which of them this one is
    #[arg(long, value_name = "NUMBER")]
    pub(crate) node: Option<String>,
    /// Among peers: all members, this one too; the same on all of them
    #[arg(long, value_name = "NUMBER[@PRIORITY]=URL", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Among peers: where to listen for the others [default: the port of this one's URL]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Among peers: a file with the secret that all members share
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<String>,
    /// Among peers: a folder for what this member must not forget [default: tenure-state]
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<String>,
}

/// Run a command while this process leads, and only then
///
/// The command is started when this process begins to lead, without a shell, in a process group of
/// its own, with TENURE_ELECTION, TENURE_CANDIDATE and TENURE_EPOCH in its environment. When the
/// term ends the group gets SIGTERM, and SIGKILL after the stop grace: by this machine's clock,
/// before anyone else may lead, also when the store can't be reached and when this process itself
/// is killed or frozen. The lease is released after the group is gone.
///
/// A health command is run from time to time meanwhile, also without a shell. When it fails, or does
/// not end in time, the term ends and another candidate can take over.
///
/// Settings may also stand in the configuration file or in TENURE_* variables.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) candidate: CandidateArgs,
    /// End after one term, with the command's exit code
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) health: HealthArgs,
    /// End when this process, which started this one, ends
    #[arg(long, hide = true)]
    pub(crate) parent: Option<i32>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How to ask whether the command is well.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// A program that fails when the command is not well; its stdout is discarded
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) health_command: Option<OsString>,
    /// An argument of the health command; may be given several times
    #[arg(
        long,
        value_name = "ARG",
        requires = "health_command",
        allow_hyphen_values = true
    )]
    pub(crate) health_arg: Vec<OsString>,
    /// How long after its end the health command is run again
    #[arg(
        long,
        value_name = "DURATION",
        requires = "health_command",
        default_value = "5s",
        value_parser = at_least_100ms
    )]
    pub(crate) health_interval: Duration,
    /// How long the health command may take
    #[arg(
        long,
        value_name = "DURATION",
        requires = "health_command",
        default_value = "5s",
        value_parser = at_least_100ms
    )]
    pub(crate) health_timeout: Duration,
}

/// A duration that is no busy loop.
fn at_least_100ms(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration >= Duration::from_millis(100) => Ok(duration),
        Ok(_) => Err("must be at least 100ms".into()),
        Err(error) => Err(format!(
            "{error}; write a number and a unit, such as \"5s\""
        )),
    }
}

/// List the leases of a namespace
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

/// Show one lease
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

/// End somebody's term: the lease goes to the next candidate
///
/// The holder is told with its next renewal, stops, and gives the lease up. Without "--period" nobody else
/// leads before it has stopped, also if it can't be told.
#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    /// How long the holder has at most to notice and stop; if that is shorter than the lease's duration it
    /// may still act when the next one leads [default: the lease's duration; an infinite one has none]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) period: Option<Duration>,
    /// Why, for the store's log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the terms of a lease: who held it, and how it ended
///
/// Newest first. The store keeps the last terms of each lease.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a line for each change, until interrupted
///
/// The first line is the lease as it is; then comes each change, deletions too, and renewals not. Waits
/// for a store that can't be reached, and for a lease that nobody has competed for yet. After a lost
/// connection it goes on where it was; if the store does not remember that, with each lease that has
/// changed, as it is then.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The lease
    #[arg(
        value_name = "[NAMESPACE/]NAME",
        required_unless_present = "namespace",
        conflicts_with = "namespace"
    )]
    pub(crate) name: Option<ElectionName>,
    /// Watch all leases of this namespace
    #[arg(long)]
    pub(crate) namespace: Option<Name>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print a JSON object a line, with the field names of the HTTP API, and `event`: what happened, null
    /// for a lease as it was found
    #[arg(long)]
    pub(crate) json: bool,
}

/// End somebody's term: the lease goes to the candidate that you name
///
/// The holder is told as by a break, stops, and gives the lease up, within the time given at most. After that,
/// for as long again, nobody but the named candidate is granted the lease; then everybody may be.
#[derive(Debug, Args)]
pub(crate) struct Handover {
    /// The lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    /// Who shall lead: the id of a candidate that competes
    #[arg(long, value_name = "CANDIDATE")]
    pub(crate) to: CandidateId,
    /// How long the holder has at most to notice and stop; if that is shorter than the lease's duration it
    /// may still act when the next one leads [default: the lease's duration; an infinite one has none]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) within: Option<Duration>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON, with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what each member of an election among peers says
///
/// Asks all of them at once; it needs no key. A member that does not answer is a row that says why. Exits
/// with 0 if there is a leader that all who answer agree on, 1 if not, 69 if nobody answers.
#[derive(Debug, Args)]
pub(crate) struct Peers {
    /// What they elect for
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) election: Option<String>,
    /// All members
    #[arg(long, value_name = "NUMBER[@PRIORITY]=URL", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, with the field names of the members' status
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look at this machine, the way to the store, and what follows from the timings
///
/// Asks each address of the store by itself. Exits with 0 if all is well, 1 if there is something to
/// look at, 69 if no address can be reached.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a store's leases to a file, also while the store runs
///
/// The file has every change that was acknowledged before this began. It is checked as at a start of a
/// store, and gets its name when it is whole and on disk. It is for its owner only: it has lease ids,
/// with which leases can be taken over.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Where to write the copy, outside of the store's folder
    pub(crate) file: PathBuf,
    /// The folder of the store
    #[arg(
        long,
        value_name = "DIR",
        env = "TENURE_DATA_DIR",
        default_value = "tenure-data"
    )]
    pub(crate) data_dir: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a store's folder from a backup
///
/// Nothing is restored over a store, and a damaged backup is refused. Epochs and revisions of the
/// restored store go on from far above those of the backup, and above the wall clock. Terms that began
/// after the backup are unknown to it: stop the old store, and start the new one only when the longest
/// lease has run out since.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup
    pub(crate) file: PathBuf,
    /// The folder to make; there must be no store in it
    #[arg(long, value_name = "DIR", env = "TENURE_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check a configuration, show the one in effect, or print an example
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Check(ConfigCheck),
    Show(Box<ConfigShow>),
    /// Print a commented file with every key and its default
    Example,
}

/// Check a file, for candidates and for the store, and print what follows from it
///
/// Takes the file alone, without the environment. A wrong file is told with file and line, and the
/// exit code is 2.
#[derive(Debug, Args)]
pub(crate) struct ConfigCheck {
    /// The file (TOML)
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the configuration in effect, and where each value comes from
///
/// It is what tenure run and tenure serve would use: flags override the environment, and that the file.
#[derive(Debug, Args)]
pub(crate) struct ConfigShow {
    #[command(flatten)]
    pub(crate) candidate: CandidateArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print completions for a shell
///
/// Such as: tenure completions bash > ~/.local/share/bash-completion/completions/tenure
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all pages into a folder
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to write a page for each command; without it tenure(1) is printed
    pub(crate) dir: Option<PathBuf>,
}

/// See it work: a store, workers, and what happens when leaders die, freeze and stop
///
/// Starts a store and workers as processes of their own, in a temporary folder. The leading worker
/// rolls up log files into a fenced table. Leaders are killed, frozen and stopped, and what the
/// workers did is measured at the table.
///
/// With "--strategy bully" there is no store: the workers elect among themselves, and a leader is
/// also cut off from the majority.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Which way to elect: in a store, or among peers
    #[arg(long, value_enum, default_value_t = DemoStrategy::Lease)]
    pub(crate) strategy: DemoStrategy,
    /// How many workers compete; among peers 3 at least [default: 3, among peers 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=20))]
    pub(crate) workers: Option<u32>,
    /// How long it takes, about
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub(crate) seconds: u64,
    /// Print one JSON object a line; the last is the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which way the workers of the demo elect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoStrategy {
    /// By a lease in a store
    Lease,
    /// Among themselves, without a store
    Bully,
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
pub(crate) struct SecondWatchdog {
    /// The inherited file descriptor to read deadlines from
    #[arg(long)]
    pub(crate) deadlines: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Watched {
    /// The watchdog, with which the command must end
    #[arg(long)]
    pub(crate) parent: i32,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoWorker {
    #[arg(long)]
    pub(crate) parent: i32,
    #[arg(long)]
    pub(crate) logs: PathBuf,
    #[arg(long)]
    pub(crate) database: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompareWorker {
    #[arg(long)]
    pub(crate) receiver: std::net::SocketAddr,
}
