//! The bounds of a search, and the events within them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use stateright::{Model, Property};

use super::state::*;
use crate::ownership::*;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The ownership duration of each server, in ticks.
    pub(super) ownership: &'static [u8],
    pub(super) ticks: u8,
    pub(super) events: Left,
    /// The number of ticks that one clock may lose. The margin is one tick.
    pub(super) lost_ticks_each: u8,
    /// Whether the service compares the tail before it applies an append.
    pub(super) compares: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// A tick passes; the clock of this server may lose it.
    Tick(Option<usize>),
    /// The service handles the call of this server.
    Reach(usize),
    /// The service handles a late or a repeated append.
    Late(Append),
    /// The answer arrives.
    Arrive(usize),
    /// The server gives up its call.
    GiveUp(usize),
    /// The append of this server fails for certain.
    Fail(usize),
    Timer(usize),
    Load(usize),
    Commit(usize),
    Restart(usize),
    Resign(usize),
    Vacate(usize),
}

impl Bounds {
    fn machine(&self, id: usize, starts: u8, now: u8) -> Ownership {
        let ownership = ticks(self.ownership[id]);
        let tick = ticks(1);
        let timings = OwnershipTimings::unchecked(ownership, tick, tick, tick, tick);
        let owner = OwnerId(u128::from(starts) * 4 + id as u128);
        Ownership::new(timings, owner, super::state::tick(now))
    }

    fn actions_of(&self, state: &State, id: usize, actions: &mut Vec<Action>) {
        let server = &state.servers[id];
        let left = &state.left;
        let clock = server.clock(state.now);
        match server.call {
            Some(Call::Look | Call::Append(_)) => {
                actions.push(Action::Reach(id));
                if left.failures > 0 && matches!(server.call, Some(Call::Append(_))) {
                    actions.push(Action::Fail(id));
                }
            }
            Some(Call::Looked(_) | Call::Appended(_)) => actions.push(Action::Arrive(id)),
            None => {}
        }
        if left.losses > 0 && server.call.is_some() {
            actions.push(Action::GiveUp(id));
        }
        if server.machine.next_timeout().is_some_and(|at| at <= clock) {
            actions.push(Action::Timer(id));
        }
        if server.loading.is_some() {
            actions.push(Action::Load(id));
        }
        let owns = server.content.is_some() && server.append.is_none();
        if left.batches > 0 && owns {
            actions.push(Action::Commit(id));
        }
        if left.restarts > 0 && server.machine.known().is_some() {
            actions.push(Action::Restart(id));
        }
        let has_resigned = server.machine.role(clock) == OwnershipRole::Resigned;
        if left.hand_overs > 0 && owns && !has_resigned {
            actions.push(Action::Resign(id));
        }
        if has_resigned && owns {
            actions.push(Action::Vacate(id));
        }
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = |id| Server {
            machine: self.machine(id, 0, 0),
            starts: 0,
            lost_ticks: 0,
            call: None,
            append: None,
            content: None,
            loading: None,
        };
        let mut state = State {
            now: 0,
            servers: (0..self.ownership.len()).map(server).collect(),
            service: Service::default(),
            left: self.events,
            acknowledged: BTreeSet::new(),
            next_batch: 0,
            event: None,
            broken: None,
        };
        for id in 0..self.ownership.len() {
            state.drain(id);
        }
        alloc::vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for id in 0..state.servers.len() {
            self.actions_of(state, id, actions);
        }
        let sent = state.service.sent.iter();
        let late = sent.filter(|it| !self.compares || it.expected == state.service.tail);
        actions.extend(late.map(|&append| Action::Late(append)));
        if state.now < self.ticks {
            actions.push(Action::Tick(None));
            if state.left.lost_ticks > 0 {
                let servers = state.servers.iter().enumerate();
                let exact = servers.filter(|(_, it)| it.lost_ticks < self.lost_ticks_each);
                actions.extend(exact.map(|(id, _)| Action::Tick(Some(id))));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        next.event = None;
        let clock = |next: &State, id: usize| next.servers[id].clock(next.now);
        match action {
            Action::Tick(behind) => {
                next.now += 1;
                if let Some(id) = behind {
                    next.left.lost_ticks -= 1;
                    next.servers[id].lost_ticks += 1;
                }
            }
            Action::Reach(id) => {
                let answer = match next.servers[id].call? {
                    Call::Append(append) => {
                        Call::Appended(next.service.append(&append, self.compares))
                    }
                    _ => Call::Looked(next.service.look()),
                };
                next.servers[id].call = Some(answer);
            }
            Action::Late(append) => {
                next.service.append(&append, self.compares);
            }
            Action::Arrive(id) => match next.servers[id].call.take()? {
                Call::Appended(outcome) => next.appended(id, outcome),
                Call::Looked(look) => {
                    let clock = clock(&next, id);
                    next.servers[id].machine.handle_tail(clock, look);
                    next.drain(id);
                }
                Call::Look | Call::Append(_) => return None,
            },
            Action::GiveUp(id) => {
                next.left.losses -= 1;
                match next.servers[id].call.take()? {
                    Call::Append(_) | Call::Appended(_) => {
                        next.appended(id, AppendOutcome::Unknown)
                    }
                    Call::Look | Call::Looked(_) => {
                        let clock = clock(&next, id);
                        next.servers[id].machine.handle_tail(clock, Look::Failed);
                        next.drain(id);
                    }
                }
            }
            Action::Fail(id) => {
                next.left.failures -= 1;
                next.servers[id].call = None;
                let append = next.servers[id].append?;
                // This attempt is never applied; an earlier one of the same append may be.
                if !next.servers[id].machine.is_unknown() {
                    next.service.sent.remove(&append);
                }
                next.appended(id, AppendOutcome::Refused);
            }
            Action::Timer(id) => {
                let clock = clock(&next, id);
                next.servers[id].machine.handle_timeout(clock);
                next.drain(id);
            }
            Action::Load(id) => {
                let clock = clock(&next, id);
                let content = next.service.content.clone();
                let server = &mut next.servers[id];
                let generation = server.loading.take()?;
                server.content = Some(content);
                server.machine.handle_loaded(clock, generation);
                next.drain(id);
            }
            Action::Commit(id) => {
                next.left.batches -= 1;
                let clock = clock(&next, id);
                let tail = next.servers[id].machine.append(clock)?;
                let batch = next.next_batch;
                next.next_batch += 1;
                next.begin(id, tail, Some(batch));
            }
            Action::Restart(id) => {
                next.left.restarts -= 1;
                let server = &mut next.servers[id];
                server.starts += 1;
                server.machine = self.machine(id, server.starts, next.now - server.lost_ticks);
                server.call = None;
                server.append = None;
                server.content = None;
                server.loading = None;
                next.drain(id);
            }
            Action::Resign(id) => {
                next.left.hand_overs -= 1;
                next.servers[id].machine.resign();
            }
            Action::Vacate(id) => {
                let clock = clock(&next, id);
                let tail = next.servers[id].machine.vacate(clock)?;
                next.begin(id, tail, None);
            }
        }
        next.check_chain(last);
        if self.compares {
            // The sequence only grows, so these are refused for ever.
            let sequence = next.service.tail.map_or(0, |it| it.sequence);
            let expects = |append: &Append| append.expected.map_or(0, |it| it.sequence);
            next.service.sent.retain(|it| expects(it) >= sequence);
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        alloc::vec![
            Property::always(ONE, |_, state: &State| state.has_one_owner()),
            Property::always(CONTENT, |_, state: &State| state.has_the_content()),
            Property::always(KEPT, |_, state: &State| state.keeps_what_it_acknowledged()),
            Property::always(RULES, |_, state: &State| state.broken.is_none()),
            Property::sometimes(BY_TIME, |_, state: &State| state.event
                == Some(Event::TookByTime)),
            Property::sometimes(VACANT, |_, state: &State| state.event
                == Some(Event::TookVacant)),
            Property::sometimes(FOUND, |_, state: &State| state.event
                == Some(Event::FoundApplied)),
            Property::sometimes(RESUMED, |_, state: &State| state.event
                == Some(Event::Resumed)),
            Property::sometimes(DEPOSED, |_, state: &State| state.event
                == Some(Event::Deposed)),
            Property::sometimes(LOST, |_, state: &State| state.event == Some(Event::Lost)),
            Property::sometimes(UNDONE, |_, state: &State| state.event
                == Some(Event::Undone)),
        ]
    }
}

pub(super) const ONE: &str = "a server that accepts requests has the last generation";
pub(super) const CONTENT: &str = "a server that accepts requests has the content of the log";
pub(super) const KEPT: &str = "what was acknowledged is in the log";
pub(super) const RULES: &str = "the appends form one chain, and a foreign tail stops its reader";

pub(super) const BY_TIME: &str = "a take-over after T";
pub(super) const VACANT: &str = "a take-over of a vacant tail";
pub(super) const FOUND: &str = "an unknown append that turns out to be applied";
pub(super) const RESUMED: &str = "an owner that lapsed and resumed";
pub(super) const DEPOSED: &str = "an owner that was deposed";
pub(super) const LOST: &str = "a batch whose outcome its owner never learns";
pub(super) const UNDONE: &str = "a batch that is undone";

impl State {
    /// Checks that the last step extended the chain, or left it.
    fn check_chain(&mut self, last: &Self) {
        let (Some(before), Some(after)) = (last.service.tail, self.service.tail) else {
            return;
        };
        let is_next = after.sequence == before.sequence + 1
            && if after.owner == before.owner {
                after.generation == before.generation
            } else {
                after.generation == before.generation + 1
            };
        if before != after && !is_next {
            self.broken = Some("the appends form no chain");
        }
    }
}
