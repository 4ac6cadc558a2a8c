//! What the papers on Bully and Bully_FD claim, beside what their algorithms do.
//!
//! The papers are S.-H. Park, "An Efficient Coordinator Election Algorithm in Synchronous Distributed
//! Systems" (2004; formulas (2) to (4), Table 1) and "An Election Algorithm with Failure Detectors in
//! Distributed Systems" (2008; formulas (3.2) to (3.5)). Each claim is put beside a measurement under
//! the paper's own assumptions ([`Stage`]): all messages take as long, timers are punctual, nobody asks
//! about anybody but for the election.

mod formula;
mod setup;

mod claims;

pub use claims::{Claim, Point, measure};
pub use setup::{ElectionOutcome, ElectionSetup, PaperAlgorithm};
