//! `tenure cluster hand-over`.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use tenure::store::{ClusterView, ResignRequest, ServerRole, StoreClient};

use crate::exit::{self, REFUSED};
use crate::output::{self, escape};
use crate::runtime::block_on;
use crate::servers::{self, Verdict};
use crate::settings::ClientArgs;
use crate::store;

/// Make another server of a cluster the active one
///
/// The active server writes the last changes, and gives its part up; a standby takes it within a
/// second. No leader loses its term. Waits until another server is active.
#[derive(Debug, Args)]
pub(super) struct HandOver {
    #[command(flatten)]
    store: ClientArgs,
    /// Name of the server that becomes active [default: any]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Hand over although no standby answers at the addresses of the store
    ///
    /// Without a standby, no server answers candidates for the ownership duration.
    #[arg(long)]
    force: bool,
}

/// The time in which another server should be active.
const PATIENCE: Duration = Duration::from_secs(30);

/// The interval at which the servers are asked.
const INTERVAL: Duration = Duration::from_millis(250);

impl HandOver {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let client = store::client(&self.store)?;
        block_on(self.hand_over(&client))
    }

    async fn hand_over(&self, client: &StoreClient) -> anyhow::Result<()> {
        let before = servers::ask(client).await;
        let refused = |text: String| exit::error(REFUSED, anyhow!(text));
        let active = servers::active_server(servers::verdict(servers::views(&before)), &before)?;
        if let Some(to) = &self.to {
            let is_named = |server: &servers::ServerReport| {
                server.view.as_ref().is_some_and(|view| view.server == *to)
            };
            if *to == active {
                return Ok(output::line(format_args!("{active} is active"))?);
            }
            if !self.force && !before.iter().any(is_named) {
                let text = format!("no address has a server with the name {to:?} that answers");
                return Err(refused(text));
            }
        }
        let to = successor(
            self.to.as_deref(),
            &active,
            servers::views(&before),
            self.force,
        );
        let request = ResignRequest {
            to: to.map_err(refused)?,
        };
        let began = Instant::now();
        client.hand_over_cluster(&request).await?;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = servers::ask(client).await;
            if let Some(name) = other_active(&active, servers::views(&now)) {
                output::line(format_args!("{name} is active"))?;
                return match &self.to {
                    Some(to) if *to != name => {
                        let text = format!("{name} was quicker than {to}");
                        Err(refused(text))
                    }
                    _ => Ok(()),
                };
            }
            if let Some(generation) =
                taken_again(&active, servers::views(&before), servers::views(&now))
            {
                let text = format!(
                    "no other server took over: {active} is active again, as generation {generation}"
                );
                return Err(refused(text));
            }
            if began.elapsed() > PATIENCE {
                let text = format!("no other server than {active} is active after {PATIENCE:?}");
                return Err(anyhow!(text));
            }
        }
    }
}

/// Returns the active server if it is another one, as far as these servers see: it may have no address
/// among those that were asked.
fn other_active<'a>(
    before: &str,
    views: impl Iterator<Item = &'a ClusterView> + Clone,
) -> Option<String> {
    let name = match servers::verdict(views.clone()) {
        Verdict::Active(name) => Some(name),
        Verdict::NoneActive => views
            .filter_map(|view| view.active.as_ref())
            .map(|active| active.name.clone())
            .find(|name| name != before),
        Verdict::SeveralActive(_) | Verdict::SeveralStores(_) => None,
    };
    name.filter(|name| name != before)
}

/// Returns the generation of the server that has given its part up and is active once more.
fn taken_again<'a>(
    active: &str,
    before: impl Iterator<Item = &'a ClusterView>,
    now: impl Iterator<Item = &'a ClusterView>,
) -> Option<u64> {
    let last = before.map(|view| view.generation).max()?;
    let again = now.filter(|view| view.server == active && view.role == ServerRole::Active);
    let mut generations = again.map(|view| view.generation);
    generations.find(|&generation| generation > last)
}

/// Returns the server that is to become active; `None` if all standbys may. A server that has no copy
/// of the leases would have to load them first, and could not if the log is damaged. The server that
/// hands over forgets its own.
fn successor<'a>(
    to: Option<&str>,
    active: &str,
    views: impl Iterator<Item = &'a ClusterView>,
    may_have_none: bool,
) -> Result<Option<String>, String> {
    let standbys: Vec<_> = views.filter(|view| view.server != active).collect();
    if standbys.is_empty() && !may_have_none {
        return Err(
            "no standby answers, so perhaps no server would take over: name the addresses of all \
             servers, or use --force"
                .into(),
        );
    }
    let is_ready = |view: &ClusterView| {
        view.role == ServerRole::Following && view.behind.is_some() && view.reason.is_none()
    };
    let reason = |view: &ClusterView| match &view.reason {
        Some(reason) => escape(reason),
        None => format!(
            "it is {} and has no copy of the leases yet",
            view.role.as_str()
        ),
    };
    if let Some(to) = to {
        let unready = standbys
            .iter()
            .find(|view| view.server == to && !is_ready(view));
        return match unready {
            Some(view) => Err(format!("{to} is not ready to take over: {}", reason(view))),
            None => Ok(Some(to.to_owned())),
        };
    }
    let (ready, unready): (Vec<_>, Vec<_>) = standbys.into_iter().partition(|view| is_ready(view));
    match (ready.first(), unready.first()) {
        (Some(ready), Some(_)) => Ok(Some(ready.server.clone())),
        (_, None) => Ok(None),
        (None, Some(view)) => {
            let name = escape(&view.server);
            Err(format!(
                "no standby is ready to take over: {name}: {}",
                reason(view)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure::store::ActiveServer;

    use super::*;

    fn server(name: &str, behind: Option<u64>, reason: Option<&str>) -> ClusterView {
        let mut view = ClusterView::new("default", name, ServerRole::Following, "etcd");
        view.behind = behind;
        view.reason = reason.map(Into::into);
        view
    }

    #[test]
    fn only_a_server_with_a_copy_of_the_leases_takes_over() {
        let (a, b) = (server("a", Some(0), None), server("b", Some(3), None));
        let bad = server("c", None, Some("can't copy the log"));
        let chosen = |to, views: &[&ClusterView]| successor(to, "a", views.iter().copied(), false);
        assert_eq!(chosen(None, &[&a, &b]), Ok(None));
        assert_eq!(chosen(None, &[&a, &bad, &b]), Ok(Some("b".into())));
        assert_eq!(chosen(Some("b"), &[&a, &bad, &b]), Ok(Some("b".into())));
        let refused = chosen(Some("c"), &[&a, &bad, &b]).unwrap_err();
        assert_eq!(refused, "c is not ready to take over: can't copy the log");
        let none = chosen(None, &[&a, &bad]).unwrap_err();
        assert_eq!(
            none,
            "no standby is ready to take over: c: can't copy the log"
        );
        let alone = chosen(None, &[&a]).unwrap_err();
        assert!(alone.starts_with("no standby answers"), "{alone}");
        assert_eq!(successor(None, "a", [&a].into_iter(), true), Ok(None));
    }

    #[test]
    fn a_successor_that_was_not_asked_is_seen_in_the_answer_of_another_server() {
        let active = |name: &str| {
            Some(ActiveServer {
                name: name.into(),
                url: "http://b:7400".into(),
            })
        };
        let mut old = server("a", Some(0), None);
        let seen = |view: &ClusterView| other_active("a", [view].into_iter());
        old.active = active("a");
        assert_eq!(seen(&old), None);
        old.active = active("b");
        assert_eq!(seen(&old), Some("b".into()));
        old.role = ServerRole::Active;
        assert_eq!(seen(&old), None);
    }
}
