//! The servers of a cluster, as each of them sees the cluster.

use std::collections::{BTreeMap, BTreeSet};
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
    /// The server that named this one as the active server, if it is not among the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) named_by: Option<String>,
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
            Err(error) => (None, Some(without_address(&error))),
        };
        Self {
            address: address.to_string(),
            view,
            error,
            named_by: None,
            is_alone,
        }
    }

    /// Returns the reason why the server tells no state, or does not serve or follow, and the server
    /// that named it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let reason = self.view.as_ref().and_then(|view| view.reason.as_ref());
        let note = self.error.as_ref().or(reason).cloned();
        let named = self.named_by.as_ref().map(|by| {
            format!("named by {by} as the active server; candidates need it among their addresses")
        });
        let notes = note.into_iter().chain(named);
        let line = |note: String| format!("{}: {}", self.address, escape(&note));
        notes.map(line).collect()
    }
}

/// Returns the text of an error, for a place beside the address.
fn without_address(error: &StoreError) -> String {
    match error {
        StoreError::Unreachable { reason, .. } => format!("can't be reached: {reason}"),
        StoreError::NotAStore { status, .. } => {
            format!("answered {status}, which is not an answer of a lease store")
        }
        other => other.to_string(),
    }
}

/// Asks the active server that a standby names, if none of these servers is active and that one is not
/// among them. The candidates with these addresses do not find it.
pub(crate) async fn ask_named(
    client: &StoreClient,
    views: impl Iterator<Item = &ClusterView> + Clone,
) -> Option<ServerReport> {
    if verdict(views.clone()) != Verdict::NoneActive {
        return None;
    }
    let named = views.clone().filter(|view| view.active.is_some());
    let by = named.max_by_key(|view| (view.generation, view.sequence))?;
    let active = by.active.as_ref()?;
    let is_asked = views.clone().any(|view| view.server == active.name);
    let endpoint = active.url.parse::<Endpoint>().ok().filter(|_| !is_asked)?;
    let answer = client.active_at(&endpoint).await.map(|view| {
        // With access control it only says that it is active.
        view.unwrap_or_else(|| {
            let mut view = ClusterView::new(&by.name, &active.name, ServerRole::Active, &by.home);
            view.store.clone_from(&by.store);
            (view.generation, view.sequence) = (by.generation, by.sequence);
            view.ownership_ms = by.ownership_ms;
            view
        })
    });
    Some(ServerReport {
        named_by: Some(by.server.clone()),
        ..ServerReport::new(&endpoint, answer)
    })
}

/// Returns what is wrong with servers that have the same name. Two addresses may be of one server, which
/// tells the same start at both.
pub(crate) fn namesakes<'a>(views: impl Iterator<Item = &'a ClusterView>) -> Vec<String> {
    let mut starts = BTreeMap::<&str, BTreeSet<&str>>::new();
    for view in views {
        let of_name = starts.entry(&view.server).or_default();
        of_name.extend(view.start.as_deref());
    }
    let several = starts.into_iter().filter(|(_, starts)| starts.len() > 1);
    let text = |(name, _)| {
        let name = escape(name);
        format!("two servers have the name {name}: give each server its own cluster.server")
    };
    several.map(text).collect()
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
    let active: BTreeSet<_> = active.map(|view| (&*view.server, &view.start)).collect();
    let mut active = active
        .into_iter()
        .map(|(name, _)| name.to_owned())
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
        let named = servers.iter().filter(|server| server.named_by.is_some());
        let named = named.map(|it| format!(", nor is {}, which a server names", it.address));
        let text = anyhow!("no server is active{}", named.collect::<String>());
        return exit::error(REFUSED, text);
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
            named_by: None,
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
        // Two processes have one name.
        let [mut one, mut two] = [a(Active), a(Active)];
        for (server, start) in [(&mut one, "1"), (&mut two, "2")] {
            server.view.as_mut().unwrap().start = Some(start.into());
        }
        let several = verdict_of(&[one, two]);
        assert_eq!(
            several,
            Verdict::SeveralActive(vec!["a".into(), "a".into()])
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
