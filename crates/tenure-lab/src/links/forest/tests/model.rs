//! Every order of delivery in small networks.
//!
//! The links deliver in order. The search starts initiators at any time, and delivers the first
//! message of any link next, until nothing is left.

use std::collections::VecDeque;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;

/// A network with the settings of its nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) net: Net,
    pub(super) settings: ForestSettings,
}

impl Case {
    pub(super) fn of(net: Net) -> Self {
        Self {
            net,
            settings: net.settings(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    nodes: Vec<ForestNode>,
    /// Whether each node has been told to begin.
    begun: Vec<bool>,
    /// The messages of each link, both directions apart.
    links: Vec<(usize, usize, VecDeque<ForestMessage>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Begin(usize),
    Deliver(usize, usize),
}

const ONE: &str = "at most one leader";
const FOREST: &str = "branches are a forest";
const END: &str = "in the end all know the one leader";

impl State {
    fn is_end(&self) -> bool {
        self.begun.iter().all(|it| *it) && self.links.iter().all(|(.., it)| it.is_empty())
    }

    fn leaders(&self) -> usize {
        self.nodes.iter().filter(|node| node.leads()).count()
    }

    fn all_know(&self) -> bool {
        let mut leaders = self.nodes.iter().map(|node| node.leader().map(|it| it.id));
        let first = leaders.next().flatten();
        self.leaders() == 1 && first.is_some() && leaders.all(|it| it == first)
    }

    /// Sends the outputs of a node.
    fn send(&mut self, net: Net, from: usize) {
        while let Some(ForestOutput { port, message }) = self.nodes[from].poll_output() {
            let to = net.neighbour(from, port);
            // A process that knows the leader ignores everything.
            if !net.is_dead(from, to) && self.nodes[to].leader().is_none() {
                let mut links = self.links.iter_mut();
                let link = links.find(|(one, other, _)| (*one, *other) == (from, to));
                link.expect("a link").2.push_back(message);
            }
        }
        if self.nodes[from].leader().is_some() {
            let to_it = self.links.iter_mut().filter(|(_, to, _)| *to == from);
            to_it.for_each(|(.., messages)| messages.clear());
        }
    }

    /// Whether the ways to the parents end at cores.
    fn is_forest(&self, net: Net) -> bool {
        (0..self.nodes.len()).all(|start| {
            let mut node = start;
            for _ in 0..self.nodes.len() {
                match self.nodes[node].parent() {
                    Some(port) => node = net.neighbour(node, port),
                    None => return true,
                }
            }
            false
        })
    }
}

impl Model for Case {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.net.nodes(self.settings);
        let (at_once, net) = (self.net.at_once, self.net);
        let begun = (0..nodes.len()).map(|node| at_once || !net.initiates(node));
        let begun = begun.collect();
        let links = self.net.links.iter();
        let links = links.flat_map(|&(one, other)| [(one, other), (other, one)]);
        let links = links.map(|(from, to)| (from, to, VecDeque::new()));
        let links = links.collect();
        let mut state = State {
            nodes,
            begun,
            links,
        };
        if at_once {
            // `wake` does nothing at a follower.
            for node in 0..state.nodes.len() {
                state.nodes[node].wake();
                state.send(net, node);
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        let begin = state.begun.iter().enumerate().filter(|(_, it)| !**it);
        actions.extend(begin.map(|(node, _)| Step::Begin(node)));
        let full = state.links.iter().filter(|(.., it)| !it.is_empty());
        actions.extend(full.map(|&(from, to, _)| Step::Deliver(from, to)));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut state = state.clone();
        let node = match step {
            Step::Begin(node) => {
                state.begun[node] = true;
                state.nodes[node].wake();
                node
            }
            Step::Deliver(from, to) => {
                let mut links = state.links.iter_mut();
                let link = links.find(|(one, other, _)| (*one, *other) == (from, to))?;
                let message = link.2.pop_front()?;
                state.nodes[to].handle_message(self.net.port(to, from), message);
                to
            }
        };
        state.send(self.net, node);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE, |_, state: &State| state.leaders() <= 1),
            Property::always(FOREST, |case: &Self, state: &State| {
                state.is_forest(case.net)
            }),
            Property::always(END, |_, state: &State| !state.is_end() || state.all_know()),
        ]
    }
}

/// Checks every order. Returns the number of states, or the broken property with the way to it.
fn check(case: Case) -> Result<usize, String> {
    let began = Instant::now();
    let search = case.checker().threads(2);
    let checker = search.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states in {:.1?}: {case:?}", began.elapsed());
    for name in [ONE, FOREST, END] {
        if let Some(path) = checker.discovery(name) {
            return Err(format!("not kept: {name}: {:?}", path.into_actions()));
        }
    }
    Ok(states)
}

/// The networks: each with all initiators and with one, and with a dead link where there is a
/// circle. Initiators begin at any time, except on the largest one.
const NETS: [Net; 17] = [
    PAIR,
    PAIR.from(&[0]),
    LINE_3,
    LINE_3.from(&[0]),
    TRIANGLE,
    TRIANGLE.cut(),
    TRIANGLE.from(&[0]),
    TRIANGLE.cut().from(&[0]),
    LINE_4,
    LINE_4.from(&[0]),
    STAR_4,
    STAR_4.from(&[0]),
    STAR_4.from(&[1]),
    RING_4.at_once(),
    RING_4.cut(),
    RING_4.from(&[0]),
    RING_4.cut().from(&[0]),
];

#[test]
fn in_every_order_of_delivery_all_know_one_leader() {
    let mut states = 0;
    for net in NETS {
        match check(Case::of(net)) {
            Ok(found) => states += found,
            Err(broken) => panic!("{net:?}: {broken}"),
        }
    }
    println!("{states} states in all");
}

#[test]
fn a_bound_that_is_larger_than_the_number_of_faulty_links_changes_nothing() {
    let case = Case {
        settings: ForestSettings::new(5, 1),
        ..Case::of(LINE_5.from(&[1, 4]))
    };
    if let Err(broken) = check(case) {
        panic!("{broken}");
    }
}

mod long_form {
    use super::*;

    #[test]
    #[ignore = "takes a minute"]
    fn in_every_order_of_delivery_and_of_beginning_all_on_a_ring_know_one_leader() {
        let too_small = ForestSettings::new(4, 0);
        for settings in [RING_4.settings(), too_small.with_raise_by_count()] {
            let case = Case {
                settings,
                ..Case::of(RING_4)
            };
            if let Err(broken) = check(case) {
                panic!("{broken}");
            }
        }
    }
}

/// Checks every order for two leaders and for a circle, whether or not a leader is elected.
#[track_caller]
fn never_has_two_leaders(case: Case) {
    let checker = case.checker().threads(2).spawn_bfs().join();
    println!("{} states: {case:?}", checker.unique_state_count());
    for name in [ONE, FOREST] {
        let broken = checker.discovery(name).map(|it| it.into_actions());
        assert_eq!(broken, None, "{name}: {case:?}");
    }
}

#[test]
fn with_too_small_a_bound_on_faulty_links_there_are_never_two_leaders() {
    for net in [TRIANGLE.cut(), RING_4.cut().from(&[0, 2])] {
        let settings = ForestSettings::new(net.size() as u32, 0);
        never_has_two_leaders(Case {
            settings,
            ..Case::of(net)
        });
    }
}

#[test]
fn with_equal_random_identifiers_there_are_never_two_leaders() {
    for net in [PAIR, LINE_3, TRIANGLE.at_once(), LINE_4.at_once()] {
        never_has_two_leaders(Case::of(Net {
            has_equal_ids: true,
            ..net
        }));
    }
}

#[test]
fn in_every_order_of_delivery_a_handshake_changes_nothing() {
    for net in [PAIR, LINE_3, TRIANGLE.from(&[0]), TRIANGLE.cut().from(&[0])] {
        let settings = net.settings().with_handshake();
        let case = Case {
            settings,
            ..Case::of(net)
        };
        if let Err(broken) = check(case) {
            panic!("{net:?}: {broken}");
        }
    }
}
