//! Compares election strategies, in the simulation of `tenure_sim` and as real processes.
//!
//! Older algorithms run beside those of the product. The command `tenure-lab` is the user interface.

mod contestants;

pub mod baseline;

pub mod detector;

pub mod measure;

pub mod paper;

pub mod links;

pub mod report;

pub mod proxy;

pub use contestants::{algorithms, contestant_of_name};
