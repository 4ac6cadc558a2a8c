//! Elections in networks in which only some pairs have a link, and some links are broken.
//!
//! The stage runs a [`ForestNode`] at each node of a network: links deliver in order, after random
//! delays, and faulty links deliver nothing. A seed gives the same run on every machine. Flooding and Bully run on the same networks for comparison.

mod forest;

mod graph_error;
mod parts;
mod shape;

mod graph;
mod network_file;

mod stage;

mod bits;
mod flood;

mod elect;

mod bully;
mod compare;
mod draw;
mod growth;
mod random;

pub use bully::{BullyLinks, BullyOutcome, run_bully};
pub use compare::{LinkComparison, LinkRow, compare_on_links};
pub use draw::{MOST_DRAWN, draw_link_svg, draw_link_tree};
pub use elect::{LinkAttempts, LinkElection, LinkIds, LinkInitiators, LinkOutcome, LinkTraffic};
pub use forest::{
    CoreId, ForestLeader, ForestMessage, ForestNode, ForestOutput, ForestRole, ForestSettings,
    FragmentLabel, Port, PortState,
};
pub use graph::{LinkNetwork, LinkState, NetworkLink};
pub use graph_error::GraphError;
pub use growth::{LinkGrowth, fit_to_bound, measure_link_growth};
pub use random::RandomElection;
pub use shape::GraphShape;
pub use stage::LinkDelay;
