//! The claims of the papers on Bully and Bully_FD, and measurements of their algorithms.
//!
//! The papers are S.-H. Park, "An Efficient Coordinator Election Algorithm in Synchronous
//! Distributed Systems" (2004; formulas (2) to (4), Table 1) and "An Election Algorithm with
//! Failure Detectors in Distributed Systems" (2008; formulas (3.2) to (3.5)). Each claim is
//! measured under the assumptions of its paper ([`ElectionSetup`]): all messages have the same
//! latency, timers are punctual, and members ask about others only for the election.

mod formula;
mod setup;

mod claims;

pub use claims::{Claim, Point, measure};
pub use setup::{ElectionOutcome, ElectionSetup};
