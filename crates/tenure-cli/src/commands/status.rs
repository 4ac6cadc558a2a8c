//! `tenure status`.

use clap::Args;
use serde_json::json;
use tenure::ElectionName;
use tenure::backend::LeaseService;
use tenure::config::Origin;
use tenure::peers::{GroupView, PeersClient};
use tenure::store::StoreError;

use crate::lease_view::{self, LeaseArgs};
use crate::output;
use crate::runtime::block_on;
use crate::store;

/// Show one lease
///
/// While the store can't be reached, a configuration with a fallback asks the members for the leader.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    lease: LeaseArgs,
}

impl Status {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let LeaseArgs { name, store, json } = &self.lease;
        let view = match self.blob_service()? {
            Some(service) => block_on(service.lease())?,
            None => match block_on(store::client(store)?.lease(name)) {
                Err(error) if is_unreachable(&error) => return self.ask_members(error),
                answer => answer?,
            },
        };
        let view = view.ok_or_else(|| store::unknown_lease(name))?;
        lease_view::print(&view, *json)
    }

    /// Prints what the members say while the store is away, if the settings have a fallback.
    fn ask_members(&self, store_is_away: anyhow::Error) -> anyhow::Result<()> {
        let settings = self.lease.store.settings()?;
        if !settings.has_table("fallback") {
            return Err(store_is_away);
        }
        let mut settings = settings;
        let name = self.lease.name.to_string();
        settings.set("election", [name], Origin::Flag("NAME".into()));
        let peers = tenure::__cli::peers_of(&settings)?;
        let client = PeersClient::new(tenure::__cli::cluster_of(&settings)?, peers)?;
        let asked = block_on(async { anyhow::Ok(client.ask_all().await) })?;
        let group = GroupView::of(&asked);
        if self.lease.json {
            return output::json(&json!({
                "store": store_is_away.to_string(),
                "members": group,
            }));
        }
        output::line(format_args!("{:<10}{store_is_away}", "store"))?;
        let (Some(leader), Some(epoch)) = (group.leader, group.epoch) else {
            return Err(store_is_away.context("the members that answer do not agree on a leader"));
        };
        output::line(format_args!("{:<10}{leader}", "holder"))?;
        output::line(format_args!("{:<10}{epoch}", "epoch"))?;
        let views = asked.iter().filter_map(|asked| asked.view.as_ref().ok());
        for carried_by in views.filter_map(|view| view.status.carried_by.as_ref()) {
            let (kind, losses) = (&carried_by.kind, carried_by.further_losses);
            let text = format!("{kind}; {losses} more members may fail");
            output::line(format_args!("{:<10}{text}", "carried"))?;
        }
        Ok(())
    }

    /// The service that has the blob, if candidates are elected by the lease of a blob.
    fn blob_service(&self) -> anyhow::Result<Option<LeaseService>> {
        let LeaseArgs { name, store, .. } = &self.lease;
        let mut settings = store.settings()?;
        if !store::uses_blob(store, &settings) {
            return Ok(None);
        }
        let election = settings.parse::<ElectionName>("election")?;
        let is_another = election.is_some_and(|election| election != *name);
        if is_another && settings.origin("azure_blob.blob").is_some() {
            let reason = format!("this is the blob of another election than {name}");
            return Err(settings.invalid("azure_blob.blob", reason).into());
        }
        settings.set("election", [name.to_string()], Origin::Flag("NAME".into()));
        let config = tenure::__cli::from_settings(&settings)?;
        Ok(LeaseService::from_config(&config)?)
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Unreachable { .. }))
}
