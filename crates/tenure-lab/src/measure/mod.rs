//! The measurements of one run, and of many.

mod churn;
mod columns;
mod compare;
mod gain;
mod measurement;
mod timing;
mod verdict;
mod watch;

pub use churn::{ChurnRow, churn};
pub use columns::{Column, columns, is_on_terminal};
pub use compare::{Comparison, NODES, REST, RunResult, compare};
pub(crate) use compare::{new_world, run_scenario};
pub use gain::gain_of_fallback;
pub use measurement::{ENOUGH_FOR_P99, Measurement, Spread};
pub use timing::{DETECTION_TIMES, EQUAL_TIME, TimingComparison, TimingPoint};
pub use verdict::verdicts;
pub use watch::{Figures, figures};
