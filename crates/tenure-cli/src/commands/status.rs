//! `tenure status`.

use clap::Args;
use tenure::ElectionName;
use tenure::backend::LeaseService;
use tenure::config::Origin;

use crate::lease_view::{self, LeaseArgs};
use crate::runtime::block_on;
use crate::store;

/// Show one lease
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
            None => block_on(store::client(store)?.lease(name))?,
        };
        let view = view.ok_or_else(|| store::unknown_lease(name))?;
        lease_view::print(&view, *json)
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
