//! A user's own settings as contestants.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use tenure::Config;
use tenure::config::Strategy;
use tenure_lab::bully::{Guarantee, TimingsOptions};
use tenure_lab::contestant::{Contestant, DetectorKind, Way};
use tenure_lab::measure::{NODES, Row};

use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::output;

/// A contestant that is set as one file says.
pub(super) struct Mine {
    pub(super) contestant: Contestant,
    /// The longest time without a leader that these settings allow after a crash.
    bound: Duration,
    /// How many members its file names, if it names any.
    members: Option<usize>,
}

/// One for each file, with the file's name.
pub(super) fn contestants(files: &[PathBuf]) -> Result<Vec<Mine>, Failure> {
    let read = |file: &PathBuf| of_config(file, &Config::load(file)?);
    files.iter().map(read).collect()
}

fn of_config(file: &Path, config: &Config) -> Result<Mine, Failure> {
    let (name, term) = (file.display().to_string(), *config.timings());
    let bully = match config.strategy() {
        Strategy::Lease => {
            let lease = Contestant::new(Way::Lease);
            return Ok(Mine {
                bound: term.worst_without_leader(),
                members: None,
                contestant: Contestant {
                    name,
                    term,
                    ..lease
                },
            });
        }
        Strategy::Bully(bully) => bully,
        other => {
            let strategy = other.name();
            let why = match other {
                Strategy::Static => "it elects nobody",
                Strategy::AzureBlob(_) => {
                    "the simulated store is a lease store; compare \"lease\" with these timings"
                }
                _ => {
                    "in the simulation a candidate is elected in one way; compare its halves, \"lease\" and \
                      \"bully\""
                }
            };
            return Err(Failure::new(
                BAD_CONFIGURATION,
                anyhow!("{name}: strategy = {strategy:?} can't be compared: {why}"),
            ));
        }
    };
    let rules = bully.rules(&term).map_err(anyhow::Error::from)?;
    let detection = bully.detection(&rules).map_err(anyhow::Error::from)?;
    let way = Way::Bully {
        detector: DetectorKind::Of(detection.by()),
        quorum: rules.guarantee() == Guarantee::Quorum,
    };
    let timings = rules.timings();
    Ok(Mine {
        bound: timings.worst_without_leader(),
        members: Some(rules.members().len()),
        contestant: Contestant {
            name,
            term,
            peers: TimingsOptions {
                message_lifetime: Some(timings.message_lifetime()),
                hold_down: Some(timings.hold_down()),
            },
            preempt: rules.preempt(),
            detection: detection.options(),
            ..Contestant::new(way)
        },
    })
}

/// What the settings come to: what is promised, the worst time without a leader, the cost at rest, and
/// when to choose which.
pub(super) fn summary(mine: &[Mine], rows: &[Row]) -> io::Result<()> {
    for one in mine {
        let name = &one.contestant.name;
        let (promise, choose) = words(one.contestant.way);
        output::line(format!("\n{name}\n  promises {promise}"))?;
        let rows: Vec<&Row> = rows.iter().filter(|row| row.contestant == *name).collect();
        let worst = rows.iter().max_by(|one, other| {
            let longest = |row: &Row| row.without_leader.max;
            longest(one).total_cmp(&longest(other))
        });
        let bound = one.bound.as_secs_f64();
        output::line(format!(
            "  without a leader after a crash: at most {bound:.1} s by its settings{}",
            match rows.iter().find(|row| row.scenario == "kill-leader") {
                Some(row) => format!(
                    "; measured {:.1} s as a rule, {:.1} s at worst",
                    row.without_leader.median, row.without_leader.max
                ),
                None => String::new(),
            }
        ))?;
        if let Some(row) = worst {
            let (scenario, max) = (&row.scenario, row.without_leader.max);
            output::line(format!(
                "  without a leader at worst: {max:.1} s, in {scenario}"
            ))?;
            let (messages, bytes) = (row.messages_at_rest, row.bytes_at_rest / 1_000.0);
            output::line(format!(
                "  costs {messages:.0} messages and {bytes:.1} KB a minute at rest"
            ))?;
        }
        let twos = rows.iter().filter(|row| row.runs_with_two > 0);
        let twos: Vec<&str> = twos.map(|row| row.scenario.as_str()).collect();
        output::line(if twos.is_empty() {
            "  two never acted at once".into()
        } else {
            format!("  two acted at once in: {}", twos.join(", "))
        })?;
        output::line(format!("  choose it {choose}"))?;
        if let Some(members) = one.members.filter(|&members| members != NODES as usize) {
            output::line(format!(
                "  its file names {members} members; {NODES} were simulated, of equal priority"
            ))?;
        }
    }
    Ok(())
}

/// What a way promises, and when to choose it.
const fn words(way: Way) -> (&'static str, &'static str) {
    match way {
        Way::Lease => (
            "one leader at a time and a growing number for each term, also to those that are cut off; nobody \
             leads for long without the store",
            "where there is a store, or may be one: any number of candidates, and no majority of them is needed",
        ),
        Way::Bully { quorum: true, .. } => (
            "one leader at a time and a growing number for each term, also to those that are cut off; nobody \
             leads without a majority of the members",
            "where there is nothing but the members, three or more, and two leaders at once would do harm",
        ),
        _ => (
            "one leader among those that reach each other, as an effort: parted members may each have one",
            "where two leaders for a while do no harm, and to have none does",
        ),
    }
}
