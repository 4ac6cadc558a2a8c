//! `tenure history`.

use clap::Args;
use tenure::store::TermEnd;

use crate::lease_view::{LeaseArgs, local_time, without_store};
use crate::output::{self, escape, or_dash};
use crate::runtime::block_on;
use crate::store;

/// Show the term history of a lease: holders and how their terms ended
///
/// Newest first. The store keeps the last terms of each lease. The last column is there if the holder
/// of a term led without the store for a time.
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    lease: LeaseArgs,
}

impl History {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let LeaseArgs { name, store, json } = &self.lease;
        let history = block_on(store::client(store)?.history(name))?;
        let history = history.ok_or_else(|| store::unknown_lease(name))?;
        if *json {
            return output::json(&history);
        }
        // Few leases have such terms, and the column is wide.
        let has_periods = history.terms.iter().any(|it| it.without_store.is_some());
        let mut header = vec!["EPOCH", "HOLDER", "BEGAN", "ENDED", "END", "REASON"];
        header.extend(has_periods.then_some("LED WITHOUT THE STORE"));
        let mut table = output::table(&header);
        for term in &history.terms {
            let periods = or_dash(term.without_store.as_deref().map(without_store));
            let mut row = vec![
                term.epoch.to_string(),
                escape(&term.holder),
                or_dash(term.began_at.as_deref().map(local_time)),
                or_dash(term.ended_at.as_deref().map(local_time)),
                or_dash(term.end.map(end_name)),
                or_dash(term.reason.as_deref().map(escape)),
            ];
            row.extend(has_periods.then_some(periods));
            table.add_row(row);
        }
        output::print_table(&table)
    }
}

const fn end_name(end: TermEnd) -> &'static str {
    match end {
        TermEnd::Released => "released",
        TermEnd::Expired => "expired",
        TermEnd::Broken => "broken",
        TermEnd::HandedOver => "handed over",
    }
}
