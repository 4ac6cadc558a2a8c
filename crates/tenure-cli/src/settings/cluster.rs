//! The table `[cluster]`: a server whose leases are in a log that it shares with other servers.

use std::net::SocketAddr;

use tenure::Name;
use tenure::store::Endpoint;
use tenure_config::{ConfigError, Settings};
use tenure_server::{ClusterConfig, ClusterMember};

use super::home::{self, StoreHome};

/// The configuration of a server with this home and this address; `None` if the home is not shared.
pub(crate) fn config(
    settings: &Settings,
    home: &StoreHome,
    listen: SocketAddr,
) -> Result<Option<ClusterConfig>, ConfigError> {
    let StoreHome::Shared(home) = home else {
        return refuse_alone(settings).map(|()| None);
    };
    if settings.has_table("azure") {
        let reason = "the Azure Blob lease protocol keeps its blobs in a folder: leave the table [azure] out, \
                      or set home = \"folder:DIRECTORY\"";
        return Err(settings.invalid(home::key(settings), reason.into()));
    }
    let advertise = advertise(settings, listen)?;
    let mut config = ClusterConfig::new(server(settings)?, advertise, home.clone());
    if let Some(name) = settings.parse::<Name>("cluster.name")? {
        config.name = name.to_string();
    }
    if let Some(ownership) = settings.duration("cluster.ownership")? {
        config.ownership = ownership;
    }
    config.confirm = settings.flag("cluster.confirm")?;
    Ok(Some(config))
}

/// Checks the connection string, and the files that it names.
pub(super) fn check(settings: &Settings, config: &ClusterConfig) -> Result<(), ConfigError> {
    let checked = ClusterMember::check(config);
    checked.map_err(|error| settings.invalid(home::key(settings), error.to_string()))
}

/// Refuses the table of a cluster without a home that servers share: a server with a forgotten `home`
/// would be a store of its own, beside that of the cluster.
fn refuse_alone(settings: &Settings) -> Result<(), ConfigError> {
    let key = home::key(settings);
    let reason = "the servers of a [cluster] share a home in etcd, PostgreSQL or a bucket";
    match settings.origin(key) {
        _ if !settings.has_table("cluster") => Ok(()),
        None => Err(ConfigError::missing(
            key,
            format!("{reason}: {}", home::FORMS),
        )),
        Some(_) => Err(settings.invalid(key, format!("{reason}: name it, or leave the table out"))),
    }
}

fn server(settings: &Settings) -> Result<String, ConfigError> {
    if let Some(server) = settings.parse::<Name>("cluster.server")? {
        return Ok(server.to_string());
    }
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    match host.parse::<Name>() {
        Ok(server) => Ok(server.to_string()),
        Err(error) => {
            let reason = format!("the host name {host:?} can't be its default: {error}");
            Err(ConfigError::missing("cluster.server", reason))
        }
    }
}

fn advertise(settings: &Settings, listen: SocketAddr) -> Result<String, ConfigError> {
    let scheme = match settings.required_path("tls.certificate")? {
        None => "http",
        Some(_) => "https",
    };
    let set = settings.with("cluster.advertise", |text| {
        let text = text.trim();
        text.parse::<Endpoint>()
            .map_err(|error| error.to_string())?;
        let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must have no user and no password".into());
        }
        let host = url.host_str().unwrap_or_default();
        if ["0.0.0.0", "[::]"].contains(&host) {
            let reason =
                "clients can't connect to it: write the name or the address of this machine";
            return Err(reason.into());
        }
        Ok(text.trim_end_matches('/').to_owned())
    })?;
    match set {
        Some(advertise) => Ok(advertise),
        None if listen.ip().to_canonical().is_loopback() && listen.port() != 0 => {
            Ok(format!("{scheme}://{listen}"))
        }
        None => {
            let reason = format!(
                "{listen} is no address for clients: write the URL at which they reach this server, such \
                 as {scheme}://store-1.example.com:7400"
            );
            Err(ConfigError::missing("cluster.advertise", reason))
        }
    }
}

#[cfg(test)]
mod tests;
