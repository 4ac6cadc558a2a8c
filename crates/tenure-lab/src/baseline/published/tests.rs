//! The errors of the published algorithm, found by exploring every order of events within small
//! bounds. Timers are always due; the model decides when they fire.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::{Checker, Model, Property};
use tenure_core::NodeId;
use tenure_core::bully::{Member, Membership};
use tenure_core::detector::Verdict;
use tenure_sim::sim::SimMessage;

use super::{Published, PublishedInput, PublishedMessage};

/// The possible faults and their largest numbers. Messages keep their order, and the detector
/// reports a node as down only when no message is under way.
#[derive(Clone, Debug)]
struct Environment {
    members: u32,
    crashes: u8,
    restarts: u8,
    /// The number of messages that may be lost.
    losses: u8,
    /// The number of times that a detector may report a running node as down.
    mistakes: u8,
}

const CALM: Environment = Environment {
    members: 3,
    crashes: 0,
    restarts: 0,
    losses: 0,
    mistakes: 0,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: Vec<Option<Published>>,
    /// The number of starts of each node.
    starts: Vec<u64>,
    network: BTreeMap<(NodeId, NodeId), Vec<PublishedMessage>>,
    crashes: u8,
    restarts: u8,
    losses: u8,
    mistakes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Deliver(NodeId, NodeId),
    Lose(NodeId, NodeId),
    Answer(NodeId, NodeId, Verdict),
    Mistake(NodeId, NodeId),
    Poll(NodeId),
    Crash(NodeId),
    Restart(NodeId),
}

impl Action {
    const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Lose(..) | Self::Mistake(..) | Self::Crash(_) | Self::Restart(_)
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver(from, to) => write!(f, "{to} receives a message of {from}"),
            Self::Lose(from, to) => write!(f, "a message from {from} to {to} is lost"),
            Self::Answer(id, of, Verdict::Down) => write!(f, "{id}'s detector says {of} is down"),
            Self::Answer(id, of, _) => write!(f, "{id}'s detector says {of} is up"),
            Self::Mistake(id, of) => write!(f, "{id}'s detector wrongly says {of} is down"),
            Self::Poll(id) => write!(f, "{id}'s timer fires"),
            Self::Crash(id) => write!(f, "{id} crashes"),
            Self::Restart(id) => write!(f, "{id} restarts"),
        }
    }
}

/// The largest number of messages under way from one node to another. Further messages are lost,
/// because the nodes repeat them.
const CAPACITY: usize = 3;

const fn index(id: NodeId) -> usize {
    id.0 as usize - 1
}

fn members(count: u32) -> Membership {
    let member = |id| Member {
        id: NodeId(id),
        priority: id,
    };
    Membership::new((1..=count).map(member)).unwrap()
}

impl State {
    fn handle(&mut self, id: NodeId, input: PublishedInput) {
        if let Some(node) = &mut self.nodes[index(id)] {
            for (to, message) in node.handle(input) {
                self.send(id, to, message);
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: PublishedMessage) {
        let link = self.network.entry((from, to)).or_default();
        if !link.contains(&message) && link.len() < CAPACITY {
            link.push(message);
        }
    }

    fn take(&mut self, from: NodeId, to: NodeId) -> PublishedMessage {
        let link = self.network.get_mut(&(from, to)).unwrap();
        let message = link.remove(0);
        if link.is_empty() {
            self.network.remove(&(from, to));
        }
        message
    }

    /// Returns whether a message changes its recipient, or the answer to it changes the sender. The
    /// model omits other messages, because they only add states.
    fn matters(&self, from: NodeId, to: NodeId, message: PublishedMessage) -> bool {
        let deliver = |from, to, message| {
            let mut node = self.nodes[index(to)].clone();
            let input = PublishedInput::Message(from, message);
            let answers = node.as_mut().map(|node| node.handle(input));
            (node != self.nodes[index(to)], answers.unwrap_or_default())
        };
        let (changes, answers) = deliver(from, to, message);
        changes
            || answers.into_iter().any(|(back, answer)| {
                let (changes, more) = deliver(to, back, answer);
                changes || !more.is_empty()
            })
    }

    fn live(&self) -> impl Iterator<Item = (NodeId, &Published)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(i, node)| Some((NodeId(i as u32 + 1), node.as_ref()?)))
    }

    /// Returns whether all nodes that have a leader have the same one (SLE1).
    fn agrees(&self) -> bool {
        let mut leaders = self.live().filter_map(|(_, node)| node.leader());
        let first = leaders.next();
        leaders.all(|leader| Some(leader) == first)
    }

    /// Returns the number of nodes that lead in their own opinion.
    fn leaders(&self) -> usize {
        let leads = |(id, node): &(NodeId, &Published)| node.leader() == Some(*id);
        self.live().filter(leads).count()
    }

    /// Returns whether all nodes that are up follow the same leader, which is up.
    fn elected(&self) -> bool {
        let Some((_, first)) = self.live().next() else {
            return true;
        };
        first.leader().is_some_and(|leader| {
            self.nodes[index(leader)].is_some()
                && self.live().all(|(_, node)| node.leader() == Some(leader))
        })
    }
}

/// The state of each node and the messages under way.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{}: ", if i > 0 { ", " } else { "" }, i + 1)?;
            let Some(node) = node else {
                f.write_str("down")?;
                continue;
            };
            write!(f, "{:?}", node.status())?;
            if let Some(leader) = node.leader() {
                write!(f, " {leader}")?;
            }
            let election = node.election();
            let (organiser, incarnation) = (election.organiser, election.incarnation);
            write!(f, " <{organiser},{incarnation},{}>", election.number)?;
        }
        for ((from, to), link) in &self.network {
            for message in link {
                write!(f, " [{from} to {to}: {}]", message.kind())?;
            }
        }
        Ok(())
    }
}

impl Model for Environment {
    type State = State;
    type Action = Action;

    /// All nodes follow the best one.
    fn init_states(&self) -> Vec<State> {
        let all = (1..=self.members).map(NodeId);
        let settled = |id| Some(Published::settled(id, members(self.members), NodeId(1)));
        vec![State {
            nodes: all.map(settled).collect(),
            starts: vec![1; self.members as usize],
            network: BTreeMap::new(),
            crashes: self.crashes,
            restarts: self.restarts,
            losses: self.losses,
            mistakes: self.mistakes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for &(from, to) in state.network.keys() {
            actions.push(Action::Deliver(from, to));
            if state.losses > 0 {
                actions.push(Action::Lose(from, to));
            }
        }
        for (id, node) in state.live() {
            actions.push(Action::Poll(id));
            for asked in node.asked() {
                if state.nodes[index(asked)].is_some() {
                    actions.push(Action::Answer(id, asked, Verdict::Up));
                    if state.mistakes > 0 {
                        actions.push(Action::Mistake(id, asked));
                    }
                } else if state.network.is_empty() {
                    actions.push(Action::Answer(id, asked, Verdict::Down));
                }
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(id));
            }
        }
        if state.restarts > 0 {
            let down = (1..=self.members).map(NodeId);
            let down = down.filter(|&id| state.nodes[index(id)].is_none());
            actions.extend(down.map(Action::Restart));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Deliver(from, to) => {
                let message = next.take(from, to);
                next.handle(to, PublishedInput::Message(from, message));
            }
            Action::Lose(from, to) => {
                next.losses -= 1;
                next.take(from, to);
            }
            Action::Answer(id, of, verdict) => next.handle(id, PublishedInput::Answer(of, verdict)),
            Action::Mistake(id, of) => {
                next.mistakes -= 1;
                next.handle(id, PublishedInput::Answer(of, Verdict::Down));
            }
            Action::Poll(id) => {
                let node = next.nodes[index(id)].as_mut()?;
                for (to, message) in node.handle(PublishedInput::Poll) {
                    // A timer takes as long as a message lifetime, so earlier messages have arrived
                    // or are lost.
                    let links = [(id, to), (to, id)];
                    let is_quiet = links.iter().all(|link| !last.network.contains_key(link));
                    if is_quiet && next.matters(id, to, message) {
                        next.send(id, to, message);
                    }
                }
            }
            Action::Crash(id) => {
                next.crashes -= 1;
                next.nodes[index(id)] = None;
            }
            Action::Restart(id) => {
                next.restarts -= 1;
                let starts = &mut next.starts[index(id)];
                let node = Published::recovered(id, members(self.members), *starts);
                *starts += 1;
                next.nodes[index(id)] = Some(node);
            }
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "all nodes that have a leader have the same one",
                |_, state: &State| state.agrees(),
            ),
            Property::sometimes("a leader is elected", |_, state: &State| state.elected()),
        ]
    }
}

/// The violations that a search over all possible actions finds, each with the shortest path to it.
#[derive(Default)]
struct Report {
    to_disagreement: Option<String>,
    to_two_leaders: Option<String>,
    /// The shortest path to a state from which no leader can be elected without a further fault.
    to_hang: Option<String>,
}

/// The state before a state, and the action that led from the one to the other.
type Origin = Option<(usize, Action)>;

/// Explores all states. The checker's own "eventually" property ignores states on a cycle. So this
/// function searches forward over all actions, and then backward from every state with an elected
/// leader over the actions that need no fault. A state that the backward search does not reach
/// hangs for ever.
fn explore(environment: &Environment) -> Report {
    let first = environment.init_states().remove(0);
    let mut known = HashMap::from([(fingerprint(&first), 0)]);
    let mut origins: Vec<Origin> = vec![None];
    let mut back: Vec<Vec<usize>> = vec![Vec::new()];
    let mut elected = Vec::new();
    let (mut disagreement, mut two_leaders) = (None, None);
    let mut open = VecDeque::from([(0, first)]);
    let mut actions = Vec::new();
    while let Some((number, state)) = open.pop_front() {
        elected.push(state.elected());
        if !state.agrees() {
            disagreement.get_or_insert(number);
        }
        if state.leaders() > 1 {
            two_leaders.get_or_insert(number);
        }
        environment.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = environment.next_state(&state, action) else {
                continue;
            };
            let fresh = origins.len();
            let to = *known.entry(fingerprint(&next)).or_insert(fresh);
            if to == fresh {
                origins.push(Some((number, action)));
                back.push(Vec::new());
                open.push_back((fresh, next));
            }
            if !action.is_fault() {
                back[to].push(number);
            }
        }
    }
    let mut can_elect = elected;
    let mut open: Vec<usize> = (0..can_elect.len()).filter(|&it| can_elect[it]).collect();
    while let Some(to) = open.pop() {
        for &from in &back[to] {
            if !std::mem::replace(&mut can_elect[from], true) {
                open.push(from);
            }
        }
    }
    let hang = can_elect.iter().position(|can_elect| !can_elect);
    let path = |state: Option<usize>| state.map(|state| replay(environment, &origins, state));
    Report {
        to_disagreement: path(disagreement),
        to_two_leaders: path(two_leaders),
        to_hang: path(hang),
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Returns the shortest path to a state, with one line for each step.
fn replay(environment: &Environment, origins: &[Origin], state: usize) -> String {
    let mut actions = Vec::new();
    let mut at = state;
    while let Some((from, action)) = origins[at] {
        actions.push(action);
        at = from;
    }
    let mut state = environment.init_states().remove(0);
    let mut path = format!("  1. at first: {state}\n");
    for (number, action) in actions.into_iter().rev().enumerate() {
        state = environment.next_state(&state, action).unwrap();
        path += &format!("{:>3}. {action}: {state}\n", number + 2);
    }
    path
}

#[test]
fn as_published_two_members_never_have_a_leader_again_after_one_crash() {
    let report = explore(&Environment {
        members: 2,
        crashes: 1,
        ..CALM
    });
    println!(
        "no leader is ever elected again:\n{}",
        report.to_hang.unwrap()
    );
}

/// This needs no false suspicion, no loss and no reordering, and the detector answers only when no
/// message is under way.
#[test]
fn as_published_a_crash_and_a_restart_separate_three_members_for_ever() {
    let environment = Environment {
        crashes: 1,
        restarts: 1,
        ..CALM
    };
    let report = explore(&environment);
    println!("they disagree:\n{}", report.to_disagreement.unwrap());
    println!("for ever:\n{}", report.to_hang.unwrap());

    // The model checker, which does not use `explore`, finds the same violation in the same model.
    let checker = environment.checker().spawn_bfs().join();
    checker.assert_any_discovery("all nodes that have a leader have the same one");
}

#[test]
fn as_published_mistakes_of_the_detector_cause_two_leaders_for_ever() {
    let report = explore(&Environment {
        mistakes: 2,
        ..CALM
    });
    println!("two leaders:\n{}", report.to_two_leaders.unwrap());
    println!("for ever:\n{}", report.to_hang.unwrap());
}

#[test]
fn as_published_a_lost_message_blocks_all_elections() {
    let report = explore(&Environment {
        crashes: 1,
        losses: 1,
        ..CALM
    });
    assert!(report.to_hang.is_some());
}
