//! A page that shows a comparison to a person: one file of HTML, with plots, that needs nothing else.
//!
//! Everything on it is made from what was measured, also what it says in sentences.

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
