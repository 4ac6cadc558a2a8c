//! A candidate's configuration: from a file, the environment, and the program itself.

mod candidate;
mod settings;

pub use candidate::{Config, OnOverrun};
pub use settings::{ConfigError, Origin, Settings};

#[cfg(test)]
mod tests;
