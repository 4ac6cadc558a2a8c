//! `tenure compare check`: looks for broken promises.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use tenure_lab::check::{self, Ground};
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
    let contestants = match &arguments.contestant[..] {
        [] => contestants(DEFAULT)?,
        named => contestants(named)?,
    };
    if arguments.planted.as_deref() == Some("all") {
        return planted(arguments);
    }
    let planted = match &arguments.planted {
        Some(name) => Some(
            Planted::of_name(name)
                .map_err(|error| Failure::new(BAD_CONFIGURATION, anyhow!(error)))?,
        ),
        None => None,
    };
    let grounds = contestants.into_iter().map(|contestant| Ground {
        planted,
        ..Ground::new(contestant)
    });
    let mut well = true;
    for ground in grounds {
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

fn search(arguments: &CompareCheck, ground: &Ground) -> Result<bool, Failure> {
    let seeds = arguments.seeds.clone();
    let bar = bar(seeds.end - seeds.start, "seeds");
    let begun = Instant::now();
    let report = check::all(ground, seeds, false, || bar.inc(1));
    bar.finish_and_clear();
    let name = &ground.contestant.name;
    let planted = match ground.planted {
        Some(planted) => format!(" --planted {planted}"),
        None => String::new(),
    };
    for found in report.found.iter().take(TOLD) {
        let (seed, next) = (found.seed, found.seed + 1);
        output::line(format!("{name}, seed {seed}: {}", found.violation))?;
        output::line(format!(
            "  tenure compare check --seeds {seed}..{next} --contestant {name}{planted} --trace"
        ))?;
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

/// Every mistake that can be made on purpose, each with the contestant that it concerns.
fn planted(arguments: &CompareCheck) -> Result<ExitCode, Failure> {
    let all = check::plants();
    let bar = bar(all.len() as u64, "mistakes");
    let mut caught = 0;
    for ground in &all {
        let report = check::all(ground, arguments.seeds.clone(), true, || {});
        let name = &ground.contestant.name;
        let planted = ground.planted.map(Planted::name).unwrap_or_default();
        let line = match report.found.first() {
            Some(found) => {
                caught += 1;
                format!(
                    "{planted} ({name}): caught at seed {}: {}",
                    found.seed, found.violation
                )
            }
            None => format!("{planted} ({name}): NOT caught by {} seeds", report.seeds),
        };
        bar.suspend(|| output::line(line))?;
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
