//! The laboratory as a command: comparisons of strategies, and the claims of the papers.

mod compare;
mod links;
mod papers;
