//! `tenure cluster status`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use comfy_table::Table;
use serde_json::json;
use tenure::store::{ClusterView, ServerRole};

use crate::exit::{self, BAD_DATA};
use crate::output::{self, escape, or_dash};
use crate::runtime::block_on;
use crate::servers::{self, ServerReport, Verdict};
use crate::settings::ClientArgs;
use crate::store;

/// Show each server of a cluster: its role, its store, and how far it is behind
///
/// Asks all addresses at once. Exits with 0 if one server is active, 3 if none is, 4 if the addresses
/// are of two stores or two servers are active, 65 if a server refuses the log, 69 if no address answers.
#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    store: ClientArgs,
    /// Print JSON with the field names of the HTTP API
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let client = store::client(&self.store)?;
        let servers = block_on(async {
            let mut servers = servers::ask(&client).await;
            let named = servers::ask_named(&client, servers::views(&servers)).await;
            servers.extend(named);
            anyhow::Ok(servers)
        })?;
        let verdict = servers::verdict(servers::views(&servers));
        if self.json {
            let active = match &verdict {
                Verdict::Active(name) => Some(name),
                _ => None,
            };
            output::json(&json!({ "active": active, "servers": servers }))?;
        } else {
            output::print_table(&table(&servers))?;
            for note in servers.iter().flat_map(ServerReport::notes) {
                output::line(note)?;
            }
            for finding in servers::namesakes(servers::views(&servers)) {
                output::line(finding)?;
            }
        }
        outcome(&servers)
    }
}

/// Fails unless one server is active, and first of all if a server refuses the log: it was lost, damaged
/// or exchanged, although another server may not have noticed.
fn outcome(servers: &[ServerReport]) -> anyhow::Result<()> {
    let refuses = |view: &&ClusterView| view.role == ServerRole::Refusing;
    let Some(view) = servers::views(servers).find(refuses) else {
        let verdict = servers::verdict(servers::views(servers));
        return servers::active_server(verdict, servers).map(drop);
    };
    let reason = escape(view.reason.as_deref().unwrap_or("no reason"));
    let text = anyhow!("{} refuses the log: {reason}", escape(&view.server));
    Err(exit::error(BAD_DATA, text))
}

fn table(servers: &[ServerReport]) -> Table {
    let mut table = output::table(&[
        "ADDRESS",
        "SERVER",
        "ROLE",
        "GENERATION",
        "SEQUENCE",
        "BEHIND",
        "LEFT",
        "STORE",
        "HOME",
    ]);
    for server in servers {
        let view = server.view.as_ref();
        let of = |read: fn(&ClusterView) -> String| or_dash(view.map(read));
        table.add_row([
            server.address.clone(),
            of(|view| escape(&view.server)),
            of(|view| view.role.as_str().into()),
            of(|view| view.generation.to_string()),
            of(|view| view.sequence.to_string()),
            of(|view| or_dash(view.behind)),
            of(|view| or_dash(view.serving_ms_left.map(seconds))),
            of(|view| or_dash(view.store.as_deref().map(escape))),
            of(|view| escape(&view.home_and_version())),
        ]);
    }
    table
}

fn seconds(millis: u64) -> String {
    format!("{:.1} s", Duration::from_millis(millis).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, role: ServerRole, store: &str) -> ServerReport {
        let mut view = ClusterView::new("default", name, role, "etcd");
        view.store = Some(store.into());
        ServerReport {
            address: format!("http://{name}:7400/"),
            view: Some(view),
            error: None,
            named_by: None,
            is_alone: false,
        }
    }

    fn silent(is_alone: bool) -> ServerReport {
        ServerReport {
            address: "http://c:7400/".into(),
            view: None,
            error: Some("no".into()),
            named_by: None,
            is_alone,
        }
    }

    #[test]
    fn the_exit_code_tells_how_many_servers_and_stores_there_are() {
        let code = |servers: &[ServerReport]| {
            outcome(servers).map_or_else(|error| exit::code_of(&error), |_| 0)
        };
        let active = || server("a", ServerRole::Active, "1");
        let standby = |store| server("b", ServerRole::Following, store);
        assert_eq!(code(&[active(), standby("1")]), 0);
        assert_eq!(code(&[active(), silent(false)]), 0);
        assert_eq!(code(&[standby("1"), silent(false)]), 3);
        assert_eq!(code(&[active(), standby("2")]), 4);
        assert_eq!(code(&[active(), server("b", ServerRole::Active, "1")]), 4);
        let refusing = || server("b", ServerRole::Refusing, "1");
        assert_eq!(code(&[active(), refusing()]), 65);
        assert_eq!(code(&[refusing(), refusing()]), 65, "none is active");
        assert_eq!(code(&[refusing(), standby("2")]), 65, "of two stores");
        assert_eq!(code(&[silent(false)]), 69);
        assert_eq!(code(&[silent(true)]), 3, "a store that is no cluster");
    }

    #[test]
    fn the_table_has_a_row_for_each_address() {
        let table = table(&[active_with_version(), silent(false)]).to_string();
        for part in [
            "store-1",
            "active",
            "1.5 s",
            "etcd 3.5.30",
            "http://c:7400/",
        ] {
            assert!(table.contains(part), "{table}");
        }
    }

    fn active_with_version() -> ServerReport {
        let mut report = server("store-1", ServerRole::Active, "1");
        if let Some(view) = &mut report.view {
            view.serving_ms_left = Some(1500);
            view.home_version = Some("3.5.30".into());
        }
        report
    }
}
