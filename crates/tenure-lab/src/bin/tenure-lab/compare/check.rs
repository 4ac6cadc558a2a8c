//! `tenure-lab compare check`: searches for violated invariants.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use tenure_sim::check::{self, CheckCase, FaultScript};

use super::names;
use crate::exit::{self, BAD_CONFIGURATION};
use crate::output;

/// Search for violated invariants in many runs with random faults
///
/// Each run is ten virtual minutes with crashes, frozen processes, partitions, late and duplicate
/// messages, slow disks and wrong clocks. A violation is printed with the command that replays it.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Strategy to check; may be repeated [default: lease, bully, bully-no-quorum]
    #[arg(long, value_name = "NAME")]
    contestant: Vec<String>,
    /// Seeds; each seed is one run
    #[arg(long, value_name = "FROM..TO", default_value = "0..2000", value_parser = names::parse_seeds)]
    seeds: Range<u64>,
    /// Number of members, or of candidates of a store
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    members: u32,
    /// Run this fault script, varied by the seed, instead of random faults; "all" runs each. Without
    /// --contestant with the strategy for which it was written
    #[arg(long, value_name = "NAME", conflicts_with = "members")]
    script: Option<String>,
    /// Random faults of the store and of the members, with times in which nothing changes: a
    /// connected quorum must then elect a leader within the bound that the library prints
    #[arg(long, conflicts_with = "script")]
    storm: bool,
    /// Print every event; for one seed and one strategy
    #[arg(long)]
    trace: bool,
    /// Stop at the first violation
    #[arg(long)]
    first: bool,
}

/// The default strategies.
const DEFAULT: &[&str] = &["lease", "bully", "bully-no-quorum"];

/// How many violations of each strategy are printed.
const PRINTED: usize = 5;

impl Check {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut passed = true;
        for case in self.cases()? {
            passed &= if self.trace {
                self.trace(&case)?
            } else {
                self.search(&case)?
            };
        }
        Ok(ExitCode::from(u8::from(!passed)))
    }

    fn cases(&self) -> anyhow::Result<Vec<CheckCase>> {
        if let Some(name) = &self.script {
            return self.on_script(name);
        }
        let contestants = names::contestants(&names::or_default(&self.contestant, false, DEFAULT))?;
        names::check_members(&contestants, self.members)?;
        let cases = contestants.into_iter().map(|contestant| CheckCase {
            nodes: self.members,
            storm: self.storm,
            ..CheckCase::new(contestant)
        });
        Ok(cases.collect())
    }

    fn on_script(&self, name: &str) -> anyhow::Result<Vec<CheckCase>> {
        let scripts = match name {
            "all" => FaultScript::ALL.iter().collect(),
            name => vec![FaultScript::of_name(name).map_err(bad_configuration)?],
        };
        if self.contestant.is_empty() {
            return Ok(scripts.into_iter().map(CheckCase::on).collect());
        }
        let contestants = names::contestants(&self.contestant)?;
        let cases = scripts.into_iter().flat_map(|script| {
            let all = contestants.iter().cloned();
            all.map(move |contestant| CheckCase::on_another(script, contestant))
        });
        Ok(cases.collect())
    }

    fn search(&self, case: &CheckCase) -> anyhow::Result<bool> {
        let seeds = self.seeds.clone();
        let bar = output::progress_bar(seeds.end - seeds.start, "seeds");
        let begun = Instant::now();
        let report = check::run_seeds(case, seeds, self.first, || bar.inc(1));
        bar.finish_and_clear();
        let name = case.name();
        for found in report.findings.iter().take(PRINTED) {
            let found_in = format!("{name}, seed {}: {}", found.seed, found.violation);
            output::line(output::wrapped(&found_in, "", "  "))?;
            output::line(format!("  {}", case.command(found.seed)))?;
        }
        let searched = format!(
            "{name}: {} in {} ({}, {}, {}, in {:.1} s)",
            output::counted(report.findings.len() as u64, "violation"),
            output::counted(report.seeds, "seed"),
            output::counted(report.seeds * case.lasts.as_secs() / 3_600, "virtual hour"),
            output::counted(report.terms, "term"),
            output::counted(report.messages, "message"),
            begun.elapsed().as_secs_f64(),
        );
        output::line(output::wrapped(&searched, "", "  "))?;
        Ok(report.findings.is_empty())
    }

    fn trace(&self, case: &CheckCase) -> anyhow::Result<bool> {
        let (lines, violation) = check::trace(case, self.seeds.start);
        for line in lines {
            output::line(line)?;
        }
        match &violation {
            Some(violation) => output::line(format!("VIOLATED: {violation}"))?,
            None => output::line("no invariant is violated")?,
        }
        Ok(violation.is_none())
    }
}

fn bad_configuration(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    exit::error(BAD_CONFIGURATION, anyhow!(error))
}
