//! The columns of one lease.

use std::borrow::Cow;
use std::slice;
use std::time::Duration;

use tenure_core::lease::{Grant, LeaseDuration, LeaseId, Owner, Stored, StoredState};
use tenure_core::time::millis;
use tenure_core::{Epoch, UnixMillis};

use super::codec::{Column, Columns, DecodeError, put};
use super::term;
use crate::model::LeaseKey;

/// The number of columns of a lease.
pub(crate) const COLUMNS: usize = 17;

/// Returns the columns of a lease with these retired ids, for a batch and for a table.
pub(crate) fn columns<'a>(
    key: &'a LeaseKey,
    stored: &'a Stored,
    retired: &'a [LeaseId],
    revision: u64,
) -> [Column<'a>; COLUMNS] {
    let grant = stored.grant.as_ref();
    let (state, break_ms) = match stored.state {
        StoredState::Available => ("available", None),
        StoredState::Leased => ("leased", None),
        StoredState::Breaking(left) => ("breaking", Some(whole_millis(left))),
        StoredState::Broken => ("broken", None),
        StoredState::Expired => ("expired", None),
    };
    let metadata: Cow<'_, str> = match stored.metadata.is_empty() {
        true => "{}".into(),
        // Serialization cannot fail: all keys are text, and every value has a form in JSON.
        false => serde_json::to_string(&stored.metadata)
            .unwrap_or_default()
            .into(),
    };
    let duration = grant.and_then(|grant| grant.duration.fixed());
    let reserved = stored.reserved.as_ref();
    let (namespace, lease) = key.names();
    [
        namespace.into(),
        lease.into(),
        state.into(),
        grant.map(|grant| grant.holder.as_str()).into(),
        grant
            .and_then(|grant| grant.owner.as_ref())
            .map(Owner::as_str)
            .into(),
        Column::Text(metadata),
        reserved.map(|(to, _)| to.as_str()).into(),
        term::periods_column(grant.and_then(|grant| grant.without_store.as_deref())),
        grant
            .map(|grant| Column::Ids(slice::from_ref(&grant.lease_id)))
            .into(),
        Column::Ids(retired),
        grant.map(|grant| grant.epoch.get()).into(),
        grant.map(|grant| grant.granted_at.get()).into(),
        duration.map(whole_millis).into(),
        break_ms.into(),
        grant.map(|grant| whole_millis(grant.lock_delay)).into(),
        reserved.map(|&(_, within)| whole_millis(within)).into(),
        revision.into(),
    ]
}

/// Reads the columns that [`columns`] returns. The checksum matched, so an invalid value was
/// written by another program.
pub(crate) fn decode(columns: &mut Columns<'_>) -> Result<(LeaseKey, Stored, u64), DecodeError> {
    let key = columns.key()?;
    let state = columns.text("state")?;
    let holder = columns.text("holder")?.parse();
    let owner = columns.optional_text("owner")?.map(Owner::new);
    let metadata = serde_json::from_str(columns.text("metadata")?);
    let reserved_for = columns.optional_text("reserved_for")?.map(str::parse);
    let without_store = term::decode_periods(columns)?;
    let lease_id = columns.ids("lease_id")?;
    let retired = columns.ids("retired")?;
    let epoch = Epoch::new(columns.number("epoch")?);
    let granted_at = columns.optional_number("granted_at_ms")?;
    let duration = columns.optional_number("duration_ms")?;
    let break_period = columns.optional_number("break_ms")?;
    let lock_delay = columns.number("lock_delay_ms")?;
    let reserved_within = columns.optional_number("reserved_ms")?;
    let state = match (state, break_period) {
        ("available", None) => StoredState::Available,
        ("leased", None) => StoredState::Leased,
        ("breaking", Some(left)) => StoredState::Breaking(Duration::from_millis(left)),
        ("broken", None) => StoredState::Broken,
        ("expired", None) => StoredState::Expired,
        _ => return Err(DecodeError("state")),
    };
    let &[lease_id] = lease_id.as_slice() else {
        return Err(DecodeError("lease_id"));
    };
    let grant = Grant {
        lease_id,
        holder: holder.map_err(|_| DecodeError("holder"))?,
        owner,
        epoch: epoch.ok_or(DecodeError("epoch"))?,
        granted_at: UnixMillis::new(granted_at.unwrap_or(0)),
        duration: match duration {
            Some(duration) => LeaseDuration::Fixed(Duration::from_millis(duration)),
            None => LeaseDuration::Infinite,
        },
        lock_delay: Duration::from_millis(lock_delay),
        without_store,
    };
    let reserved = match (reserved_for.transpose(), reserved_within) {
        (Ok(to), within) if to.is_some() == within.is_some() => {
            to.zip(within.map(Duration::from_millis))
        }
        _ => return Err(DecodeError("reserved_for or reserved_ms")),
    };
    let stored = Stored {
        state,
        grant: Some(grant),
        metadata: metadata.map_err(|_| DecodeError("metadata"))?,
        reserved,
        retired,
    };
    Ok((key, stored, columns.number("revision")?))
}

/// The place of the retired ids among the columns.
const RETIRED: usize = 9;

/// The parts of an encoded lease that are needed without decoding it.
pub(crate) struct Outline {
    pub(crate) key: LeaseKey,
    pub(crate) retired: Vec<LeaseId>,
    pub(crate) revision: u64,
}

impl Outline {
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut columns = Columns(bytes);
        let key = columns.key()?;
        for _ in 2..RETIRED {
            columns.optional_bytes("column")?;
        }
        let retired = columns.ids("retired")?;
        for _ in RETIRED + 2..COLUMNS {
            columns.optional_bytes("column")?;
        }
        let revision = columns.number("revision")?;
        columns.end()?;
        Ok(Self {
            key,
            retired,
            revision,
        })
    }
}

/// Returns the bytes of an encoded lease with other retired ids.
pub(crate) fn with_retired(bytes: &[u8], retired: &[LeaseId]) -> Result<Vec<u8>, DecodeError> {
    let mut columns = Columns(bytes);
    for _ in 0..RETIRED {
        columns.optional_bytes("column")?;
    }
    let before = bytes.len() - columns.0.len();
    columns.ids("retired")?;
    let mut changed = bytes[..before].to_vec();
    put(&mut changed, &[Column::Ids(retired)]);
    changed.extend_from_slice(columns.0);
    Ok(changed)
}

/// Converts to milliseconds and rounds up: a promise must not end before its instant.
fn whole_millis(duration: Duration) -> u64 {
    millis(duration.saturating_add(Duration::from_nanos(999_999)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::CandidateId;
    use tenure_core::lease::{Metadata, WithoutStore};

    fn stored() -> Stored {
        let holder: CandidateId = "a-1".parse().unwrap();
        Stored {
            state: StoredState::Breaking(Duration::from_millis(5)),
            grant: Some(Grant {
                lease_id: LeaseId::from_random_bits(1, 2),
                holder: holder.clone(),
                owner: Some(Owner::new("worker")),
                epoch: Epoch::MAX,
                granted_at: UnixMillis::new(7),
                duration: LeaseDuration::Fixed(Duration::from_secs(15)),
                lock_delay: Duration::from_millis(3),
                without_store: Some(Box::new(WithoutStore {
                    periods: 2,
                    from: UnixMillis::new(5),
                    to: UnixMillis::new(9),
                    total: Duration::from_millis(3),
                })),
            }),
            metadata: Metadata::from([("address".into(), "\"ä\n".into())]),
            reserved: Some((holder, Duration::from_secs(1))),
            retired: vec![
                LeaseId::from_random_bits(3, 4),
                LeaseId::from_random_bits(5, 6),
            ],
        }
    }

    #[test]
    fn a_lease_is_decoded_as_it_was_encoded() {
        let key = LeaseKey::of_text("ns/lease");
        let stored = stored();
        let mut bytes = Vec::new();
        put(&mut bytes, &columns(&key, &stored, &stored.retired, 9));
        let mut read = Columns(&bytes);
        assert_eq!(decode(&mut read), Ok((key.clone(), stored.clone(), 9)));
        assert_eq!(read.end(), Ok(()));
        let outline = Outline::of(&bytes).unwrap();
        assert_eq!((outline.key, outline.revision), (key.clone(), 9));
        assert_eq!(outline.retired, stored.retired);
        let other = [LeaseId::from_random_bits(7, 8)];
        let mut expected = Vec::new();
        put(&mut expected, &columns(&key, &stored, &other, 9));
        assert_eq!(with_retired(&bytes, &other), Ok(expected));
        assert!(decode(&mut Columns(&bytes[1..])).is_err());
    }

    #[test]
    fn a_remaining_time_is_rounded_up() {
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_millis(2)), 2);
        assert_eq!(whole_millis(Duration::ZERO), 0);
    }

    #[test]
    fn each_column_changes_the_bytes_that_the_checksum_covers() {
        let (key, stored) = (LeaseKey::of_text("ns/lease"), stored());
        let row = columns(&key, &stored, &stored.retired, 9);
        let encode = |row: &[Column<'_>]| {
            let mut bytes = Vec::new();
            put(&mut bytes, row);
            bytes
        };
        for index in 0..COLUMNS {
            let mut changed = row.clone();
            changed[index] = match &row[index] {
                Column::Number(number) => Column::Number(number + 1),
                _ => Column::Null,
            };
            assert_ne!(encode(&changed), encode(&row), "{changed:?}");
        }
        let mut slipped = row.clone();
        slipped[0] = "nsl".into();
        slipped[1] = "ease".into();
        assert_ne!(encode(&slipped), encode(&row));
    }
}
