//! The bodies of the routes that show and change which server of a cluster is active.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::Name;

/// One server of a cluster, as that server sees the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ClusterView {
    /// The id of the store, which all servers of the cluster have; null while this server has not
    /// read it.
    pub store: Option<String>,
    /// The name of the cluster.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub name: String,
    /// The name of this server.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub server: String,
    /// A random id of this start of the server, which tells servers with one name apart; null if the
    /// server is of an older version.
    #[serde(default)]
    pub start: Option<String>,
    /// The part of this server in the cluster.
    pub role: ServerRole,
    /// The number of the last take-over that this server has seen.
    pub generation: u64,
    /// The number of the last append that this server has seen.
    pub sequence: u64,
    /// The active server, if the cluster has one as far as this server sees.
    pub active: Option<ActiveServer>,
    /// The time without an append after which another server takes over.
    pub ownership_ms: u64,
    /// The number of changes in the log that this server has not read yet; null while it has no copy
    /// of the leases.
    pub behind: Option<u64>,
    /// The time for which this server may still accept requests without another append; null if it
    /// accepts none.
    pub serving_ms_left: Option<u64>,
    /// The name of the home, as in the settings.
    pub home: String,
    /// What is wrong with this server: why it does not follow or serve, the last error of its home,
    /// why it has no copy of the leases, or that another server has its name.
    pub reason: Option<String>,
    /// The version of the home, if this server could read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_version: Option<String>,
    /// The identity of the home in which the log was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_identity: Option<String>,
    /// The size of the home's data in bytes, without the space that it can use again, if this
    /// server could read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_bytes: Option<u64>,
    /// The size at which the home refuses changes, in bytes, if this server could read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_quota_bytes: Option<u64>,
    /// The average duration of the last requests that the home answered, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_latency_us: Option<u64>,
    /// The problems of the home that its operator should correct, although it can be used: for
    /// example known errors of its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub home_warnings: Vec<String>,
}

impl ClusterView {
    /// Creates the view of a server of a cluster over this home. All other fields are null, zero
    /// or empty.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        server: impl Into<String>,
        role: ServerRole,
        home: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            server: server.into(),
            role,
            home: home.into(),
            ..Self::default()
        }
    }

    /// Returns the name of the home, and its version if that is known.
    #[must_use]
    pub fn home_and_version(&self) -> String {
        let version = self.home_version.iter().flat_map(|version| [" ", version]);
        [&*self.home].into_iter().chain(version).collect()
    }
}

/// The part of a server in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerRole {
    /// A standby: it reads the log, and takes over if the active server is gone.
    #[default]
    Following,
    /// It has sent the append that makes it the owner of the log.
    Taking,
    /// It owns the log and reads the leases.
    Loading,
    /// It accepts requests.
    Active,
    /// It owns the log as far as it knows, but its appends fail, so it accepts no requests.
    Lapsed,
    /// It has given the log up and takes it over only if no other server does.
    Resigned,
    /// It can't take part until an operator has done something.
    Refusing,
    /// A part of a newer version, which this version does not know.
    #[serde(other)]
    Other,
}

impl ServerRole {
    /// Returns the name as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Following => "following",
            Self::Taking => "taking",
            Self::Loading => "loading",
            Self::Active => "active",
            Self::Lapsed => "lapsed",
            Self::Resigned => "resigned",
            Self::Refusing => "refusing",
            Self::Other => "other",
        }
    }
}

/// The active server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActiveServer {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub name: String,
    /// The URL at which clients reach it.
    pub url: String,
}

/// The body of a request that makes another server active.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResignRequest {
    /// The name of the server that takes over; without it, any standby does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub to: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_name_in_json_and_an_unknown_one_is_read() {
        for role in [
            ServerRole::Following,
            ServerRole::Taking,
            ServerRole::Loading,
            ServerRole::Active,
            ServerRole::Lapsed,
            ServerRole::Resigned,
            ServerRole::Refusing,
        ] {
            let json = alloc::format!("{:?}", role.as_str());
            assert_eq!(serde_json::to_string(&role).unwrap(), json);
            assert_eq!(serde_json::from_str::<ServerRole>(&json).unwrap(), role);
        }
        let newer = serde_json::from_str::<ServerRole>(r#""napping""#).unwrap();
        assert_eq!(newer, ServerRole::Other);
    }

    #[test]
    fn a_view_without_the_facts_of_the_engine_is_read() {
        let view = ClusterView::new("default", "store-1", ServerRole::Active, "etcd");
        let json = serde_json::to_value(&view).unwrap();
        assert!(json.get("home_version").is_none(), "{json}");
        assert!(json.get("home_warnings").is_none(), "{json}");
        assert!(json["active"].is_null(), "{json}");
        assert_eq!(serde_json::from_value::<ClusterView>(json).unwrap(), view);
    }
}
