//! `tenure compare --live`: compares real processes.
//!
//! This program is started as a store and as candidates, with configuration files, directories and
//! sockets. The leader writes to a fenced receiver in this process every few milliseconds. All
//! figures come from the writes that arrive, not from what candidates report about themselves.

mod runner;

mod contestant;
mod process_set;
mod script;

mod receiver;
mod worker;

mod cpu_time;
mod figures;
mod timeline;
mod traffic_log;

use std::fmt::Write;
use std::time::Duration;

use anyhow::anyhow;
use tenure_lab::measure::{Measurement, RunResult};
use tenure_lab::report::{Report, Setting, Timeline};
use tenure_lab::scenario::{self, Scenario};

use super::names;
use super::report::Page;
use super::summary::Summary;
use super::table::Columns;
use crate::exit::{self, BAD_CONFIGURATION};
use crate::output;
use crate::processes::{Interrupt, NetworkKind, SecondSignal, adopt_orphans};
use contestant::LiveContestant;
use process_set::Ended;
use runner::{LiveRun, LiveRunner};

pub(super) use contestant::contestants;
pub(super) use script::is_live;
pub(crate) use worker::CompareWorker;

/// The default scenarios.
const DEFAULT: &[&str] = &[
    "kill-leader",
    "stop-leader",
    "freeze-leader",
    "restart-loop",
    "cut-leader",
];

/// Strategies and scenarios to run with real processes.
#[derive(Debug)]
pub(super) struct LiveComparison {
    pub(super) contestants: Vec<LiveContestant>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) candidates: u32,
    pub(super) runs: u32,
    pub(super) network: NetworkKind,
}

impl LiveComparison {
    /// Runs all, and writes the page.
    pub(super) fn run(&self, page: Option<Page<'_>>) -> anyhow::Result<Vec<Measurement>> {
        adopt_orphans()?;
        let runner = LiveRunner {
            candidates: self.candidates,
            network: self.network,
            interrupt: Interrupt::handle(SecondSignal::Ignored)?,
        };
        let mut ended = Ended::default();
        let measured = self.run_all(&runner, &mut ended);
        print_stderr(ended);
        let measured = measured?;
        let rows = measured.iter().map(|(row, _)| row.clone()).collect();
        if let Some(page) = page {
            let longest = self.contestants.iter().map(|it| it.lease_duration).max();
            let setting = Setting::Live {
                candidates: self.candidates,
                runs: self.runs,
                proxies: self.network == NetworkKind::Proxy,
                scale: script::scale(longest.unwrap_or_default()),
            };
            let names = self.contestants.iter().map(|it| it.name.clone()).collect();
            page.write(&Report::live(
                names,
                self.scenarios.clone(),
                setting,
                measured,
            ))?;
        }
        Ok(rows)
    }

    fn run_all(
        &self,
        runner: &LiveRunner,
        ended: &mut Ended,
    ) -> anyhow::Result<Vec<(Measurement, Timeline)>> {
        let pairs = self.scenarios.iter().flat_map(|scenario| {
            let all = self.contestants.iter();
            let fit = all.filter(|it| !scenario.store || it.needs_store);
            fit.map(move |contestant| (contestant, scenario))
        });
        let pairs: Vec<_> = pairs.collect();
        let total = pairs.len() as u64 * u64::from(self.runs);
        let bar = output::progress_bar(total, "live runs");
        let mut rows = Vec::new();
        for (contestant, scenario) in pairs {
            let mut runs = Vec::new();
            for _ in 0..self.runs {
                bar.set_message(format!("{} in {}", contestant.name, scenario.name));
                runs.push(runner.run(contestant, scenario, ended)?);
                bar.inc(1);
            }
            let row = row(contestant, scenario, &runs);
            let first = runs.into_iter().next();
            rows.push((row, first.map(|it| it.timeline).unwrap_or_default()));
        }
        bar.finish_and_clear();
        Ok(rows)
    }

    /// The summaries of users' own settings.
    pub(super) fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.contestants.iter().filter_map(|it| it.summary.as_ref())
    }

    /// The meaning of the figures.
    pub(super) fn legend(&self, columns: &Columns) -> String {
        let counted = match self.network {
            NetworkKind::Proxy => {
                "Proxies between the processes cut links, and count requests and responses, and bytes with headers."
            }
            NetworkKind::Namespaces => {
                "Each process is in a network namespace. A switch between them drops packets, and counts the packets\n\
                 that end a write, and the bytes of all packets."
            }
        };
        let mut text = format!(
            "{} candidates as real processes, {} run(s) each.\n{}\n{counted} Figures at rest are of 3 quiet \
             seconds.\nCPU AT REST: all processes without the leader's task, in percent of one processor. Times of \
             scenarios are\nin proportion to the lease:",
            self.candidates,
            self.runs,
            columns.legend(),
        );
        for contestant in &self.contestants {
            let scale = script::scale(contestant.lease_duration);
            // A write to a string does not fail.
            let _ = write!(
                text,
                "\n  {}: lease {:?}, so {scale:.2} of the times above",
                contestant.name, contestant.lease_duration
            );
        }
        text
    }
}

/// Prints a line on stderr, if there is a reader.
fn print_stderr(text: impl std::fmt::Display) {
    let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("{text}\n"));
}

/// The network that the user chooses; the default is namespaces if this machine has them and they
/// are enough for the scenarios.
pub(super) fn choose_network(
    asked: Option<NetworkKind>,
    scenarios: &[Scenario],
) -> anyhow::Result<NetworkKind> {
    if asked == Some(NetworkKind::Proxy) {
        return Ok(NetworkKind::Proxy);
    }
    let needs_proxies = scenarios.iter().find(|it| script::needs_proxies(it));
    let available = match needs_proxies {
        Some(scenario) => Err(anyhow!(
            "{:?} has slow or lossy links, which only proxies can make",
            scenario.name
        )),
        None => NetworkKind::Namespaces.check_available(),
    };
    match available {
        Ok(()) => Ok(NetworkKind::Namespaces),
        Err(error) if asked.is_some() => {
            let error = error.context("--network namespaces is not available");
            Err(exit::error(BAD_CONFIGURATION, error))
        }
        Err(error) => {
            print_stderr(format_args!(
                "using proxies, because network namespaces are not available: {error:#}"
            ));
            Ok(NetworkKind::Proxy)
        }
    }
}

/// The scenarios with these names, or the default.
pub(super) fn scenarios(names: &[String], candidates: u32) -> anyhow::Result<Vec<Scenario>> {
    let scenarios = names::scenarios(&names::or_default(names, false, DEFAULT))?;
    for scenario in &scenarios {
        let name = scenario.name;
        if !is_live(scenario) {
            let live = scenario::ALL.iter().filter(|it| is_live(it));
            let live: Vec<&str> = live.map(|it| it.name).collect();
            return Err(exit::bad_configuration(format!(
                "scenario {name:?} can only be simulated; the live scenarios are {}",
                live.join(", ")
            )));
        }
        let least = script::least_candidates(scenario);
        if candidates < least {
            return Err(exit::bad_configuration(format!(
                "scenario {name:?} removes two candidates, and {candidates} are too few for that; use \
                 --candidates {least} or more"
            )));
        }
    }
    Ok(scenarios)
}

fn row(contestant: &LiveContestant, scenario: &Scenario, runs: &[LiveRun]) -> Measurement {
    let count = runs.len().max(1) as f64;
    let took: Duration = runs.iter().map(|it| it.took).sum();
    let minutes = took.as_secs_f64() / 60.0 / count;
    let ran: Vec<RunResult> = runs.iter().map(|it| it.ran.clone()).collect();
    let cpu: Option<f64> = runs.iter().map(|it| it.at_rest.cpu_percent).sum();
    let mean = |of: fn(&LiveRun) -> f64| runs.iter().map(of).sum::<f64>() / count;
    Measurement {
        live: true,
        messages_at_rest: mean(|it| it.at_rest.messages_per_minute),
        bytes_at_rest: mean(|it| it.at_rest.bytes_per_minute),
        cpu_at_rest: cpu.map(|sum| sum / count),
        ..Measurement::of(&contestant.name, scenario.name, minutes, &ran)
    }
}
