//! `tenure compare check`: looks for broken promises.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use tenure_lab::check::{self, CheckCase, FaultScript};
use tenure_lab::fault::Mutation;

use super::{bar, contestants};
use crate::cli::CompareCheck;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::output;

/// Who is checked if nobody is named.
const DEFAULT: &[&str] = &["lease", "bully", "bully-no-quorum"];

/// How many broken promises are told of each contestant.
const TOLD: usize = 5;

pub(super) fn check(arguments: &CompareCheck) -> Result<ExitCode, Failure> {
    if arguments.mutation.as_deref() == Some("all") {
        return mutations(arguments);
    }
    let mutation = arguments.mutation.as_deref().map(Mutation::of_name);
    let mutation = mutation.transpose().map_err(wrong)?;
    let mut well = true;
    for ground in grounds(arguments)? {
        let ground = CheckCase { mutation, ..ground };
        well &= if arguments.trace {
            trace(arguments, &ground)?
        } else {
            search(arguments, &ground)?
        };
    }
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn grounds(arguments: &CompareCheck) -> Result<Vec<CheckCase>, Failure> {
    match arguments.script.as_deref() {
        Some("all") => return Ok(FaultScript::ALL.iter().map(CheckCase::on).collect()),
        Some(name) => {
            return Ok(vec![CheckCase::on(
                FaultScript::of_name(name).map_err(wrong)?,
            )]);
        }
        None => {}
    }
    let contestants = match &arguments.contestant[..] {
        [] => contestants(DEFAULT)?,
        named => contestants(named)?,
    };
    let grounds = contestants.into_iter().map(|contestant| CheckCase {
        nodes: arguments.members,
        ..CheckCase::new(contestant)
    });
    Ok(grounds.collect())
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(BAD_CONFIGURATION, anyhow!(error))
}

fn search(arguments: &CompareCheck, ground: &CheckCase) -> Result<bool, Failure> {
    let seeds = arguments.seeds.clone();
    let bar = bar(seeds.end - seeds.start, "seeds");
    let begun = Instant::now();
    let report = check::run_seeds(ground, seeds, false, || bar.inc(1));
    bar.finish_and_clear();
    let name = ground.name();
    for found in report.findings.iter().take(TOLD) {
        output::line(format!("{name}, seed {}: {}", found.seed, found.violation))?;
        output::line(format!("  {}", ground.command(found.seed)))?;
    }
    output::line(format!(
        "{name}: {} of {} seeds break a promise ({} virtual hours, {} terms, {} messages, in {:.1} s)",
        report.findings.len(),
        report.seeds,
        report.seeds * ground.lasts.as_secs() / 3_600,
        report.terms,
        report.messages,
        begun.elapsed().as_secs_f64(),
    ))?;
    Ok(report.findings.is_empty())
}

fn trace(arguments: &CompareCheck, ground: &CheckCase) -> Result<bool, Failure> {
    let (lines, violation) = check::trace(ground, arguments.seeds.start);
    for line in lines {
        if !output::try_line(line)? {
            return Ok(true);
        }
    }
    match &violation {
        Some(violation) => output::line(format!("BROKEN: {violation}"))?,
        None => output::line("no promise is broken")?,
    }
    Ok(violation.is_none())
}

/// Checks that each mutation is caught.
fn mutations(arguments: &CompareCheck) -> Result<ExitCode, Failure> {
    let all = check::mutations().map_err(wrong)?;
    let bar = bar(all.len() as u64, "mutations");
    let mut caught = 0;
    for ground in &all {
        let report = check::run_seeds(ground, arguments.seeds.clone(), true, || {});
        caught += usize::from(!report.findings.is_empty());
        let told = ground.describe(&report);
        bar.suspend(|| output::line(told))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::line(format!("mutations caught: {caught} of {}", all.len()))?;
    Ok(if caught == all.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
