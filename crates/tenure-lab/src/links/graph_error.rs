//! Errors of networks.

use super::shape::GraphShape;

/// The most links of a network. More do not fit into the memory of a small machine.
pub(super) const MOST_LINKS: usize = 1_000_000;

/// The number of draws after which a random network counts as never connected.
pub(super) const DRAWS: usize = 100;

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
