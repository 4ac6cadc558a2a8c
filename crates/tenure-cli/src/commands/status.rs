//! `tenure status`.

use clap::Args;
use serde_json::json;
use tenure::ElectionName;
use tenure::backend::LeaseService;
use tenure::peers::{Asked, GroupView};
use tenure::store::StoreError;
use tenure_config::Origin;

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
        let (view, waiters, awaited) = match self.other_service()? {
            Some(service) => {
                let view = block_on(service.lease())?;
                (view, None, block_on(service.awaited())?)
            }
            None => {
                let client = store::client(store)?;
                match block_on(client.lease(name)) {
                    Err(error) if is_unreachable(&error) => return self.without_store(error),
                    view => (view?, block_on(client.waiters(name))?, None),
                }
            }
        };
        let view = view.ok_or_else(|| store::unknown_lease(name))?;
        lease_view::print_with_waiters(&view, waiters.as_ref(), awaited.as_ref(), *json)?;
        if *json || view.epoch.is_some() {
            return Ok(());
        }
        // Members may carry a term that the store does not hold.
        match self.ask_members()? {
            Some((asked, group)) if group.leader.is_some() => print_term(&asked, &group),
            _ => Ok(()),
        }
    }

    /// Prints what the members say while the store is away, if the settings have a fallback.
    fn without_store(&self, store_is_away: anyhow::Error) -> anyhow::Result<()> {
        let Some((asked, group)) = self.ask_members()? else {
            return Err(store_is_away);
        };
        if self.lease.json {
            return output::json(&json!({
                "store": store_is_away.to_string(),
                "members": group,
            }));
        }
        output::line(format_args!("{:<10}{store_is_away}", "store"))?;
        if group.leader.is_none() || group.epoch.is_none() {
            return Err(store_is_away.context("the members that answer do not agree on a leader"));
        }
        print_term(&asked, &group)
    }

    /// Returns the answers of the members, if the settings have a fallback.
    fn ask_members(&self) -> anyhow::Result<Option<(Vec<Asked>, GroupView)>> {
        let mut settings = self.lease.store.settings()?;
        if !settings.has_table("fallback") {
            return Ok(None);
        }
        let name = self.lease.name.to_string();
        settings.set("election", [name], Origin::Flag("NAME".into()));
        let client = store::peers(&settings)?;
        let asked = block_on(async { anyhow::Ok(client.ask_all().await) })?;
        let group = GroupView::of(&asked);
        Ok(Some((asked, group)))
    }

    /// The service that has the lease, if it is not a store.
    fn other_service(&self) -> anyhow::Result<Option<LeaseService>> {
        let LeaseArgs { name, store, .. } = &self.lease;
        let mut settings = store.settings()?;
        let key = match store::other_service(store, &settings) {
            Some("azure-blob") => "azure_blob.blob",
            Some(_) => "kubernetes.lease",
            None => return Ok(None),
        };
        let election = settings.parse::<ElectionName>("election")?;
        let is_another = election.is_some_and(|election| election != *name);
        if is_another && settings.origin(key).is_some() {
            let reason = format!("this is the lease of another election than {name}");
            return Err(settings.invalid(key, reason).into());
        }
        settings.set("election", [name.to_string()], Origin::Flag("NAME".into()));
        let config = tenure::Config::from_settings(&settings)?;
        Ok(LeaseService::from_config(&config)?)
    }
}

/// Prints the leader that the members name, and the voters that carry its term.
fn print_term(asked: &[Asked], group: &GroupView) -> anyhow::Result<()> {
    if let (Some(leader), Some(epoch)) = (group.leader, group.epoch) {
        output::line(format_args!("{:<10}{leader}, as the members say", "leader"))?;
        output::line(format_args!("{:<10}{epoch}", "epoch"))?;
    }
    let views = asked.iter().filter_map(|asked| asked.view.as_ref().ok());
    for carried_by in views.filter_map(|view| view.status.carried_by.as_ref()) {
        let (kind, losses) = (&carried_by.kind, carried_by.further_losses);
        let text = format!("{kind}; {losses} more members may fail");
        output::line(format_args!("{:<10}{text}", "carried"))?;
    }
    Ok(())
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Unreachable { .. }))
}
