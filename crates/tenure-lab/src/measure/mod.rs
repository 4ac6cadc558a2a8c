//! What is measured of a run, and of many.

mod compare;
mod row;
mod watch;

pub use compare::{Comparison, NODES, REST, Ran, compare};
pub(crate) use compare::{each, play, set_out};
pub use row::{Row, Spread};
pub use watch::{Figures, figures};
