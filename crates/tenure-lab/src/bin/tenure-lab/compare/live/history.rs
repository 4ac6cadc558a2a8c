//! The history of one run, and its figures, from the writes that the receiver recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_core::NodeId;
use tenure_lab::measure::{self, Figures};
use tenure_sim::sim::{HistoryEvent, HistoryEventKind, Time};

use super::receiver::Write;

/// The longest pause between two writes of a leader on a busy machine; a leader writes every few
/// milliseconds. Only a longer pause counts as a time without a leader.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The times at which a run began, its scenario began, and the run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTimes {
    pub(super) begun: Duration,
    pub(super) settled: Duration,
    pub(super) ended: Duration,
}

/// The history of a run: starts and ends of processes, faults, and writes. A candidate acts while
/// it sends writes without a pause, and leads while the receiver accepts its writes.
pub(super) fn history(
    run: &RunTimes,
    writes: &[Write],
    seen: &[(Duration, u32, HistoryEventKind)],
    faults: &[Duration],
) -> Vec<HistoryEvent> {
    let mut events = seen.to_vec();
    for &at in faults {
        events.push((at, 0, HistoryEventKind::Fault(String::new())));
    }
    // These are the times of the senders. A write that was under way when its leader was frozen
    // does not count as an act after the freeze.
    let mut sent: BTreeMap<(u32, u64), Vec<Duration>> = BTreeMap::new();
    for write in writes {
        let taken = write.accepted;
        events.push((
            write.at,
            write.candidate,
            HistoryEventKind::Wrote { epoch: None, taken },
        ));
        let times = sent.entry((write.candidate, write.epoch)).or_default();
        times.push(write.sent);
    }
    for ((number, _), mut times) in sent {
        times.sort_unstable();
        for spell in times.chunk_by(|one, next| *next - *one <= MAX_PAUSE) {
            let (first, last) = (spell[0], spell[spell.len() - 1]);
            events.push((first, number, HistoryEventKind::TaskStarted(None)));
            events.push((last, number, HistoryEventKind::TaskEnded(None)));
        }
    }
    let mut accepted = writes.iter().filter(|write| write.accepted).peekable();
    let mut leader = None;
    while let Some(write) = accepted.next() {
        let number = write.candidate;
        if leader != Some(number) {
            events.push((
                write.at,
                number,
                HistoryEventKind::Claims(None, Time::NEVER),
            ));
            leader = Some(number);
        }
        let next = accepted.peek();
        let until = next.map_or(run.ended, |next| next.at);
        let has_pause = until.saturating_sub(write.at) > MAX_PAUSE;
        if has_pause || next.is_some_and(|next| next.candidate != number) {
            let end = if has_pause { write.at } else { until };
            events.push((end, number, HistoryEventKind::Yields));
            leader = None;
        }
    }
    events.push((run.ended, 0, HistoryEventKind::RunEnded));
    // A stable sort, so that events of the same time stay in order.
    events.sort_by_key(|(at, ..)| *at);
    let event = |(at, number, kind)| HistoryEvent {
        at: run.since_begun(at),
        node: NodeId(number),
        kind,
    };
    events.into_iter().map(event).collect()
}

/// The figures of one run. Except for the first leader, only writes after the run had settled
/// count.
pub(super) fn figures(writes: &[Write], run: &RunTimes) -> Figures {
    let settled = &writes[writes.partition_point(|write| write.at < run.settled)..];
    let mut figures = measure::figures(&history(run, settled, &[], &[]));
    let accepted = settled.iter().filter(|write| write.accepted);
    let terms: BTreeSet<_> = accepted.map(|it| (it.candidate, it.epoch)).collect();
    figures.terms = terms.len() as u64;
    if let Some(first) = writes.iter().find(|write| write.accepted) {
        let at = run.since_begun(first.at);
        figures.first_leader = Some(at.since(Time::default()));
        let known = figures.elections.len().min(1);
        figures.elections.splice(..known, [(Time::default(), at)]);
    }
    figures
}

impl RunTimes {
    fn since_begun(&self, at: Duration) -> Time {
        Time::after(at.saturating_sub(self.begun))
    }
}

#[cfg(test)]
mod tests {
    use tenure_lab::report::{LaneState, Timeline};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Writes every 5 ms from the first to the second time.
    fn term(candidate: u32, epoch: u64, from: u32, to: u32, accepted: bool) -> Vec<Write> {
        let write = |ms| Write {
            candidate,
            epoch,
            sent: MS * ms,
            at: MS * (ms + 1),
            accepted,
        };
        (from..=to).step_by(5).map(write).collect()
    }

    fn read(terms: &[Vec<Write>], ended: u32) -> Figures {
        let mut writes = terms.concat();
        writes.sort_by_key(|write| write.at);
        let run = RunTimes {
            begun: MS * 100,
            settled: MS * 400,
            ended: MS * ended,
        };
        figures(&writes, &run)
    }

    #[test]
    fn the_time_between_two_leaders_is_measured_and_they_do_not_overlap() {
        let terms = [term(1, 1, 500, 1_000, true), term(2, 2, 3_000, 4_000, true)];
        let found = read(&terms, 4_010);
        assert_eq!(found.first_leader, Some(MS * 401));
        assert_eq!(found.longest_without, MS * 2_000);
        assert_eq!((found.overlap, found.terms), (Duration::ZERO, 2));
        assert_eq!(found.writes, (302, 0));
        let at = |ms| Time::after(MS * ms);
        // Counted from the beginning: until the first one, and between the two.
        assert_eq!(found.elections, [(at(0), at(401)), (at(901), at(2_901))]);
        assert!(found.led_at_end);
        assert!(!read(&terms, 4_500).led_at_end);
    }

    #[test]
    fn an_old_leader_that_still_writes_overlaps_with_the_new_one() {
        let (old, new) = (term(1, 1, 0, 1_000, true), term(2, 2, 2_000, 3_000, true));
        let late = term(1, 1, 2_500, 2_520, false);
        let found = read(&[old.clone(), new.clone(), late], 3_000);
        assert_eq!((found.overlap, found.writes.1), (MS * 20, 5));
        // If both leaders have one epoch, as without a quorum, the receiver refuses no write.
        let second = term(3, 2, 2_900, 3_000, true);
        assert_eq!(read(&[old, new, second], 3_000).overlap, MS * 100);
    }

    #[test]
    fn changes_before_the_run_has_settled_do_not_count() {
        let terms = [term(2, 1, 150, 200, true), term(1, 2, 395, 1_000, true)];
        let found = read(&terms, 1_000);
        assert_eq!(found.first_leader, Some(MS * 51));
        assert_eq!((found.longest_without, found.terms), (Duration::ZERO, 1));
    }

    #[test]
    fn without_writes_there_was_no_leader() {
        let found = read(&[], 5_000);
        assert_eq!(found, Figures::default());
    }

    #[test]
    fn a_thawed_leader_whose_writes_are_refused_acts_and_does_not_lead() {
        let write = |candidate, ms, accepted| Write {
            candidate,
            epoch: u64::from(candidate),
            sent: MS * ms,
            at: MS * ms,
            accepted,
        };
        let mut writes: Vec<_> = (100..=1_000)
            .step_by(50)
            .map(|ms| write(1, ms, true))
            .collect();
        writes.extend((3_000..=4_000).step_by(50).map(|ms| write(2, ms, true)));
        writes.extend([write(1, 3_500, false), write(1, 3_510, false)]);
        writes.sort_by_key(|write| write.at);
        let seen = [
            (Duration::ZERO, 1, HistoryEventKind::Started),
            (Duration::ZERO, 2, HistoryEventKind::Started),
            (MS * 1_001, 1, HistoryEventKind::Paused(Time::NEVER)),
            (MS * 3_490, 1, HistoryEventKind::Resumed),
        ];
        let run = RunTimes {
            begun: Duration::ZERO,
            settled: Duration::ZERO,
            ended: MS * 4_000,
        };
        let found = Timeline::of(&history(&run, &writes, &seen, &[MS * 1_000]));
        assert_eq!(found.faults, [1.0]);
        let spans = |node: usize, state| {
            let spans = found.lanes[node].spans.iter();
            let spans = spans.filter(|span| span.state == state);
            spans.map(|it| (it.from, it.to)).collect::<Vec<_>>()
        };
        assert_eq!(found.lanes.len(), 2);
        assert_eq!(spans(0, LaneState::Leads), [(0.1, 1.0)]);
        assert_eq!(spans(0, LaneState::Acts), [(0.1, 1.0), (3.5, 3.51)]);
        assert_eq!(spans(0, LaneState::Frozen), [(1.001, 3.49)]);
        assert_eq!(spans(1, LaneState::Leads), [(3.0, 4.0)]);
    }
}
