//! A candidate's configuration: from a file, the environment, and the program itself.

mod candidate;
mod outlook;
mod settings;

mod strategy;

pub use crate::bully::{Key, KeyError, StartError, StateError};
pub use candidate::{Config, OnOverrun};
pub use outlook::Outlook;
pub use settings::{ConfigError, Origin, Settings};
pub use strategy::{Bully, BullyError, Peer, Strategy};
pub use tenure_core::detector::{DetectBy, DetectionOptions};

#[cfg(test)]
mod tests;
