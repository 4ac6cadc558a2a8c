//! The servers of a cluster, as each of them sees the cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use tenure::store::{ClusterView, Code, Endpoint, ServerRole, StoreClient, StoreError};

use crate::exit::{self, REFUSED, TWO_STORES, UNREACHABLE};
use crate::output::escape;

/// The time after which servers are asked again that disagree: one may have answered before a
/// take-over, and another one after it.
const SETTLING: Duration = Duration::from_secs(1);

/// The server at one address.
#[derive(Debug, Serialize)]
pub(crate) struct ServerReport {
    /// The address that was asked.
    pub(crate) address: String,
    /// The state of the server; null if it did not tell it.
    pub(crate) view: Option<ClusterView>,
    pub(crate) error: Option<String>,
    /// Whether a store answered that is not in a cluster.
    #[serde(skip)]
    pub(crate) is_alone: bool,
}

/// What all servers together say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One server is active.
    Active(String),
    /// No server is active.
    NoneActive,
    /// Servers with the same store are active at the same time.
    SeveralActive(Vec<String>),
    /// The addresses are of several stores, with these ids.
    SeveralStores(Vec<String>),
}

/// Asks the servers at all addresses. If more than one is active, it asks once more.
pub(crate) async fn ask(client: &StoreClient) -> Vec<ServerReport> {
    let servers = ask_once(client).await;
    if !matches!(verdict(views(&servers)), Verdict::SeveralActive(_)) {
        return servers;
    }
    tokio::time::sleep(SETTLING).await;
    ask_once(client).await
}

async fn ask_once(client: &StoreClient) -> Vec<ServerReport> {
    let answers = client.cluster().await.into_iter();
    answers
        .map(|(at, answer)| ServerReport::new(&at, answer))
        .collect()
}

impl ServerReport {
    fn new(address: &Endpoint, answer: Result<ClusterView, StoreError>) -> Self {
        let is_alone = matches!(
            &answer,
            Err(StoreError::Problem(problem)) if problem.code == Code::UnknownRoute
        );
        let (view, error) = match answer {
            Ok(view) => (Some(view), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            address: address.to_string(),
            view,
            error,
            is_alone,
        }
    }
}

/// Returns the states that these servers told.
pub(crate) fn views(servers: &[ServerReport]) -> impl Iterator<Item = &ClusterView> + Clone {
    servers.iter().filter_map(|server| server.view.as_ref())
}

/// Returns what these servers together say.
pub(crate) fn verdict<'a>(views: impl Iterator<Item = &'a ClusterView> + Clone) -> Verdict {
    let stores = views.clone().filter_map(|view| view.store.as_deref());
    let stores: BTreeSet<&str> = stores.collect();
    if stores.len() > 1 {
        return Verdict::SeveralStores(stores.into_iter().map(Into::into).collect());
    }
    // Several addresses may be of one server.
    let active = views.filter(|view| view.role == ServerRole::Active);
    let active: BTreeSet<&str> = active.map(|view| &*view.server).collect();
    let mut active = active
        .into_iter()
        .map(ToOwned::to_owned)
        .collect::<Vec<_>>();
    match active.len() {
        0 => Verdict::NoneActive,
        1 => Verdict::Active(active.remove(0)),
        _ => Verdict::SeveralActive(active),
    }
}

/// Returns the name of the active server.
///
/// # Errors
///
/// Not exactly one server of one store is active.
pub(crate) fn active_server(verdict: Verdict, servers: &[ServerReport]) -> anyhow::Result<String> {
    let text = match verdict {
        Verdict::Active(name) => return Ok(name),
        Verdict::NoneActive => return Err(no_server(servers)),
        Verdict::SeveralActive(names) => {
            format!("{} are active at the same time", names.join(" and "))
        }
        Verdict::SeveralStores(ids) => format!(
            "the addresses are of several stores, with the ids {}: each of them grants the lease to another \
             candidate. Give all servers the same home and cluster name",
            ids.join(", ")
        ),
    };
    Err(exit::error(TWO_STORES, anyhow!(text)))
}

/// The error if no server is active.
fn no_server(servers: &[ServerReport]) -> anyhow::Error {
    if servers.iter().any(|server| server.view.is_some()) {
        return exit::error(REFUSED, anyhow!("no server is active"));
    }
    if servers.iter().any(|server| server.is_alone) {
        let text = "the store is not a cluster: one server has all of its leases";
        return exit::error(REFUSED, anyhow!(text));
    }
    let errors = servers.iter().filter_map(|server| {
        let error = server.error.as_ref()?;
        Some(format!("{}: {}", server.address, escape(error)))
    });
    let errors: Vec<_> = errors.collect();
    exit::error(
        UNREACHABLE,
        anyhow!("no server tells its state: {}", errors.join("; ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of a server with this role and the store with this id.
    fn server(name: &str, role: ServerRole, store: Option<&str>) -> ServerReport {
        let mut view = ClusterView::new("default", name, role, "etcd");
        view.store = store.map(Into::into);
        view.ownership_ms = 3000;
        ServerReport {
            address: format!("http://{name}:7400/"),
            view: Some(view),
            error: None,
            is_alone: false,
        }
    }

    fn verdict_of(servers: &[ServerReport]) -> Verdict {
        verdict(views(servers))
    }

    #[test]
    fn the_verdict_names_active_servers_and_stores() {
        use ServerRole::{Active, Following, Lapsed};
        let (a, b) = (
            |role| server("a", role, Some("1")),
            |role| server("b", role, Some("1")),
        );
        assert_eq!(
            verdict_of(&[a(Active), b(Following)]),
            Verdict::Active("a".into())
        );
        assert_eq!(
            verdict_of(&[a(Active), a(Active)]),
            Verdict::Active("a".into())
        );
        assert_eq!(verdict_of(&[a(Lapsed), b(Following)]), Verdict::NoneActive);
        assert_eq!(verdict_of(&[]), Verdict::NoneActive);
        let both = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(
            verdict_of(&[a(Active), b(Active)]),
            Verdict::SeveralActive(both)
        );
        // A standby that has not read the log knows no id.
        let new = server("c", Following, None);
        assert_eq!(verdict_of(&[a(Active), new]), Verdict::Active("a".into()));
        let other = server("c", Following, Some("2"));
        let stores = vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(
            verdict_of(&[a(Active), other]),
            Verdict::SeveralStores(stores)
        );
    }
}
