//! One term as columns.

use tenure_core::lease::{Owner, TermEnd};
use tenure_core::{Epoch, UnixMillis};

use super::codec::{self, Columns, DecodeError};
use crate::model::TermRecord;

/// Appends all columns of a term.
pub(super) fn encode(term: &TermRecord, to: &mut Vec<u8>) {
    let end = term.ended.map(|(end, _)| end.as_str());
    let owner = term.owner.as_ref().map(Owner::as_str);
    for text in [
        Some(term.holder.as_str()),
        owner,
        end,
        term.reason.as_deref(),
    ] {
        codec::put(to, text.map(str::as_bytes));
    }
    let ended_at = term.ended.map(|(_, at)| at.get());
    for number in [Some(term.epoch.get()), Some(term.began_at.get()), ended_at] {
        codec::put_number(to, number);
    }
}

/// Reads the columns that [`encode`] appended, and nothing after them.
pub(super) fn decode(mut columns: Columns<'_>) -> Result<TermRecord, DecodeError> {
    let holder = columns.text()?.parse().map_err(|_| DecodeError)?;
    let owner = columns.optional_text()?.map(Owner::new);
    let (end, reason) = (columns.optional_text()?, columns.optional_text()?);
    let epoch = Epoch::new(columns.number()?).ok_or(DecodeError)?;
    let began_at = UnixMillis::new(columns.number()?);
    let ended = match (end, columns.optional_number()?) {
        (None, None) => None,
        (Some(end), Some(at)) => Some((end_of(end).ok_or(DecodeError)?, UnixMillis::new(at))),
        _ => return Err(DecodeError),
    };
    columns.end()?;
    Ok(TermRecord {
        epoch,
        holder,
        owner,
        began_at,
        ended,
        reason: reason.map(Into::into),
    })
}

/// The end of a term that has this name.
pub(crate) fn end_of(name: &str) -> Option<TermEnd> {
    TermEnd::ALL.into_iter().find(|end| end.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_decoded_as_it_was_encoded() {
        let running = TermRecord {
            epoch: Epoch::MAX,
            holder: "a-1".parse().unwrap(),
            owner: Some(Owner::new("worker")),
            began_at: UnixMillis::new(7),
            ended: None,
            reason: None,
        };
        let ended = TermEnd::ALL.map(|end| TermRecord {
            ended: Some((end, UnixMillis::new(9))),
            reason: Some("\"ä\n".into()),
            ..running.clone()
        });
        for term in ended.into_iter().chain([running]) {
            let mut bytes = Vec::new();
            encode(&term, &mut bytes);
            assert_eq!(decode(Columns(&bytes)), Ok(term));
            assert_eq!(decode(Columns(&bytes[1..])), Err(DecodeError));
            bytes.push(0);
            assert_eq!(decode(Columns(&bytes)), Err(DecodeError));
        }
    }
}
