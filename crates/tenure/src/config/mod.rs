//! A candidate's configuration: from a file, the environment, and the program itself.

mod candidate;
mod outlook;
mod settings;

mod azure_blob;
mod strategy;

pub use crate::azure::{AzureAccount, AzureBlob, AzureBlobError};
pub use crate::peer_transport::{Key, KeyError, StartError, StateError};
pub use candidate::{Config, OnOverrun};
pub use outlook::Outlook;
pub(crate) use outlook::is_bare;
pub use settings::{ConfigError, Origin, Settings, nearest};
pub use strategy::{Bully, BullyError, Peer, Strategy};
pub use tenure_core::detector::{DetectBy, DetectionOptions};

#[cfg(test)]
mod tests;
