//! Extracts the figures of a run from its history.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::NodeId;
use tenure_sim::sim::{HistoryEvent, HistoryEventKind, Time};

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The time from the beginning until the first leader.
    pub first_leader: Option<Duration>,
    /// The longest time without a leader after the first leader. A frozen leader does not count as
    /// a leader.
    pub longest_without: Duration,
    /// The time for which two or more tasks ran at once.
    pub overlap: Duration,
    /// The number of terms.
    pub terms: u64,
    /// The number of writes that the receiver accepted, and of those that it refused for a stale
    /// epoch.
    pub writes: (u64, u64),
    /// The elections: the times without a leader that ended with a leader, including the time
    /// before the first leader.
    pub elections: Vec<(Time, Time)>,
    /// Whether there was a leader at the end.
    pub led_at_end: bool,
}

/// The state of a host as far as the figures need it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machine {
    pub(super) claims_until: Option<Time>,
    pub(super) frozen: bool,
    pub(super) acts: bool,
}

impl Machine {
    pub(super) const fn apply(&mut self, event: &HistoryEventKind) {
        match event {
            HistoryEventKind::Claims(_, until) => self.claims_until = Some(*until),
            HistoryEventKind::Yields => self.claims_until = None,
            HistoryEventKind::Stopped => {
                *self = Self {
                    claims_until: None,
                    frozen: false,
                    acts: false,
                }
            }
            HistoryEventKind::Paused(_) => self.frozen = true,
            HistoryEventKind::Resumed => self.frozen = false,
            HistoryEventKind::TaskStarted(_) => self.acts = true,
            HistoryEventKind::TaskEnded(_) => self.acts = false,
            _ => {}
        }
    }
}

/// Calculates the figures from a history.
#[must_use]
pub fn figures(history: &[HistoryEvent]) -> Figures {
    let mut figures = Figures::default();
    let mut machines: BTreeMap<NodeId, Machine> = BTreeMap::new();
    let mut before = Time::default();
    // The beginning of the current time without a leader.
    let mut without_since = None;
    for event in history {
        let awake = || machines.values().filter(|machine| !machine.frozen);
        // Since `before`, claims may have expired, and nothing else has changed.
        let led_until = awake().filter_map(|it| it.claims_until).max();
        let led_until = led_until.unwrap_or_default().clamp(before, event.at);
        if led_until > before
            && let Some(since) = without_since.take()
        {
            figures.end_of_gap(before.since(since));
            figures.elections.push((since, before));
        }
        if led_until < event.at && figures.first_leader.is_some() {
            without_since.get_or_insert(led_until);
        }
        if awake().filter(|machine| machine.acts).count() > 1 {
            figures.overlap += event.at.since(before);
        }
        before = event.at;
        machines.entry(event.node).or_default().apply(&event.kind);
        match event.kind {
            HistoryEventKind::Claims(..) if figures.first_leader.is_none() => {
                figures.first_leader = Some(event.at.since(Time::default()));
                figures.elections.push((Time::default(), event.at));
            }
            HistoryEventKind::TaskStarted(_) => figures.terms += 1,
            HistoryEventKind::Wrote { taken: true, .. } => figures.writes.0 += 1,
            HistoryEventKind::Wrote { .. } => figures.writes.1 += 1,
            HistoryEventKind::RunEnded => {
                figures.led_at_end = without_since.is_none() && figures.first_leader.is_some();
                if let Some(since) = without_since.take() {
                    figures.end_of_gap(event.at.since(since));
                }
            }
            _ => {}
        }
    }
    figures
}

impl Figures {
    fn end_of_gap(&mut self, gap: Duration) {
        self.longest_without = self.longest_without.max(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[(u64, u32, HistoryEventKind)]) -> Figures {
        let event = |(secs, node, what): &(u64, u32, HistoryEventKind)| HistoryEvent {
            at: Time::after(Duration::from_secs(*secs)),
            node: NodeId(*node),
            kind: what.clone(),
        };
        figures(&events.iter().map(event).collect::<Vec<_>>())
    }

    fn claims(secs: u64) -> HistoryEventKind {
        HistoryEventKind::Claims(None, Time::after(Duration::from_secs(secs)))
    }

    #[test]
    fn gaps_and_overlaps_are_measured_to_the_second() {
        let secs = Duration::from_secs;
        let found = read(&[
            (2, 1, claims(10)),
            (2, 1, HistoryEventKind::TaskStarted(None)),
            // The first claim expires at 10, and the next leader leads from 13 on. The task of the
            // first leader runs until 14.
            (13, 2, claims(30)),
            (13, 2, HistoryEventKind::TaskStarted(None)),
            (14, 1, HistoryEventKind::TaskEnded(None)),
            // The leader is frozen, and resumes.
            (20, 2, HistoryEventKind::Paused(Time::after(secs(25)))),
            (25, 2, HistoryEventKind::Resumed),
            (25, 2, claims(40)),
            (32, 0, HistoryEventKind::RunEnded),
        ]);
        assert_eq!(found.first_leader, Some(secs(2)));
        assert_eq!(found.longest_without, secs(5));
        assert_eq!((found.overlap, found.terms), (secs(1), 2));
        let at = |from, until| (Time::after(secs(from)), Time::after(secs(until)));
        assert_eq!(found.elections, [at(0, 2), at(10, 13), at(20, 25)]);
        assert!(found.led_at_end);
    }
}
