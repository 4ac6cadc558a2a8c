//! One election on a network.

use std::fmt;
use std::str::FromStr;

use super::forest::{
    CoreId, ForestMessage, ForestNode, ForestRole, ForestSettings, Port, PortState,
};
use tenure_core::random::Random;

use super::bits::{BitSizes, bits_of};
use super::flood::Flooder;
use super::graph::{LinkNetwork, shuffle};
use super::parts::Parts;
use super::stage::{LinkDelay, LinkProcess, Stage, StageOptions};
use tenure_sim::sim::Rng;

/// The nodes that begin an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkInitiators {
    /// All nodes.
    All,
    /// Each node with a probability of a third, and at least one.
    Third,
    /// This number of random nodes.
    Some(u32),
    /// The node with this identifier.
    Id(u32),
}

impl FromStr for LinkInitiators {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Self::All),
            ("third", _) => Ok(Self::Third),
            ("one", _) | (_, Ok(1)) => Ok(Self::Some(1)),
            (_, Ok(count @ 2..)) => Ok(Self::Some(count)),
            _ => Err(format!(
                "{text:?} says no initiators; use all, third, one or a number"
            )),
        }
    }
}

impl fmt::Display for LinkInitiators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all nodes begin"),
            Self::Third => f.write_str("a third of the nodes begin"),
            Self::Some(1) => f.write_str("one node begins"),
            Self::Some(count) => write!(f, "{count} nodes begin"),
            Self::Id(id) => write!(f, "node {id} begins"),
        }
    }
}

impl LinkInitiators {
    /// Returns the smallest number of nodes of a network in which so many can begin.
    #[must_use]
    pub const fn least_nodes(self) -> u32 {
        match self {
            Self::Some(count) => count,
            Self::All | Self::Third | Self::Id(_) => 1,
        }
    }
}

/// The identifiers of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkIds {
    /// Those of the network, from 1 to n: aFLEU.
    Given,
    /// Random numbers from 1 to this one, or of 128 bits if it is `None`: aFLEA.
    Random(Option<u128>),
}

/// The conditions of an election.
#[derive(Clone, Copy, Debug)]
pub struct LinkElection {
    /// What the processes know about the network, and how they use it.
    pub settings: ForestSettings,
    /// f, as the processes know it.
    pub faulty: u32,
    /// The identifiers.
    pub ids: LinkIds,
    /// The nodes that begin.
    pub initiators: LinkInitiators,
    /// The longest time until an initiator begins, in mean delays.
    pub spread: u32,
    /// The delays.
    pub delay: LinkDelay,
    /// Whether links deliver in order, as the algorithm requires.
    pub in_order: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether to check the forest during the run, which takes time.
    pub checks: bool,
}

/// Numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTraffic {
    /// `Hello` and `HelloAck`.
    pub greeting: u64,
    /// The messages that grow the forest.
    pub growing: u64,
    /// The messages that count.
    pub counting: u64,
    /// The announcement.
    pub announcing: u64,
}

impl LinkTraffic {
    fn count(&mut self, message: &ForestMessage) {
        *match message {
            ForestMessage::Hello | ForestMessage::HelloAck => &mut self.greeting,
            ForestMessage::Elected(_) => &mut self.announcing,
            other if other.counts() => &mut self.counting,
            _ => &mut self.growing,
        } += 1;
    }

    /// Returns the number of all messages.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.greeting + self.growing + self.counting + self.announcing
    }
}

/// The result of an election.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkOutcome {
    /// The messages by their purpose.
    pub traffic: LinkTraffic,
    /// The bits of all messages in a plain binary form.
    pub bits: u64,
    /// The bits of the largest message.
    pub largest: u32,
    /// The time of the last event, in mean delays.
    pub rounds: f64,
    /// The numbers of the nodes that are leaders.
    pub leaders: Vec<u32>,
    /// The number of nodes that know a leader.
    pub knowing: u32,
    /// Whether all messages were delivered. Otherwise there were too many.
    pub is_at_rest: bool,
    /// Whether a core is certain that its part of the network has no majority.
    pub is_without_majority: bool,
    /// The number of ports of awake nodes that are silent at the end.
    pub silent_ports: u32,
    /// The largest number of labels that a node had after its first one.
    pub most_labels: u32,
    /// The parent of each node in the tree, if it has one.
    pub parents: Vec<Option<u32>>,
    /// The way of each node to the leader: its next node.
    pub next_to_leader: Vec<Option<u32>>,
}

/// The attempts to elect with random identifiers, of which all but the last one got stuck.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkAttempts {
    /// The result of the last attempt.
    pub last: LinkOutcome,
    /// The number of attempts.
    pub attempts: u32,
    /// The messages of all attempts.
    pub messages: u64,
    /// The bits of all attempts.
    pub bits: u64,
    /// The times of all attempts, one after the other, in mean delays.
    pub rounds: f64,
}

impl LinkOutcome {
    /// Returns whether there is one leader, all know the way to it, and all have ended.
    #[must_use]
    pub fn is_elected(&self) -> bool {
        self.is_at_rest && self.leaders.len() == 1 && self.know_the_way()
    }

    /// Returns whether the ways of all nodes end at a leader.
    fn know_the_way(&self) -> bool {
        let nodes = self.next_to_leader.len();
        self.knowing as usize == nodes
            && (0..nodes as u32).all(|start| {
                let mut steps = 0;
                let mut node = start;
                while let Some(next) = self.next_to_leader[node as usize] {
                    (node, steps) = (next, steps + 1);
                    if steps > nodes {
                        return false;
                    }
                }
                self.leaders.contains(&node)
            })
    }
}

impl LinkProcess for ForestNode {
    type Message = ForestMessage;

    fn wake(&mut self) {
        Self::wake(self);
    }

    fn handle(&mut self, port: Port, message: ForestMessage) {
        self.handle_message(port, message);
    }

    fn poll(&mut self) -> Option<(Port, ForestMessage)> {
        self.poll_output().map(|it| (it.port, it.message))
    }
}

impl LinkElection {
    /// The conditions under which the processes know the right numbers of nodes and of faulty
    /// links: all begin at once, with delays of 0.5 to 1.5.
    #[must_use]
    pub fn on(network: &LinkNetwork, seed: u64) -> Self {
        let settings = ForestSettings::new(network.nodes(), network.faulty());
        Self {
            settings: match network.has_one_way() {
                true => settings.with_handshake(),
                false => settings,
            },
            faulty: network.faulty(),
            ids: LinkIds::Given,
            initiators: LinkInitiators::All,
            spread: 0,
            delay: LinkDelay::Uniform,
            in_order: true,
            seed,
            checks: false,
        }
    }

    /// Runs the election.
    ///
    /// # Errors
    ///
    /// With `checks`: the rule of the forest that is broken, as text.
    pub fn run(&self, network: &LinkNetwork) -> Result<LinkOutcome, String> {
        let (initiators, ids) = (self.initiators(network), self.ids(network));
        let processes = self.processes(network, &initiators, &ids);
        let mut stage = Stage::new(network, processes, &initiators, self.options(network));
        let sizes = self.sizes(network);
        let (mut traffic, mut bits, mut largest) = (LinkTraffic::default(), 0, 0);
        let mut labels: Vec<_> = stage.processes.iter().map(ForestNode::label).collect();
        let mut relabelled = vec![0; labels.len()];
        let mut step = 0_u64;
        let is_at_rest = stage.run(
            |message| {
                traffic.count(message);
                let size = sizes.of(message);
                bits += u64::from(size);
                largest = largest.max(size);
            },
            |stage, node| {
                let node = node as usize;
                let label = stage.processes[node].label();
                relabelled[node] += u32::from(label != labels[node]);
                labels[node] = label;
                step += 1;
                match self.checks && step.is_multiple_of(7) {
                    true => check_forest(network, &stage.processes),
                    false => Ok(()),
                }
            },
        )?;
        let most_labels = relabelled.into_iter().max().unwrap_or_default();
        if self.checks {
            check_forest(network, &stage.processes)?;
            let most = network.nodes().ilog2() + 1;
            if most_labels > most {
                return Err(format!("a node had {most_labels} labels; {most} at most"));
            }
        }
        let rounds = stage.now();
        let nodes = &stage.processes;
        let far = |node: usize, port: Port| network.ports(node)[usize::from(port.0)].node;
        let leaders = nodes.iter().map(ForestNode::leader);
        let ways = leaders.enumerate();
        let ways = ways.map(|(node, leader)| Some(far(node, leader?.port?)));
        let parents = nodes.iter().map(ForestNode::parent).enumerate();
        let leading = (0..network.nodes()).filter(|node| nodes[*node as usize].leads());
        Ok(LinkOutcome {
            traffic,
            bits,
            largest,
            rounds,
            leaders: leading.collect(),
            knowing: nodes.iter().filter(|it| it.leader().is_some()).count() as u32,
            is_at_rest,
            is_without_majority: nodes.iter().any(ForestNode::is_without_majority),
            silent_ports: nodes.iter().map(silent_ports).sum(),
            most_labels,
            parents: parents.map(|(node, port)| Some(far(node, port?))).collect(),
            next_to_leader: ways.collect(),
        })
    }

    /// Runs the election anew with other random identifiers, until it does not get stuck.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_until_elected(
        &self,
        network: &LinkNetwork,
        most: u32,
    ) -> Result<LinkAttempts, String> {
        let (mut messages, mut bits, mut rounds) = (0, 0, 0.0);
        for attempt in 0..most {
            let seed = self.seed ^ u64::from(attempt) << 40;
            let last = Self { seed, ..*self }.run(network)?;
            messages += last.traffic.all();
            bits += last.bits;
            rounds += last.rounds;
            if last.is_elected() || attempt + 1 == most {
                return Ok(LinkAttempts {
                    last,
                    attempts: attempt + 1,
                    messages,
                    bits,
                    rounds,
                });
            }
        }
        Err("no attempt was allowed".into())
    }

    /// Floods the greatest identifier under the same conditions.
    #[must_use]
    pub fn run_flooding(&self, network: &LinkNetwork) -> LinkOutcome {
        let (initiators, ids) = (self.initiators(network), self.ids(network));
        let ports = |node: usize| network.ports(node).len() as u16;
        let nodes = ids.iter().enumerate();
        let processes = nodes.map(|(node, id)| Flooder::new(*id, ports(node)));
        let processes = processes.collect();
        let mut stage = Stage::new(network, processes, &initiators, self.options(network));
        let mut messages = 0;
        let is_at_rest = stage.run(|_| messages += 1, |_, _| Ok(()));
        let nodes = &stage.processes;
        let best = initiators.iter().map(|node| ids[*node as usize]).max();
        let knows = |node: &&Flooder| node.greatest.is_some() && node.greatest == best;
        let leads = |node: &u32| nodes[*node as usize].greatest == Some(ids[*node as usize]);
        let size = self.sizes(network).id;
        LinkOutcome {
            traffic: LinkTraffic {
                announcing: messages,
                ..LinkTraffic::default()
            },
            bits: messages * u64::from(size),
            largest: size,
            rounds: stage.now(),
            leaders: (0..network.nodes()).filter(leads).collect(),
            knowing: nodes.iter().filter(knows).count() as u32,
            is_at_rest: is_at_rest == Ok(true),
            is_without_majority: false,
            silent_ports: 0,
            most_labels: 0,
            parents: vec![None; nodes.len()],
            next_to_leader: vec![None; nodes.len()],
        }
    }

    fn options(&self, network: &LinkNetwork) -> StageOptions {
        // Flooding may take n messages for each link.
        let nodes = u64::from(network.nodes());
        let links = network.links().len() as u64;
        StageOptions {
            delay: self.delay,
            in_order: self.in_order,
            spread: self.spread,
            most_messages: 1_000 + (2 * nodes * links).max(300 * network.bound() as u64),
            seed: self.seed,
        }
    }

    fn sizes(&self, network: &LinkNetwork) -> BitSizes {
        let id = match self.ids {
            LinkIds::Given => bits_of(network.nodes()),
            LinkIds::Random(None) => 128,
            LinkIds::Random(Some(domain)) => u128::BITS - domain.leading_zeros(),
        };
        BitSizes::new(network.nodes(), id, self.settings.tokens())
    }

    fn initiators(&self, network: &LinkNetwork) -> Vec<u32> {
        let mut rng = Rng::new(self.seed, 4);
        let mut nodes: Vec<u32> = (0..network.nodes()).collect();
        let one = |rng: &mut Rng| rng.below(u64::from(network.nodes())) as u32;
        match self.initiators {
            LinkInitiators::All => nodes,
            LinkInitiators::Third => {
                let first = one(&mut rng);
                nodes.retain(|node| *node == first || rng.below(3) == 0);
                nodes
            }
            LinkInitiators::Some(count) => {
                shuffle(&mut nodes, &mut rng);
                nodes.truncate(count as usize);
                nodes.sort_unstable();
                nodes
            }
            LinkInitiators::Id(id) => {
                let place = network.ids().iter().position(|it| *it == id);
                place.map(|it| it as u32).into_iter().collect()
            }
        }
    }

    fn ids(&self, network: &LinkNetwork) -> Vec<CoreId> {
        let mut rng = Rng::new(self.seed, 5);
        let mut draw = |domain: Option<u128>| {
            let bits = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            domain.map_or(bits, |domain| bits % domain.max(1) + 1)
        };
        let given = network.ids().iter();
        let ids = given.map(|&id| match self.ids {
            LinkIds::Given => CoreId(id.into()),
            LinkIds::Random(domain) => CoreId(draw(domain)),
        });
        ids.collect()
    }

    fn processes(
        &self,
        network: &LinkNetwork,
        initiators: &[u32],
        ids: &[CoreId],
    ) -> Vec<ForestNode> {
        let mut begins = vec![false; ids.len()];
        for node in initiators {
            begins[*node as usize] = true;
        }
        let nodes = ids.iter().zip(begins).enumerate();
        let process = |(node, (id, begins)): (usize, (&CoreId, bool))| {
            let role = match begins {
                true => ForestRole::Initiator,
                false => ForestRole::Follower,
            };
            let ports = network.ports(node).len() as u16;
            ForestNode::new(self.settings, *id, role, ports)
        };
        nodes.map(process).collect()
    }
}

fn silent_ports(node: &ForestNode) -> u32 {
    let ports = (0..).map_while(|port| node.port_state(Port(port)));
    let silent = ports.filter(|it| node.is_awake() && *it == PortState::Quiet);
    silent.count() as u32
}

/// Checks that the branches form no circle, and that a part with a label of level k has 2^k nodes.
fn check_forest(network: &LinkNetwork, nodes: &[ForestNode]) -> Result<(), String> {
    let is_branch =
        |node: u32, port: Port| nodes[node as usize].port_state(port) == Some(PortState::Branch);
    let mut parts = Parts::new(nodes.len());
    for node in 0..nodes.len() as u32 {
        for (port, far) in network.ports(node as usize).iter().enumerate() {
            let here = is_branch(node, Port(port as u16));
            let there = is_branch(far.node, far.port);
            // Each link once.
            let is_first = node < far.node;
            if is_first && (here || there) && !parts.join(node, far.node) {
                return Err(format!(
                    "the branches form a circle at {}",
                    network.ids()[node as usize]
                ));
            }
        }
    }
    let sizes = parts.sizes();
    for (node, process) in nodes.iter().enumerate() {
        let level = process.label().level.max(0);
        let size = sizes[parts.part(node as u32) as usize];
        if u64::from(size) < 1 << level {
            return Err(format!("a part of level {level} has {size} nodes"));
        }
    }
    Ok(())
}
