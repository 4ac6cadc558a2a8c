//! Messages against the number of nodes.

use serde::Serialize;

use super::elect::{LinkElection, LinkIds};
use super::graph::LinkNetwork;
use super::graph_error::GraphError;
use super::shape::GraphShape;

/// The elections of one size of a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkGrowth {
    /// n.
    pub nodes: u32,
    /// m.
    pub links: u32,
    /// m + n log2^2 n.
    pub bound: f64,
    /// The messages of aFLEU.
    pub afleu: u64,
    /// The messages of aFLEA with random identifiers of 128 bits.
    pub aflea: u64,
    /// The messages of flooding.
    pub flooding: u64,
}

/// Runs the elections on networks of this shape with 8, 16, 32 and so on up to `most` nodes.
///
/// # Errors
///
/// [`GraphError`] if no network of this shape can be made.
pub fn measure_link_growth(
    shape: GraphShape,
    most: u32,
    (dead, one_way): (usize, usize),
    election_on: impl Fn(&LinkNetwork) -> LinkElection,
    seed: u64,
) -> Result<Vec<LinkGrowth>, GraphError> {
    let mut rows = Vec::new();
    let mut error = None;
    let sizes = (3..).map(|power| 1 << power);
    for nodes in sizes.take_while(|nodes| *nodes <= most) {
        let network = LinkNetwork::new(shape, nodes, seed);
        let network = network.and_then(|it| it.with_faults(dead, one_way, false, seed));
        let network = match network {
            Ok(network) => network,
            // A small or a large network of this shape may be impossible.
            Err(found) => {
                error = Some(found);
                continue;
            }
        };
        let election = election_on(&network);
        if election.initiators.least_nodes() > nodes {
            continue;
        }
        let messages = |ids| {
            let outcome = LinkElection { ids, ..election }.run(&network);
            outcome.map_or(0, |it| it.traffic.all())
        };
        rows.push(LinkGrowth {
            nodes,
            links: network.links().len() as u32,
            bound: network.bound(),
            afleu: messages(LinkIds::Given),
            aflea: messages(LinkIds::Random(None)),
            flooding: election.run_flooding(&network).traffic.all(),
        });
    }
    match error {
        Some(error) if rows.is_empty() => Err(error),
        _ => Ok(rows),
    }
}

/// Fits messages = a (m + n log2^2 n) by least squares. Returns a for aFLEU, aFLEA and flooding.
#[must_use]
pub fn fit_to_bound(rows: &[LinkGrowth]) -> [f64; 3] {
    let counts: [fn(&LinkGrowth) -> u64; 3] = [|it| it.afleu, |it| it.aflea, |it| it.flooding];
    counts.map(|messages| {
        let products = rows.iter().map(|row| row.bound * messages(row) as f64);
        let squares = rows.iter().map(|row| row.bound * row.bound);
        products.sum::<f64>() / squares.sum::<f64>()
    })
}
