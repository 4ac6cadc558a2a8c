//! The measurement of one contestant in one scenario.

use serde::Serialize;
use tenure_sim::contestant::Contestant;
use tenure_sim::sim::Traffic;

use super::REST;
use super::compare::RunResult;

/// The smallest number of runs whose 99th percentile is not the maximum. Tables for people show the
/// percentile from this number on.
pub const ENOUGH_FOR_P99: u64 = 100;

/// A distribution, in seconds. Infinite values are `null` in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

/// The measurement of many runs of one contestant in one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The contestant.
    pub contestant: String,
    /// The scenario.
    pub scenario: String,
    /// The longest time from a leader's death until another host may lead, by the settings, in
    /// seconds; `None` if it is unknown.
    pub detection_time: Option<f64>,
    /// Whether the contestant promises one leader at a time under every network fault. Then the
    /// receiver refuses every write of an earlier leader whose task still runs.
    pub promises_one_leader: bool,
    /// The number of runs.
    pub seeds: u64,
    /// The time until the first leader, in the runs that had a leader.
    pub first_leader: Spread,
    /// The number of runs without any leader.
    pub never_led: u64,
    /// The longest time without a leader in each run, after the first one. The time is infinite in
    /// a run that ended because of too many messages: it must not rank before a run that recovered.
    pub without_leader: Spread,
    /// The longest time without a leader of each run, in the order of the seeds, in seconds.
    #[serde(skip)]
    pub gaps: Vec<f64>,
    /// The time for which two tasks ran at once, in each run.
    pub overlap: Spread,
    /// The number of runs in which two tasks ran at once.
    pub runs_with_overlap: u64,
    /// The mean number of terms in a run.
    pub terms: f64,
    /// The mean number of changes of leadership in a run: the terms after the first one.
    pub flaps: f64,
    /// The mean number of writes that the receiver accepted in a run.
    pub writes_taken: f64,
    /// The number of writes that the receiver refused, in all runs.
    pub writes_refused: u64,
    /// Election messages per minute.
    pub election_messages_per_minute: f64,
    /// Messages of failure detectors per minute.
    pub detection_messages_per_minute: f64,
    /// Bytes of message bodies per minute.
    pub bytes_per_minute: f64,
    /// The mean number of election messages from the loss of a leader to the next leader, over all
    /// elections.
    pub messages_per_election: f64,
    /// The bytes of the bodies of those messages.
    pub bytes_per_election: f64,
    /// The mean number of durable writes from the loss of a leader to the next leader, of the store
    /// and of members. They are not counted for real processes.
    pub durable_writes_per_election: Option<f64>,
    /// The durable writes per minute of the whole run.
    pub durable_writes_per_minute: Option<f64>,
    /// All messages per minute at rest, before the first fault.
    pub messages_at_rest: f64,
    /// The bytes of the bodies of those messages.
    pub bytes_at_rest: f64,
    /// The number of runs that ended because of too many messages. Their other figures count until
    /// then.
    pub floods: u64,
    /// The number of runs that ended without a leader, or because of too many messages.
    pub without_leader_at_end: u64,
    /// Whether the processes were real. Then messages are requests and responses, all of them count
    /// as election messages, and bytes include headers.
    pub live: bool,
    /// For real processes: the processor time of all processes at rest, in percent of one
    /// processor.
    pub cpu_at_rest: Option<f64>,
}

impl Spread {
    pub(super) fn of(secs: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = secs.collect();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted[rank.saturating_sub(1).min(last)]
        };
        Self {
            median: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl Measurement {
    /// Creates the measurement of these runs, each of which took `minutes`. The contestant has no
    /// [settings](Self::with_settings).
    #[must_use]
    pub fn of(contestant: &str, scenario: &str, minutes: f64, runs: &[RunResult]) -> Self {
        let count = runs.len().max(1) as f64;
        let all = || runs.iter().map(|ran| &ran.figures);
        let traffic = || runs.iter().map(|ran| &ran.traffic);
        let gaps: Vec<f64> = runs.iter().map(RunResult::longest_without).collect();
        let mean = |sum: u64| sum as f64 / count;
        let per_minute = |sum: u64| sum as f64 / count / minutes;
        let elections = || runs.iter().flat_map(|ran| &ran.elections);
        let each = |of: fn(&Traffic) -> u64| {
            let sum: u64 = elections().map(of).sum();
            sum as f64 / elections().count().max(1) as f64
        };
        let at_rest = |of: fn(&Traffic) -> u64| {
            let sum: u64 = runs.iter().map(|ran| of(&ran.rest)).sum();
            sum as f64 / count / ((REST.end - REST.start).as_secs_f64() / 60.0)
        };
        Self {
            contestant: contestant.into(),
            scenario: scenario.into(),
            detection_time: None,
            promises_one_leader: false,
            seeds: runs.len() as u64,
            first_leader: Spread::of(
                all().filter_map(|it| it.first_leader.map(|at| at.as_secs_f64())),
            ),
            never_led: all().filter(|it| it.first_leader.is_none()).count() as u64,
            without_leader: Spread::of(gaps.iter().copied()),
            gaps,
            overlap: Spread::of(all().map(|it| it.overlap.as_secs_f64())),
            runs_with_overlap: all().filter(|it| !it.overlap.is_zero()).count() as u64,
            terms: mean(all().map(|it| it.terms).sum()),
            flaps: mean(all().map(|it| it.terms.saturating_sub(1)).sum()),
            writes_taken: mean(all().map(|it| it.writes.0).sum()),
            writes_refused: all().map(|it| it.writes.1).sum(),
            election_messages_per_minute: per_minute(traffic().map(|it| it.election).sum()),
            detection_messages_per_minute: per_minute(traffic().map(Traffic::detection).sum()),
            bytes_per_minute: per_minute(traffic().map(|it| it.bytes).sum()),
            messages_per_election: each(|sent| sent.election),
            bytes_per_election: each(|sent| sent.election_bytes),
            durable_writes_per_election: Some(each(|sent| sent.durable_writes)),
            durable_writes_per_minute: Some(per_minute(
                traffic().map(|it| it.durable_writes).sum(),
            )),
            messages_at_rest: at_rest(|sent| sent.messages),
            bytes_at_rest: at_rest(|sent| sent.bytes),
            floods: runs.iter().filter(|ran| ran.floods).count() as u64,
            without_leader_at_end: runs.iter().filter(|ran| !ran.led_at_end()).count() as u64,
            live: false,
            cpu_at_rest: None,
        }
    }

    /// Returns the same measurement with the settings of its contestant.
    #[must_use]
    pub fn with_settings(self, contestant: &Contestant) -> Self {
        let time = contestant.detection_time();
        Self {
            detection_time: time.map(|it| it.as_secs_f64()),
            promises_one_leader: contestant.promises_one_leader(),
            ..self
        }
    }

    /// Returns a time without a leader as text with its unit, or the number of floods if such a run
    /// determines the figure.
    #[must_use]
    pub fn gap_text(&self, secs: f64, unit: &str) -> String {
        if secs.is_finite() {
            format!("{secs:.2}{unit}")
        } else {
            self.flood_text()
        }
    }

    /// Returns the number of runs that flooded, and of all runs.
    pub(crate) fn flood_text(&self) -> String {
        format!("flood {}/{}", self.floods, self.seeds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::Figures;

    #[test]
    fn percentiles_are_measured_values() {
        let spread = Spread::of((1..=100).rev().map(f64::from));
        assert_eq!((spread.median, spread.p99, spread.max), (50.0, 99.0, 100.0));
        let one = Spread::of(std::iter::once(3.0));
        assert_eq!((one.median, one.p99, one.max), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_run_that_floods_ranks_after_all_others_and_has_no_leader_at_the_end() {
        let run = |floods| RunResult {
            figures: Figures {
                first_leader: Some(Duration::ZERO),
                longest_without: Duration::from_millis(30),
                led_at_end: true,
                ..Figures::default()
            },
            floods,
            ..RunResult::default()
        };
        let some = Measurement::of("textbook", "flaky", 3.0, &[true, false, false].map(run));
        assert_eq!((some.floods, some.without_leader_at_end), (1, 1));
        let times = some.without_leader;
        assert_eq!((times.median, times.max), (0.03, f64::INFINITY));
        assert_eq!(some.gap_text(times.median, " s"), "0.03 s");
        assert_eq!(some.gap_text(times.max, " s"), "flood 1/3");
        let json = serde_json::to_value(&some).unwrap();
        assert!(
            json["without_leader"]["max"].is_null() && json["floods"] == 1,
            "{json}"
        );
        let all = Measurement::of("textbook", "flaky", 3.0, &[true, true].map(run));
        assert_eq!(all.gap_text(all.without_leader.median, ""), "flood 2/2");
    }
}
