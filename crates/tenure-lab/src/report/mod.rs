//! A page with the results of a comparison: one HTML file with plots and without external
//! resources.
//!
//! All its content, including the sentences, follows from the measurements.

mod collect;
mod timeline;

mod table;

mod plot;

mod page;
mod papers;
mod timing;

mod links;

pub use collect::{Growth, Report, Setting};
pub use links::links_page;
pub use page::Provenance;
pub use plot::churn as churn_plot;
pub use timeline::{Lane, LaneState, Span, Timeline};

#[cfg(test)]
mod tests;
