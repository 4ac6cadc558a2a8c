//! The configuration of a candidate: from a file, the environment, and code.

mod candidate;
mod strategy;

#[cfg(feature = "peers")]
mod bully;
#[cfg(feature = "peers")]
mod fallback;
#[cfg(feature = "peers")]
mod plan;

#[cfg(feature = "config-file")]
pub(crate) mod load;
#[cfg(feature = "config-file")]
pub(crate) mod permissions;
#[cfg(feature = "config-file")]
pub(crate) mod settings;

#[cfg(all(feature = "config-file", feature = "azure"))]
mod azure_blob;
#[cfg(all(feature = "config-file", feature = "peers"))]
pub(crate) mod bully_settings;
#[cfg(all(feature = "config-file", feature = "peers"))]
mod fallback_settings;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(all(feature = "config-file", feature = "kubernetes"))]
mod kubernetes_settings;

pub(crate) use candidate::TermHook;
pub use candidate::{Config, OnOverrun};
pub use strategy::Strategy;

#[cfg(feature = "config-file")]
pub use settings::{ConfigError, Origin};

#[cfg(feature = "azure")]
pub use tenure_azure::client::{AzureAccount, AzureBlob, AzureBlobError};

#[cfg(feature = "kubernetes")]
pub use kubernetes::{KubernetesLease, KubernetesLeaseError};

#[cfg(feature = "peers")]
pub use crate::base::member_error::{ListenError, StateError};
#[cfg(feature = "peers")]
pub use crate::base::peer_key::{PeerKey, PeerKeyError};
#[cfg(feature = "peers")]
pub use bully::{Bully, BullyError, Peer, PeerError};
#[cfg(feature = "peers")]
pub use fallback::{BesideStore, Fallback};
#[cfg(feature = "peers")]
pub use plan::ElectionPlan;
#[cfg(feature = "peers")]
pub use tenure_core::bully::{
    Bounds, GroupGuarantee, GroupSettings, GroupTimingsOptions, Quorums, QuorumsError,
};
#[cfg(feature = "peers")]
pub use tenure_core::detector::{DetectBy, Detection, DetectionOptions};

#[cfg(all(
    test,
    feature = "config-file",
    feature = "azure",
    feature = "kubernetes",
    feature = "peers",
    feature = "tls"
))]
mod tests;
