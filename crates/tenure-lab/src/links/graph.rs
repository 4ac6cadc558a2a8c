//! Networks of links, of regular and of random shapes.

use std::fmt;
use std::str::FromStr;

use tenure_core::links::Port;

use crate::names;
use crate::sim::Rng;

/// The most links of a network. More do not fit into the memory of a small machine.
const MOST_LINKS: usize = 1_000_000;

/// The number of draws after which a random network counts as never connected.
const DRAWS: usize = 100;

/// The shape of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphShape {
    /// Each node has two neighbours.
    Ring,
    /// A ring without one of its links.
    Line,
    /// One node in the middle is linked to all others.
    Star,
    /// Rows and columns; the last row may be short.
    Grid,
    /// A grid whose rows and columns are rings.
    Torus,
    /// 2^d nodes, each with d neighbours.
    Hypercube,
    /// A random tree.
    Tree,
    /// A line with one more node at each of its nodes.
    Caterpillar,
    /// Each pair is linked with this probability; `None` for 3 ln n / n.
    Random(Option<f64>),
    /// All pairs are linked.
    Complete,
}

/// A network can't be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The shape needs another number of nodes.
    #[error("{shape} can't have {nodes} nodes: {needed}")]
    Nodes {
        /// The shape.
        shape: GraphShape,
        /// The number of nodes.
        nodes: u32,
        /// What the shape needs.
        needed: String,
    },
    /// There would be too many links.
    #[error("{shape} of {nodes} nodes has more than {MOST_LINKS} links; use fewer nodes")]
    Links {
        /// The shape.
        shape: GraphShape,
        /// The number of nodes.
        nodes: u32,
    },
    /// No draw was connected.
    #[error(
        "{shape} of {nodes} nodes was not connected in {DRAWS} draws; use a probability of \
         ln n / n = {enough:.3} or more"
    )]
    NotConnected {
        /// The shape.
        shape: GraphShape,
        /// The number of nodes.
        nodes: u32,
        /// The probability from which most draws are connected.
        enough: f64,
    },
    /// Too few links can fail.
    #[error(
        "only {possible} of the links can be faulty if the working ones are to connect all nodes, \
         not {asked}"
    )]
    Faulty {
        /// The number of links that can fail.
        possible: usize,
        /// The number of links that were to fail.
        asked: usize,
    },
    /// A line of a file is wrong.
    #[error("line {line}: {error}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        error: String,
    },
}

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

const SHAPES: &[(&str, GraphShape)] = &[
    ("ring", GraphShape::Ring),
    ("line", GraphShape::Line),
    ("star", GraphShape::Star),
    ("hub", GraphShape::Star),
    ("grid", GraphShape::Grid),
    ("torus", GraphShape::Torus),
    ("hypercube", GraphShape::Hypercube),
    ("cube", GraphShape::Hypercube),
    ("tree", GraphShape::Tree),
    ("caterpillar", GraphShape::Caterpillar),
    ("random", GraphShape::Random(None)),
    ("mesh", GraphShape::Random(None)),
    ("complete", GraphShape::Complete),
];

impl FromStr for GraphShape {
    type Err = String;

    /// Reads a name such as `ring`, or `random:0.3` with the probability of each link.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        let found = names::find("graph", name, SHAPES, |(name, _)| *name);
        let shape = found.map_err(|error| error.to_string())?.1;
        match (shape, argument) {
            (_, None) => Ok(shape),
            (Self::Random(_), Some(argument)) => match argument.parse() {
                Ok(p) if 0.0 < p && p <= 1.0 => Ok(Self::Random(Some(p))),
                _ => Err(format!(
                    "{text:?} needs a probability above 0 and up to 1, such as {name}:0.3"
                )),
            },
            _ => Err(format!(
                "{text:?}: only random takes a value, as in random:0.3"
            )),
        }
    }
}

impl fmt::Display for GraphShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Random(Some(p)) = self {
            return write!(f, "random:{p}");
        }
        let name = SHAPES.iter().find(|(_, shape)| shape == self);
        f.write_str(name.map_or("graph", |(name, _)| name))
    }
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

    /// Reads a network from text: on each line the numbers of two nodes with a link. A third word
    /// marks a faulty link: `dead`, or `one-way` for a link that delivers from the first node to the
    /// second only. `#` begins a comment. The numbers are the identifiers.
    ///
    /// # Errors
    ///
    /// [`GraphError::Line`] names the first wrong line.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let (mut ids, mut links): (Vec<u32>, Vec<NetworkLink>) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let wrong = |error: String| GraphError::Line {
                line: number + 1,
                error,
            };
            let words = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = words.split_whitespace().collect();
            let (names, state) = match words[..] {
                [] => continue,
                [one, other] => ([one, other], LinkState::Works),
                [one, other, "dead"] => ([one, other], LinkState::Dead),
                [one, other, "one-way"] => ([one, other], LinkState::OneWay),
                [_, _, word] => {
                    let error = format!("{word:?} is no state of a link; use dead or one-way");
                    return Err(wrong(error));
                }
                _ => {
                    let error = format!("{line:?} needs two numbers of nodes, such as 1 2");
                    return Err(wrong(error));
                }
            };
            let mut ends = [0; 2];
            for (end, name) in ends.iter_mut().zip(names) {
                let id = name.parse::<u32>().ok().filter(|id| *id > 0);
                let Some(id) = id else {
                    let error = format!("{name:?} is no number of a node; use 1 to {}", u32::MAX);
                    return Err(wrong(error));
                };
                let place = ids.iter().position(|it| *it == id);
                *end = place.unwrap_or_else(|| {
                    ids.push(id);
                    ids.len() - 1
                }) as u32;
            }
            let [one, other] = ends;
            let is_same = |it: &NetworkLink| {
                (it.one, it.other) == (one, other) || (it.one, it.other) == (other, one)
            };
            if one == other || links.iter().any(is_same) {
                let error = format!("{} {} is a loop or a second link", names[0], names[1]);
                return Err(wrong(error));
            }
            links.push(NetworkLink { one, other, state });
            if links.len() > MOST_LINKS.min(100_000) || ids.len() > usize::from(u16::MAX) {
                return Err(wrong("a file has at most 100,000 links".into()));
            }
        }
        if ids.is_empty() {
            let error = "there is no link; each line needs two numbers of nodes, such as 1 2";
            return Err(GraphError::Line {
                line: 1,
                error: error.into(),
            });
        }
        Ok(Self::of_links(ids, links))
    }

    fn of_pairs(ids: Vec<u32>, pairs: Vec<(u32, u32)>) -> Self {
        let state = LinkState::Works;
        let links = pairs.into_iter();
        let links = links.map(|(one, other)| NetworkLink { one, other, state });
        Self::of_links(ids, links.collect())
    }

    fn of_links(ids: Vec<u32>, links: Vec<NetworkLink>) -> Self {
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
        let parts = Parts::of(self.ids.len(), &self.links);
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

/// Nodes that are joined step by step.
#[derive(Debug)]
pub(super) struct Parts(Vec<u32>);

impl Parts {
    pub(super) fn new(nodes: usize) -> Self {
        Self((0..nodes as u32).collect())
    }

    fn of(nodes: usize, links: &[NetworkLink]) -> Self {
        let mut parts = Self::new(nodes);
        for link in links.iter().filter(|it| it.state == LinkState::Works) {
            parts.join(link.one, link.other);
        }
        parts
    }

    pub(super) fn part(&mut self, node: u32) -> u32 {
        let mut root = node;
        while self.0[root as usize] != root {
            let above = self.0[root as usize];
            self.0[root as usize] = self.0[above as usize];
            root = above;
        }
        root
    }

    /// Joins the parts of two nodes. Returns whether they were different.
    pub(super) fn join(&mut self, one: u32, other: u32) -> bool {
        let (one, other) = (self.part(one), self.part(other));
        self.0[one as usize] = other;
        one != other
    }

    pub(super) fn sizes(&mut self) -> Vec<u32> {
        let mut sizes = vec![0; self.0.len()];
        for node in 0..self.0.len() as u32 {
            sizes[self.part(node) as usize] += 1;
        }
        sizes
    }

    fn largest(mut self) -> u32 {
        self.sizes().into_iter().max().unwrap_or_default()
    }
}

fn connects(nodes: usize, links: &[NetworkLink]) -> bool {
    Parts::of(nodes, links).largest() as usize == nodes
}

pub(super) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for place in (1..items.len()).rev() {
        items.swap(place, rng.below(place as u64 + 1) as usize);
    }
}

fn pairs(shape: GraphShape, nodes: u32, rng: &mut Rng) -> Result<Vec<(u32, u32)>, GraphError> {
    let unfit = |needed: String| GraphError::Nodes {
        shape,
        nodes,
        needed,
    };
    if !(2..=u32::from(u16::MAX)).contains(&nodes) {
        return Err(unfit(format!("use 2 to {}", u16::MAX)));
    }
    let (n, all) = (nodes, 0..nodes);
    Ok(match shape {
        GraphShape::Ring if n < 3 => return Err(unfit("a ring needs 3 or more".into())),
        GraphShape::Ring => all.map(|it| (it, (it + 1) % n)).collect(),
        GraphShape::Line => (1..n).map(|it| (it - 1, it)).collect(),
        GraphShape::Star => (1..n).map(|it| (0, it)).collect(),
        GraphShape::Grid => {
            let width = f64::from(n).sqrt().ceil() as u32;
            let right = all.clone().filter(|it| (it + 1) % width != 0 && it + 1 < n);
            let below = all.filter(|it| it + width < n);
            let right = right.map(|it| (it, it + 1));
            right.chain(below.map(|it| (it, it + width))).collect()
        }
        GraphShape::Torus => {
            let fits = |width: &u32| n % width == 0 && n / width >= 3;
            let least = f64::from(n).sqrt().ceil() as u32;
            let Some(width) = (least.max(3)..=n / 3).find(fits) else {
                let needed = "rows and columns need 3 or more each, as in 9, 12, 15 or 16";
                return Err(unfit(needed.into()));
            };
            let right = |it: u32| it / width * width + (it + 1) % width;
            let ends = all.flat_map(|it| [(it, right(it)), (it, (it + width) % n)]);
            ends.collect()
        }
        GraphShape::Hypercube => {
            if !n.is_power_of_two() {
                let (above, below) = (n.next_power_of_two(), n.next_power_of_two() / 2);
                return Err(unfit(format!("use {below} or {above}")));
            }
            let bits = (0..n.ilog2()).map(|bit| 1 << bit);
            let ends = bits.flat_map(|bit| all.clone().map(move |it| (it, it ^ bit)));
            ends.filter(|(one, other)| one < other).collect()
        }
        GraphShape::Tree => (1..n)
            .map(|it| (rng.below(u64::from(it)) as u32, it))
            .collect(),
        GraphShape::Caterpillar => {
            let spine = n.div_ceil(2);
            let legs = (spine..n).map(|it| (it - spine, it));
            (1..spine).map(|it| (it - 1, it)).chain(legs).collect()
        }
        GraphShape::Random(p) => return random(shape, n, p, rng),
        GraphShape::Complete if n as usize * (n as usize - 1) / 2 > MOST_LINKS => {
            return Err(GraphError::Links { shape, nodes });
        }
        GraphShape::Complete => {
            let ends = all.flat_map(|it| (0..it).map(move |other| (other, it)));
            ends.collect()
        }
    })
}

fn random(
    shape: GraphShape,
    nodes: u32,
    p: Option<f64>,
    rng: &mut Rng,
) -> Result<Vec<(u32, u32)>, GraphError> {
    let enough = libm::log(f64::from(nodes)) / f64::from(nodes);
    let p = p.unwrap_or(3.0 * enough).min(1.0);
    let expected = p * f64::from(nodes) * f64::from(nodes) / 2.0;
    if expected > MOST_LINKS as f64 {
        return Err(GraphError::Links { shape, nodes });
    }
    for _ in 0..DRAWS {
        let mut parts = Parts::new(nodes as usize);
        let mut pairs = Vec::new();
        for one in 1..nodes {
            for other in 0..one {
                if rng.unit() < p {
                    parts.join(one, other);
                    pairs.push((other, one));
                }
            }
        }
        if parts.largest() == nodes {
            return Ok(pairs);
        }
    }
    Err(GraphError::NotConnected {
        shape,
        nodes,
        enough,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(shape: &str, nodes: u32) -> usize {
        let network = LinkNetwork::new(shape.parse().unwrap(), nodes, 7).unwrap();
        assert_eq!(network.largest_part(), nodes, "{shape}");
        network.links().len()
    }

    #[test]
    fn each_shape_connects_all_nodes_with_its_number_of_links() {
        let found = ["ring", "line", "star", "grid", "torus", "hypercube"].map(|it| links(it, 16));
        assert_eq!(found, [16, 15, 15, 24, 32, 32]);
        let found = ["tree", "caterpillar", "complete", "random:1"].map(|it| links(it, 16));
        assert_eq!(found, [15, 15, 120, 120]);
        assert_eq!(links("grid", 7), 8);
        assert_eq!(links("torus", 15), 30);
    }

    #[test]
    fn a_wrong_shape_or_number_of_nodes_says_what_would_be_right() {
        let shape = |text: &str| text.parse::<GraphShape>().unwrap_err();
        assert!(shape("rnig").contains("did you mean \"ring\"?"));
        assert!(shape("random:2").contains("random:0.3"));
        assert!(shape("ring:2").contains("only random takes a value"));
        let network = |shape: &str, nodes| {
            let shape = shape.parse().unwrap();
            LinkNetwork::new(shape, nodes, 0).unwrap_err().to_string()
        };
        let error = network("hypercube", 12);
        assert_eq!(error, "hypercube can't have 12 nodes: use 8 or 16");
        assert!(network("torus", 14).contains("9, 12, 15 or 16"));
        assert!(network("complete", 4_096).contains("use fewer nodes"));
        assert!(network("random:0.001", 64).contains("0.065 or more"));
        assert!(network("ring", 2).contains("3 or more"));
    }

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

    #[test]
    fn a_file_names_the_links_and_those_that_are_broken() {
        let text = "# two sites\n4 5\n5 9 dead\n9 4 one-way # to 4\n\n";
        let network = LinkNetwork::parse(text).unwrap();
        assert_eq!(network.ids(), [4, 5, 9]);
        assert_eq!((network.faulty(), network.largest_part()), (2, 2));
        for (text, error) in [
            ("", "line 1: there is no link"),
            ("1 2\n2 x", "line 2: \"x\" is no number of a node"),
            ("1 2 slow", "use dead or one-way"),
            ("1 2\n2 1", "line 2: 2 1 is a loop or a second link"),
            ("1", "needs two numbers of nodes"),
        ] {
            let found = LinkNetwork::parse(text).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
