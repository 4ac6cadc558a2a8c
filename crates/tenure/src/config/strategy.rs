//! The strategies.

#[cfg(feature = "azure")]
use super::AzureBlob;
#[cfg(feature = "peers")]
use super::Bully;

/// How a candidate is elected. [`Guarantee`](crate::Guarantee) says what each strategy guarantees.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
// There is one for each candidate.
#[allow(clippy::large_enum_variant)]
pub enum Strategy {
    /// By a lease in a store.
    #[default]
    Lease,
    /// By the lease of a blob: on an Azure storage account, on an emulator, or on a store that serves
    /// this protocol.
    #[cfg(feature = "azure")]
    AzureBlob(AzureBlob),
    /// Among peers that send each other messages, without a store.
    #[cfg(feature = "peers")]
    Bully(Bully),
    /// By a lease and among peers: the candidate leads only while it has both. For the migration of a
    /// group from one to the other: candidates by `both` and by `lease` may run side by side, and so may
    /// candidates by `both` and by `bully`.
    #[cfg(feature = "peers")]
    Both(Bully),
    /// Not at all: the candidate leads whenever it competes. For development, and for a service that
    /// certainly has one process.
    Static,
}

impl Strategy {
    /// The names in a configuration, whatever features are enabled.
    pub const NAMES: [&str; 5] = ["lease", "azure-blob", "bully", "both", "static"];

    /// The name in a configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lease => "lease",
            #[cfg(feature = "azure")]
            Self::AzureBlob(_) => "azure-blob",
            #[cfg(feature = "peers")]
            Self::Bully(_) => "bully",
            #[cfg(feature = "peers")]
            Self::Both(_) => "both",
            Self::Static => "static",
        }
    }

    /// The election among peers, if the strategy has one.
    #[cfg(feature = "peers")]
    #[must_use]
    pub const fn bully(&self) -> Option<&Bully> {
        match self {
            Self::Bully(bully) | Self::Both(bully) => Some(bully),
            _ => None,
        }
    }
}
