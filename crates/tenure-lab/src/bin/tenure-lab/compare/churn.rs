//! `tenure-lab compare churn`: members that crash and return all the time.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tenure_lab::measure::{self, ChurnRow};
use tenure_lab::report;

use super::names;
use crate::output::{self, or_dash};

/// Measure algorithms while every third member crashes and returns all the time
///
/// Each of these members crashes after 10 s on average and returns after 10 s on average, for 5
/// virtual minutes. This is the case for which the papers recommend Bully_FD.
#[derive(Debug, Args)]
pub(super) struct Churn {
    /// Algorithm to measure; may be repeated [default: garcia-molina, textbook, published,
    /// bully-no-quorum, bully]
    #[arg(long, value_name = "NAME")]
    contestant: Vec<String>,
    /// Numbers of members, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "5,20,50", value_parser = clap::value_parser!(u32).range(3..=100))]
    members: Vec<u32>,
    /// Seeds; each seed is one run of each algorithm with each number of members
    #[arg(long, value_name = "FROM..TO", default_value = "0..10", value_parser = names::parse_seeds)]
    seeds: Range<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also write a plot over the number of members: one SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

const DEFAULT: &[&str] = &[
    "garcia-molina",
    "textbook",
    "published",
    "bully-no-quorum",
    "bully",
];

const CSV_COLUMNS: &str = "contestant,members,seeds,led_percent,agreed_percent,overlap_percent,\
                           elections_per_minute,election_messages_per_minute,messages_per_minute,floods";

const LEGEND: &str = "\
LED: share of the time with a leader. AGREED: share in which all running members follow the same
leader. OVERLAP: share in which two or more leaders acted. The other columns are per minute:
elections that ended with a leader, election messages, all messages. A run FLOODS when its messages
only cause more messages; its figures count until then.";

impl Churn {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let contestants = names::contestants(&names::or_default(&self.contestant, false, DEFAULT))?;
        names::check_once("--members", &self.members)?;
        for &members in &self.members {
            names::check_members(&contestants, members)?;
        }
        let runs = contestants.len() * self.members.len();
        let seeds = self.seeds.end - self.seeds.start;
        let bar = output::progress_bar(runs as u64 * seeds, "runs");
        let rows = measure::churn(&contestants, &self.members, &self.seeds, || bar.inc(1));
        bar.finish_and_clear();
        if let Some(file) = &self.plot {
            let shown = file.display();
            output::write_file(file, report::churn_plot(&rows).as_bytes())
                .with_context(|| format!("--plot {shown}: can't write the file"))?;
        }
        if self.json {
            output::json(&rows)
        } else if self.csv {
            output::csv(CSV_COLUMNS, &rows)
        } else {
            self.print(&rows)
        }
    }

    fn print(&self, rows: &[ChurnRow]) -> anyhow::Result<()> {
        let header = "MEMBERS ALGORITHM LED AGREED OVERLAP ELECTIONS MESSAGES ALL FLOODS";
        let header: Vec<&str> = header.split(' ').collect();
        let mut table = output::table(&header);
        for row in rows {
            let percent = |it: Option<f64>| or_dash(it.map(|it| format!("{it:.1} %")));
            let count = |it: Option<f64>| or_dash(it.map(|it| format!("{it:.0}")));
            let elections = row.elections_per_minute.map(|it| format!("{it:.1}"));
            table.add_row([
                row.members.to_string(),
                row.contestant.clone(),
                percent(row.led_percent),
                percent(row.agreed_percent),
                percent(row.overlap_percent),
                or_dash(elections),
                count(row.election_messages_per_minute),
                count(row.messages_per_minute),
                row.floods.to_string(),
            ]);
        }
        output::print_table(&table)?;
        output::line(format!(
            "Seeds {}..{}.\n{LEGEND}",
            self.seeds.start, self.seeds.end
        ))?;
        Ok(())
    }
}
