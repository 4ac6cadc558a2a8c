//! The timeline of each host in one run: when it was up, led, was frozen, and ran its task.

use std::collections::BTreeMap;

use tenure_core::NodeId;
use tenure_sim::sim::{HistoryEvent, HistoryEventKind, Time};

/// One run, host by host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The hosts in the order of their numbers. The number of the store, if there is one, is 0.
    pub lanes: Vec<Lane>,
    /// The times at which faults began or ended, in seconds since the run began.
    pub faults: Vec<f64>,
}

/// The timeline of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// The host.
    pub node: NodeId,
    /// The spans, in the order in which they ended.
    pub spans: Vec<Span>,
}

/// A time in which a host has one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The state.
    pub state: LaneState,
    /// The beginning, in seconds since the run began.
    pub from: f64,
    /// The end.
    pub to: f64,
}

/// A state of a host; a host may have several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The process runs.
    Up,
    /// The host leads. A frozen host does not lead.
    Leads,
    /// The process is frozen.
    Frozen,
    /// The task runs. The task of a frozen host does not run.
    Acts,
}

#[derive(Debug, Default)]
struct Machine {
    up: Option<Time>,
    /// The beginning of the leadership, and its end unless it is extended.
    leads: Option<(Time, Time)>,
    frozen: Option<Time>,
    acts: Option<Time>,
    spans: Vec<Span>,
}

impl Timeline {
    /// Creates the timeline from a history.
    #[must_use]
    pub fn of(history: &[HistoryEvent]) -> Self {
        let mut machines: BTreeMap<NodeId, Machine> = BTreeMap::new();
        let mut faults: Vec<f64> = Vec::new();
        for HistoryEvent {
            at,
            node,
            kind: what,
        } in history
        {
            let at = *at;
            match what {
                HistoryEventKind::Fault(_) => {
                    let at = secs(at);
                    faults.extend((faults.last() != Some(&at)).then_some(at));
                }
                HistoryEventKind::RunEnded => {
                    machines.values_mut().for_each(|machine| machine.stops(at))
                }
                HistoryEventKind::FaultsOver | HistoryEventKind::MessageFlood => {}
                what => machines.entry(*node).or_default().handle(at, what),
            }
        }
        let lanes = machines.into_iter().map(|(node, machine)| Lane {
            node,
            spans: machine.spans,
        });
        Self {
            lanes: lanes.collect(),
            faults,
        }
    }
}

impl Machine {
    fn handle(&mut self, at: Time, what: &HistoryEventKind) {
        match *what {
            HistoryEventKind::Started => self.up = Some(at),
            HistoryEventKind::Stopped => self.stops(at),
            HistoryEventKind::Claims(_, until) => {
                let since = self.leads.filter(|(_, until)| *until >= at);
                if since.is_none() {
                    self.end_leadership(at);
                }
                self.leads = Some((since.map_or(at, |(since, _)| since), until));
            }
            HistoryEventKind::Yields => self.end_leadership(at),
            HistoryEventKind::Paused(_) => {
                let leads = self.leads;
                self.end_leadership(at);
                // If the host resumes before the end of its claim, it leads again.
                self.leads = leads;
                if self.frozen.is_none() {
                    self.span(LaneState::Acts, self.acts, at);
                    self.frozen = Some(at);
                }
            }
            HistoryEventKind::Resumed => {
                let frozen = self.frozen.take();
                self.span(LaneState::Frozen, frozen, at);
                let leads = self.leads.filter(|(_, until)| *until > at);
                self.leads = leads.map(|(_, until)| (at, until));
                self.acts = self.acts.map(|_| at);
            }
            HistoryEventKind::TaskStarted(_) => self.acts = self.acts.or(Some(at)),
            HistoryEventKind::TaskEnded(_) => {
                let acts = self.acts.take().filter(|_| self.frozen.is_none());
                self.span(LaneState::Acts, acts, at);
            }
            _ => {}
        }
    }

    /// Ends all states, because the process has ended.
    fn stops(&mut self, at: Time) {
        let acts = self.acts.take().filter(|_| self.frozen.is_none());
        if self.frozen.is_none() {
            self.end_leadership(at);
        }
        self.leads = None;
        let ends = [
            (LaneState::Up, self.up.take()),
            (LaneState::Frozen, self.frozen.take()),
            (LaneState::Acts, acts),
        ];
        for (state, since) in ends {
            self.span(state, since, at);
        }
    }

    /// Ends the leadership now, or at the end of its claim if that was earlier.
    fn end_leadership(&mut self, at: Time) {
        if let Some((since, until)) = self.leads.take() {
            self.span(LaneState::Leads, Some(since), at.min(until));
        }
    }

    fn span(&mut self, state: LaneState, since: Option<Time>, to: Time) {
        if let Some(from) = since.filter(|from| *from < to) {
            let (from, to) = (secs(from), secs(to));
            self.spans.push(Span { state, from, to });
        }
    }
}

fn secs(time: Time) -> f64 {
    time.since(Time::default()).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn after(secs: u64) -> Time {
        Time::after(Duration::from_secs(secs))
    }

    fn spans(events: &[(u64, HistoryEventKind)]) -> Vec<(LaneState, f64, f64)> {
        let event = |(secs, what): &(u64, HistoryEventKind)| HistoryEvent {
            at: after(*secs),
            node: NodeId(1),
            kind: what.clone(),
        };
        let timeline = Timeline::of(&events.iter().map(event).collect::<Vec<_>>());
        let spans = timeline.lanes.into_iter().flat_map(|lane| lane.spans);
        spans.map(|it| (it.state, it.from, it.to)).collect()
    }

    #[test]
    fn a_claim_that_is_renewed_is_one_span_and_one_that_ran_out_ends_when_it_did() {
        let found = spans(&[
            (0, HistoryEventKind::Started),
            (1, HistoryEventKind::Claims(None, after(10))),
            (5, HistoryEventKind::Claims(None, after(15))),
            (20, HistoryEventKind::Claims(None, after(30))),
            (25, HistoryEventKind::Yields),
            (40, HistoryEventKind::RunEnded),
        ]);
        assert_eq!(
            found,
            [
                (LaneState::Leads, 1.0, 15.0),
                (LaneState::Leads, 20.0, 25.0),
                (LaneState::Up, 0.0, 40.0)
            ]
        );
    }

    #[test]
    fn a_frozen_leader_neither_leads_nor_runs_its_task() {
        let found = spans(&[
            (0, HistoryEventKind::Started),
            (1, HistoryEventKind::Claims(None, after(30))),
            (1, HistoryEventKind::TaskStarted(None)),
            (5, HistoryEventKind::Paused(after(20))),
            (20, HistoryEventKind::Resumed),
            (25, HistoryEventKind::Stopped),
        ]);
        assert_eq!(
            found,
            [
                (LaneState::Leads, 1.0, 5.0),
                (LaneState::Acts, 1.0, 5.0),
                (LaneState::Frozen, 5.0, 20.0),
                (LaneState::Leads, 20.0, 25.0),
                (LaneState::Up, 0.0, 25.0),
                (LaneState::Acts, 20.0, 25.0)
            ]
        );
    }

    #[test]
    fn a_leader_that_is_frozen_until_the_end_does_not_lead_or_act_then() {
        let found = spans(&[
            (1, HistoryEventKind::Claims(None, after(99))),
            (1, HistoryEventKind::TaskStarted(None)),
            (5, HistoryEventKind::Paused(after(80))),
            (9, HistoryEventKind::RunEnded),
        ]);
        assert_eq!(
            found,
            [
                (LaneState::Leads, 1.0, 5.0),
                (LaneState::Acts, 1.0, 5.0),
                (LaneState::Frozen, 5.0, 9.0)
            ]
        );
    }
}
