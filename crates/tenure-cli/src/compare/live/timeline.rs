//! What each candidate did in one run, as the receiver and this process saw it.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::NodeId;
use tenure_lab::report::Timeline;
use tenure_lab::sim::{EventKind, HistoryEvent, Time};

use super::figures::{NOTICED, Run};
use super::receiver::Write;

/// Who writes without a pause acts, and leads while what it writes is taken.
pub(super) fn of(
    run: &Run,
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
    for (number, from, to) in spells(writes, false) {
        events.push(event(from, number, EventKind::TaskStarted(None)));
        events.push(event(to, number, EventKind::TaskEnded(None)));
    }
    for (number, from, to) in spells(writes, true) {
        events.push(event(from, number, EventKind::Claims(None, Time::NEVER)));
        events.push(event(to, number, EventKind::Yields));
    }
    events.push(event(run.ended, 0, EventKind::RunEnded));
    // What was seen at one moment stays in its order.
    events.sort_by_key(|event| event.at);
    Timeline::of(&events)
}

/// From when to when each of them wrote without a pause; or only what was taken of that.
fn spells(writes: &[Write], only_taken: bool) -> Vec<(u32, Duration, Duration)> {
    let mut of: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for write in writes.iter().filter(|write| write.taken || !only_taken) {
        of.entry(write.candidate).or_default().push(write.at);
    }
    let mut spells = Vec::new();
    for (number, times) in of {
        for spell in times.chunk_by(|one, next| *next - *one <= NOTICED) {
            spells.push((number, spell[0], spell[spell.len() - 1]));
        }
    }
    spells
}

#[cfg(test)]
mod tests {
    use tenure_lab::report::LaneState;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_thawed_leader_whose_writes_are_refused_acts_and_does_not_lead() {
        let write = |candidate, ms, taken| Write {
            candidate,
            epoch: u64::from(candidate),
            sent: MS * ms,
            at: MS * ms,
            taken,
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
        let run = Run {
            begun: Duration::ZERO,
            settled: Duration::ZERO,
            ended: MS * 4_000,
        };
        let found = of(&run, &writes, &seen, &[MS * 1_000]);
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
