//! The shapes of networks, and the links of each.

use std::fmt;
use std::str::FromStr;

use tenure_sim::sim::Rng;

use super::graph_error::{DRAWS, GraphError, MOST_LINKS};
use super::parts::Parts;

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
        let found = tenure_sim::find("graph", name, SHAPES, |(name, _)| *name);
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

/// Returns the links of a network with this shape.
pub(super) fn pairs(
    shape: GraphShape,
    nodes: u32,
    rng: &mut Rng,
) -> Result<Vec<(u32, u32)>, GraphError> {
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
    use super::super::graph::LinkNetwork;
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
}
