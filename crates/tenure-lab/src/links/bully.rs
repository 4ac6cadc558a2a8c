//! Bully on the same network: over direct links, and with messages that the nodes pass on.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::bully::MAX_MEMBERS;
use tenure_sim::contestant::Contestant;
use tenure_sim::scenario::Scenario;

use super::graph::{LinkNetwork, LinkState};
use crate::measure::new_world;

/// The end of a run, if the members never agree.
const ENDS: Duration = Duration::from_secs(120);

/// The way in which the messages of members reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BullyLinks {
    /// Members exchange messages only if a link delivers them.
    Direct,
    /// Each message is flooded: a node passes its first copy on over all its other links.
    Relayed,
}

/// The result of the first election of members that start together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BullyOutcome {
    /// The messages over links until all agree, or in two minutes if they never agree.
    pub messages: u64,
    /// The number of leaders at the end.
    pub leaders: u32,
    /// The number of members that know the leader.
    pub knowing: u32,
}

/// Runs Bully with a quorum, with one member at each node. Returns `None` if there are more nodes
/// than the library allows members.
#[must_use]
pub fn run_bully(network: &LinkNetwork, links: BullyLinks, seed: u64) -> Option<BullyOutcome> {
    let nodes = network.nodes();
    if nodes as usize > MAX_MEMBERS {
        return None;
    }
    let contestant = Contestant::of_name("bully").ok()?;
    let nothing = Scenario::of_name("start").ok()?;
    let mut world = new_world(&contestant, &nothing, nodes, seed, u64::MAX);
    let mut machines = world.machines();
    machines.sort_unstable();
    // A member with a greater identifier is not a better one in both, so the order is free.
    let reach = reach(network, links);
    for (from, reached) in machines.iter().zip(&reach) {
        for (to, is_reached) in machines.iter().zip(reached) {
            if from != to && !is_reached {
                world.network.cut(*from, *to);
            }
        }
    }
    let mut now = Duration::ZERO;
    let mut agreed = false;
    while now < ENDS && !agreed {
        now += Duration::from_millis(500);
        world.run_until(now);
        let seen = world.seen_leaders();
        let leaders = world.leaders();
        agreed = leaders.len() == 1
            && seen.len() == nodes as usize
            && seen.iter().all(|(_, seen)| *seen == Some(leaders[0]));
    }
    let leaders = world.leaders();
    let knows = |(_, seen): &(NodeId, Option<NodeId>)| seen.is_some_and(|it| leaders.contains(&it));
    let knowing = world.seen_leaders().into_iter().filter(knows).count();
    // A flood passes every link of the reached nodes once from each side, without the way back.
    let cost = match links {
        BullyLinks::Direct => 1,
        BullyLinks::Relayed => flood_cost(network, &reach),
    };
    Some(BullyOutcome {
        messages: world.traffic.election * cost,
        leaders: leaders.len() as u32,
        knowing: knowing as u32,
    })
}

/// Returns for each node which nodes its messages reach.
fn reach(network: &LinkNetwork, links: BullyLinks) -> Vec<Vec<bool>> {
    let nodes = network.nodes() as usize;
    let mut reach = vec![vec![false; nodes]; nodes];
    for link in network.links() {
        let (one, other) = (link.one as usize, link.other as usize);
        reach[one][other] = link.state != LinkState::Dead;
        reach[other][one] = link.state == LinkState::Works;
    }
    for (node, reached) in reach.iter_mut().enumerate() {
        reached[node] = true;
    }
    if links == BullyLinks::Relayed {
        for by in 0..nodes {
            let further = reach[by].clone();
            for reached in reach.iter_mut().filter(|it| it[by]) {
                let all = reached.iter_mut().zip(&further);
                all.for_each(|(to, more)| *to |= more);
            }
        }
    }
    reach
}

/// Returns the largest number of transmissions of one flooded message.
fn flood_cost(network: &LinkNetwork, reach: &[Vec<bool>]) -> u64 {
    let cost = |reached: &Vec<bool>| {
        let nodes = (0..reached.len()).filter(|node| reached[*node]);
        let sent = nodes.map(|node| network.ports(node).len() as u64);
        let (sent, nodes) = sent.fold((0, 0), |(sent, nodes), it| (sent + it, nodes + 1));
        sent - (nodes - 1)
    };
    reach.iter().map(cost).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::GraphShape;

    #[test]
    fn bully_needs_direct_links_to_a_majority_or_messages_that_are_passed_on() {
        let ring = LinkNetwork::new(GraphShape::Ring, 7, 1).unwrap();
        let direct = run_bully(&ring, BullyLinks::Direct, 1).unwrap();
        let relayed = run_bully(&ring, BullyLinks::Relayed, 1).unwrap();
        assert_eq!((direct.leaders, relayed.leaders), (0, 1));
        assert_eq!(relayed.knowing, 7);
        // Each message crosses the ring in both directions: 2m - (n - 1).
        assert_eq!(relayed.messages % 8, 0);
        let large = LinkNetwork::new(GraphShape::Ring, 32, 1).unwrap();
        assert_eq!(run_bully(&large, BullyLinks::Relayed, 1), None);
    }

    #[test]
    fn a_message_reaches_no_node_against_a_one_way_link() {
        let network = LinkNetwork::parse("1 2\n2 3 one-way").unwrap();
        let reach = reach(&network, BullyLinks::Relayed);
        assert_eq!(
            reach,
            [[true, true, true], [true, true, true], [false, false, true]]
        );
    }
}
