//! `tenure list`.

use clap::Args;
use tenure::store::LeaseList;
use tenure::{ElectionName, Name};
use tracing::warn;

use crate::lease_view::{remaining, since, state};
use crate::output::{self, or_dash};
use crate::runtime::block_on;
use crate::settings::ClientArgs;
use crate::store;

/// List the leases of a namespace
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only names that begin with this prefix
    prefix: Option<Name>,
    /// Namespace to list
    #[arg(long, default_value = ElectionName::DEFAULT_NAMESPACE)]
    namespace: Name,
    #[command(flatten)]
    store: ClientArgs,
    /// Print JSON with the field names of the HTTP API
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let client = store::client(&self.store)?;
        let leases = block_on(store::list(&client, &self.namespace, self.prefix.as_ref()))?;
        if self.json {
            return output::json(&LeaseList { leases, next: None });
        }
        let mut table = output::table(&[
            "NAME", "STATE", "HOLDER", "EPOCH", "LEFT", "WAITERS", "SINCE",
        ]);
        for view in &leases {
            table.add_row([
                view.lease.clone(),
                state(view.state).into(),
                or_dash(view.holder.as_ref()),
                or_dash(view.epoch),
                remaining(view),
                view.waiters.to_string(),
                since(view),
            ]);
        }
        output::print_table(&table)?;
        if leases.is_empty() {
            let prefix = self
                .prefix
                .as_ref()
                .map(|prefix| format!(" with the prefix {prefix}"));
            let (namespace, prefix) = (&self.namespace, prefix.unwrap_or_default());
            warn!(
                "the namespace {namespace} has no lease{prefix}; --namespace selects another one"
            );
        }
        Ok(())
    }
}
