//! The columns of one term.

use std::time::Duration;

use tenure_core::lease::{Owner, TermEnd, WithoutStore};
use tenure_core::time::millis;
use tenure_core::{Epoch, UnixMillis};

use super::codec::{Column, Columns, DecodeError};
use crate::model::TermRecord;

/// Epoch, holder, start and end in milliseconds, kind of the end, reason, owner, and the periods
/// without the store.
pub(crate) type TermFields = (
    Epoch,
    String,
    u64,
    Option<u64>,
    Option<TermEnd>,
    Option<Box<str>>,
    Option<String>,
    Option<PeriodFields>,
);

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
    let holder = columns.text("holder")?.to_owned();
    let owner = columns.optional_text("owner")?.map(ToOwned::to_owned);
    let end = match columns.optional_text("end")? {
        Some(name) => serde_json::from_value(name.into()).map_err(|_| DecodeError("end"))?,
        None => None,
    };
    let reason = columns.optional_text("reason")?.map(Into::into);
    let epoch = Epoch::new(columns.number("epoch")?).ok_or(DecodeError("epoch"))?;
    let began_at = columns.number("began_at")?;
    let ended_at = columns.optional_number("ended_at")?;
    let periods = decode_periods(columns)?;
    let periods = periods.as_deref().map(period_fields);
    let fields = (
        epoch, holder, began_at, ended_at, end, reason, owner, periods,
    );
    record(fields).ok_or(DecodeError("term"))
}

/// Returns the column of the periods without the store: a JSON array, so that people can read it in
/// the database.
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

/// Returns the fields of a term.
pub(crate) fn fields(term: &TermRecord) -> TermFields {
    let (end, ended_at) = term.ended.map(|(end, at)| (end, at.get())).unzip();
    let (holder, reason) = (term.holder.to_string(), term.reason.clone());
    let owner = term.owner.as_ref().map(|owner| owner.as_str().to_owned());
    let began_at = term.began_at.get();
    let periods = term.without_store.as_deref().map(period_fields);
    (
        term.epoch, holder, began_at, ended_at, end, reason, owner, periods,
    )
}

/// Creates the term with these fields, if they are valid.
pub(crate) fn record(
    (epoch, holder, began_at, ended_at, end, reason, owner, without_store): TermFields,
) -> Option<TermRecord> {
    if end.is_some() != ended_at.is_some() {
        return None;
    }
    Some(TermRecord {
        epoch,
        holder: holder.parse().ok()?,
        owner: owner.map(Owner::new),
        began_at: UnixMillis::new(began_at),
        ended: end.zip(ended_at.map(UnixMillis::new)),
        reason,
        without_store: without_store.map(|fields| periods(fields).into()),
    })
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

    #[test]
    fn a_term_is_read_from_json_as_it_was_written() {
        for term in terms() {
            let json = serde_json::to_string(&fields(&term)).unwrap();
            let read: TermFields = serde_json::from_str(&json).unwrap();
            assert_eq!(record(read), Some(term.clone()));
            let mut half = fields(&term);
            half.3 = if half.3.is_some() { None } else { Some(1) };
            assert_eq!(record(half), None);
        }
    }
}
