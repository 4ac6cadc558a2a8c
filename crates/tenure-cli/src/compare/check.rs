//! `tenure compare check`: looks for broken promises.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use tenure_lab::check::{self, Course, Ground};
use tenure_lab::fault::Planted;

use super::{bar, contestants};
use crate::cli::CompareCheck;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::output;

/// Who is checked if nobody is named.
const DEFAULT: &[&str] = &["lease", "bully", "bully-no-quorum"];

/// How many broken promises are told of each contestant.
const TOLD: usize = 5;

pub(super) fn check(arguments: &CompareCheck) -> Result<ExitCode, Failure> {
    if arguments.planted.as_deref() == Some("all") {
        return planted(arguments);
    }
    let planted = arguments.planted.as_deref().map(Planted::of_name);
    let planted = planted.transpose().map_err(wrong)?;
    let mut well = true;
    for ground in grounds(arguments)? {
        let ground = Ground { planted, ..ground };
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

fn grounds(arguments: &CompareCheck) -> Result<Vec<Ground>, Failure> {
    match arguments.course.as_deref() {
        Some("all") => return Ok(Course::ALL.iter().map(Ground::on).collect()),
        Some(name) => return Ok(vec![Ground::on(Course::of_name(name).map_err(wrong)?)]),
        None => {}
    }
    let contestants = match &arguments.contestant[..] {
        [] => contestants(DEFAULT)?,
        named => contestants(named)?,
    };
    let grounds = contestants.into_iter().map(|contestant| Ground {
        nodes: arguments.members,
        ..Ground::new(contestant)
    });
    Ok(grounds.collect())
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(BAD_CONFIGURATION, anyhow!(error))
}

fn search(arguments: &CompareCheck, ground: &Ground) -> Result<bool, Failure> {
    let seeds = arguments.seeds.clone();
    let bar = bar(seeds.end - seeds.start, "seeds");
    let begun = Instant::now();
    let report = check::all(ground, seeds, false, || bar.inc(1));
    bar.finish_and_clear();
    let name = ground.name();
    for found in report.found.iter().take(TOLD) {
        output::line(format!("{name}, seed {}: {}", found.seed, found.violation))?;
        output::line(format!("  {}", ground.command(found.seed)))?;
    }
    output::line(format!(
        "{name}: {} of {} seeds break a promise ({} virtual hours, {} terms, {} messages, in {:.1} s)",
        report.found.len(),
        report.seeds,
        report.seeds * ground.lasts.as_secs() / 3_600,
        report.terms,
        report.messages,
        begun.elapsed().as_secs_f64(),
    ))?;
    Ok(report.found.is_empty())
}

fn trace(arguments: &CompareCheck, ground: &Ground) -> Result<bool, Failure> {
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

/// Every mistake that can be made on purpose, each on the ground that it needs.
fn planted(arguments: &CompareCheck) -> Result<ExitCode, Failure> {
    let all = check::plants().map_err(wrong)?;
    let bar = bar(all.len() as u64, "mistakes");
    let mut caught = 0;
    for ground in &all {
        let report = check::all(ground, arguments.seeds.clone(), true, || {});
        caught += usize::from(!report.found.is_empty());
        let told = ground.told(&report);
        bar.suspend(|| output::line(told))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::line(format!("planted faults caught: {caught} of {}", all.len()))?;
    Ok(if caught == all.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
