//! `tenure compare --live`: the same comparison of real processes.
//!
//! This command itself is started as a store and as candidates, with configuration files, folders and
//! sockets. Whoever leads writes to a fenced receiver in this process every few milliseconds, and all
//! figures come from what arrived there, not from what candidates say of themselves.

mod play;

mod contestant;
mod group;
mod script;

mod receiver;
mod worker;

mod figures;
mod ledger;
mod processor;
mod timeline;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use tenure_lab::measure::{Measurement, RunResult};
use tenure_lab::report::{Report, Setting, Timeline};
use tenure_lab::scenario::{self, Scenario};

use super::outlook::{self, Outlook};
use super::report::Page;
use super::{bar, table, unknown};
use crate::cli::Compare;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::output;
use crate::processes::{self, NetworkKind, Second, adopt_orphans, notice};
use contestant::Contestant;
use group::Ended;
use play::{Played, Stage};

pub(super) use script::can_play;
pub(crate) use worker::worker;

/// What is played if nothing is named.
const DEFAULT: &[&str] = &[
    "kill-leader",
    "stop-leader",
    "freeze-leader",
    "restart-loop",
    "cut-leader",
];

pub(super) fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    let contestants = contestant::all(&arguments.contestant, &arguments.config)?;
    let scenarios = scenarios(&arguments.scenario, arguments.candidates)?;
    let page = arguments.report.as_deref().map(Page::new).transpose()?;
    let network = network(arguments.network, &scenarios)?;
    adopt_orphans()?;
    let stage = Stage {
        candidates: arguments.candidates,
        network,
        interrupted: notice(Second::Nothing)?,
    };
    let mut ended = Ended::default();
    let measured = play_all(&stage, &contestants, &scenarios, arguments.runs, &mut ended);
    say(ended);
    let measured = measured.map_err(processes::failure)?;
    let rows: Vec<Measurement> = measured.iter().map(|(row, _)| row.clone()).collect();
    if let Some(page) = page {
        let longest = contestants.iter().map(|it| it.lease_duration).max();
        let setting = Setting::Live {
            candidates: stage.candidates,
            runs: arguments.runs,
            proxies: network == NetworkKind::Proxy,
            scale: script::scale(longest.unwrap_or_default()),
        };
        let names = contestants.iter().map(|it| it.name.clone()).collect();
        page.write(&Report::live(names, scenarios.clone(), setting, measured))?;
    }
    if arguments.json {
        output::json(&rows)?;
    } else if arguments.csv {
        table::csv(&rows)?;
    } else {
        table::print(&rows, &scenarios)?;
        output::line(legend(arguments, network, &contestants))?;
        let outlooks = contestants.iter().filter_map(|it| it.outlook.as_ref());
        let outlooks: Vec<&Outlook> = outlooks.collect();
        outlook::summary(&outlooks, &rows, stage.candidates)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Nobody but people who are there to read it needs this.
fn say(text: impl std::fmt::Display) {
    let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("{text}\n"));
}

/// The network that was asked for; if none was, namespaces where they can be and can do all of it.
fn network(asked: Option<NetworkKind>, scenarios: &[Scenario]) -> Result<NetworkKind, Failure> {
    let needs_proxies = scenarios.iter().find(|it| script::needs_proxies(it));
    let why_not = match needs_proxies {
        Some(scenario) => Err(anyhow!(
            "{:?} has slow or lossy links, and those are made by proxies",
            scenario.name
        )),
        None if asked == Some(NetworkKind::Proxy) => return Ok(NetworkKind::Proxy),
        None => NetworkKind::Namespaces.can_be(),
    };
    match (why_not, asked) {
        (Ok(()), _) => Ok(NetworkKind::Namespaces),
        (Err(error), Some(NetworkKind::Namespaces)) => Err(Failure::new(
            BAD_CONFIGURATION,
            error.context("no network of namespaces (--network namespaces)"),
        )),
        (Err(error), None) => {
            say(format_args!(
                "the network is made of proxies, not of network namespaces: {error:#}"
            ));
            Ok(NetworkKind::Proxy)
        }
        (Err(_), Some(NetworkKind::Proxy)) => Ok(NetworkKind::Proxy),
    }
}

fn scenarios(names: &[String], candidates: u32) -> Result<Vec<Scenario>, Failure> {
    let names: Vec<&str> = match names {
        [] => DEFAULT.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let wrong = |text: String| Failure::new(BAD_CONFIGURATION, anyhow!(text));
    let one = |name: &str| {
        let scenario = Scenario::of_name(name).map_err(unknown)?;
        if !can_play(&scenario) {
            let can = scenario::ALL.iter().filter(|it| can_play(it));
            let can: Vec<&str> = can.map(|it| it.name).collect();
            return Err(wrong(format!(
                "scenario {name:?} can only be simulated; live there are {}",
                can.join(", ")
            )));
        }
        let least = script::least_candidates(&scenario);
        if candidates < least {
            return Err(wrong(format!(
                "scenario {name:?} takes two candidates away, and {candidates} are too few for that; \
                 --candidates {least} at least"
            )));
        }
        Ok(scenario)
    };
    names.into_iter().map(one).collect()
}

fn play_all(
    stage: &Stage,
    contestants: &[Contestant],
    scenarios: &[Scenario],
    runs: u32,
    ended: &mut Ended,
) -> anyhow::Result<Vec<(Measurement, Timeline)>> {
    let pairs = scenarios.iter().flat_map(|scenario| {
        let all = contestants.iter();
        let fit = all.filter(|it| !scenario.store || it.needs_store);
        fit.map(move |contestant| (contestant, scenario))
    });
    let pairs: Vec<_> = pairs.collect();
    let bar = bar(pairs.len() as u64 * u64::from(runs), "live runs");
    let mut rows = Vec::new();
    for (contestant, scenario) in pairs {
        let mut played = Vec::new();
        for _ in 0..runs {
            bar.set_message(format!("{} in {}", contestant.name, scenario.name));
            played.push(stage.play(contestant, scenario, ended)?);
            bar.inc(1);
        }
        let row = row(contestant, scenario, &played);
        let first = played.into_iter().next();
        rows.push((row, first.map(|it| it.timeline).unwrap_or_default()));
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn row(contestant: &Contestant, scenario: &Scenario, played: &[Played]) -> Measurement {
    let count = played.len().max(1) as f64;
    let took: Duration = played.iter().map(|it| it.took).sum();
    let minutes = took.as_secs_f64() / 60.0 / count;
    let runs: Vec<RunResult> = played.iter().map(|it| it.ran.clone()).collect();
    let cpu: Option<f64> = played.iter().map(|it| it.cpu_at_rest).sum();
    let at_rest = |of: fn(&Played) -> f64| played.iter().map(of).sum::<f64>() / count;
    Measurement {
        live: true,
        messages_at_rest: at_rest(|it| it.carried_at_rest.0),
        bytes_at_rest: at_rest(|it| it.carried_at_rest.1),
        cpu_at_rest: cpu.map(|sum| sum / count),
        ..Measurement::of(&contestant.name, scenario.name, minutes, &runs)
    }
}

fn legend(arguments: &Compare, network: NetworkKind, contestants: &[Contestant]) -> String {
    let counted = match network {
        NetworkKind::Proxy => {
            "Proxies lie between the\nprocesses, which cut links and count requests and answers, and bytes with \
             their heads"
        }
        NetworkKind::Namespaces => {
            "Each process is in a\nnetwork namespace; a switch between them drops packets, and counts those that \
             end a write and the bytes of all"
        }
    };
    let mut text = format!(
        "{} candidates as real processes, {} run(s) each. NO LEADER is the longest time without a write of a \
         leader,\nTWO ACT how long two wrote at once; STALE WRITES were refused; FLAPS: how often leadership \
         changed. {counted}:\nELECTION, all while nobody leads; REST, in 3 quiet seconds. CPU AT REST is that of \
         all of them, without the\nleader's task, of one processor. Times of scenarios are in proportion to the \
         lease:",
        arguments.candidates, arguments.runs
    );
    for contestant in contestants {
        let scale = script::scale(contestant.lease_duration);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n  {}: lease {:?}, so {scale:.2} of the time that is said above",
            contestant.name, contestant.lease_duration
        );
    }
    text
}
