//! `tenure compare`: ways to elect a leader, side by side in simulated time or as real processes.

mod check;
mod live;
mod outlook;
mod papers;
mod report;
mod settings;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use tenure_lab::contestant::{Algorithm, Contestant};
use tenure_lab::measure::{self, Comparison, NODES};
use tenure_lab::scenario::{self, Scenario};

use crate::cli::{Compare, CompareWhat};
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::output;

pub(crate) use live::worker;
use outlook::Outlook;

/// Who is compared if nobody is named.
const DEFAULT: &[&str] = &[
    "lease",
    "bully",
    "bully-no-quorum",
    "published",
    "garcia-molina",
    "textbook",
    "chang-roberts",
];

pub(crate) fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    match &arguments.what {
        Some(CompareWhat::Check(arguments)) => check::check(arguments),
        Some(CompareWhat::Papers(arguments)) => papers::papers(arguments),
        None if arguments.list => list(),
        None if arguments.live => live::compare(arguments),
        None => run(arguments),
    }
}

fn run(arguments: &Compare) -> Result<ExitCode, Failure> {
    let named_none = arguments.contestant.is_empty() && arguments.config.is_empty();
    let mut contestants = match &arguments.contestant[..] {
        [] if named_none => contestants(DEFAULT)?,
        named => contestants(named)?,
    };
    let mine = settings::contestants(&arguments.config)?;
    contestants.extend(mine.iter().map(|(contestant, _)| contestant.clone()));
    let scenarios = match &arguments.scenario[..] {
        [] => scenario::ALL.to_vec(),
        named => {
            let named = named.iter().map(|name| Scenario::of_name(name));
            named.collect::<Result<_, _>>().map_err(unknown)?
        }
    };
    let comparison = Comparison {
        contestants,
        scenarios,
        seeds: arguments.seeds.clone(),
    };
    let page = arguments.report.as_deref().map(report::Page::new);
    let page = page.transpose()?;
    let bar = bar(comparison.runs(), "runs");
    let rows = measure::compare(&comparison, || bar.inc(1));
    bar.finish_and_clear();
    if let Some(page) = page {
        page.write_simulated(&comparison, &rows)?;
    }
    if arguments.json {
        output::json(&rows)?;
    } else if arguments.csv {
        table::csv(&rows)?;
    } else {
        table::print(&rows, &comparison.scenarios)?;
        table::legend(NODES, &comparison.seeds)?;
        let outlooks: Vec<&Outlook> = mine.iter().map(|(_, outlook)| outlook).collect();
        outlook::summary(&outlooks, &rows, NODES)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode, Failure> {
    let mut table = output::table(&["CONTESTANT", "WHAT IT IS"]);
    for way in Algorithm::all() {
        table.add_row([way.name(), about(way)]);
    }
    output::print_table(&table)?;
    output::line("")?;
    let mut table = output::table(&["SCENARIO", "WHAT HAPPENS", "LIVE"]);
    for scenario in scenario::ALL {
        let live = if live::can_play(scenario) { "yes" } else { "" };
        table.add_row([scenario.name, scenario.about, live]);
    }
    output::print_table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn about(way: Algorithm) -> String {
    match way {
        Algorithm::Lease => "a lease in a store".into(),
        Algorithm::Bully { detector, quorum } => {
            let guard = if quorum { "with" } else { "without" };
            format!("peers {guard} a quorum, failure detector: {detector}")
        }
        Algorithm::Joint { quorum, .. } => {
            let guard = if quorum { "with" } else { "without" };
            format!("a lease in a store, and peers {guard} a quorum")
        }
        Algorithm::Published => "Bully_FD as it was published".into(),
        Algorithm::Classic => "the Bully algorithm of Garcia-Molina".into(),
        Algorithm::Textbook => "the Bully algorithm of textbooks".into(),
        Algorithm::Ring => "the ring of Chang and Roberts".into(),
    }
}

fn contestants(names: &[impl AsRef<str>]) -> Result<Vec<Contestant>, Failure> {
    let named = names.iter().map(|name| Contestant::of_name(name.as_ref()));
    named.collect::<Result<_, _>>().map_err(unknown)
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(
        BAD_CONFIGURATION,
        anyhow!(error).context("\"tenure compare --list\" lists them"),
    )
}

/// A bar on stderr, where that is a terminal.
fn bar(length: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
