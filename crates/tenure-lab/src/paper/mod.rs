//! The claims of the papers on Bully and Bully_FD, and measurements of their algorithms.
//!
//! The papers are S.-H. Park, "An Efficient Coordinator Election Algorithm in Synchronous
//! Distributed Systems" (2004; formulas (2) to (4), Tables 1 and 2) and "An Election Algorithm with
//! Failure Detectors in Distributed Systems" (2008; formulas (3.2) to (3.5)). Each claim is
//! measured under the assumptions of its paper ([`ElectionSetup`]): all messages have the same
//! latency, timers are punctual, and members ask about others only for the election. It is judged
//! by the algorithm that the paper describes, and by the algorithm of its figure. The verdict
//! ([`ClaimVerdict`]) follows from the values at the point that was measured.

mod claim;
mod claims;

mod formula;
mod reasons;
mod verdict;

mod measure;
mod parameters;
mod setup;

mod chart;
mod counter_example;

pub use claim::{Claim, ClaimRow, Paper, Point, Quantity, Subject, Value, short};
pub use counter_example::CounterExample;
pub use measure::measure;
pub use parameters::{Parameters, ParametersError};
pub use setup::{ElectionOutcome, ElectionSetup};
pub use verdict::{ClaimVerdict, Judgement, Reason, ShortTimeout};
