//! Random elections on small networks, from a seed.

use tenure_sim::sim::Rng;

use super::elect::{LinkElection, LinkInitiators};
use super::forest::ForestSettings;
use super::graph::LinkNetwork;
use super::shape::GraphShape;
use super::stage::LinkDelay;

/// A network of 2 to 24 nodes with up to 3 faulty links, and the conditions of an election on it.
#[derive(Clone, Debug)]
pub struct RandomElection {
    /// The shape of the network.
    pub shape: GraphShape,
    /// The network.
    pub network: LinkNetwork,
    /// The conditions.
    pub election: LinkElection,
}

const SHAPES: [GraphShape; 9] = [
    GraphShape::Ring,
    GraphShape::Line,
    GraphShape::Star,
    GraphShape::Grid,
    GraphShape::Hypercube,
    GraphShape::Tree,
    GraphShape::Caterpillar,
    GraphShape::Random(None),
    GraphShape::Complete,
];

impl RandomElection {
    /// Returns the election of this seed. The working links connect all nodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 6);
        let shape = rng.one_of(&SHAPES);
        let nodes = 2 + rng.below(23) as u32;
        let nodes = match shape {
            GraphShape::Hypercube => 1 << (1 + rng.below(4)),
            GraphShape::Ring => nodes.max(3),
            _ => nodes,
        };
        let network = LinkNetwork::new(shape, nodes, seed).expect("a shape of this size");
        let (mut faulty, one_way) = (rng.below(4) as usize, rng.below(2) == 0);
        let network = loop {
            let dead = if one_way { faulty / 2 } else { faulty };
            let broken = network
                .clone()
                .with_faults(dead, faulty - dead, false, seed);
            match broken {
                Ok(network) => break network,
                // Without faulty links it is possible.
                Err(_) => faulty -= 1,
            }
        };
        let initiators = [
            LinkInitiators::All,
            LinkInitiators::Third,
            LinkInitiators::Some(1),
        ];
        let on = LinkElection::on(&network, seed);
        let election = LinkElection {
            initiators: rng.one_of(&initiators),
            delay: rng.one_of(&LinkDelay::ALL),
            spread: rng.one_of(&[0, 5, 50]),
            checks: true,
            ..on
        };
        Self {
            shape,
            network,
            election,
        }
    }

    /// Changes what the processes believe about the network.
    #[must_use]
    pub fn with_settings(mut self, settings: impl FnOnce(&LinkNetwork) -> ForestSettings) -> Self {
        self.election.settings = settings(&self.network);
        self
    }

    /// Runs the election, and checks that it ends with one leader that all know.
    ///
    /// # Errors
    ///
    /// What is wrong, with the conditions of the run.
    pub fn check(&self) -> Result<(), String> {
        let (network, election) = (&self.network, &self.election);
        let wrong = |what: String| {
            format!(
                "seed {}: {} of {} nodes, {} faulty links, {}, {} delays: {what}",
                election.seed,
                self.shape,
                network.nodes(),
                network.faulty(),
                election.initiators,
                election.delay,
            )
        };
        let outcome = election.run(network).map_err(wrong)?;
        if outcome.is_elected() {
            return Ok(());
        }
        let (leaders, knowing) = (outcome.leaders.len(), outcome.knowing);
        let end = match outcome.is_at_rest {
            true => "at rest",
            false => "after too many messages",
        };
        Err(wrong(format!(
            "{leaders} leaders, {knowing} nodes know one, {end}"
        )))
    }
}
