//! Elections over links that may be broken, on the stage of the lab.
//!
//! `TENURE_SEEDS=200000 cargo test --release -p tenure-lab --test links -- --nocapture` runs that
//! many random elections; `-- --ignored` runs the networks of 4,096 nodes.

mod cost;
mod parted;
mod random;
mod without_ids;

use tenure_lab::links::{GraphShape, LinkNetwork};

fn network(shape: &str, nodes: u32, faulty: usize) -> LinkNetwork {
    let shape: GraphShape = shape.parse().unwrap();
    let network = LinkNetwork::new(shape, nodes, 1).unwrap();
    network.with_faults(faulty, 0, false, 1).unwrap()
}
