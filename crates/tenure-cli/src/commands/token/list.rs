//! `tenure token list`.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use serde_json::{Value, json};
use tenure_server::access::{self, AccessGrant, ListedPrincipal};

use super::FileArgs;
use crate::runtime::block_on;
use crate::settings::ClientArgs;
use crate::{exit, output, store};

/// List the principals of an access file with their grants and tokens
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    file: FileArgs,
    /// Also ask the store when each token was last used since its start
    #[arg(long)]
    last_used: bool,
    #[command(flatten)]
    client: ClientArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let file = access::check_file(&self.file.file);
        let file = file.map_err(|error| exit::error(exit::BAD_CONFIGURATION, error))?;
        let used = match self.last_used {
            true => block_on(store::client(&self.client)?.principals())?,
            false => Value::Null,
        };
        if self.json {
            let principals = file
                .principals()
                .iter()
                .map(|listed| json_of(listed, &used));
            return output::json(&principals.collect::<Value>());
        }
        let mut columns = vec!["PRINCIPAL", "GRANTS", "TOKEN", "CREATED", "EXPIRES"];
        if self.last_used {
            columns.push("LAST USED");
        }
        let mut table = output::table(&columns);
        for listed in file.principals() {
            let grants = listed.principal.grants.iter().map(grant_text);
            let grants = grants.collect::<Vec<_>>().join(", ");
            let name = listed.principal.name.to_string();
            let none = || "-".to_owned();
            if listed.secrets.is_empty() {
                table.add_row([name.clone(), grants.clone(), none(), none(), none()]);
            }
            for secret in &listed.secrets {
                let time = |time: Option<SystemTime>| time.map_or_else(none, rfc3339);
                let id = secret.id.to_string();
                let last_used = last_used(&used, &id);
                let times = [time(secret.created), time(secret.expires)];
                let mut row = vec![name.clone(), grants.clone(), id];
                row.extend(times);
                if self.last_used {
                    row.push(last_used.unwrap_or_else(none));
                }
                table.add_row(row);
            }
        }
        output::print_table(&table)
    }
}

/// Returns the last use of this token according to the store's answer.
fn last_used(used: &Value, id: &str) -> Option<String> {
    let principals = used["principals"].as_array()?.iter();
    let mut secrets = principals.filter_map(|principal| principal["secrets"].as_array());
    let secret = secrets.find_map(|secrets| secrets.iter().find(|secret| secret["id"] == id));
    Some(secret?["last_used"].as_str()?.to_owned())
}

fn json_of(listed: &ListedPrincipal, used: &Value) -> Value {
    let grants = listed.principal.grants.iter().map(|grant| {
        let namespace = grant.scope.namespace().map_or("*", |name| name.as_str());
        json!({"role": grant.role.as_str(), "namespace": namespace, "prefix": grant.scope.prefix()})
    });
    let secrets = listed.secrets.iter().map(|secret| {
        json!({
            "id": secret.id.as_str(),
            "created": secret.created.map(rfc3339),
            "expires": secret.expires.map(rfc3339),
            "last_used": last_used(used, secret.id.as_str()),
        })
    });
    json!({
        "name": &*listed.principal.name,
        "grants": grants.collect::<Value>(),
        "tokens": secrets.collect::<Value>(),
    })
}

/// Returns a description such as `candidate on billing/nightly*`.
fn grant_text(grant: &AccessGrant) -> String {
    let namespace = grant.scope.namespace().map_or("*", |name| name.as_str());
    match grant.scope.prefix() {
        "" => format!("{} on {namespace}", grant.role),
        prefix => format!("{} on {namespace}/{prefix}*", grant.role),
    }
}

fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}
