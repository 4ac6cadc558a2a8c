//! The configuration of a cluster: several servers over one shared log.

use std::time::Duration;

pub use tenure_register::HomeUrl;
#[cfg(feature = "bucket")]
pub use tenure_register::bucket::BucketAccess as BucketConfig;
pub use tenure_register::etcd::{Compaction, EtcdAccess as EtcdConfig};
pub use tenure_register::postgres::{Failover, PostgresAccess as PostgresConfig, PostgresUrl};

/// The configuration of a server that shares its leases with other servers. One of them is active
/// at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The name of the cluster, which all its servers have. Several clusters may use one service.
    pub name: String,
    /// The name of this server, for operators. Each server of a cluster has another one.
    pub server: String,
    /// The URL at which clients reach this server. Standbys tell it to clients.
    pub advertise: String,
    /// The time for which an append makes a server the owner of the log: 1 s to 60 s. A standby
    /// takes over after it has seen no append for this time. All servers should have the same.
    pub ownership: Duration,
    /// Whether every answer waits for an append that was sent after the answer was decided. Then no
    /// clock of a server matters.
    pub confirm: bool,
    /// Whether clients of this server need credentials. The log remembers it.
    pub access: ClusterAccess,
    /// The service with the log.
    pub home: Home,
}

impl ClusterConfig {
    /// The default of [`ClusterConfig::name`].
    pub const NAME: &str = "default";

    /// The default of [`ClusterConfig::ownership`].
    pub const OWNERSHIP: Duration = Duration::from_secs(3);

    /// The same with a home in a bucket, where each request costs money and takes longer.
    #[cfg(feature = "bucket")]
    pub const OWNERSHIP_IN_BUCKET: Duration = Duration::from_secs(10);

    /// The configuration of a server with this name whose log is in memory. The name of the home is
    /// only shown.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn in_memory(server: &str) -> Self {
        let home = Home::Etcd(EtcdConfig::new(Vec::new()));
        Self::new(server, format!("http://{server}"), home)
    }

    /// Creates the configuration of the server with this name, which clients reach at the URL
    /// `advertise`, with the defaults of all other values.
    #[must_use]
    pub fn new(server: impl Into<String>, advertise: impl Into<String>, home: Home) -> Self {
        Self {
            name: Self::NAME.into(),
            server: server.into(),
            advertise: advertise.into(),
            ownership: home.ownership(),
            confirm: false,
            access: ClusterAccess::default(),
            home,
        }
    }
}

/// Whether clients of a server of a cluster need credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterAccess {
    /// They need none. The server does not take over a log that a server with access control has
    /// owned.
    #[default]
    Anonymous,
    /// They need none, and the operator has said that this is right for every log.
    AnonymousAllowed,
    /// They need credentials.
    Guarded,
}

/// A service that keeps the log of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Home {
    /// etcd 3.4 or later.
    Etcd(EtcdConfig),
    /// PostgreSQL 13 or later.
    Postgres(PostgresConfig),
    /// A bucket of S3, of a store with its API, of Google Cloud Storage or of Azure.
    #[cfg(feature = "bucket")]
    Bucket(BucketConfig),
}

impl Home {
    /// Returns the name of the home, as in the settings.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Etcd(_) => "etcd",
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "bucket")]
            Self::Bucket(_) => "bucket",
        }
    }

    /// Returns the default of [`ClusterConfig::ownership`] with this home.
    const fn ownership(&self) -> Duration {
        match self {
            Self::Etcd(_) | Self::Postgres(_) => ClusterConfig::OWNERSHIP,
            #[cfg(feature = "bucket")]
            Self::Bucket(_) => ClusterConfig::OWNERSHIP_IN_BUCKET,
        }
    }
}
