//! Brings the tables up to the log.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Transaction, params};

use super::schema::{DELETE, Meta, SELECT_BEFORE, UPDATE_META, UPSERT, corrupt};
use super::{batch_log, deleted, lease_rows, term_rows};
use crate::engine::batch::{Outcome, follow, last_epoch, outcomes};
use crate::model::LeaseKey;

/// Applies all batches to the tables and deletes them. Forgets terms of a lease beyond the last `most_terms`,
/// also of the leases in `over_limit`. Returns how many rows were written or deleted.
pub(super) fn apply_all(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    most_terms: usize,
    over_limit: &BTreeSet<LeaseKey>,
) -> rusqlite::Result<usize> {
    let batches = batch_log::read(transaction, meta.revision).map_err(corrupt)?;
    meta.revision = follow(&batches, meta.revision).map_err(corrupt)?;
    let (outcomes, deletions) = outcomes(&batches).map_err(corrupt)?;
    meta.floor = meta.floor.max(last_epoch(&deletions));
    let mut rows = deleted::insert(transaction, meta, &deletions)?;
    for (key, outcome) in outcomes {
        rows += apply(outcome, transaction, meta, key, most_terms)?;
    }
    for key in over_limit {
        let key = (key.namespace(), key.lease());
        rows += term_rows::forget_old(transaction, meta, key, most_terms)?;
    }
    finish(transaction, meta)?;
    Ok(rows)
}

/// Ends a transaction that has applied all changes up to `meta.revision`: deletes the batches up to there.
pub(super) fn finish(transaction: &Transaction<'_>, meta: &Meta) -> rusqlite::Result<()> {
    batch_log::delete_up_to(transaction, meta.revision)?;
    meta.write(&mut transaction.prepare_cached(UPDATE_META)?)
}

/// Writes what became of one lease and its terms. Returns how many rows were written or deleted.
pub(super) fn apply(
    mut outcome: Outcome<'_>,
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: (&str, &str),
    most_terms: usize,
) -> rusqlite::Result<usize> {
    let (namespace, lease) = key;
    let mut rows = 0;
    if outcome.changes_lease() {
        let mut select = transaction.prepare_cached(SELECT_BEFORE)?;
        let before = select.query_row(params![namespace, lease], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        });
        let before: Option<(u32, u64, Vec<u8>)> = before.optional()?;
        let old = before.as_ref().map(|before| before.0);
        let (_, revision, retired) = before.unwrap_or_default();
        let new = match outcome.take_lease(revision, &retired).map_err(corrupt)? {
            Some(fields) => {
                let upsert = &mut transaction.prepare_cached(UPSERT)?;
                Some(lease_rows::write(&fields, upsert)?)
            }
            None => {
                let mut delete = transaction.prepare_cached(DELETE)?;
                delete.execute(params![namespace, lease])?;
                None
            }
        };
        meta.account(old, new);
        rows += 1;
    }
    if outcome.was_deleted {
        rows += term_rows::delete(transaction, meta, key)?;
    }
    rows += term_rows::write(transaction, meta, key, outcome.terms, most_terms)?;
    Ok(rows)
}
