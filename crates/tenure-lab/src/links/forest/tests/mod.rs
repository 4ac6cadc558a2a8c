mod model;
mod traces;

use super::*;

/// A small network: its links, and the one that is dead in both directions.
#[derive(Clone, Copy, Debug)]
struct Net {
    links: &'static [(usize, usize)],
    dead: Option<(usize, usize)>,
    /// The initiators; all if it is empty.
    initiators: &'static [usize],
    /// Whether the initiators begin before the first message arrives.
    at_once: bool,
    /// Whether all nodes have drawn the same identifier.
    has_equal_ids: bool,
}

const PAIR: Net = net(&[(0, 1)]);
const LINE_3: Net = net(&[(0, 1), (1, 2)]);
const TRIANGLE: Net = net(&[(0, 1), (1, 2), (2, 0)]);
const LINE_4: Net = net(&[(0, 1), (1, 2), (2, 3)]);
const STAR_4: Net = net(&[(0, 1), (0, 2), (0, 3)]);
const RING_4: Net = net(&[(0, 1), (1, 2), (2, 3), (3, 0)]);
const LINE_5: Net = net(&[(0, 1), (1, 2), (2, 3), (3, 4)]);

const fn net(links: &'static [(usize, usize)]) -> Net {
    Net {
        links,
        dead: None,
        initiators: &[],
        at_once: false,
        has_equal_ids: false,
    }
}

impl Net {
    /// The same network with its last link dead.
    const fn cut(self) -> Self {
        Self {
            dead: Some(self.links[self.links.len() - 1]),
            ..self
        }
    }

    const fn at_once(self) -> Self {
        Self {
            at_once: true,
            ..self
        }
    }

    const fn from(self, initiators: &'static [usize]) -> Self {
        Self { initiators, ..self }
    }

    fn size(&self) -> usize {
        let ends = self.links.iter().map(|&(one, other)| one.max(other));
        ends.max().map_or(1, |it| it + 1)
    }

    fn initiates(&self, node: usize) -> bool {
        self.initiators.is_empty() || self.initiators.contains(&node)
    }

    /// The settings with the right numbers.
    fn settings(&self) -> ForestSettings {
        ForestSettings::new(self.size() as u32, u32::from(self.dead.is_some()))
    }

    /// The nodes, with the identifiers 1, 2 and so on.
    fn nodes(&self, settings: ForestSettings) -> Vec<ForestNode> {
        let nodes = 0..self.size();
        let node = |node| {
            let role = match self.initiates(node) {
                true => ForestRole::Initiator,
                false => ForestRole::Follower,
            };
            let ports = self.neighbours(node).count() as u16;
            let id = if self.has_equal_ids { 1 } else { node + 1 };
            ForestNode::new(settings, CoreId(id as u128), role, ports)
        };
        nodes.map(node).collect()
    }

    /// The neighbours in the order of their ports.
    fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> {
        self.links
            .iter()
            .filter_map(move |&(one, other)| match node {
                _ if node == one => Some(other),
                _ if node == other => Some(one),
                _ => None,
            })
    }

    fn port(&self, node: usize, neighbour: usize) -> Port {
        let place = self.neighbours(node).position(|it| it == neighbour);
        Port(place.expect("a neighbour") as u16)
    }

    fn neighbour(&self, node: usize, port: Port) -> usize {
        let neighbour = self.neighbours(node).nth(port.0.into());
        neighbour.expect("a port")
    }

    fn is_dead(&self, from: usize, to: usize) -> bool {
        self.dead == Some((from, to)) || self.dead == Some((to, from))
    }
}
