//! The timeline of each candidate in one run, from the receiver's record and from this process.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::NodeId;
use tenure_lab::report::Timeline;
use tenure_lab::sim::{EventKind, HistoryEvent, Time};

use super::figures::{MAX_PAUSE, RunTimes};
use super::receiver::Write;

/// A candidate acts while it writes without a pause, and leads while its writes are accepted.
pub(super) fn timeline(
    run: &RunTimes,
    writes: &[Write],
    seen: &[(Duration, u32, EventKind)],
    faults: &[Duration],
) -> Timeline {
    let event = |at: Duration, number: u32, what: EventKind| HistoryEvent {
        at: Time::after(at.saturating_sub(run.begun)),
        node: NodeId(number),
        kind: what,
    };
    let mut events: Vec<HistoryEvent> = Vec::new();
    for (at, number, what) in seen {
        events.push(event(*at, *number, what.clone()));
    }
    for &at in faults {
        events.push(event(at, 0, EventKind::Fault(String::new())));
    }
    for (number, from, to) in writing_times(writes, false) {
        events.push(event(from, number, EventKind::TaskStarted(None)));
        events.push(event(to, number, EventKind::TaskEnded(None)));
    }
    for (number, from, to) in writing_times(writes, true) {
        events.push(event(from, number, EventKind::Claims(None, Time::NEVER)));
        events.push(event(to, number, EventKind::Yields));
    }
    events.push(event(run.ended, 0, EventKind::RunEnded));
    // A stable sort, so that events of the same time stay in order.
    events.sort_by_key(|event| event.at);
    Timeline::of(&events)
}

/// The times in which each candidate wrote without a pause: all writes, or only accepted ones.
fn writing_times(writes: &[Write], only_accepted: bool) -> Vec<(u32, Duration, Duration)> {
    let mut of: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for write in writes
        .iter()
        .filter(|write| write.accepted || !only_accepted)
    {
        of.entry(write.candidate).or_default().push(write.at);
    }
    let mut found = Vec::new();
    for (number, times) in of {
        for spell in times.chunk_by(|one, next| *next - *one <= MAX_PAUSE) {
            found.push((number, spell[0], spell[spell.len() - 1]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use tenure_lab::report::LaneState;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

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
            (Duration::ZERO, 1, EventKind::Started),
            (Duration::ZERO, 2, EventKind::Started),
            (MS * 1_001, 1, EventKind::Paused(Time::NEVER)),
            (MS * 3_490, 1, EventKind::Resumed),
        ];
        let run = RunTimes {
            begun: Duration::ZERO,
            settled: Duration::ZERO,
            ended: MS * 4_000,
        };
        let found = timeline(&run, &writes, &seen, &[MS * 1_000]);
        assert_eq!(found.faults, [1.0]);
        let spans = |node: usize, state| {
            let spans = found.lanes[node].spans.iter();
            let spans = spans.filter(|span| span.state == state);
            spans.map(|it| (it.from, it.to)).collect::<Vec<_>>()
        };
        assert_eq!(found.lanes.len(), 2);
        assert_eq!(spans(0, LaneState::Leads), [(0.1, 1.0)]);
        assert_eq!(spans(0, LaneState::Acts), [(0.1, 1.0), (3.5, 3.51)]);
        assert_eq!(spans(0, LaneState::Still), [(1.001, 3.49)]);
        assert_eq!(spans(1, LaneState::Leads), [(3.0, 4.0)]);
    }
}
