//! A group with a quorum: one leader per epoch, one valid lease at a time, and epochs that
//! increase.
//!
//! The model omits the pre-vote and the priorities: any member asks for votes whenever its own
//! promise allows it, so the model contains more elections than a real group has. A message stays
//! deliverable for ever. That covers loss (the message is never delivered), delay, reordering and
//! repetition.

use std::collections::BTreeSet;
use std::println;

use alloc::vec::Vec;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;
use crate::bully::node::Machine;
use crate::bully::node_state::Process;
use crate::bully::quorum::Role;

#[derive(Clone, Copy, Debug)]
struct Bounds {
    members: u32,
    /// The total number of successful pre-votes.
    elections: u8,
    crashes: u8,
    ticks: u8,
    /// The total number of rounds of renewals after the first round of each term.
    rounds: u8,
    /// The number of terms that the leader's own task ends.
    resignations: u8,
    /// In ticks; so is `promise`.
    lease: u8,
    promise: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    node: PeerCandidate,
    durable: HardState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    places: Vec<Place>,
    net: BTreeSet<(Process, NodeId, QuorumMessage)>,
    /// Processes that led when their members restarted. They may still run: frozen, or beside a
    /// copy of their state.
    former: Vec<PeerCandidate>,
    now: u8,
    /// The remaining events within the bounds.
    elections: u8,
    crashes: u8,
    rounds: u8,
    resignations: u8,
    /// Every term that has begun.
    terms: Vec<(Epoch, NodeId)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    /// The flag tells whether the candidate knows the greatest epoch of all members, or only its
    /// own record.
    Stand(NodeId, bool),
    Deliver(Process, NodeId, QuorumMessage),
    Crash(NodeId),
    Renew(NodeId),
    TaskEnds(NodeId),
    Tick,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stand(id, false) => write!(f, "{id} asks for votes"),
            Self::Stand(id, true) => write!(f, "{id} asks for votes, for the greatest epoch"),
            Self::Deliver(from, to, message) => {
                let Process { node, incarnation } = from;
                write!(
                    f,
                    "{to} receives a message of {node}, start {incarnation}: {message:?}"
                )
            }
            Self::Crash(id) => write!(f, "{id} starts again; its earlier process may still run"),
            Self::Renew(id) => write!(f, "{id} asks for renewals"),
            Self::TaskEnds(id) => write!(f, "{id}'s task ends"),
            Self::Tick => write!(f, "time passes"),
        }
    }
}

fn tick(number: u8) -> Instant {
    // Ticks are so short that the wall clock, which is the source of epochs, does not advance.
    Instant::from_nanos(u64::from(number))
}

fn leads(node: &PeerCandidate, now: Instant) -> bool {
    matches!(node.standing(now), Standing::Leading { .. })
}

impl Bounds {
    fn node(&self, id: NodeId, record: HardState, now: Instant) -> PeerCandidate {
        let ticks = |number: u8| Duration::from_nanos(number.into());
        let timings = GroupTimings::unchecked(ticks(self.promise), ticks(self.lease));
        let settings = GroupSettings::new(id, members(self.members), timings).unwrap();
        let started = Started {
            at: now,
            wall: UnixMillis::new(0),
        };
        let mut node = PeerCandidate::new(settings, record, started);
        node.state.candidate_since = Some(Instant::default());
        node
    }
}

impl State {
    fn highest(&self) -> Option<Epoch> {
        let records = self.places.iter().map(|place| place.node.state.record);
        records.filter_map(|record| record.highest).max()
    }

    fn act(&mut self, id: NodeId, act: impl FnOnce(&mut PeerCandidate, Instant)) {
        let now = tick(self.now);
        let place = &mut self.places[id.0 as usize - 1];
        act(&mut place.node, now);
        while let Some(output) = place.node.poll_output() {
            match output {
                // A refusal informs the candidate and promises nothing, so the model omits it.
                Output::Effect(PeerEffect::Send {
                    message: PeerMessage::Quorum(QuorumMessage::VoteRejected { .. }),
                    ..
                }) => {}
                Output::Effect(PeerEffect::Send {
                    to,
                    message: PeerMessage::Quorum(message),
                }) => {
                    let from = place.node.state.own_process();
                    self.net.insert((from, to, message));
                }
                // A crash before the record is on disk is equivalent to a crash before the event. A
                // crash after that and before the messages leave is equivalent to losing the
                // messages. So it is enough to check that no message leaves before the record is on
                // disk.
                Output::Effect(PeerEffect::Persist(record)) => {
                    while let Some(early) = place.node.poll_output() {
                        let leaves = matches!(
                            early,
                            Output::Effect(PeerEffect::Send { .. })
                                | Output::Term(TermEvent::Began(_))
                        );
                        assert!(!leaves, "{early:?} depends on a record that is not on disk");
                    }
                    place.durable = record;
                    let written = PeerInput::Persisted;
                    place.node.handle_message(now, written, &mut Constant);
                }
                Output::Term(TermEvent::Began(epoch)) => self.terms.push((epoch, id)),
                _ => {}
            }
        }
        place.node.settle(now);
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let places = (1..=self.members).map(NodeId).map(|id| {
            let mut node = self.node(id, HardState::default(), tick(0));
            let Some(Output::Effect(PeerEffect::Persist(durable))) = node.poll_output() else {
                unreachable!("a node persists its incarnation first")
            };
            node.handle_message(tick(0), PeerInput::Persisted, &mut Constant);
            node.settle(tick(0));
            Place { node, durable }
        });
        alloc::vec![State {
            places: places.collect(),
            net: BTreeSet::new(),
            former: Vec::new(),
            now: 0,
            elections: self.elections,
            crashes: self.crashes,
            rounds: self.rounds,
            resignations: self.resignations,
            terms: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let now = tick(state.now);
        for place in &state.places {
            let id = place.node.state.me();
            let Machine::Quorum(machine) = &place.node.machine else {
                continue;
            };
            let own = place.node.state.own_process();
            let bound = machine.bound_elsewhere(&place.node.state, now, own);
            let free = bound.is_none();
            let idle =
                matches!(machine.role, Role::Following { .. }) && place.node.state.term.is_none();
            // All members are equivalent, so it is enough that the first one begins.
            let first = state.elections == self.elections && id != NodeId(1);
            if state.elections > 0 && idle && free && !first {
                actions.push(Action::Stand(id, false));
                if place.node.state.record.highest < state.highest() {
                    actions.push(Action::Stand(id, true));
                }
            }
            let has_term = place.node.state.term.as_ref();
            let ends = has_term.is_some_and(|term| term.is_ending() || state.resignations > 0);
            if ends {
                actions.push(Action::TaskEnds(id));
            }
            if state.rounds > 0 && matches!(machine.role, Role::Leading { .. }) {
                actions.push(Action::Renew(id));
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(id));
            }
        }
        for &(from, to, message) in &state.net {
            actions.push(Action::Deliver(from, to, message));
        }
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Stand(id, informed) => {
                next.elections -= 1;
                let highest = next.highest().filter(|_| informed);
                next.act(id, |node, now| node.stand_for_votes(now, highest));
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
                next.act(to, |node, now| {
                    node.handle_message(now, input, &mut Constant)
                });
            }
            Action::Crash(id) => {
                next.crashes -= 1;
                let now = tick(next.now);
                let place = &mut next.places[id.0 as usize - 1];
                let restarted = self.node(id, place.durable, now);
                let former = core::mem::replace(&mut place.node, restarted);
                if leads(&former, now) {
                    next.former.push(former);
                }
                next.act(id, |_, _| {});
            }
            Action::Renew(id) => {
                next.rounds -= 1;
                next.act(id, |node, now| node.begin_round(now));
            }
            Action::TaskEnds(id) => {
                let term = last.places[id.0 as usize - 1].node.state.term.as_ref();
                if term.is_some_and(|term| !term.is_ending()) {
                    next.resignations -= 1;
                }
                next.act(id, |node, now| {
                    node.tick_term(now, &mut Constant);
                    node.end_term(now, TaskEnd::Returned, &mut Constant);
                });
            }
            Action::Tick => {
                next.now += 1;
                let now = tick(next.now);
                next.former.retain(|former| leads(former, now));
                for id in (1..=self.members).map(NodeId) {
                    next.act(id, |node, now| node.tick_term(now, &mut Constant));
                }
            }
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        alloc::vec![
            Property::always("one leader per epoch", |_, state: &State| {
                let terms = state.terms.iter().enumerate();
                terms.clone().all(|(i, (epoch, _))| {
                    state.terms[..i].iter().all(|(earlier, _)| earlier != epoch)
                })
            }),
            Property::always("epochs increase", |_, state: &State| {
                state.terms.windows(2).all(|pair| pair[0].0 <= pair[1].0)
            }),
            Property::always("one valid lease at a time", |_, state: &State| {
                let now = tick(state.now);
                let nodes = state.places.iter().map(|place| &place.node);
                let nodes = nodes.chain(&state.former);
                nodes.filter(|node| leads(node, now)).count() <= 1
            }),
            Property::sometimes("a second term", |_, state: &State| state.terms.len() > 1),
        ]
    }
}

const SMALL: Bounds = Bounds {
    members: 3,
    elections: 2,
    crashes: 0,
    ticks: 2,
    rounds: 0,
    resignations: 0,
    lease: 1,
    promise: 1,
};

/// Checks all states within the bounds. Returns the number of states, or a violation and the path
/// to it as text.
fn check(bounds: Bounds) -> Result<usize, String> {
    let began = std::time::Instant::now();
    let search = bounds.checker().threads(2);
    let search = search.finish_when(HasDiscoveries::AnyFailures);
    let checker = search.spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states in {:.1?}: {bounds:?}", began.elapsed());
    for name in [
        "one leader per epoch",
        "epochs increase",
        "one valid lease at a time",
    ] {
        if let Some(path) = checker.discovery(name) {
            let steps = in_words(path.into_actions());
            return Err(alloc::format!("broken: {name}\n{steps}"));
        }
    }
    assert!(
        checker.discovery("a second term").is_some(),
        "the model must contain an election"
    );
    Ok(states)
}

/// Bounds with terms that end, crashes, leases of two ticks, and renewals.
const SOME: &[Bounds] = &[
    Bounds {
        elections: 3,
        ticks: 0,
        resignations: 1,
        ..SMALL
    },
    Bounds {
        ticks: 3,
        resignations: 1,
        ..SMALL
    },
    Bounds {
        crashes: 1,
        ..SMALL
    },
    Bounds {
        ticks: 3,
        lease: 2,
        promise: 2,
        ..SMALL
    },
    Bounds {
        ticks: 3,
        rounds: 1,
        lease: 2,
        promise: 2,
        ..SMALL
    },
];

/// Large bounds that take minutes. `cargo nextest run --release -p tenure-core --run-ignored only
/// quorum --no-capture` prints the number of states.
const MANY: &[Bounds] = &[
    Bounds {
        crashes: 1,
        rounds: 1,
        ..SMALL
    },
    Bounds {
        crashes: 2,
        ..SMALL
    },
    Bounds {
        crashes: 1,
        ticks: 3,
        lease: 2,
        promise: 2,
        ..SMALL
    },
    Bounds {
        ticks: 4,
        resignations: 1,
        lease: 2,
        promise: 2,
        ..SMALL
    },
    Bounds {
        rounds: 1,
        ticks: 3,
        resignations: 1,
        ..SMALL
    },
    Bounds {
        elections: 3,
        ticks: 1,
        ..SMALL
    },
];

/// Bounds with four members: a majority of four leaves out one member, and two majorities share two
/// members.
const FOUR: Bounds = Bounds {
    members: 4,
    ticks: 1,
    ..SMALL
};

fn all(bounds: &[Bounds]) {
    for &bounds in bounds {
        if let Err(broken) = check(bounds) {
            panic!("{bounds:?}: {broken}");
        }
    }
}

#[test]
fn a_quorum_keeps_its_promises_in_every_order_of_events() {
    all(SOME);
}

#[test]
fn a_quorum_keeps_its_promises_among_four() {
    all(&[FOUR]);
}

#[test]
#[ignore = "takes minutes and some gigabytes"]
fn a_quorum_keeps_its_promises_among_four_in_many_more_orders() {
    all(&[Bounds { crashes: 1, ..FOUR }, Bounds { ticks: 2, ..FOUR }]);
}

#[test]
#[ignore = "takes minutes and some gigabytes"]
fn a_quorum_keeps_its_promises_in_many_more_orders() {
    all(MANY);
}

#[test]
fn a_lease_longer_than_the_promise_is_found_out() {
    let found = check(Bounds {
        lease: 2,
        ticks: 3,
        ..SMALL
    });
    println!("{}", found.expect_err("a violation"));
}
