//! Databases of older formats.

use rusqlite::{Connection, Transaction};

use super::folder::FORMAT;
use super::schema::{Meta, UPDATE_META, corrupt};
use super::{recent, terms};

/// The first format: without a history.
pub(super) const WITHOUT_TERMS: u32 = 1;

/// The second one: each lease in its place, and terms that ended last behind all others.
pub(super) const WITH_RECENT_TERMS: u32 = 2;

/// These terms, in the order in which they were noted.
pub(super) const SELECT_RECENT_TERMS: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc
    FROM recent_terms ORDER BY number";

/// Makes a database of the format `from` one of this format, in one transaction.
pub(super) fn to_this(connection: &Connection, from: u32, meta: &mut Meta) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    match from {
        WITHOUT_TERMS => transaction.execute_batch(terms::TABLE)?,
        _ => put_terms_in_place(&transaction, meta)?,
    }
    transaction.execute_batch(recent::TABLE)?;
    meta.write(&mut transaction.prepare_cached(UPDATE_META)?)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

fn put_terms_in_place(transaction: &Transaction<'_>, meta: &mut Meta) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(SELECT_RECENT_TERMS)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (term, crc) = terms::Row::read(row).map_err(corrupt)?;
        meta.account(Some(crc), None);
        terms::put(transaction, meta, term)?;
    }
    drop(rows);
    drop(select);
    transaction.execute_batch("DROP TABLE recent_terms")
}
