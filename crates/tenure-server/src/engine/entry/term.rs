//! The columns of one term.

use std::time::Duration;

use tenure_core::lease::{Owner, TermEnd, WithoutStore};
use tenure_core::time::millis;
use tenure_core::{Epoch, UnixMillis};

use super::codec::{Column, Columns, DecodeError};
use crate::model::TermRecord;

/// The periods without the store: their number, the beginning of the first, the end of the last, and
/// the total time, in milliseconds.
type PeriodFields = (u32, u64, u64, u64);

/// Returns the columns of a term.
pub(in crate::engine) fn columns(term: &TermRecord) -> [Column<'_>; 8] {
    [
        term.holder.as_str().into(),
        term.owner.as_ref().map(Owner::as_str).into(),
        term.ended
            .map(|(end, _)| Column::Text(end.to_string().into()))
            .into(),
        term.reason.as_deref().into(),
        term.epoch.get().into(),
        term.began_at.get().into(),
        term.ended.map(|(_, at)| at.get()).into(),
        periods_column(term.without_store.as_deref()),
    ]
}

/// Reads the columns that [`columns`] returns.
pub(in crate::engine) fn decode(columns: &mut Columns<'_>) -> Result<TermRecord, DecodeError> {
    let holder = columns.text("holder")?.parse();
    let owner = columns.optional_text("owner")?.map(Owner::new);
    let end: Option<TermEnd> = match columns.optional_text("end")? {
        Some(name) => serde_json::from_value(name.into()).map_err(|_| DecodeError("end"))?,
        None => None,
    };
    let reason = columns.optional_text("reason")?.map(Into::into);
    let epoch = Epoch::new(columns.number("epoch")?).ok_or(DecodeError("epoch"))?;
    let began_at = UnixMillis::new(columns.number("began_at")?);
    let ended_at = columns.optional_number("ended_at")?.map(UnixMillis::new);
    if end.is_some() != ended_at.is_some() {
        return Err(DecodeError("ended_at"));
    }
    Ok(TermRecord {
        epoch,
        holder: holder.map_err(|_| DecodeError("holder"))?,
        owner,
        began_at,
        ended: end.zip(ended_at),
        reason,
        without_store: decode_periods(columns)?,
    })
}

/// Returns the column of the periods without the store: a JSON array.
pub(super) fn periods_column(periods: Option<&WithoutStore>) -> Column<'static> {
    // Numbers always have a form in JSON.
    let json = periods.map(|it| serde_json::to_string(&period_fields(it)).unwrap_or_default());
    json.map(|json| Column::Text(json.into())).into()
}

/// Reads the column that [`periods_column`] returns.
pub(super) fn decode_periods(
    columns: &mut Columns<'_>,
) -> Result<Option<Box<WithoutStore>>, DecodeError> {
    const NAME: &str = "without_store";
    let Some(json) = columns.optional_text(NAME)? else {
        return Ok(None);
    };
    let fields = serde_json::from_str(json).map_err(|_| DecodeError(NAME))?;
    Ok(Some(periods(fields).into()))
}

fn period_fields(periods: &WithoutStore) -> PeriodFields {
    let WithoutStore {
        periods,
        from,
        to,
        total,
    } = *periods;
    (periods, from.get(), to.get(), millis(total))
}

fn periods((periods, from, to, total): PeriodFields) -> WithoutStore {
    WithoutStore {
        periods,
        from: UnixMillis::new(from),
        to: UnixMillis::new(to),
        total: Duration::from_millis(total),
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::put;
    use super::*;

    fn terms() -> impl Iterator<Item = TermRecord> {
        let running = TermRecord {
            epoch: Epoch::MAX,
            holder: "a-1".parse().unwrap(),
            owner: Some(Owner::new("worker")),
            began_at: UnixMillis::new(7),
            ended: None,
            reason: None,
            without_store: None,
        };
        let ends = [
            TermEnd::Released,
            TermEnd::Expired,
            TermEnd::Broken,
            TermEnd::HandedOver,
        ];
        let ended = ends.map(|end| TermRecord {
            ended: Some((end, UnixMillis::new(9))),
            reason: Some("\"ä\n".into()),
            without_store: Some(periods((2, 5, 9, 3)).into()),
            ..running.clone()
        });
        ended.into_iter().chain([running])
    }

    #[test]
    fn a_term_is_decoded_as_it_was_encoded() {
        for term in terms() {
            let mut bytes = Vec::new();
            put(&mut bytes, &columns(&term));
            let mut read = Columns(&bytes);
            assert_eq!((decode(&mut read), read.end()), (Ok(term), Ok(())));
            assert!(decode(&mut Columns(&bytes[1..])).is_err());
        }
    }
}
