//! What a user's own settings come to, in plain words.

use std::io;
use std::time::Duration;

use tenure::Config;
use tenure::config::Strategy;
use tenure_core::bully::GroupGuarantee;
use tenure_lab::measure::Measurement;

use crate::exit::Failure;
use crate::output;
use crate::processes;

/// What one file says before anything is measured.
#[derive(Debug)]
pub(super) struct Outlook {
    name: String,
    promise: Promise,
    /// The longest time without a leader that these settings allow after a crash.
    bound: Duration,
    /// How many members its file names, if it names any.
    pub(super) members: Option<usize>,
}

/// What a way to elect promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Lease,
    Quorum,
    BestEffort,
    Both,
    None,
}

impl Outlook {
    /// Of a file of this name.
    pub(super) fn of(name: String, config: &Config) -> Result<Self, Failure> {
        let rules = |bully: &tenure::config::Bully| {
            let plan = bully.plan(config.timings());
            plan.map(|plan| plan.settings).map_err(anyhow::Error::from)
        };
        let (promise, members) = match config.strategy() {
            Strategy::Lease => (Promise::Lease, None),
            Strategy::Bully(bully) => {
                let rules = rules(bully)?;
                let promise = match rules.guarantee() {
                    GroupGuarantee::Quorum => Promise::Quorum,
                    GroupGuarantee::BestEffort => Promise::BestEffort,
                };
                (promise, Some(rules.members().len()))
            }
            Strategy::Both(bully) => (Promise::Both, Some(rules(bully)?.members().len())),
            _ => (Promise::None, None),
        };
        Ok(Self {
            name,
            promise,
            bound: processes::worst_without_leader(config)?,
            members,
        })
    }
}

/// What is promised, the worst time without a leader, the cost at rest, and when to choose which. So many
/// candidates were compared.
pub(super) fn summary(
    outlooks: &[&Outlook],
    rows: &[Measurement],
    candidates: u32,
) -> io::Result<()> {
    for one in outlooks {
        let of = rows.iter().filter(|row| row.contestant == one.name);
        for line in lines(one, &of.collect::<Vec<_>>(), candidates) {
            output::line(line)?;
        }
    }
    Ok(())
}

fn lines(one: &Outlook, rows: &[&Measurement], candidates: u32) -> Vec<String> {
    let (promises, choose) = words(one.promise);
    let mut lines = vec![format!("\n{}", one.name), format!("  promises {promises}")];
    let bound = one.bound.as_secs_f64();
    let measured = rows.iter().find(|row| row.scenario == "kill-leader");
    let measured = measured.map_or_else(String::new, |row| {
        let (median, max) = (row.without_leader.median, row.without_leader.max);
        format!("; measured {median:.1} s as a rule, {max:.1} s at worst")
    });
    lines.push(format!(
        "  without a leader after a crash: at most {bound:.1} s by its settings{measured}"
    ));
    let longest = |row: &&&Measurement| row.without_leader.max;
    let worst = rows.iter().max_by(|a, b| longest(a).total_cmp(&longest(b)));
    if let Some(row) = worst {
        let (scenario, max) = (&row.scenario, row.without_leader.max);
        lines.push(format!(
            "  without a leader at worst: {max:.1} s, in {scenario}"
        ));
        let (messages, bytes) = (row.messages_at_rest, row.bytes_at_rest / 1_000.0);
        let cpu = row.cpu_at_rest.map_or_else(String::new, |percent| {
            format!(", and {percent:.1} % of a processor")
        });
        lines.push(format!(
            "  costs {messages:.0} messages and {bytes:.1} KB a minute at rest{cpu}"
        ));
    }
    let never = rows.iter().filter(|row| row.never_led > 0);
    let never: Vec<&str> = never.map(|row| row.scenario.as_str()).collect();
    if !never.is_empty() {
        lines.push(format!(
            "  nobody ever led in some runs of: {}",
            never.join(", ")
        ));
    }
    let twos = rows.iter().filter(|row| row.runs_with_overlap > 0);
    let twos: Vec<&str> = twos.map(|row| row.scenario.as_str()).collect();
    lines.push(if twos.is_empty() {
        "  two never acted at once".into()
    } else {
        format!("  two acted at once in: {}", twos.join(", "))
    });
    lines.push(format!("  choose it {choose}"));
    if let Some(members) = one
        .members
        .filter(|&members| members != candidates as usize)
    {
        lines.push(format!(
            "  its file names {members} members; {candidates} were compared"
        ));
    }
    lines
}

/// What is promised, and when to choose it.
const fn words(promise: Promise) -> (&'static str, &'static str) {
    match promise {
        Promise::Lease => (
            "one leader at a time and a growing number for each term, also to those that are cut off; nobody \
             leads for long without the store",
            "where there is a store, or may be one: any number of candidates, and no majority of them is needed",
        ),
        Promise::Quorum => (
            "one leader at a time and a growing number for each term, also to those that are cut off; nobody \
             leads without a majority of the members",
            "where there is nothing but the members, three or more, and two leaders at once would do harm",
        ),
        Promise::BestEffort => (
            "one leader among those that reach each other, as an effort: parted members may each have one",
            "where two leaders for a while do no harm, and to have none does",
        ),
        Promise::Both => (
            "one leader at a time and a growing number for each term, also to those that are cut off; nobody \
             leads without the store, and none without what its peers promise",
            "while a group changes from a store to peers, or back",
        ),
        Promise::None => ("nothing", "for development"),
    }
}
