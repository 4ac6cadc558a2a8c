//! Elections over links that may be broken, on the stage of the lab.
//!
//! `TENURE_SEEDS` sets the number of random elections. `cargo test --release -p tenure-lab --test
//! links long_form -- --ignored --nocapture` runs 200,000 of them, and networks of up to 16,384
//! nodes.

mod cost;
mod long_form;
mod parted;
mod random;
mod without_ids;

use tenure_lab::links::{GraphShape, LinkNetwork};

fn network(shape: &str, nodes: u32, faulty: usize) -> LinkNetwork {
    let shape: GraphShape = shape.parse().unwrap();
    let network = LinkNetwork::new(shape, nodes, 1).unwrap();
    network.with_faults(faulty, 0, false, 1).unwrap()
}
