//! The table `lease_rows`: one row per lease.

use rusqlite::{CachedStatement, params};

use crate::engine::batch::LeaseFields;

/// Writes the row, and returns its checksum.
pub(super) fn write(
    fields: &LeaseFields<'_>,
    upsert: &mut CachedStatement<'_>,
) -> rusqlite::Result<u32> {
    let crc = fields.crc();
    upsert.execute(params![
        fields.namespace,
        fields.lease,
        fields.state,
        fields.holder,
        fields.epoch,
        fields.granted_at_ms,
        fields.duration_ms,
        fields.lease_id,
        fields.break_ms,
        fields.lock_delay_ms,
        fields.metadata,
        fields.reserved_for,
        fields.reserved_ms,
        fields.retired,
        fields.revision,
        crc,
        fields.owner,
    ])?;
    Ok(crc)
}

/// Reads a row, and the checksum in it.
pub(super) fn read<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<(LeaseFields<'a>, u32)> {
    let optional_text = |index| {
        let text = row.get_ref(index)?.as_str_or_null()?;
        Ok::<_, rusqlite::Error>(text)
    };
    let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str()?);
    let fields = LeaseFields {
        namespace: text(0)?,
        lease: text(1)?,
        state: text(2)?,
        holder: optional_text(3)?,
        owner: optional_text(16)?,
        epoch: row.get(4)?,
        granted_at_ms: row.get(5)?,
        duration_ms: row.get(6)?,
        lease_id: row.get(7)?,
        break_ms: row.get(8)?,
        lock_delay_ms: row.get(9)?,
        metadata: text(10)?.into(),
        reserved_for: optional_text(11)?,
        reserved_ms: row.get(12)?,
        retired: row.get_ref(13)?.as_blob()?.into(),
        revision: row.get(14)?,
    };
    Ok((fields, row.get(15)?))
}
