//! A user's own settings as contestants.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tenure::Config;
use tenure::config::Strategy;
use tenure_lab::bully::{Guarantee, TimingsOptions};
use tenure_lab::contestant::{Contestant, DetectorKind, Way};
use tenure_lab::detector::DetectBy;
use tenure_lab::measure::Row;

use crate::exit::Failure;
use crate::output;

/// One contestant for each file, with the file's name.
pub(super) fn contestants(files: &[PathBuf]) -> Result<Vec<Contestant>, Failure> {
    let read = |file: &PathBuf| {
        let config = Config::load(file)?;
        Ok(of_config(file.display().to_string(), &config)?)
    };
    files.iter().map(read).collect()
}

fn of_config(name: String, config: &Config) -> anyhow::Result<Contestant> {
    let term = *config.timings();
    let Strategy::Bully(bully) = config.strategy() else {
        let lease = Contestant::new(Way::Lease);
        return Ok(Contestant {
            name,
            term,
            ..lease
        });
    };
    let rules = bully.rules(&term)?;
    let detection = bully.detection(&rules)?;
    let way = Way::Bully {
        detector: match detection.by() {
            DetectBy::Pull => DetectorKind::Pull,
            _ => DetectorKind::PushChen,
        },
        quorum: rules.guarantee() == Guarantee::Quorum,
    };
    let timings = rules.timings();
    Ok(Contestant {
        name,
        way,
        term,
        peers: TimingsOptions {
            message_lifetime: Some(timings.message_lifetime()),
            hold_down: Some(timings.hold_down()),
        },
        preempt: rules.preempt(),
        ..Contestant::new(way)
    })
}

/// What the settings come to, in a sentence each.
pub(super) fn summary(mine: &[Contestant], rows: &[Row]) -> io::Result<()> {
    for contestant in mine {
        let of = |scenario: &str| {
            let mut rows = rows.iter();
            rows.find(|row| row.contestant == contestant.name && row.scenario == scenario)
        };
        let secs = |secs: f64| format!("{:?}", Duration::from_millis((secs * 1_000.0) as u64));
        let mut says = Vec::new();
        if let Some(row) = of("kill-leader") {
            let (median, max) = (row.without_leader.median, row.without_leader.max);
            says.push(format!(
                "when the leader is killed, nobody leads for {} as a rule and {} at worst",
                secs(median),
                secs(max)
            ));
        }
        if let Some(row) = of("stop-leader") {
            let max = row.without_leader.max;
            says.push(format!(
                "when it is stopped in order, for at most {}",
                secs(max)
            ));
        }
        let twos = rows.iter().filter(|row| row.contestant == contestant.name);
        let twos = twos.filter(|row| row.runs_with_two > 0);
        let twos: Vec<&str> = twos.map(|row| row.scenario.as_str()).collect();
        says.push(if twos.is_empty() {
            "two never acted at once".into()
        } else {
            format!("two acted at once in: {}", twos.join(", "))
        });
        output::line(format!("\n{}: {}.", contestant.name, says.join("; ")))?;
    }
    Ok(())
}
