//! Each contestant as a curve over its detection time: how long there is no leader, the messages at
//! rest, false elections, and how long two leaders overlap.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use tenure_sim::contestant::Contestant;
use tenure_sim::map_parallel;
use tenure_sim::scenario::{LASTS, SETTLED};
use tenure_sim::sim::{Fault, HistoryEventKind, Rng, Target, Time};

use super::NODES;
use super::compare::{MOST_MESSAGES, PHASE, RunResult, world_with_faults};
use super::measurement::Spread;

/// The detection times of the curves, in seconds.
pub const DETECTION_TIMES: &[u64] = &[1, 2, 3, 5, 10, 15, 30, 60];

/// The detection time of the table in which all contestants have the same one, in seconds.
pub const EQUAL_TIME: u64 = 5;

/// The duration of a partition or a freeze in which two leaders may overlap. It is twice as long as
/// the longest detection time.
const LONG: Duration = Duration::from_secs(120);

/// The time in which messages at rest are counted. It contains 30 renewals of a lease of 60 s.
const REST: Duration = Duration::from_secs(600);

/// Contestants, each with several detection times.
#[derive(Clone, Debug)]
pub struct TimingComparison {
    /// The contestants.
    pub contestants: Vec<Contestant>,
    /// The detection times, in seconds: 1 or more.
    pub times: Vec<u64>,
    /// The seeds of each measurement.
    pub seeds: Range<u64>,
    /// The pause of a leader that should not cause an election.
    pub pause: Duration,
    /// The time in which all messages from and to the leader are lost, and which should not cause
    /// an election.
    pub loss: Duration,
}

/// A contestant with one detection time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimingPoint {
    /// The contestant.
    pub contestant: String,
    /// Whether the contestant promises one leader at a time under every network fault.
    pub promises_one_leader: bool,
    /// The detection time, in seconds.
    pub detection_time: f64,
    /// The number of runs of each measurement.
    pub seeds: u64,
    /// The longest time without a leader after the leader's process was killed, in seconds. Its
    /// machine refuses connections, which members notice before their detectors do.
    pub without_leader_killed: Spread,
    /// The same after the leader's machine lost power, and no longer answered.
    pub without_leader: Spread,
    /// Messages per minute at rest.
    pub messages_at_rest: f64,
    /// The bytes of the bodies of those messages.
    pub bytes_at_rest: f64,
    /// The length of the leader's pause, in seconds, and the percentage of the runs in which the
    /// leadership changed because of it.
    pub pause: f64,
    /// See [`pause`](Self::pause).
    pub false_elections_pause_percent: f64,
    /// How long messages of the leader were lost, in seconds, and the percentage of the runs in
    /// which the leadership changed because of it.
    pub loss: f64,
    /// See [`loss`](Self::loss).
    pub false_elections_loss_percent: f64,
    /// The longest overlap of two tasks in a run in which the leader was cut off for two minutes,
    /// in seconds.
    pub overlap_cut: f64,
    /// The same in a run in which the leader was frozen for two minutes.
    pub overlap_freeze: f64,
    /// The number of runs that ended without a leader, or because of too many messages, of the
    /// six kinds.
    pub without_leader_at_end: u64,
}

impl Default for TimingComparison {
    /// Returns the comparison without contestants: all detection times, 20 seeds, and a pause and a
    /// loss of 3 s.
    fn default() -> Self {
        Self {
            contestants: Vec::new(),
            times: DETECTION_TIMES.to_vec(),
            seeds: 0..20,
            pause: Duration::from_secs(3),
            loss: Duration::from_secs(3),
        }
    }
}

impl TimingComparison {
    /// Returns how often [`measure`](Self::measure) calls `done`.
    #[must_use]
    pub const fn points(&self) -> u64 {
        (self.contestants.len() * self.times.len()) as u64
    }

    /// Measures all points on all processors, by contestant and then by detection time, and calls
    /// `done` after each.
    pub fn measure(&self, done: impl Fn() + Sync) -> Vec<TimingPoint> {
        let points = self.contestants.iter().flat_map(|contestant| {
            let times = self.times.iter();
            times.map(move |&secs| (contestant, Duration::from_secs(secs)))
        });
        map_parallel(points, |(contestant, time)| {
            let point = self.point(contestant, time);
            done();
            point
        })
    }

    fn point(&self, contestant: &Contestant, time: Duration) -> TimingPoint {
        let timed = contestant.clone().with_detection_time(time);
        let leader = || vec![Target::Leader];
        let cut = |lasts: Duration| {
            [
                (Duration::ZERO, Fault::Part(leader())),
                (lasts, Fault::Heal),
            ]
        };
        let freeze = |lasts| [(Duration::ZERO, Fault::Freeze(Target::Leader, lasts))];
        let killed = [(Duration::ZERO, Fault::Crash(Target::Leader, None))];
        let power_cut = [(Duration::ZERO, Fault::PowerCut(Target::Leader, None))];
        let all = [
            self.runs(&timed, time, &killed),
            self.runs(&timed, time, &power_cut),
            self.runs(&timed, time, &freeze(self.pause)),
            self.runs(&timed, time, &cut(self.loss)),
            self.runs(&timed, time, &cut(LONG)),
            self.runs(&timed, time, &freeze(LONG)),
        ];
        let [killed, dark, paused, lost, parted, frozen] = &all;
        let rest = self.at_rest(&timed);
        let without_leader_at_end = all.iter().flatten().filter(|run| !run.result.led_at_end());
        TimingPoint {
            contestant: contestant.name.clone(),
            promises_one_leader: contestant.promises_one_leader(),
            detection_time: time.as_secs_f64(),
            seeds: self.seeds.end - self.seeds.start,
            without_leader_killed: gaps(killed),
            without_leader: gaps(dark),
            messages_at_rest: rest.0,
            bytes_at_rest: rest.1,
            pause: self.pause.as_secs_f64(),
            false_elections_pause_percent: percent_with_changes(paused),
            loss: self.loss.as_secs_f64(),
            false_elections_loss_percent: percent_with_changes(lost),
            overlap_cut: longest_overlap(parted),
            overlap_freeze: longest_overlap(frozen),
            without_leader_at_end: without_leader_at_end.count() as u64,
        }
    }

    /// Runs these faults, with their times after the first one, once for each seed.
    fn runs(
        &self,
        contestant: &Contestant,
        time: Duration,
        faults: &[(Duration, Fault)],
    ) -> Vec<TimedRun> {
        let lasts = faults
            .last()
            .map_or(Duration::ZERO, |(at, fault)| match fault {
                Fault::Freeze(_, lasts) => *at + *lasts,
                _ => *at,
            });
        let one = |seed| {
            // The phase of a fault within the intervals of renewals and heartbeats matters.
            let later = Rng::new(seed, PHASE).between(Duration::ZERO, time);
            let faults = faults.iter().cloned();
            let faults = faults.map(|(at, fault)| (SETTLED + later + at, fault));
            let end = SETTLED + later + lasts + 2 * time + SETTLED;
            let most = MOST_MESSAGES * end.as_secs().div_ceil(LASTS.as_secs());
            let mut world = world_with_faults(contestant, faults, NODES, seed, most);
            world.run_until(end);
            world.finish();
            let begins = Time::after(SETTLED);
            let terms = world.history.iter().filter(|event| {
                event.at > begins && matches!(event.kind, HistoryEventKind::TaskStarted(_))
            });
            TimedRun {
                changes: terms.count(),
                result: RunResult::of(&world),
            }
        };
        self.seeds.clone().map(one).collect()
    }

    /// Returns the messages per minute at rest, and their bytes, in a run with the first seed.
    fn at_rest(&self, contestant: &Contestant) -> (f64, f64) {
        let seed = self.seeds.start;
        let mut world = world_with_faults(contestant, [], NODES, seed, u64::MAX);
        world.run_until(SETTLED);
        let before = world.traffic;
        world.run_until(SETTLED + REST);
        let sent = world.traffic - before;
        let per_minute = |count: u64| count as f64 / (REST.as_secs_f64() / 60.0);
        (per_minute(sent.messages), per_minute(sent.bytes))
    }
}

impl TimingPoint {
    /// Returns the longest overlap of two tasks, in seconds.
    #[must_use]
    pub const fn longest_overlap(&self) -> f64 {
        self.overlap_cut.max(self.overlap_freeze)
    }

    /// Returns whether there was an overlap, and the receiver refuses the writes of the earlier
    /// leader.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.promises_one_leader && self.longest_overlap() > 0.0
    }

    /// Describes the curve of one contestant in one sentence, from points in the order of the
    /// detection times.
    #[must_use]
    pub fn verdict(curve: &[&Self]) -> String {
        let (Some(first), Some(last)) = (curve.first(), curve.last()) else {
            return String::new();
        };
        let withstands = |percent: fn(&Self) -> f64| {
            let after = curve.iter().rposition(|it| percent(it) > 0.0);
            curve.get(after.map_or(0, |place| place + 1))
        };
        let fault = |length: f64, what: &str, of: Option<&&Self>| match of {
            Some(point) => format!(
                "{what} of {length} s causes no election from a detection time of {} s on",
                point.detection_time
            ),
            None => format!("{what} of {length} s causes elections at every detection time"),
        };
        let most = curve.iter().map(|it| it.longest_overlap());
        let most = most.fold(0.0, f64::max);
        let overlap = match (first.promises_one_leader, most > 0.0) {
            (_, false) => "no overlap".to_owned(),
            (true, true) => format!(
                "after a freeze the task of the earlier leader ran on for {most:.2} s, and the \
                 receiver refuses its writes by their epoch"
            ),
            (false, true) => format!("two leaders at once for up to {most:.2} s"),
        };
        let secs = |secs: f64| match secs.is_finite() {
            true => format!("{secs:.2} s"),
            false => "ever (messages flood)".to_owned(),
        };
        let not_recovered: u64 = curve.iter().map(|it| it.without_leader_at_end).sum();
        let not_recovered = match not_recovered {
            0 => String::new(),
            1 => "; 1 run ended without a leader".to_owned(),
            runs => format!("; {runs} runs ended without a leader"),
        };
        let gap = |point: &Self| secs(point.without_leader.median);
        let messages = |point: &Self| format!("{:.0}", point.messages_at_rest);
        let (times, gaps, messages) = match curve.len() {
            1 => (
                format!("a detection time of {} s", first.detection_time),
                gap(first),
                messages(first),
            ),
            _ => (
                format!(
                    "detection times of {} to {} s",
                    first.detection_time, last.detection_time
                ),
                format!("{} to {}", gap(first), gap(last)),
                format!("{} to {}", messages(first), messages(last)),
            ),
        };
        format!(
            "{}: with {times} no leader for {gaps} after a power cut, for {messages} messages a minute; {}; \
             {}; {overlap}{not_recovered}.",
            first.contestant,
            fault(
                first.pause,
                "a pause",
                withstands(|it| it.false_elections_pause_percent)
            ),
            fault(
                first.loss,
                "a loss",
                withstands(|it| it.false_elections_loss_percent)
            ),
        )
    }
}

/// A run with its faults.
#[derive(Debug)]
struct TimedRun {
    /// The number of terms that began after the hosts had settled.
    changes: usize,
    result: RunResult,
}

/// Returns the distribution of the longest time without a leader.
fn gaps(runs: &[TimedRun]) -> Spread {
    Spread::of(runs.iter().map(|run| run.result.longest_without()))
}

/// Returns the percentage of these runs in which the leadership changed. No leader died in them.
fn percent_with_changes(runs: &[TimedRun]) -> f64 {
    let changed = runs.iter().filter(|run| run.changes > 0);
    changed.count() as f64 * 100.0 / runs.len().max(1) as f64
}

fn longest_overlap(runs: &[TimedRun]) -> f64 {
    let overlap = |run: &TimedRun| run.result.figures.overlap.as_secs_f64();
    let all = runs.iter().map(overlap);
    all.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], times: &[u64]) -> Vec<TimingPoint> {
        let contestants = names
            .iter()
            .map(|name| crate::contestant_of_name(name).unwrap());
        let comparison = TimingComparison {
            contestants: contestants.collect(),
            times: times.to_vec(),
            seeds: 0..5,
            ..TimingComparison::default()
        };
        comparison.measure(|| {})
    }

    #[test]
    fn a_longer_detection_time_costs_time_without_a_leader_and_saves_messages() {
        for points in of(
            &["lease", "bully", "bully-no-quorum", "textbook"],
            &[3, 15, 60],
        )
        .chunks(3)
        {
            for pair in points.windows(2) {
                let (short, long) = (&pair[0], &pair[1]);
                assert!(
                    long.without_leader.median > short.without_leader.median,
                    "{pair:?}"
                );
                assert!(long.messages_at_rest < short.messages_at_rest, "{pair:?}");
            }
            for point in points {
                let bound = point.detection_time * 2.0;
                assert!(point.without_leader.max < bound, "{point:?}");
            }
        }
    }

    #[test]
    fn a_pause_or_a_loss_causes_an_election_only_if_the_detection_time_is_shorter() {
        let points = of(&["lease", "bully", "bully-no-quorum"], &[1, 15]);
        for pair in points.chunks(2) {
            let (short, long) = (&pair[0], &pair[1]);
            assert_eq!(short.false_elections_pause_percent, 100.0, "{short:?}");
            assert_eq!(short.false_elections_loss_percent, 100.0, "{short:?}");
            assert_eq!(long.false_elections_pause_percent, 0.0, "{long:?}");
            assert_eq!(long.false_elections_loss_percent, 0.0, "{long:?}");
        }
    }

    #[test]
    fn a_curve_of_one_point_has_no_range() {
        let points = of(&["lease"], &[5]);
        let said = TimingPoint::verdict(&[&points[0]]);
        assert!(said.starts_with("lease: with a detection time of 5 s no leader for "));
        assert!(!said.contains(" to "), "{said}");
    }

    #[test]
    fn terms_at_the_start_are_no_false_elections() {
        // All members of the textbook's algorithm begin an election when they start.
        let points = of(&["textbook"], &[60]);
        assert_eq!(points[0].false_elections_pause_percent, 0.0, "{points:?}");
    }

    #[test]
    fn leaders_overlap_for_a_moment_after_a_freeze_and_in_a_partition_only_without_a_promise() {
        for point in of(&["lease", "bully", "bully-no-quorum"], &[5]) {
            assert!((0.01..0.5).contains(&point.overlap_freeze), "{point:?}");
            if point.promises_one_leader {
                assert_eq!(point.overlap_cut, 0.0, "{point:?}");
            } else {
                assert!(point.overlap_cut > 60.0, "{point:?}");
            }
        }
    }
}
