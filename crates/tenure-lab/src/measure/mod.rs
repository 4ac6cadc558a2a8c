//! The measurements of one run, and of many.

mod compare;
mod gain;
mod measurement;
mod watch;

pub use compare::{Comparison, NODES, REST, RunResult, compare};
pub(crate) use compare::{map_parallel, new_world, run_scenario};
pub use gain::gain_of_fallback;
pub use measurement::{ENOUGH_FOR_P99, Measurement, Spread};
pub use watch::{Figures, figures};
