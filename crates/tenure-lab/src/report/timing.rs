//! The section that compares contestants over their detection times.

use std::fmt::Write;

use super::Report;
use super::page::{escape, figure};
use super::plot::{self, Series};
use super::table::{scrolling, secs};
use crate::measure::{EQUAL_TIME, TimingPoint};

impl Report {
    /// The table of equal detection times, and the curves. Empty for real processes.
    pub(super) fn timing(&self) -> String {
        let Some(any) = self.timing.first() else {
            return String::new();
        };
        let (pause, loss) = (any.pause, any.loss);
        format!(
            "<h2>At the same detection time</h2>\n<p>A lease of 15 s and a failure detector of 1.5 s can't be \
             compared: the time without a leader follows from the setting. Here each contestant gets the same \
             <b>detection time</b>: how long it takes at most, by the settings, until another host may lead \
             after the leader has died. All other timings are in proportion. <b>False elections</b>: the part \
             of the runs in which the leadership changed although no process died, because the leader paused \
             for {pause} s or all its messages were lost for {loss} s. <b>Overlap</b>: the longest time in \
             which two tasks ran at once, in a partition or a freeze of 120 s. Medians of {} runs.</p>\n{}{}",
            any.seeds,
            self.equal_times(),
            self.curves()
        )
    }

    fn equal_times(&self) -> String {
        let mut table = String::from(
            "<tr><th>contestant</th><th>no leader, s: process killed</th><th>power cut</th><th>messages/min \
             at rest</th><th>false elections, %: pause</th><th>loss</th><th>overlap, s</th></tr>\n",
        );
        let equal = |it: &&TimingPoint| it.detection_time == EQUAL_TIME as f64;
        for point in self.timing.iter().filter(equal) {
            let gap = |secs: f64| match secs.is_finite() {
                true => format!("{secs:.2}"),
                false => "flood".into(),
            };
            let longest = point.longest_overlap();
            let overlap = if longest == 0.0 {
                "none".to_owned()
            } else if point.is_refused() {
                format!("{}; its writes are refused", secs(longest))
            } else {
                format!("<em>{}</em>", secs(longest))
            };
            let _ = writeln!(
                table,
                "<tr><th>{}</th><td>{}</td><td>{}</td><td>{:.0}</td><td>{:.0}</td><td>{:.0}</td><td>{overlap}</td></tr>",
                escape(&point.contestant),
                gap(point.without_leader_killed.median),
                gap(point.without_leader.median),
                point.messages_at_rest,
                point.false_elections_pause_percent,
                point.false_elections_loss_percent,
            );
        }
        format!(
            "<p>All with a detection time of {EQUAL_TIME} s:</p>\n{}",
            scrolling(&table)
        )
    }

    fn curves(&self) -> String {
        let of = |cost: fn(&TimingPoint) -> f64| {
            let contestants = self.contestants.iter().enumerate();
            let series = contestants.map(|(place, name)| {
                let of = self.timing.iter().filter(|it| it.contestant == *name);
                let dots = of.map(|it| (cost(it), it.without_leader.median));
                let dots = dots.filter(|(_, secs)| secs.is_finite() && *secs > 0.0);
                let line: Vec<_> = dots.collect();
                let dots = line.clone();
                Series { place, line, dots }
            });
            series.collect::<Vec<_>>()
        };
        let time = "seconds without a leader";
        let about = |what: &str| format!("Time without a leader against {what}");
        let messages = of(|it| it.messages_at_rest);
        let false_elections = of(|it| {
            it.false_elections_pause_percent
                .max(it.false_elections_loss_percent)
        });
        let overlap = of(TimingPoint::longest_overlap);
        let figures = [
            (
                plot::lines(
                    messages,
                    ("messages in a minute at rest", time),
                    &about("messages"),
                ),
                "Each line is one contestant, and each dot a detection time: 1, 2, 3, 5, 10, 15, 30 and 60 s, \
                 from the bottom. Lower left is better: at the same height, the contestant that is further \
                 left costs fewer messages for the same time without a leader.",
            ),
            (
                plot::curves(
                    false_elections,
                    (
                        "false elections, % of the runs with a pause or a loss",
                        time,
                    ),
                    &about("false elections"),
                ),
                "The same dots. To the right are the detection times that are shorter than a pause or a loss: \
                 there a leader that is alive is replaced.",
            ),
            (
                plot::curves(
                    overlap,
                    ("overlap of two tasks in a run, seconds", time),
                    &about("overlap"),
                ),
                "The same dots. On the left edge: the contestants that promise one leader at a time. A task \
                 of theirs can run on for a moment after a freeze, and receivers refuse its writes.",
            ),
        ];
        let key = self.key();
        let figures = figures.map(|(plot, caption)| figure(&plot, &key, caption));
        figures.concat()
    }
}
