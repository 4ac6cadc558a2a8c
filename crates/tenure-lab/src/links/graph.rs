//! Networks of links, of which some are faulty.

use tenure_sim::sim::Rng;

use super::forest::Port;
use super::graph_error::GraphError;
use super::parts::Parts;
use super::shape::{GraphShape, pairs};

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It delivers in both directions.
    Works,
    /// It delivers nothing.
    Dead,
    /// It delivers from its first end to the other one only.
    OneWay,
}

/// A link between two nodes, which are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLink {
    /// One end.
    pub one: u32,
    /// The other end.
    pub other: u32,
    /// Its state.
    pub state: LinkState,
}

/// The far end of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarEnd {
    pub(super) node: u32,
    pub(super) port: Port,
    pub(super) link: usize,
    /// Whether the link delivers in this direction.
    pub(super) delivers: bool,
}

/// A network with its faulty links.
#[derive(Clone, Debug)]
pub struct LinkNetwork {
    ids: Vec<u32>,
    links: Vec<NetworkLink>,
    ports: Vec<Vec<FarEnd>>,
}

impl LinkNetwork {
    /// Creates a network without faults. The seed decides which node has which identifier, from 1
    /// to n, and the links of random shapes.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if the shape can't have this number of nodes.
    pub fn new(shape: GraphShape, nodes: u32, seed: u64) -> Result<Self, GraphError> {
        let mut rng = Rng::new(seed, 1);
        let pairs = pairs(shape, nodes, &mut rng)?;
        let mut ids: Vec<u32> = (1..=nodes).collect();
        shuffle(&mut ids, &mut rng);
        Ok(Self::of_pairs(ids, pairs))
    }

    fn of_pairs(ids: Vec<u32>, pairs: Vec<(u32, u32)>) -> Self {
        let state = LinkState::Works;
        let links = pairs.into_iter();
        let links = links.map(|(one, other)| NetworkLink { one, other, state });
        Self::of_links(ids, links.collect())
    }

    pub(super) fn of_links(ids: Vec<u32>, links: Vec<NetworkLink>) -> Self {
        let mut ports: Vec<Vec<FarEnd>> = vec![Vec::new(); ids.len()];
        for (link, &NetworkLink { one, other, state }) in links.iter().enumerate() {
            let [first, second] = [one, other].map(|node| Port(ports[node as usize].len() as u16));
            ports[one as usize].push(FarEnd {
                node: other,
                port: second,
                link,
                delivers: state != LinkState::Dead,
            });
            ports[other as usize].push(FarEnd {
                node: one,
                port: first,
                link,
                delivers: state == LinkState::Works,
            });
        }
        Self { ids, links, ports }
    }

    /// Makes random links faulty: some in both directions, and some in one. Unless `anywhere` is set,
    /// the working links still connect all nodes.
    ///
    /// # Errors
    ///
    /// [`GraphError::Faulty`] if there are not enough links.
    pub fn with_faults(
        self,
        dead: usize,
        one_way: usize,
        anywhere: bool,
        seed: u64,
    ) -> Result<Self, GraphError> {
        let mut rng = Rng::new(seed, 2);
        let mut order: Vec<usize> = (0..self.links.len()).collect();
        shuffle(&mut order, &mut rng);
        let Self { ids, mut links, .. } = self;
        let mut done = 0;
        for link in order {
            if done == dead + one_way {
                break;
            }
            let before = links[link];
            links[link].state = LinkState::Dead;
            if !anywhere && before.state == LinkState::Works && !connects(ids.len(), &links) {
                links[link] = before;
                continue;
            }
            if done >= dead {
                links[link].state = LinkState::OneWay;
                if rng.below(2) == 0 {
                    let NetworkLink { one, other, .. } = before;
                    (links[link].one, links[link].other) = (other, one);
                }
            }
            done += 1;
        }
        if done < dead + one_way {
            return Err(GraphError::Faulty {
                possible: done,
                asked: dead + one_way,
            });
        }
        Ok(Self::of_links(ids, links))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Returns the identifiers of the nodes.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the links.
    #[must_use]
    pub fn links(&self) -> &[NetworkLink] {
        &self.links
    }

    /// Returns the number of faulty links.
    #[must_use]
    pub fn faulty(&self) -> u32 {
        let faulty = self.links.iter().filter(|it| it.state != LinkState::Works);
        faulty.count() as u32
    }

    /// Returns whether a link delivers in one direction only.
    #[must_use]
    pub fn has_one_way(&self) -> bool {
        let mut links = self.links.iter();
        links.any(|it| it.state == LinkState::OneWay)
    }

    /// Returns the number of nodes in the largest part that the working links connect.
    #[must_use]
    pub fn largest_part(&self) -> u32 {
        let parts = parts(self.ids.len(), &self.links);
        parts.largest()
    }

    pub(super) fn ports(&self, node: usize) -> &[FarEnd] {
        &self.ports[node]
    }

    /// Returns m + n log2^2 n.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let nodes = f64::from(self.nodes());
        self.links.len() as f64 + nodes * libm::log2(nodes).powi(2)
    }
}

fn parts(nodes: usize, links: &[NetworkLink]) -> Parts {
    let mut parts = Parts::new(nodes);
    for link in links.iter().filter(|it| it.state == LinkState::Works) {
        parts.join(link.one, link.other);
    }
    parts
}

fn connects(nodes: usize, links: &[NetworkLink]) -> bool {
    parts(nodes, links).largest() as usize == nodes
}

pub(super) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for place in (1..items.len()).rev() {
        items.swap(place, rng.below(place as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulty_links_keep_the_network_connected_unless_they_may_be_anywhere() {
        let ring = || LinkNetwork::new(GraphShape::Ring, 8, 1).unwrap();
        let broken = ring().with_faults(0, 1, false, 3).unwrap();
        assert_eq!((broken.faulty(), broken.largest_part()), (1, 8));
        assert!(broken.has_one_way());
        let error = ring().with_faults(2, 0, false, 3).unwrap_err();
        assert!(error.to_string().starts_with("only 1 of the links"));
        let parted = ring().with_faults(2, 0, true, 3).unwrap();
        assert!(parted.largest_part() < 8);
    }
}
