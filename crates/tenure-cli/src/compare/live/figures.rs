//! What the receiver's record says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_lab::measure::Figures;
use tenure_lab::sim::Time;

use super::receiver::Write;

/// A leader writes every few milliseconds. Between its writes a machine that is busy may let it wait
/// for so long; only what is longer counts as a time without a leader.
pub(super) const NOTICED: Duration = Duration::from_millis(100);

/// When a run began, when all had settled and its scenario began, and when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) begun: Duration,
    pub(super) settled: Duration,
    pub(super) ended: Duration,
}

/// Reads the writes of one run. But for the first leader only what came after all had settled counts.
pub(super) fn figures(writes: &[Write], run: &Run) -> Figures {
    let mut figures = Figures::default();
    let mut terms = BTreeSet::new();
    let since_begun = |at: Duration| Time::after(at.saturating_sub(run.begun));
    if let Some(first) = writes.iter().find(|write| write.taken) {
        figures.first_leader = Some(first.at.saturating_sub(run.begun));
        let election = (Time::default(), since_begun(first.at));
        figures.elections.push(election);
    }
    let settled = writes.partition_point(|write| write.at < run.settled);
    let mut led_last: Option<Duration> = None;
    for write in &writes[settled..] {
        if !write.taken {
            figures.writes.1 += 1;
            continue;
        }
        figures.writes.0 += 1;
        terms.insert((write.candidate, write.epoch));
        if let Some(last) = led_last.replace(write.at)
            && gap(&mut figures, last, write.at)
        {
            figures
                .elections
                .push((since_begun(last), since_begun(write.at)));
        }
    }
    if let Some(last) = led_last {
        figures.led_at_end = !gap(&mut figures, last, run.ended);
    }
    figures.terms = terms.len() as u64;
    figures.overlap = two_act(&writes[settled..]);
    figures
}

/// Counts the time between two writes, if it is a time without a leader.
fn gap(figures: &mut Figures, from: Duration, to: Duration) -> bool {
    let gap = to.saturating_sub(from);
    let noticed = gap > NOTICED;
    if noticed {
        figures.without += gap;
        figures.longest_without = figures.longest_without.max(gap);
    }
    noticed
}

/// For how long two or more wrote at once, whether what they wrote was taken or not: by when they
/// began to write, so that a write that was under way when its leader was frozen does not count.
fn two_act(writes: &[Write]) -> Duration {
    let mut acted: BTreeMap<(u32, u64), Vec<Duration>> = BTreeMap::new();
    for write in writes {
        let times = acted.entry((write.candidate, write.epoch)).or_default();
        times.push(write.sent);
    }
    // When somebody begins (1) and ends (-1) to write without a pause.
    let mut changes: Vec<(Duration, i32)> = Vec::new();
    for mut times in acted.into_values() {
        times.sort_unstable();
        for spell in times.chunk_by(|one, next| *next - *one <= NOTICED) {
            changes.push((spell[0], 1));
            changes.push((spell[spell.len() - 1], -1));
        }
    }
    changes.sort_unstable();
    let (mut two, mut acting, mut before) = (Duration::ZERO, 0, Duration::ZERO);
    for (at, change) in changes {
        if acting > 1 {
            two += at - before;
        }
        acting += change;
        before = at;
    }
    two
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Writes every 5 ms from the first to the second time.
    fn reign(candidate: u32, epoch: u64, from: u32, to: u32, taken: bool) -> Vec<Write> {
        let write = |ms| Write {
            candidate,
            epoch,
            sent: MS * ms,
            at: MS * (ms + 1),
            taken,
        };
        (from..=to).step_by(5).map(write).collect()
    }

    fn read(reigns: &[Vec<Write>], ended: u32) -> Figures {
        let mut writes = reigns.concat();
        writes.sort_by_key(|write| write.at);
        let run = Run {
            begun: MS * 100,
            settled: MS * 400,
            ended: MS * ended,
        };
        figures(&writes, &run)
    }

    #[test]
    fn the_time_between_two_leaders_is_measured_and_they_do_not_overlap() {
        let reigns = [
            reign(1, 1, 500, 1_000, true),
            reign(2, 2, 3_000, 4_000, true),
        ];
        let found = read(&reigns, 4_010);
        assert_eq!(found.first_leader, Some(MS * 401));
        assert_eq!(found.longest_without, MS * 2_000);
        assert_eq!((found.overlap, found.terms), (Duration::ZERO, 2));
        assert_eq!(found.writes, (302, 0));
        let at = |ms| Time::after(MS * ms);
        // Counted from the beginning: until the first one, and between the two.
        assert_eq!(found.elections, [(at(0), at(401)), (at(901), at(2_901))]);
        assert!(found.led_at_end);
        assert!(!read(&reigns, 4_500).led_at_end);
    }

    #[test]
    fn an_old_leader_that_still_writes_acts_at_once_with_the_new_one() {
        let (old, new) = (reign(1, 1, 0, 1_000, true), reign(2, 2, 2_000, 3_000, true));
        let late = reign(1, 1, 2_500, 2_520, false);
        let found = read(&[old.clone(), new.clone(), late], 3_000);
        assert_eq!((found.overlap, found.writes.1), (MS * 20, 5));
        // Under one epoch, as without a quorum, nothing is refused.
        let second = reign(3, 2, 2_900, 3_000, true);
        assert_eq!(read(&[old, new, second], 3_000).overlap, MS * 100);
    }

    #[test]
    fn what_was_before_all_had_settled_is_no_fault() {
        let reigns = [reign(2, 1, 150, 200, true), reign(1, 2, 395, 1_000, true)];
        let found = read(&reigns, 1_000);
        assert_eq!(found.first_leader, Some(MS * 51));
        assert_eq!((found.longest_without, found.terms), (Duration::ZERO, 1));
    }

    #[test]
    fn nobody_led_where_nothing_came() {
        let found = read(&[], 5_000);
        assert_eq!(found, Figures::default());
    }
}
