//! `tenure break`.

use std::time::Duration;

use clap::Args;
use tenure::store::BreakRequest;

use crate::end_term;
use crate::lease_view::{self, LeaseArgs};
use crate::runtime::block_on;
use crate::store;

/// End a term: the lease goes to the next candidate
///
/// The holder learns of the break with its next renewal, stops, and releases the lease. Without
/// "--period" no other candidate leads before the holder has stopped, even if it cannot be reached.
#[derive(Debug, Args)]
pub(crate) struct Break {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Time for the holder to stop; with less than the duration of the lease it may still act when
    /// the next leader begins [default: the rest of its lease; required if that is infinite]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    period: Option<Duration>,
    /// Reason, for the log of the store and the term history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Break {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let LeaseArgs { name, store, json } = &self.lease;
        let client = store::client(store)?;
        let view = block_on(client.lease(name))?.ok_or_else(|| store::unknown_lease(name))?;
        let period = end_term::period(&view, self.period, "--period")?;
        let request = BreakRequest {
            break_period_ms: period.map(Into::into),
            reason: self.reason.clone(),
        };
        let view = block_on(client.break_lease(name, &request))?;
        lease_view::print(&view, *json)
    }
}
