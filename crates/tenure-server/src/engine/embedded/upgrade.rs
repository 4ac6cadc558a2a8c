//! Databases of older formats.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Transaction};

use super::folder::FORMAT;
use super::recent::{self, Batches};
use super::schema::{Meta, UPDATE_META, corrupt};
use super::{deleted, terms};

/// The first format: without a history.
pub(super) const WITHOUT_TERMS: u32 = 1;

/// The second one: each lease in its place, and terms that ended last behind all others.
pub(super) const WITH_RECENT_TERMS: u32 = 2;

/// The third one: a row a term, and batches that are counted with the rows.
pub(super) const WITH_COUNTED_BATCHES: u32 = 3;

/// The fourth one: nothing is left of deleted leases but their epochs.
pub(super) const WITHOUT_DELETED: u32 = 4;

/// The terms that are in their places in the second and the third format.
pub(super) const SELECT_TERMS: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc FROM terms
    ORDER BY namespace, lease, epoch";

/// Those of the second format that are not, in the order in which they were noted.
pub(super) const SELECT_RECENT_TERMS: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc
    FROM recent_terms ORDER BY number";

const SELECT_BATCHES: &str = "SELECT revision, changes, crc FROM recent ORDER BY revision";

/// Makes a database of the format `from` one of this format, in one transaction.
pub(super) fn to_this(connection: &Connection, from: u32, meta: &mut Meta) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(deleted::TABLE)?;
    if from == WITHOUT_DELETED {
        recent::put_in_place(&transaction, meta, ALL, &BTreeSet::new())?;
    } else {
        tables_to_the_fourth(&transaction, from, meta)?;
    }
    meta.write(&mut transaction.prepare_cached(UPDATE_META)?)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// Makes tables of a format before the fourth ones of that.
fn tables_to_the_fourth(
    transaction: &Transaction<'_>,
    from: u32,
    meta: &mut Meta,
) -> rusqlite::Result<()> {
    transaction.execute_batch(terms::TABLE)?;
    transaction.execute_batch(recent::TABLE)?;
    if from > WITHOUT_TERMS {
        put_terms_in_place(transaction, meta, SELECT_TERMS)?;
        transaction.execute_batch("DROP TABLE terms")?;
    }
    if from == WITH_RECENT_TERMS {
        put_terms_in_place(transaction, meta, SELECT_RECENT_TERMS)?;
        transaction.execute_batch("DROP TABLE recent_terms")?;
    }
    if from == WITH_COUNTED_BATCHES {
        let (batches, crcs) = read_batches(transaction).map_err(corrupt)?;
        recent::place(transaction, meta, &batches, ALL)?;
        crcs.into_iter()
            .for_each(|crc| meta.account(Some(crc), None));
        transaction.execute_batch("DROP TABLE recent")?;
    }
    Ok(())
}

/// No term is forgotten here.
const ALL: usize = u32::MAX as usize;

/// A term of the second or the third format, if it fits the checksum that stands in its row, and that.
pub(super) fn read_term<'a>(row: &'a rusqlite::Row<'_>) -> Result<(terms::Row<'a>, u32), String> {
    let read = || -> rusqlite::Result<_> {
        let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str()?);
        let optional = |index| {
            let text = row.get_ref(index)?.as_str_or_null()?;
            Ok::<_, rusqlite::Error>(text)
        };
        let read = terms::Row {
            namespace: text(0)?,
            lease: text(1)?,
            epoch: row.get(2)?,
            holder: text(3)?,
            began_at_ms: row.get(4)?,
            ended_at_ms: row.get(5)?,
            end: optional(6)?,
            reason: optional(7)?,
        };
        Ok((read, row.get(8)?))
    };
    let (read, crc) = read().map_err(|error| error.to_string())?;
    let mut bytes = Vec::with_capacity(256);
    read.encode(&mut bytes);
    if crc32fast::hash(&bytes) == crc {
        return Ok((read, crc));
    }
    let (namespace, lease) = (read.namespace, read.lease);
    Err(format!(
        "the row of a term of {namespace:?}/{lease:?} does not fit its checksum"
    ))
}

/// The batches of the third format, and their checksums.
pub(super) fn read_batches(connection: &Connection) -> Result<(Batches, Vec<u32>), String> {
    let text = |error: rusqlite::Error| error.to_string();
    let (mut batches, mut crcs) = (Vec::new(), Vec::new());
    let mut select = connection.prepare(SELECT_BATCHES).map_err(text)?;
    let mut rows = select.query([]).map_err(text)?;
    while let Some(row) = rows.next().map_err(text)? {
        let read = || rusqlite::Result::Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (revision, changes, crc): (u64, Vec<u8>, u32) = read().map_err(text)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&revision.to_le_bytes());
        sum.update(&changes);
        if sum.finalize() != crc {
            return Err(format!(
                "the batch up to revision {revision} does not fit its checksum"
            ));
        }
        batches.push(changes);
        crcs.push(crc);
    }
    Ok((Batches::of(batches), crcs))
}

fn put_terms_in_place(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    select: &str,
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(select)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (term, crc) = read_term(row).map_err(corrupt)?;
        meta.account(Some(crc), None);
        let key = (term.namespace, term.lease);
        let terms = BTreeMap::from([(term.epoch, term)]);
        terms::put(transaction, meta, key, terms, ALL)?;
    }
    Ok(())
}
