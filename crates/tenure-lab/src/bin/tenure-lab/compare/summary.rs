//! Summaries of users' settings.

use std::io;
use std::time::Duration;

use tenure::Config;
use tenure::config::Strategy;
use tenure_core::bully::{GroupGuarantee, GroupSettings};
use tenure_lab::measure::Measurement;

use super::settings::worst_without_leader;
use crate::output;

/// The conclusions from a configuration file before any measurement.
#[derive(Debug)]
pub(super) struct Summary {
    name: String,
    guarantee: &'static str,
    /// When to use such a strategy.
    use_case: &'static str,
    /// The longest time without a leader after a crash, by the settings.
    bound: Duration,
    /// The number of members that the file names, if it names any.
    pub(super) members: Option<usize>,
}

impl Summary {
    /// The summary of a file with this name.
    pub(super) fn new(name: String, config: &Config) -> anyhow::Result<Self> {
        let bully = config.strategy.bully();
        let plan = bully.map(|bully| bully.plan(config.timings()));
        let rules = plan.transpose()?.map(|plan| plan.settings);
        let guarantee = rules.as_ref().map(GroupSettings::guarantee);
        let (guarantee, use_case) = match (&config.strategy, guarantee) {
            (Strategy::Lease, _) => (
                "one leader at a time and a greater epoch for each term, also across partitions; no leader \
                 during a long outage of the store",
                "where a store is available: with any number of candidates, and without a majority of them",
            ),
            (Strategy::Both(_), _) => (
                "one leader at a time and a greater epoch for each term, also across partitions; no leader \
                 without the store, or without an election among the peers",
                "while a group migrates from a store to peers, or back",
            ),
            (Strategy::Bully(_), Some(GroupGuarantee::Quorum)) => (
                "one leader at a time and a greater epoch for each term, also across partitions; no leader \
                 without a majority of the members",
                "where no store is available, with three or more members, if two leaders would do harm",
            ),
            (Strategy::Bully(_), Some(GroupGuarantee::BestEffort)) => (
                "best effort: one leader among the members that reach each other; in a partition each side may \
                 have one",
                "where two leaders for a short time are acceptable, and a time without a leader is not",
            ),
            _ => ("none", "for development"),
        };
        Ok(Self {
            name,
            guarantee,
            use_case,
            bound: worst_without_leader(config)?,
            members: rules.map(|rules| rules.members().len()),
        })
    }
}

/// Prints the guarantee, the longest time without a leader, the cost at rest, and when to use each
/// strategy.
pub(super) fn print<'a>(
    summaries: impl Iterator<Item = &'a Summary>,
    rows: &[Measurement],
    candidates: u32,
) -> io::Result<()> {
    for summary in summaries {
        let rows = rows.iter().filter(|row| row.contestant == summary.name);
        for line in lines(summary, &rows.collect::<Vec<_>>(), candidates) {
            output::line(output::wrapped(&line, "", "    "))?;
        }
    }
    Ok(())
}

fn lines(summary: &Summary, rows: &[&Measurement], candidates: u32) -> Vec<String> {
    let mut lines = vec![
        format!("\n{}", summary.name),
        format!("  guarantee: {}", summary.guarantee),
    ];
    let bound = summary.bound.as_secs_f64();
    let measured = rows.iter().find(|row| row.scenario == "kill-leader");
    let measured = measured.map_or_else(String::new, |row| {
        let times = row.without_leader;
        let (median, max) = (
            row.gap_text(times.median, " s"),
            row.gap_text(times.max, " s"),
        );
        format!("; measured: median {median}, max {max}")
    });
    lines.push(format!(
        "  no leader after a crash: at most {bound:.1} s by its settings{measured}"
    ));
    let longest = |row: &&&Measurement| row.without_leader.max;
    let worst = rows.iter().max_by(|a, b| longest(a).total_cmp(&longest(b)));
    if let Some(row) = worst {
        let (scenario, max) = (&row.scenario, row.gap_text(row.without_leader.max, " s"));
        lines.push(format!(
            "  longest time without a leader: {max}, in {scenario}"
        ));
        let (messages, kilobytes) = (row.messages_at_rest, row.bytes_at_rest / 1_000.0);
        let cpu = row.cpu_at_rest.map_or_else(String::new, |percent| {
            format!(", {percent:.1} % of a processor")
        });
        lines.push(format!(
            "  cost at rest: {messages:.0} messages and {kilobytes:.1} KB per minute{cpu}"
        ));
    }
    let scenarios = |is_affected: fn(&Measurement) -> bool| {
        let affected = rows.iter().filter(|row| is_affected(row));
        let names: Vec<&str> = affected.map(|row| row.scenario.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = scenarios(|row| row.never_led > 0) {
        lines.push(format!("  never a leader in some runs of: {names}"));
    }
    lines.push(match scenarios(|row| row.runs_with_overlap > 0) {
        Some(names) => format!("  two leaders overlapped in: {names}"),
        None => "  no overlap".into(),
    });
    lines.push(format!("  use it {}", summary.use_case));
    let members = summary.members;
    if let Some(members) = members.filter(|&members| members != candidates as usize) {
        lines.push(format!(
            "  its file names {members} members; {candidates} were compared"
        ));
    }
    lines
}
