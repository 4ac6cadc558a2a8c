//! `tenure-lab compare --live`: compares real processes.
//!
//! The program `tenure` is started as a store and as candidates, with configuration files, directories and
//! sockets. The leader writes to a fenced receiver in this process every few milliseconds. All
//! figures come from the writes that arrive, not from reports of the candidates.

mod runner;

mod contestant;
mod network;
mod processes;
mod script;

mod receiver;
mod worker;

mod descendants;
mod history;
mod interrupt;
mod traffic_log;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tenure_lab::measure::{Measurement, RunResult};
use tenure_lab::report::{Report, Setting, Timeline};
use tenure_sim::scenario::{self, Scenario};

use super::names;
use super::report::Page;
use super::summary::Summary;
use super::table;
use crate::exit;
use crate::output;
use contestant::LiveContestant;
use descendants::adopt_orphans;
use interrupt::Interrupt;
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

/// A monotonic clock that all processes of this machine share.
fn now() -> Duration {
    // The system has this clock, or no program would run.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::MAX, Duration::from)
}

/// Strategies and scenarios to run with real processes.
#[derive(Debug)]
pub(super) struct LiveComparison {
    /// The program `tenure`.
    pub(super) tenure: PathBuf,
    pub(super) contestants: Vec<LiveContestant>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) candidates: u32,
    pub(super) runs: u32,
}

impl LiveComparison {
    /// Runs all strategies in all scenarios, and writes the page.
    pub(super) fn run(&self, page: Option<Page<'_>>) -> anyhow::Result<Vec<Measurement>> {
        adopt_orphans()?;
        let interrupt = Interrupt::handle()?;
        let mut ended = 0;
        let measured = self.run_all(&interrupt, &mut ended);
        // stderr may have no reader.
        let _ = writeln!(io::stderr(), "ended {ended} processes; none is left");
        let measured = measured?;
        let rows = measured.iter().map(|(row, _)| row.clone()).collect();
        if let Some(page) = page {
            let longest = self.contestants.iter().map(|it| it.lease_duration).max();
            let setting = Setting::Live {
                candidates: self.candidates,
                runs: self.runs,
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
        interrupt: &Interrupt,
        ended: &mut usize,
    ) -> anyhow::Result<Vec<(Measurement, Timeline)>> {
        let pairs = self.scenarios.iter().flat_map(|scenario| {
            let all = self.contestants.iter();
            let fit = all.filter(|it| !scenario.needs_store() || it.needs_store);
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
                let runner = LiveRunner::new(
                    contestant,
                    (&self.tenure, self.candidates),
                    interrupt,
                    ended,
                )?;
                runs.push(runner.run(scenario)?);
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
    pub(super) fn legend(&self, wide: bool) -> String {
        let mut text = format!(
            "{} candidates as real processes, {} each.\n{}\nProxies between the processes cut links, and \
             count requests and responses, and bytes with headers. Figures at rest are of 3 seconds without \
             faults. CPU AT REST: all processes without the leader's task, in percent of one processor. Times \
             of scenarios are in proportion to the lease:",
            self.candidates,
            output::counted(self.runs.into(), "run"),
            table::legend(wide),
        );
        for contestant in &self.contestants {
            let scale = script::scale(contestant.lease_duration);
            text += &format!(
                "\n  {}: lease {:?}, so {scale:.2} of the times above",
                contestant.name, contestant.lease_duration
            );
        }
        text
    }
}

/// The program `tenure` with this path, or the one beside this program.
pub(super) fn tenure(path: Option<&Path>) -> anyhow::Result<PathBuf> {
    let tenure = match path {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("tenure"),
    };
    if tenure.is_file() {
        // The processes run in another directory.
        return Ok(std::path::absolute(tenure)?);
    }
    Err(exit::bad_configuration(format!(
        "there is no program {}; build it (cargo build --release -p tenure-cli), or name one with --tenure PATH",
        tenure.display()
    )))
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
    let row = Measurement::of(&contestant.name, scenario.name, minutes, &ran);
    Measurement {
        live: true,
        messages_at_rest: mean(|it| it.at_rest.messages_per_minute),
        bytes_at_rest: mean(|it| it.at_rest.bytes_per_minute),
        cpu_at_rest: cpu.map(|sum| sum / count),
        durable_writes_per_election: None,
        durable_writes_per_minute: None,
        ..row.with_settings(&contestant.simulated)
    }
}
