//! `tenure-lab compare timing`: each strategy as a curve over its detection time.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tenure_lab::measure::{DETECTION_TIMES, EQUAL_TIME, TimingComparison, TimingPoint};

use super::{DEFAULT, names, settings};
use crate::output;

/// Compare strategies at the same detection times
///
/// The detection time is how long it takes at most, by the settings, until another host may lead
/// after the leader has died: the duration of a lease, or the timeout of a failure detector. Each
/// strategy gets every detection time of the list, and all its other timings in proportion. A
/// shorter time costs messages, and elections when the leader pauses or its messages are lost.
#[derive(Debug, Args)]
pub(super) struct Timing {
    /// Compare only this strategy; may be repeated [default: lease, bully and classic algorithms]
    #[arg(long, value_name = "NAME")]
    contestant: Vec<String>,
    /// Also compare the strategy of this configuration file of a candidate, with its timings in
    /// proportion; may be repeated
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Detection time in seconds, 1 to 3600; may be repeated [default: 1, 2, 3, 5, 10, 15, 30, 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    detection_time: Vec<u64>,
    /// How long the leader pauses, at most 1h, which should not cause an election
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_fault)]
    pause: Duration,
    /// How long all messages of the leader are lost, at most 1h, which should not cause an election
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_fault)]
    loss: Duration,
    /// Seeds; each seed is one run of each strategy with each detection time and each fault
    #[arg(long, value_name = "FROM..TO", default_value = "0..20", value_parser = names::parse_seeds)]
    seeds: Range<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

const CSV_COLUMNS: &str = "\
contestant,promises_one_leader,detection_time_s,seeds,without_leader_killed_median_s,\
without_leader_killed_p99_s,without_leader_killed_max_s,without_leader_median_s,without_leader_p99_s,\
without_leader_max_s,messages_at_rest,bytes_at_rest,pause_s,false_elections_pause_percent,loss_s,\
false_elections_loss_percent,overlap_cut_s,overlap_freeze_s,without_leader_at_end";

/// The longest pause or loss: as long as the longest detection time. A run lasts that much longer.
const LONGEST_FAULT: Duration = Duration::from_secs(3_600);

/// The most characters of a name in a table, so that the table is not too wide.
const LONGEST_NAME: usize = 30;

fn parse_fault(text: &str) -> Result<Duration, String> {
    let lasts = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match lasts <= LONGEST_FAULT {
        true => Ok(lasts),
        false => {
            let longest = humantime::format_duration(LONGEST_FAULT);
            Err(format!("use at most {longest}, such as 3s or 2m"))
        }
    }
}

impl Timing {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        names::check_once("--detection-time", &self.detection_time)?;
        let names = names::or_default(&self.contestant, !self.config.is_empty(), DEFAULT);
        let mut contestants = names::contestants(&names)?;
        let of_files = settings::contestants(&self.config)?.into_iter();
        contestants.extend(of_files.map(|(contestant, _)| contestant));
        let comparison = TimingComparison {
            contestants,
            times: match &self.detection_time[..] {
                [] => DETECTION_TIMES.to_vec(),
                named => named.to_vec(),
            },
            seeds: self.seeds.clone(),
            pause: self.pause,
            loss: self.loss,
        };
        let bar = output::progress_bar(comparison.points(), "detection times");
        let points = comparison.measure(|| bar.inc(1));
        bar.finish_and_clear();
        if self.json {
            return output::json(&points);
        }
        if self.csv {
            return output::csv(CSV_COLUMNS, &points);
        }
        self.print(&comparison, &points)
    }

    fn print(&self, comparison: &TimingComparison, points: &[TimingPoint]) -> anyhow::Result<()> {
        output::line(format!(
            "Times in seconds, messages per minute; {}, medians.\n",
            output::counted(self.seeds.end - self.seeds.start, "seed")
        ))?;
        let times = &comparison.times;
        let equal = times.iter().find(|&&secs| secs == EQUAL_TIME);
        if let Some(&secs) = equal.or_else(|| times.first()) {
            output::line(format!("all with a detection time of {secs} s"))?;
            let of = points.iter().filter(|it| it.detection_time == secs as f64);
            print_table("CONTESTANT", of, |point| point.contestant.clone())?;
        }
        for contestant in &comparison.contestants {
            let of = || points.iter().filter(|it| it.contestant == contestant.name);
            if times.len() > 1 {
                output::line(format!("{} over its detection time", contestant.name))?;
                print_table("DETECTION TIME", of(), |point| {
                    point.detection_time.to_string()
                })?;
            }
        }
        output::line(output::wrapped_lines(&self.legend()))?;
        output::line("\nIn one sentence each:")?;
        for contestant in &comparison.contestants {
            let of = points.iter().filter(|it| it.contestant == contestant.name);
            let of: Vec<&TimingPoint> = of.collect();
            output::line(output::wrapped(&TimingPoint::verdict(&of), "", "  "))?;
        }
        Ok(())
    }

    fn legend(&self) -> String {
        let (pause, loss) = (self.pause, self.loss);
        format!(
            "NO LEADER: after the leader's process was KILLED, which members notice by refused connections, and \
             after a POWER CUT, after which its machine is silent. FALSE: the percentage of false elections, \
             which are runs in which the leadership changed although no process died, because the leader \
             paused for {pause:?} (PAUSE), or all its messages were lost for {loss:?} (LOSS). OVERLAP: \
             the longest time in which two tasks ran at once, in a partition or a freeze of 120 s. *: only a task that ran on for a moment \
             after the freeze; the receiver refuses its writes by their epoch. MESSAGES: at rest."
        )
    }
}

fn print_table<'a>(
    first: &str,
    points: impl Iterator<Item = &'a TimingPoint>,
    name: fn(&TimingPoint) -> String,
) -> anyhow::Result<()> {
    let mut table = output::table(&[
        first,
        "NO LEADER: KILLED",
        "POWER CUT",
        "MESSAGES",
        "FALSE: PAUSE",
        "LOSS",
        "OVERLAP",
    ]);
    for point in points {
        table.add_row([
            output::shortened(&name(point), LONGEST_NAME),
            gap(point.without_leader_killed.median),
            gap(point.without_leader.median),
            format!("{:.0}", point.messages_at_rest),
            format!("{:.0} %", point.false_elections_pause_percent),
            format!("{:.0} %", point.false_elections_loss_percent),
            overlap(point),
        ]);
    }
    output::print_table(&table)?;
    Ok(output::line("")?)
}

fn gap(secs: f64) -> String {
    if secs.is_finite() {
        format!("{secs:.2}")
    } else {
        "flood".into()
    }
}

fn overlap(point: &TimingPoint) -> String {
    let mark = if point.is_refused() { "*" } else { "" };
    format!("{:.2}{mark}", point.longest_overlap())
}
