//! The bounds of a search, and the events within them.

use alloc::vec::Vec;

use stateright::{Model, Property};

use super::super::*;
use super::state::*;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) servers: usize,
    pub(super) slots: u64,
    /// The sequence of the last entry.
    pub(super) entries: u64,
    /// The ownership duration in ticks.
    pub(super) ownership: u64,
    pub(super) left: Left,
    /// The events before the search begins.
    pub(super) begin: &'static [&'static [Action]],
    /// Whether servers delete the slots that the base contains, and never use one again if there are
    /// more than entries.
    pub(super) deletes_slots: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A tick passes.
    Tick,
    /// The server reads a slot.
    Read(usize),
    /// The server loads the content, after it has read all slots.
    Load(usize),
    Timer(usize),
    /// The owner appends a change of this key.
    Commit(usize, usize),
    /// The append reaches the home, which answers.
    Answer(usize),
    /// A late or a repeated append reaches the home.
    Late(Key),
    /// The server gives up its append.
    GiveUp(usize),
    /// The append definitely fails.
    Fail(usize),
    BeginBase(usize),
    /// The server writes this chunk of its base.
    Chunk(usize, usize),
    /// The server deletes this file.
    Delete(usize, usize),
    DeleteSlot(usize),
    Crash(usize),
    /// The home loses the newest entry, and a server that has not seen it starts.
    GoBack(usize),
}

impl Bounds {
    fn actions_of(&self, state: &State, id: usize, actions: &mut Vec<Action>) {
        let server = &state.servers[id];
        let left = &state.left;
        let has_content = server.reads.is_none();
        match &server.reads {
            Some(reads) if reads.len() == state.slots.len() => actions.push(Action::Load(id)),
            Some(_) => actions.push(Action::Read(id)),
            None if server.looks => actions.push(Action::Read(id)),
            None => {}
        }
        match server.sending {
            Some(sending) if sending.is_in_flight => {
                actions.push(Action::Answer(id));
                if left.losses > 0 {
                    actions.push(Action::GiveUp(id));
                }
                if left.failures > 0 {
                    actions.push(Action::Fail(id));
                }
            }
            _ => {}
        }
        // The owner of a full ring has resigned.
        let owns = server.ownership.serves_until().is_some();
        let is_full = owns && server.ring.needs_base(server.written(&state.files));
        let timer = server.ownership.next_timeout();
        if !is_full && timer.is_some_and(|at| at <= state.clock()) {
            actions.push(Action::Timer(id));
        }
        let serves = server.serves(state.now);
        if left.changes > 0 && serves && server.sending.is_none() && !is_full {
            actions.extend((0..2).map(|key| Action::Commit(id, key)));
        }
        match server.writing.map(|it| (it, state.files[it].chunks)) {
            Some((_, [None, _])) => actions.push(Action::Chunk(id, 0)),
            Some((_, [_, None])) => actions.push(Action::Chunk(id, 1)),
            _ if left.bases > 0 && has_content && server.ring.begin_base().is_some() => {
                actions.push(Action::BeginBase(id));
            }
            _ => {}
        }
        let base = server.ring.base();
        for (file, it) in state.files.iter().enumerate() {
            let supersedes = |base: Base| base.supersedes(&[base.newest], id_of(file), it.covered);
            if !it.is_deleted && base.is_some_and(supersedes) {
                actions.push(Action::Delete(id, file));
            }
        }
        if left.crashes > 0 {
            actions.push(Action::Crash(id));
        }
        let is_in_first_round = |it: Entry| (2..=self.slots).contains(&it.header.sequence);
        if left.go_backs > 0 && state.newest.is_some_and(is_in_first_round) {
            actions.push(Action::GoBack(id));
        }
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = |id| Server::new(self, id, 0, 0);
        let mut state = State {
            now: 0,
            slots: (0..self.slots).map(|_| None).collect(),
            files: Vec::new(),
            sent: Vec::new(),
            servers: (0..self.servers).map(server).collect(),
            left: Left {
                changes: u8::MAX,
                bases: u8::MAX,
                ..self.left
            },
            newest: None,
            went_back: false,
            committed: [0; 2],
            acknowledged: [0; 2],
            event: None,
            broken: None,
        };
        for id in 0..self.servers {
            state.drain(id);
        }
        for &action in self.begin.iter().copied().flatten() {
            let next = self.next_state(&state, action);
            state = next.unwrap_or_else(|| panic!("{action:?} is not possible"));
        }
        state.left = self.left;
        alloc::vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.left.ticks > 0 {
            actions.push(Action::Tick);
        }
        for id in 0..state.servers.len() {
            self.actions_of(state, id, actions);
        }
        actions.extend(state.sent.iter().map(|it| Action::Late(it.key)));
        if self.deletes_slots {
            let covered = state
                .newest
                .and_then(|it| it.base)
                .map_or(0, |it| it.covered);
            actions.extend((1..=covered as usize).map(Action::DeleteSlot));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        next.event = None;
        let clock = next.clock();
        match action {
            Action::Tick => {
                next.left.ticks -= 1;
                next.now += 1;
            }
            Action::Read(id) => next.read(id),
            Action::Load(id) => next.load(id),
            Action::Timer(id) => {
                next.servers[id].ownership.handle_timeout(clock);
                next.drain(id);
            }
            Action::Commit(id, key) => {
                next.left.changes -= 1;
                let header = next.servers[id].ownership.append(clock)?;
                next.send(id, header, Some(key));
                next.drain(id);
            }
            Action::Answer(id) => {
                let answer = next.reach(id)?;
                next.answer(id, answer);
            }
            Action::Late(key) => {
                let message = *last.sent.iter().find(|it| it.key == key)?;
                if next.replace(&message) {
                    next.event = Some(Event::Late);
                }
            }
            Action::GiveUp(id) => {
                next.left.losses -= 1;
                next.answer(id, SlotReplaced::Unknown);
            }
            Action::Fail(id) => {
                next.left.failures -= 1;
                next.fail(id)?;
            }
            Action::BeginBase(id) => {
                next.left.bases -= 1;
                let covered = next.servers[id].ring.begin_base()?;
                next.servers[id].writing = Some(next.files.len());
                next.files.push(File {
                    covered,
                    chunks: [None; 2],
                    is_deleted: false,
                });
                next.drain(id);
            }
            Action::Chunk(id, key) => {
                let file = next.servers[id].writing?;
                next.files[file].chunks[key] = Some(next.servers[id].durable(key));
                next.drain(id);
            }
            Action::Delete(_, file) => {
                next.files[file].is_deleted = true;
                next.event = Some(Event::Deleted);
            }
            Action::DeleteSlot(slot) => next.slots[slot] = None,
            Action::Crash(id) => {
                next.left.crashes -= 1;
                next.crash(self, id);
            }
            Action::GoBack(id) => {
                next.left.go_backs -= 1;
                next.go_back(self, id);
            }
        }
        next.forget_refused(self.deletes_slots);
        next.broken = next.broken.or_else(|| next.violation());
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = alloc::vec![Property::always(RIGHT, |_, state: &State| state
            .broken
            .is_none())];
        properties.extend(
            EVENTS
                .iter()
                .map(|(name, has)| Property::sometimes(name, *has)),
        );
        properties
    }

    fn within_boundary(&self, state: &State) -> bool {
        let is_within = |it: &Server| {
            let sending = it.sending.map_or(0, |it| it.message.sequence());
            sending <= self.entries
        };
        state.servers.iter().all(is_within)
    }
}

pub(super) const RIGHT: &str = "nothing is broken";

type Has = fn(&Bounds, &State) -> bool;

/// The events with their names.
pub(super) const EVENTS: &[(&str, Has)] = &[
    ("an owner that finds an entry missing", |_, it| {
        it.event == Some(Event::WentBack)
    }),
    ("a take-over", |_, it| it.event == Some(Event::TookOver)),
    ("a take-over with a new base", |_, it| {
        it.event == Some(Event::TookOverWithBase)
    }),
    ("a ring that is full", |_, it| {
        it.event == Some(Event::NeedsBase)
    }),
    ("a server that is behind", |_, it| {
        it.event == Some(Event::Behind)
    }),
    ("a torn read of all slots", |_, it| {
        it.event == Some(Event::Again)
    }),
    ("a file that is missing", |_, it| {
        it.event == Some(Event::FileMissing)
    }),
    ("a late append", |_, it| it.event == Some(Event::Late)),
    ("an append of unknown outcome that was applied", |_, it| {
        it.event == Some(Event::FoundOwn)
    }),
    ("an append that is undone", |_, it| {
        it.event == Some(Event::Undone)
    }),
    ("an append that is superseded", |_, it| {
        it.event == Some(Event::Lost)
    }),
    ("a file that is deleted", |_, it| {
        it.event == Some(Event::Deleted)
    }),
];
