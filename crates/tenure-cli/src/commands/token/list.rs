//! `tenure token list`.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use serde_json::{Value, json};
use tenure_server::access::{self, AccessGrant, ListedPrincipal};

use super::FileArgs;
use crate::{exit, output};

/// List the principals of an access file with their grants and tokens
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    file: FileArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let file = access::check_file(&self.file.file);
        let file = file.map_err(|error| exit::error(exit::BAD_CONFIGURATION, error))?;
        if self.json {
            let principals = file.principals().iter().map(json_of);
            return output::json(&principals.collect::<Value>());
        }
        let mut table = output::table(&["PRINCIPAL", "GRANTS", "TOKEN", "CREATED", "EXPIRES"]);
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
                let times = (time(secret.created), time(secret.expires));
                table.add_row([name.clone(), grants.clone(), id, times.0, times.1]);
            }
        }
        output::print_table(&table)
    }
}

fn json_of(listed: &ListedPrincipal) -> Value {
    let grants = listed.principal.grants.iter().map(|grant| {
        let namespace = grant.scope.namespace().map_or("*", |name| name.as_str());
        json!({"role": grant.role.as_str(), "namespace": namespace, "prefix": grant.scope.prefix()})
    });
    let secrets = listed.secrets.iter().map(|secret| {
        json!({
            "id": secret.id.as_str(),
            "created": secret.created.map(rfc3339),
            "expires": secret.expires.map(rfc3339),
        })
    });
    json!({
        "name": &*listed.principal.name,
        "grants": grants.collect::<Value>(),
        "tokens": secrets.collect::<Value>(),
    })
}

/// `candidate on billing/nightly*`.
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
