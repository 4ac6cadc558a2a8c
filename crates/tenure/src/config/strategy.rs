//! The strategies.

#[cfg(feature = "azure")]
use super::AzureBlob;
#[cfg(feature = "peers")]
use super::Bully;
#[cfg(feature = "kubernetes")]
use super::KubernetesLease;

/// The strategy by which a candidate is elected. [`Guarantee`](crate::Guarantee) describes the
/// guarantee of each strategy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
// There is one value for each candidate, so its size does not matter.
#[allow(clippy::large_enum_variant)]
pub enum Strategy {
    /// By a lease in a store.
    #[default]
    Lease,
    /// By the lease of a blob in an Azure storage account, in an emulator, or in a store that
    /// serves this protocol.
    #[cfg(feature = "azure")]
    AzureBlob(AzureBlob),
    /// By a `Lease` object of a Kubernetes cluster.
    #[cfg(feature = "kubernetes")]
    Kubernetes(KubernetesLease),
    /// Among peers that exchange messages, without a store.
    #[cfg(feature = "peers")]
    Bully(Bully),
    /// By a lease and among peers: the candidate leads only while it has both. This is for the
    /// migration of a group from one strategy to the other: candidates with `both` may run beside
    /// candidates with `lease`, or beside candidates with `bully`.
    #[cfg(feature = "peers")]
    Both(Bully),
    /// Without an election: the candidate leads whenever it competes. This is for development, and
    /// for a service that certainly has only one process.
    Static,
}

impl Strategy {
    /// The names in a configuration. They do not depend on the enabled features.
    pub const NAMES: [&str; 6] = [
        "lease",
        "azure-blob",
        "kubernetes",
        "bully",
        "both",
        "static",
    ];

    /// Returns the strategy's name in a configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lease => "lease",
            #[cfg(feature = "azure")]
            Self::AzureBlob(_) => "azure-blob",
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(_) => "kubernetes",
            #[cfg(feature = "peers")]
            Self::Bully(_) => "bully",
            #[cfg(feature = "peers")]
            Self::Both(_) => "both",
            Self::Static => "static",
        }
    }

    /// Returns the address of the blob, if the strategy elects by the lease of a blob.
    #[cfg(feature = "peers")]
    pub(crate) fn blob_url(&self) -> Option<&str> {
        match self {
            #[cfg(feature = "azure")]
            Self::AzureBlob(blob) => Some(blob.url()),
            _ => None,
        }
    }

    /// Returns whether a candidate is elected by a lease alone, to which a fallback can be added.
    #[cfg(feature = "peers")]
    pub(super) const fn is_lease(&self) -> bool {
        match self {
            #[cfg(feature = "azure")]
            Self::AzureBlob(_) => true,
            Self::Lease => true,
            _ => false,
        }
    }

    /// Returns the settings of the election among peers, if the strategy has one.
    #[cfg(feature = "peers")]
    #[must_use]
    pub const fn bully(&self) -> Option<&Bully> {
        match self {
            Self::Bully(bully) | Self::Both(bully) => Some(bully),
            _ => None,
        }
    }
}
