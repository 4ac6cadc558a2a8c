//! `tenure-lab compare`: compares election strategies, in simulated time or as real processes.

mod check;
mod churn;
mod links;
mod live;
mod papers;
mod timing;

mod settings;
mod summary;

mod report;
mod table;

mod names;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure_lab::measure::{self, Comparison, Measurement, NODES};
use tenure_sim::contestant::Algorithm;
use tenure_sim::scenario::{self, Scenario};

use crate::output;
use summary::Summary;

pub(crate) use live::CompareWorker;

/// Compare election strategies, in simulated time or live
///
/// Runs each strategy through each scenario in virtual time, and prints how long there was no
/// leader, whether two leaders overlapped, and how many messages it took. No process is started and
/// no network is used. The same seeds give the same figures on every machine.
///
/// With "--live" it starts a store and candidates as processes, in a temporary directory, and
/// kills, freezes, stops and cuts them off. All of them have ended when this command ends.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Compare {
    #[command(subcommand)]
    command: Option<Command>,
    /// Compare only this strategy; may be repeated [default: lease, bully and classic algorithms]
    #[arg(long, value_name = "NAME")]
    contestant: Vec<String>,
    /// Run only this scenario; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Also compare the strategy of this configuration file of a candidate; may be repeated
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Seeds; each seed is one run of each strategy in each scenario
    #[arg(long, value_name = "FROM..TO", default_value = "0..20", value_parser = names::parse_seeds)]
    seeds: Range<u64>,
    /// Give each named strategy this detection time, and its other timings in proportion [default:
    /// the library's defaults, which differ]
    #[arg(long, value_name = "SECONDS", conflicts_with = "live", value_parser = clap::value_parser!(u64).range(1..=3600))]
    detection_time: Option<u64>,
    /// Print all columns of the tables
    #[arg(long)]
    wide: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also write a page with plots: one HTML file without external resources
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// List the strategies and the scenarios, and exit
    #[arg(long)]
    list: bool,
    /// Run real processes on this machine, in real time [default: lease, bully and bully-no-quorum,
    /// in kill-leader, stop-leader, freeze-leader, restart-loop and cut-leader]
    #[arg(long, conflicts_with = "seeds")]
    live: bool,
    /// With --live: number of candidates
    #[arg(long, requires = "live", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=9))]
    candidates: u32,
    /// With --live: runs of each strategy in each scenario
    #[arg(long, requires = "live", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// With --live: the program tenure [default: the one beside this program]
    #[arg(long, requires = "live", value_name = "PATH")]
    tenure: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
    Churn(churn::Churn),
    Links(Box<links::Links>),
    Papers(papers::Papers),
    Timing(timing::Timing),
}

/// The default strategies of a simulated comparison.
const DEFAULT: &[&str] = &[
    "lease",
    "bully",
    "bully-no-quorum",
    "published",
    "garcia-molina",
    "textbook",
    "chang-roberts",
];

impl Compare {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Some(Command::Check(command)) => return command.run(),
            Some(Command::Churn(command)) => command.run()?,
            Some(Command::Links(command)) => command.run()?,
            Some(Command::Papers(command)) => command.run()?,
            Some(Command::Timing(command)) => command.run()?,
            None if self.list => list()?,
            None if self.live => self.run_live()?,
            None => self.simulate()?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> anyhow::Result<()> {
        let names = names::or_default(&self.contestant, !self.config.is_empty(), DEFAULT);
        let mut contestants = names::contestants(&names)?;
        if let Some(secs) = self.detection_time {
            let time = Duration::from_secs(secs);
            let timed = contestants.into_iter();
            contestants = timed.map(|it| it.with_detection_time(time)).collect();
        }
        let (of_files, summaries): (Vec<_>, Vec<Summary>) =
            settings::contestants(&self.config)?.into_iter().unzip();
        contestants.extend(of_files);
        let scenarios = match &self.scenario[..] {
            [] => scenario::ALL
                .iter()
                .filter(|it| !it.only_by_name)
                .copied()
                .collect(),
            named => names::scenarios(named)?,
        };
        names::check_members(&contestants, NODES)?;
        let comparison = Comparison {
            contestants,
            scenarios,
            seeds: self.seeds.clone(),
        };
        let page = self.report.as_deref().map(report::Page::new).transpose()?;
        let bar = output::progress_bar(comparison.runs(), "runs");
        let rows = measure::compare(&comparison, || bar.inc(1));
        bar.finish_and_clear();
        if let Some(page) = page {
            page.write_simulated(&comparison, &rows)?;
        }
        let legend = format!(
            "{NODES} members, or candidates and a store; seeds {}..{}, 3 virtual minutes each unless the scenario is \
             longer. --detection-time gives all the same one, and \"tenure-lab compare timing\" several.\n{}",
            self.seeds.start,
            self.seeds.end,
            table::legend(self.wide),
        );
        let scenarios = &comparison.scenarios;
        self.print(&rows, scenarios, &legend, summaries.iter(), NODES)
    }

    fn run_live(&self) -> anyhow::Result<()> {
        let contestants = live::contestants(&self.contestant, &self.config)?;
        let scenarios = live::scenarios(&self.scenario, self.candidates)?;
        let page = self.report.as_deref().map(report::Page::new).transpose()?;
        let comparison = live::LiveComparison {
            tenure: live::tenure(self.tenure.as_deref())?,
            contestants,
            scenarios,
            candidates: self.candidates,
            runs: self.runs,
        };
        let rows = comparison.run(page)?;
        let legend = comparison.legend(self.wide);
        let (scenarios, summaries) = (&comparison.scenarios, comparison.summaries());
        self.print(&rows, scenarios, &legend, summaries, self.candidates)
    }

    fn print<'a>(
        &self,
        rows: &[Measurement],
        scenarios: &[Scenario],
        legend: &str,
        summaries: impl Iterator<Item = &'a Summary>,
        candidates: u32,
    ) -> anyhow::Result<()> {
        if self.json {
            return output::json(&rows);
        }
        if self.csv {
            return output::csv(table::CSV_COLUMNS, rows);
        }
        table::print(rows, scenarios, self.wide)?;
        output::line(output::wrapped_lines(legend))?;
        output::line("\nIn one sentence each:")?;
        for verdict in measure::verdicts(rows) {
            output::line(output::wrapped(&verdict, "", "  "))?;
        }
        for gain in measure::gain_of_fallback(rows)
            .iter()
            .flat_map(|it| it.lines())
        {
            output::line(output::wrapped(gain, "", "  "))?;
        }
        Ok(summary::print(summaries, rows, candidates)?)
    }
}

fn list() -> anyhow::Result<()> {
    let contestants = tenure_lab::algorithms().into_iter();
    let contestants = contestants.map(|way| [way.name(), about(way)]);
    output::print_table_of_sentences(["CONTESTANT", "ALGORITHM"], contestants.collect())?;
    output::line("")?;
    let scenarios = scenario::ALL.iter().map(|scenario| {
        let live = if live::is_live(scenario) { "yes" } else { "" };
        [scenario.name, live, scenario.about].map(str::to_owned)
    });
    output::print_table_of_sentences(["SCENARIO", "LIVE", "FAULTS"], scenarios.collect())
}

fn about(way: Algorithm) -> String {
    let with = |quorum| if quorum { "with" } else { "without" };
    match way {
        Algorithm::Lease => "a lease in a store".into(),
        Algorithm::Cluster => "a lease in a store of three servers over a shared log".into(),
        Algorithm::Bully { detector, quorum } => {
            format!(
                "peers {} a quorum, failure detector: {detector}",
                with(quorum)
            )
        }
        Algorithm::Joint { quorum, .. } => {
            format!("a lease in a store, and peers {} a quorum", with(quorum))
        }
        Algorithm::Fallback {
            k, without_store, ..
        } => {
            let k = k.map_or_else(|| "k".into(), |k| k.to_string());
            let rule = if without_store {
                "or more members without it"
            } else {
                "and never without it"
            };
            format!("the lease of a store and {k} members, {rule}")
        }
        Algorithm::Other(other) => other.about().into(),
    }
}
