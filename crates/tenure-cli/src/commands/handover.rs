//! `tenure handover`.

use std::time::Duration;

use clap::Args;
use tenure::CandidateId;
use tenure::store::HandOverRequest;
use tracing::warn;

use crate::end_term;
use crate::lease_view::{self, LeaseArgs};
use crate::runtime::block_on;
use crate::store;

/// End a term: the lease goes to a candidate of your choice
///
/// The holder stops and releases the lease as after a break, within the given time at most. After
/// that, the store grants the lease only to the chosen candidate, for the same time again (without
/// --within: for the duration of the lease, at most a minute), and then to any candidate.
#[derive(Debug, Args)]
pub(crate) struct Handover {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Next leader: the id of a candidate that waits for the lease
    #[arg(long, value_name = "CANDIDATE")]
    to: CandidateId,
    /// Time for the holder to stop; with less than the duration of the lease it may still act when
    /// the next leader begins [default: the rest of its lease; required if that is infinite]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    within: Option<Duration>,
    /// Hand over to a candidate that does not wait for the lease: nobody leads until it competes, or
    /// the time is over
    #[arg(long)]
    force: bool,
    /// Reason, for the log of the store and the term history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Handover {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let LeaseArgs { name, store, json } = &self.lease;
        let client = store::client(store)?;
        let view = block_on(client.lease(name))?.ok_or_else(|| store::unknown_lease(name))?;
        let within = end_term::period(&view, self.within, "--within")?;
        let request = HandOverRequest {
            lease_id: None,
            to: self.to.to_string(),
            within_ms: within.map(Into::into),
            force: self.force.then_some(true),
            reason: self.reason.clone(),
        };
        let view = block_on(client.hand_over(name, &request))?;
        if view.holder.as_deref() == Some(self.to.as_str()) {
            warn!(election = %name, candidate = %self.to,
                "this candidate holds the lease now: its own term ends, and it must compete again");
        } else if view.waiters == 0 {
            warn!(election = %name, candidate = %self.to,
                "no candidate waits for this lease now: until this candidate competes or its time is over, \
                 there is no leader");
        }
        lease_view::print(&view, *json)
    }
}
