//! The command line: global options and the list of commands. Each command declares its own
//! arguments.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use tenure_core::file_path;

use crate::commands::{
    access, audit, backup, break_lease, cluster, completions, config, context, dashboard, demo,
    doctor, handover, history, init, list, man, peers, restore, run, serve, status, token, watch,
};
use crate::exit;
use crate::logging::{self, LogFormat};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Leader election: one process of many does a job, and stops before another one may start
#[derive(Debug, Parser)]
#[command(name = "tenure", version, styles = STYLES, after_help = exit::HELP, subcommand_required = true)]
pub(crate) struct Cli {
    /// Format of log lines on stderr; TENURE_LOG sets their level (error, warn, info, debug)
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        display_order = 900,
        value_name = "FORMAT",
        env = logging::FORMAT
    )]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Run(Box<run::Run>),
    List(list::List),
    Status(status::Status),
    History(history::History),
    Watch(watch::Watch),
    Break(break_lease::Break),
    Handover(handover::Handover),
    Dashboard(dashboard::Dashboard),
    Peers(peers::Peers),
    Cluster(cluster::Cluster),
    Doctor(doctor::Doctor),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Init(init::Init),
    Token(token::Token),
    Access(access::Access),
    Audit(audit::Audit),
    Context(context::Context),
    Config(config::Config),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(flatten)]
    Internal(Internal),
}

/// Commands that no help lists: this program starts itself with them, or they have moved.
#[derive(Debug, Subcommand)]
pub(crate) enum Internal {
    #[command(hide = true)]
    Watchdog(run::Watchdog),
    #[command(hide = true)]
    SecondWatchdog(run::SecondWatchdog),
    #[command(hide = true)]
    Watched(run::Watched),
    #[command(hide = true)]
    DemoWorker(demo::DemoWorker),
    /// Moved to the program tenure-lab
    #[command(hide = true, disable_help_flag = true)]
    Compare {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
}

impl Cli {
    /// Reads the command line and the variables of its flags. Ends the process if they are wrong, and
    /// after `--help` and `--version`.
    pub(crate) fn read() -> Self {
        let mut command = with_rules(Self::command());
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let read = command.try_get_matches_from_mut(&arguments);
        let cli = read.and_then(|matches| Self::from_arg_matches(&matches));
        cli.unwrap_or_else(|error| {
            let error = error.format(&mut command);
            if error.use_stderr() && LogFormat::is_json(&arguments) {
                logging::print_failure(
                    LogFormat::Json,
                    error.to_string().trim_end(),
                    exit::BAD_CONFIGURATION,
                );
                logging::stop();
                std::process::exit(exit::BAD_CONFIGURATION.into());
            }
            error.exit()
        })
    }
}

/// Gives all arguments the rules of settings: a variable without a value is not set, and a path is no
/// URL and does not begin with `~`.
fn with_rules(command: clap::Command) -> clap::Command {
    let has_no_value = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|argument: Arg| {
        let argument = match argument.get_env() {
            Some(name) if has_no_value(name) => argument.env(None::<&'static str>),
            _ => argument,
        };
        if argument.get_value_parser().type_id() != TypeId::of::<PathBuf>() {
            return argument;
        }
        argument.value_parser(
            PathBufValueParser::new()
                .try_map(|path| file_path::check(&path.to_string_lossy()).map(|()| path)),
        )
    });
    command.mut_subcommands(with_rules)
}

impl Command {
    /// Whether the command reads settings that a user has put into the environment.
    pub(crate) const fn reads_settings(&self) -> bool {
        !matches!(
            self,
            Self::Completions(_) | Self::Man(_) | Self::Internal(_)
        )
    }

    /// The name of this service in traces; `None` for a command that has none.
    pub(crate) const fn service(&self) -> Option<&'static str> {
        match self {
            Self::Serve(_) => Some("tenure-store"),
            Self::Run(_) => Some("tenure-run"),
            _ => None,
        }
    }

    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(command) => command.run()?,
            Self::Run(command) => return command.run(),
            Self::List(command) => command.run()?,
            Self::Status(command) => command.run()?,
            Self::History(command) => command.run()?,
            Self::Watch(command) => command.run()?,
            Self::Break(command) => command.run()?,
            Self::Handover(command) => command.run()?,
            Self::Dashboard(command) => command.run()?,
            Self::Peers(command) => command.run()?,
            Self::Cluster(command) => command.run()?,
            Self::Doctor(command) => return command.run(),
            Self::Backup(command) => command.run()?,
            Self::Restore(command) => command.run()?,
            Self::Init(command) => command.run()?,
            Self::Token(command) => command.run()?,
            Self::Access(command) => command.run()?,
            Self::Audit(command) => command.run()?,
            Self::Context(command) => command.run()?,
            Self::Config(command) => command.run()?,
            Self::Demo(command) => return command.run(),
            Self::Completions(command) => command.run(&mut without_hidden(&Cli::command()))?,
            Self::Man(command) => command.run(Cli::command())?,
            Self::Internal(Internal::Watchdog(command)) => return command.run(),
            Self::Internal(Internal::SecondWatchdog(command)) => command.run()?,
            Self::Internal(Internal::Watched(command)) => command.run()?,
            Self::Internal(Internal::DemoWorker(command)) => command.run()?,
            Self::Internal(Internal::Compare { .. }) => {
                return Err(exit::bad_configuration(
                    "compare has moved to the program tenure-lab: in a checkout of tenure, run \
                     cargo run --release -p tenure-lab -- compare",
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The command without its hidden commands and flags, which completions would offer.
fn without_hidden(full: &clap::Command) -> clap::Command {
    let arguments = full
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    let subcommands = full
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let command = clap::Command::new(full.get_name().to_owned())
        .args(arguments.cloned())
        .subcommands(subcommands.map(without_hidden))
        .about(full.get_about().cloned().unwrap_or_default());
    match full.get_version() {
        Some(version) => command.version(version.to_owned()),
        None => command,
    }
}
