//! Clients of the store for commands.

use tenure::config::{cluster_of, credentials_of, peers_of, roots_of, servers_of};
use tenure::peers::PeersClient;
use tenure::store::{LeaseView, StoreClient, StoreError};
use tenure::{ElectionName, Name};
use tenure_config::{ConfigError, Settings};

use crate::exit::{self, REFUSED};
use crate::settings::ClientArgs;

/// Returns a client of the store that the flags name, or else the environment, or else the file.
pub(crate) fn client(arguments: &ClientArgs) -> anyhow::Result<StoreClient> {
    let settings = arguments.settings()?;
    let reason = match other_service(arguments, &settings) {
        Some("azure-blob") => Some(
            "this command needs a lease store, and the lease of a blob is not in one: use tenure \
             status to see it, Azure's tools to end a term (az storage blob lease break), or name a store \
             with --server",
        ),
        Some(_) => Some(
            "this command needs a lease store, and a Lease object of Kubernetes is not in one: use tenure \
             status or kubectl get lease to see it, or name a store with --server",
        ),
        None => None,
    };
    if let Some(reason) = reason {
        return Err(settings.invalid("strategy", reason.into()).into());
    }
    require_store(&settings)?;
    let servers = servers_of(&settings)?;
    let roots = roots_of(&settings)?;
    let client = StoreClient::with_root_certificates(&servers, &roots)?;
    Ok(client.with_credentials(credentials_of(&settings)?)?)
}

/// The strategy, if candidates are elected by a lease that is not in a store, and no flag names a
/// store instead.
pub(crate) fn other_service(arguments: &ClientArgs, settings: &Settings) -> Option<&'static str> {
    if !arguments.store.server.is_empty() {
        return None;
    }
    let strategy = settings.list("strategy");
    ["azure-blob", "kubernetes"]
        .into_iter()
        .find(|it| strategy == [*it])
}

/// Fails if there is no store, because candidates are elected among peers.
pub(crate) fn require_store(settings: &Settings) -> Result<(), ConfigError> {
    if settings.list("strategy") != ["bully"] || settings.origin("servers").is_some() {
        return Ok(());
    }
    let reason = "this command needs a lease store, and an election among peers has none: use tenure peers \
                  to see the members, or name a store with --server";
    Err(settings.invalid("strategy", reason.into()))
}

/// The leases of a namespace whose names begin with `prefix`.
pub(crate) async fn list(
    client: &StoreClient,
    namespace: &Name,
    prefix: Option<&Name>,
) -> Result<Vec<LeaseView>, StoreError> {
    let mut leases = Vec::new();
    let mut after = None;
    loop {
        let page = client.list(namespace, prefix, after.as_deref()).await?;
        leases.extend(page.leases);
        after = page.next;
        if after.is_none() {
            return Ok(leases);
        }
    }
}

/// The error if the store does not know a lease.
pub(crate) fn unknown_lease(name: &ElectionName) -> anyhow::Error {
    let error = anyhow::anyhow!("there is no lease {name}: no candidate has ever competed for it");
    exit::error(REFUSED, error)
}

/// Returns a client of the members that these settings name.
pub(crate) fn peers(settings: &Settings) -> anyhow::Result<PeersClient> {
    Ok(PeersClient::new(
        cluster_of(settings)?,
        peers_of(settings)?,
    )?)
}
