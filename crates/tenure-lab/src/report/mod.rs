//! A page with the results of a comparison: one HTML file with plots and without external
//! resources.
//!
//! All its content, including the sentences, follows from the measurements.

mod collect;
mod timeline;

mod summary;
mod table;

mod plot;

mod page;

pub use collect::{Growth, Report, Setting};
pub use page::Provenance;
pub use timeline::{Lane, LaneState, Span, Timeline};

#[cfg(test)]
mod tests;
