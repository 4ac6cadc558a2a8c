//! `tenure cluster hand-over`.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use tenure::store::{ResignRequest, StoreClient};

use crate::exit::{self, REFUSED};
use crate::output;
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
        let Verdict::Active(active) = servers::verdict(servers::views(&before)) else {
            let text = "not exactly one server is active: see tenure cluster status";
            return Err(refused(text.into()));
        };
        if let Some(to) = &self.to {
            let is_named = |server: &servers::ServerReport| {
                server.view.as_ref().is_some_and(|view| view.server == *to)
            };
            if *to == active {
                return Ok(output::line(format_args!("{active} is active"))?);
            }
            if !before.iter().any(is_named) {
                let text = format!("no address has a server with the name {to:?} that answers");
                return Err(refused(text));
            }
        }
        let mut request = ResignRequest::default();
        request.to.clone_from(&self.to);
        let began = Instant::now();
        client.hand_over_cluster(&request).await?;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = servers::ask(client).await;
            if let Verdict::Active(name) = servers::verdict(servers::views(&now))
                && name != active
            {
                output::line(format_args!("{name} is active"))?;
                return match &self.to {
                    Some(to) if *to != name => {
                        let text = format!("{name} was quicker than {to}");
                        Err(refused(text))
                    }
                    _ => Ok(()),
                };
            }
            if began.elapsed() > PATIENCE {
                let text = format!("no other server than {active} is active after {PATIENCE:?}");
                return Err(anyhow!(text));
            }
        }
    }
}
