//! The bounds of a search, and the events within them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use stateright::{Model, Property};

use super::state::{Left, Place, State, is_carried, is_carried_where};
use super::store::{Client, Store};
use super::{LONG, tick, ticks};
use crate::bully::{
    GroupSettings, GroupTimings, HardState, Member, Membership, PeerCandidate, PeerInput,
    PeerMessage, Process, QuorumKind, QuorumMessage, Quorums, Started,
};
use crate::election::ElectionMachine as _;
use crate::election::fallback::FallbackCandidate;
use crate::election::joint::JointMessage;
use crate::lease::candidate::{Answer, TaskEnd, Timings};
use crate::{Instant, NodeId, UnixMillis};

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) members: u32,
    /// The members that are necessary beside the store, and without it.
    pub(super) quorums: (usize, usize),
    pub(super) ticks: u8,
    /// In ticks; so is `promise`.
    pub(super) lease: u8,
    pub(super) promise: u8,
    pub(super) events: Left,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// The flag tells whether the candidate knows the greatest epoch of all members, or only its
    /// own record.
    AskMembers(NodeId, bool),
    AskStore(NodeId, bool),
    Deliver(Process, NodeId, QuorumMessage),
    ReachStore(Client),
    Answer(Client, Answer),
    GiveUp(NodeId),
    NextRequest(NodeId),
    Renew(NodeId),
    TaskEnds(NodeId),
    Crash(NodeId),
    StoreRestarts,
    StorePolls,
    Disconnects(Client),
    Tick,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = |client: &Client| client.node;
        match self {
            Self::AskMembers(id, false) => write!(f, "{id} asks for votes"),
            Self::AskMembers(id, true) => write!(f, "{id} asks for votes, for the greatest epoch"),
            Self::AskStore(id, false) => write!(f, "{id} asks the store"),
            Self::AskStore(id, true) => write!(f, "{id} asks the store, for the greatest epoch"),
            Self::Deliver(from, to, message) => {
                let from = from.node;
                write!(f, "{to} receives a message of {from}: {message:?}")
            }
            Self::ReachStore(client) => {
                write!(
                    f,
                    "the store receives request {} of {}",
                    client.attempt,
                    node(client)
                )
            }
            Self::Answer(client, answer) => {
                let (id, attempt) = (node(client), client.attempt);
                write!(
                    f,
                    "{id} receives the answer to request {attempt}: {answer:?}"
                )
            }
            Self::GiveUp(id) => write!(f, "{id} no longer waits for the answer of the store"),
            Self::NextRequest(id) => write!(f, "{id} sends the next request to the store"),
            Self::Renew(id) => write!(f, "{id} asks members for renewals"),
            Self::TaskEnds(id) => write!(f, "{id}'s task ends"),
            Self::Crash(id) => write!(f, "{id} crashes and restarts"),
            Self::StoreRestarts => f.write_str("the store restarts"),
            Self::StorePolls => f.write_str("the store ends a term or grants the lease"),
            Self::Disconnects(client) => {
                write!(f, "the store notices that {} is gone", node(client))
            }
            Self::Tick => f.write_str("time passes"),
        }
    }
}

impl Bounds {
    fn machine(&self, id: NodeId, record: HardState, now: Instant) -> FallbackCandidate {
        let member = |id| Member {
            id: NodeId(id),
            priority: id,
        };
        let members = Membership::new((1..=self.members).map(member)).unwrap();
        let term = Timings::unchecked(ticks(self.promise), ticks(self.lease));
        let timings = GroupTimings::unchecked_with(term.with_renew_interval(LONG), LONG);
        let (with_store, without_store) = self.quorums;
        let quorums = Quorums::unchecked(with_store, without_store);
        let settings = GroupSettings::new(id, members, timings).unwrap();
        let settings = settings.with_quorums(quorums);
        let started = Started {
            at: now,
            wall: UnixMillis::new(0),
        };
        let mut node = PeerCandidate::new(settings, record, started);
        node.become_candidate();
        FallbackCandidate::new(node, now)
    }

    fn actions_of(&self, state: &State, place: &Place, actions: &mut Vec<Action>) {
        let now = state.instant();
        let machine = &place.machine;
        let id = machine.node.settings().me();
        let left = &state.left;
        // All members are equivalent, so it is enough that they begin in the order of their ids.
        let may_begin = id.0 <= state.begun + 1;
        let is_behind = machine.node.promised() < state.highest();
        if may_begin && machine.last.is_none() && machine.node.is_free(now) {
            if left.votes > 0 {
                actions.push(Action::AskMembers(id, false));
                if is_behind {
                    actions.push(Action::AskMembers(id, true));
                }
            }
            if left.campaigns > 0 && machine.store.is_idle() {
                actions.push(Action::AskStore(id, false));
                if is_behind {
                    actions.push(Action::AskStore(id, true));
                }
            }
        }
        let is_at_rest = machine.store.is_idle() && machine.node.is_at_rest(now);
        if left.crashes > 0 && may_begin && !is_at_rest {
            actions.push(Action::Crash(id));
        }
        if left.task_ends > 0 && machine.stop_by().is_some() {
            actions.push(Action::TaskEnds(id));
        }
        if left.rounds > 0 && machine.node.valid_by(now).is_some() {
            actions.push(Action::Renew(id));
        }
        if left.losses > 0 && place.awaits().is_some() {
            actions.push(Action::GiveUp(id));
        }
        let is_due = machine.store.poll_timeout().is_some_and(|due| due <= now);
        if left.requests > 0 && is_due {
            actions.push(Action::NextRequest(id));
        }
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let places = (1..=self.members).map(NodeId).map(|id| {
            let durable = HardState::default();
            let machine = self.machine(id, durable, tick(0));
            Place { machine, durable }.into()
        });
        let mut state = State {
            places: places.collect(),
            net: BTreeSet::new(),
            former: Vec::new(),
            requests: BTreeMap::new(),
            answers: Vec::new(),
            store: Store::new().into(),
            now: 0,
            left: self.events,
            begun: 0,
            terms: Vec::new(),
        };
        for id in (1..=self.members).map(NodeId) {
            state.act(id, |_, _, _| {});
        }
        alloc::vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for place in &state.places {
            self.actions_of(state, place, actions);
        }
        let messages = state.net.iter();
        actions.extend(messages.map(|&(from, to, message)| Action::Deliver(from, to, message)));
        actions.extend(
            state
                .requests
                .keys()
                .map(|&client| Action::ReachStore(client)),
        );
        let answers = state.answers.iter().cloned();
        actions.extend(answers.map(|(client, answer)| Action::Answer(client, answer)));
        if state.store.is_due(state.instant()) {
            actions.push(Action::StorePolls);
        }
        if state.left.store_restarts > 0 {
            actions.push(Action::StoreRestarts);
        }
        if state.left.disconnections > 0 {
            let awaited = |client: &Client| state.place(client.node).awaits() == Some(*client);
            let gone = state.store.clients().filter(|client| !awaited(client));
            actions.extend(gone.map(Action::Disconnects));
        }
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let now = next.instant();
        match action {
            Action::AskMembers(id, informed) => {
                next.left.votes -= 1;
                next.begun = next.begun.max(id.0);
                let highest = next.highest().filter(|_| informed);
                next.act(id, |machine, now, random| {
                    machine.node.stand_for_votes(now, highest);
                    machine.settle(now, random);
                });
            }
            Action::AskStore(id, informed) => {
                next.left.campaigns -= 1;
                next.begun = next.begun.max(id.0);
                let highest = next.highest().filter(|_| informed);
                next.act(id, |machine, now, random| {
                    machine.node.allow_store(now, highest);
                    machine.settle(now, random);
                });
            }
            Action::Deliver(from, to, message) => {
                let message = PeerMessage::Quorum(message);
                let Process {
                    node: from,
                    incarnation,
                } = from;
                let input = PeerInput::Message {
                    from,
                    incarnation,
                    message,
                };
                next.act(to, |machine, now, random| {
                    machine.handle_message(now, JointMessage::Peers(input), random);
                });
            }
            Action::ReachStore(client) => {
                next.reach_store(client, ticks(self.promise));
            }
            Action::Answer(client, answer) => {
                next.act(client.node, |machine, now, random| {
                    let answer = JointMessage::Store(client.attempt, answer);
                    machine.handle_message(now, answer, random);
                });
            }
            Action::GiveUp(id) => {
                next.left.losses -= 1;
                let attempt = last.place(id).machine.store.awaited()?;
                next.act(id, |machine, now, random| {
                    let answer = Answer::Unknown("no answer".into());
                    machine.handle_message(now, JointMessage::Store(attempt, answer), random);
                });
            }
            Action::NextRequest(id) => {
                next.left.requests -= 1;
                next.act(id, |machine, now, random| {
                    machine.handle_timeout(now, random)
                });
            }
            Action::Renew(id) => {
                next.left.rounds -= 1;
                next.act(id, |machine, now, random| {
                    machine.node.begin_round(now);
                    machine.settle(now, random);
                });
            }
            Action::TaskEnds(id) => {
                next.left.task_ends -= 1;
                next.act(id, |machine, now, random| {
                    machine.task_ended(now, TaskEnd::Returned, random);
                });
            }
            Action::Crash(id) => {
                next.left.crashes -= 1;
                next.begun = next.begun.max(id.0);
                let former = next.places[id.0 as usize - 1].clone();
                next.places[id.0 as usize - 1].change(|place| {
                    place.machine = self.machine(id, place.durable, now);
                });
                if former.leads(now) {
                    next.former.push(former);
                }
                next.act(id, |_, _, _| {});
            }
            Action::StoreRestarts => {
                next.left.store_restarts -= 1;
                next.store.change(|store| store.restart(now));
            }
            Action::StorePolls => {
                let answers = next.store.change(|store| store.poll(now));
                next.serve(answers);
            }
            Action::Disconnects(client) => {
                next.left.disconnections -= 1;
                next.store.change(|store| store.notice_gone(now, client));
            }
            Action::Tick => {
                next.now += 1;
                let now = next.instant();
                next.former.retain(|former| former.leads(now));
                for id in (1..=self.members).map(NodeId) {
                    next.act(id, |machine, now, random| {
                        machine.node.check_time(now);
                        machine.settle(now, random);
                    });
                }
            }
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        alloc::vec![
            Property::always(ONE_LEADER, |_, state: &State| state.leaders().count() <= 1),
            Property::always(OWN_EPOCH, |_, state: &State| {
                let epoch_of = |at: usize| state.terms[at].epoch;
                (0..state.terms.len())
                    .all(|at| (0..at).all(|before| epoch_of(at) != epoch_of(before)))
            }),
            Property::always(INCREASE, |_, state: &State| {
                state
                    .terms
                    .windows(2)
                    .all(|pair| pair[0].epoch <= pair[1].epoch)
            }),
            Property::always(FINAL, |_, state: &State| {
                !state.store.is_released_and_held(state.instant())
            }),
            Property::sometimes(SECOND_TERM, |_, state: &State| state.terms.len() > 1),
            Property::sometimes(STORE_LOST, |_, state: &State| {
                is_carried(state, QuorumKind::Store, (false, true))
            }),
            Property::sometimes(STORE_FOUND, |_, state: &State| {
                is_carried(state, QuorumKind::Members, (true, false))
            }),
            Property::sometimes(TAKEN, |_, state: &State| {
                is_carried_where(state, QuorumKind::Members, |(with_store, _)| with_store)
            }),
            Property::sometimes(TAKEN_AGAIN, |_, state: &State| {
                let now = state.instant();
                let holds = |place: &Place| {
                    let epoch = place.machine.store.promise().map(|(epoch, _)| epoch);
                    epoch.is_some() && epoch == state.store.holder(now).map(|(_, epoch)| epoch)
                };
                state.store.has_resumed && state.leaders().any(holds)
            }),
        ]
    }
}

pub(super) const ONE_LEADER: &str = "at most one candidate leads at one time";
pub(super) const OWN_EPOCH: &str = "no epoch is used by two terms";
pub(super) const INCREASE: &str = "epochs increase from term to term";
pub(super) const FINAL: &str = "a lease that was released is not held under its id again";

pub(super) const SECOND_TERM: &str = "a second term";
pub(super) const STORE_LOST: &str = "a term that began with the store goes on without it";
pub(super) const STORE_FOUND: &str = "a term that began without the store goes on with it";
pub(super) const TAKEN: &str = "the lease is taken under the epoch of a term";
pub(super) const TAKEN_AGAIN: &str = "an expired lease is taken again under its epoch";
