//! One lease as a row.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::{CachedStatement, params};
use tenure_core::lease::{Grant, LeaseDuration, LeaseId, Metadata, Stored, StoredState};
use tenure_core::time::millis;
use tenure_core::{Epoch, Name, UnixMillis};

use super::columns::{self, Columns, NotColumns};
use crate::table::Key;

/// The columns of a row, but for the checksum over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
    state: &'a str,
    holder: Option<&'a str>,
    epoch: Option<u64>,
    granted_at_ms: Option<u64>,
    duration_ms: Option<u64>,
    lease_id: Option<Cow<'a, [u8]>>,
    break_ms: Option<u64>,
    lock_delay_ms: Option<u64>,
    metadata: Cow<'a, str>,
    reserved_for: Option<&'a str>,
    reserved_ms: Option<u64>,
    pub(super) retired: Cow<'a, [u8]>,
    pub(super) revision: u64,
}

impl<'a> Row<'a> {
    /// The row of a lease, with these of its retired ids.
    pub(super) fn of(key: &'a Key, stored: &'a Stored, retired: &[LeaseId], revision: u64) -> Self {
        let grant = stored.grant.as_ref();
        let (state, break_ms) = match stored.state {
            StoredState::Available => ("available", None),
            StoredState::Leased => ("leased", None),
            StoredState::Breaking(left) => ("breaking", Some(whole_millis(left))),
            StoredState::Broken => ("broken", None),
            StoredState::Expired => ("expired", None),
        };
        let reserved = stored.reserved.as_ref();
        let metadata = match stored.metadata.is_empty() {
            true => Cow::Borrowed("{}"),
            // It has text for keys, and no value that JSON has no form for.
            false => serde_json::to_string(&stored.metadata)
                .unwrap_or_default()
                .into(),
        };
        Self {
            namespace: key.namespace(),
            lease: key.lease(),
            state,
            holder: grant.map(|grant| grant.holder.as_str()),
            epoch: grant.map(|grant| grant.epoch.get()),
            granted_at_ms: grant.map(|grant| grant.granted_at.get()),
            duration_ms: grant.and_then(|grant| match grant.duration {
                LeaseDuration::Fixed(duration) => Some(whole_millis(duration)),
                LeaseDuration::Infinite => None,
            }),
            lease_id: grant.map(|grant| grant.lease_id.to_bytes().to_vec().into()),
            break_ms,
            lock_delay_ms: grant.map(|grant| whole_millis(grant.lock_delay)),
            metadata,
            reserved_for: reserved.map(|(to, _)| to.as_str()),
            reserved_ms: reserved.map(|&(_, within)| whole_millis(within)),
            retired: bytes_of(retired).into(),
            revision,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{:?}/{:?}", self.namespace, self.lease)
    }

    /// The lease in this row. The row fits its checksum, so a value that makes no sense was written
    /// by something else than a store of this format.
    pub(super) fn into_lease(self) -> Result<(Key, Stored, u64), String> {
        let name = self.name();
        let nonsense = |column: &str| format!("the row of {name} has a senseless {column}");
        let namespace: Name = self.namespace.parse().map_err(|_| nonsense("namespace"))?;
        let lease: Name = self.lease.parse().map_err(|_| nonsense("lease"))?;
        let state = match (self.state, self.break_ms) {
            ("available", None) => StoredState::Available,
            ("leased", None) => StoredState::Leased,
            ("breaking", Some(left)) => StoredState::Breaking(Duration::from_millis(left)),
            ("broken", None) => StoredState::Broken,
            ("expired", None) => StoredState::Expired,
            _ => return Err(nonsense("state")),
        };
        let lock_delay = self
            .lock_delay_ms
            .ok_or_else(|| nonsense("lock_delay_ms"))?;
        let grant = Grant {
            lease_id: lease_id(&self.lease_id.unwrap_or_default())
                .ok_or_else(|| nonsense("lease_id"))?,
            holder: self
                .holder
                .and_then(|holder| holder.parse().ok())
                .ok_or_else(|| nonsense("holder"))?,
            epoch: self
                .epoch
                .and_then(Epoch::new)
                .ok_or_else(|| nonsense("epoch"))?,
            granted_at: UnixMillis::new(self.granted_at_ms.unwrap_or(0)),
            duration: match self.duration_ms {
                Some(duration) => LeaseDuration::Fixed(Duration::from_millis(duration)),
                None => LeaseDuration::Infinite,
            },
            lock_delay: Duration::from_millis(lock_delay),
        };
        let metadata: Metadata =
            serde_json::from_str(&self.metadata).map_err(|_| nonsense("metadata"))?;
        let reserved = match (self.reserved_for, self.reserved_ms) {
            (Some(to), Some(within)) => Some((
                to.parse().map_err(|_| nonsense("reserved_for"))?,
                Duration::from_millis(within),
            )),
            (None, None) => None,
            _ => return Err(nonsense("reserved_ms")),
        };
        let stored = Stored {
            state,
            grant: Some(grant),
            metadata,
            reserved,
            retired: ids_of(&self.retired).ok_or_else(|| nonsense("retired"))?,
        };
        Ok((Key::new(&namespace, &lease), stored, self.revision))
    }

    /// Puts all columns behind what is in `to`.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        for text in [Some(self.namespace), Some(self.lease), Some(self.state)]
            .into_iter()
            .chain([self.holder, Some(&self.metadata), self.reserved_for])
        {
            columns::put(to, text.map(str::as_bytes));
        }
        columns::put(to, self.lease_id.as_deref());
        columns::put(to, Some(&self.retired));
        for number in [
            self.epoch,
            self.granted_at_ms,
            self.duration_ms,
            self.break_ms,
            self.lock_delay_ms,
            self.reserved_ms,
            Some(self.revision),
        ] {
            columns::put_number(to, number);
        }
    }

    /// The row that [`Row::encode`] put there, and nothing behind it.
    pub(super) fn decode(mut columns: Columns<'a>) -> Result<Self, NotColumns> {
        let namespace = columns.text()?;
        let lease = columns.text()?;
        let state = columns.text()?;
        let holder = columns.optional_text()?;
        let metadata = columns.text()?.into();
        let reserved_for = columns.optional_text()?;
        let lease_id = columns.take()?.map(Cow::Borrowed);
        let retired = columns.bytes()?.into();
        let row = Self {
            namespace,
            lease,
            state,
            holder,
            epoch: columns.optional_number()?,
            granted_at_ms: columns.optional_number()?,
            duration_ms: columns.optional_number()?,
            lease_id,
            break_ms: columns.optional_number()?,
            lock_delay_ms: columns.optional_number()?,
            metadata,
            reserved_for,
            reserved_ms: columns.optional_number()?,
            retired,
            revision: columns.number()?,
        };
        columns.end()?;
        Ok(row)
    }

    /// The checksum over all columns.
    pub(super) fn crc(&self) -> u32 {
        let mut bytes = Vec::with_capacity(1024);
        self.encode(&mut bytes);
        crc32fast::hash(&bytes)
    }

    /// Writes it, and tells its checksum.
    pub(super) fn write(&self, upsert: &mut CachedStatement<'_>) -> rusqlite::Result<u32> {
        let crc = self.crc();
        upsert.execute(params![
            self.namespace,
            self.lease,
            self.state,
            self.holder,
            self.epoch,
            self.granted_at_ms,
            self.duration_ms,
            self.lease_id,
            self.break_ms,
            self.lock_delay_ms,
            self.metadata,
            self.reserved_for,
            self.reserved_ms,
            self.retired,
            self.revision,
            crc,
        ])?;
        Ok(crc)
    }

    /// The row and the checksum that stands in it.
    pub(super) fn read(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<(Self, u32)> {
        let optional_text = |index| {
            let text = row.get_ref(index)?.as_str_or_null()?;
            Ok::<_, rusqlite::Error>(text)
        };
        let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str()?);
        let lease_id = row.get_ref(7)?.as_blob_or_null()?;
        let read = Self {
            namespace: text(0)?,
            lease: text(1)?,
            state: text(2)?,
            holder: optional_text(3)?,
            epoch: row.get(4)?,
            granted_at_ms: row.get(5)?,
            duration_ms: row.get(6)?,
            lease_id: lease_id.map(Cow::Borrowed),
            break_ms: row.get(8)?,
            lock_delay_ms: row.get(9)?,
            metadata: text(10)?.into(),
            reserved_for: optional_text(11)?,
            reserved_ms: row.get(12)?,
            retired: row.get_ref(13)?.as_blob()?.into(),
            revision: row.get(14)?,
        };
        Ok((read, row.get(15)?))
    }
}

/// The size of a lease id.
pub(super) const ID: usize = 16;

/// Lease ids, one behind the other.
pub(super) fn bytes_of(ids: &[LeaseId]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ID * ids.len());
    for id in ids {
        bytes.extend_from_slice(&id.to_bytes());
    }
    bytes
}

/// The lease ids that [`bytes_of`] put there.
pub(super) fn ids_of(bytes: &[u8]) -> Option<Vec<LeaseId>> {
    bytes.chunks(ID).map(lease_id).collect()
}

fn lease_id(bytes: &[u8]) -> Option<LeaseId> {
    bytes.try_into().ok().map(LeaseId::from_bytes)
}

/// Milliseconds, rounded up: what was promised until some instant must not end before it.
fn whole_millis(duration: Duration) -> u64 {
    millis(duration.saturating_add(Duration::from_nanos(999_999)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::CandidateId;

    fn stored() -> Stored {
        let holder: CandidateId = "a-1".parse().unwrap();
        Stored {
            state: StoredState::Breaking(Duration::from_millis(5)),
            grant: Some(Grant {
                lease_id: LeaseId::from_random_bits(1, 2),
                holder: holder.clone(),
                epoch: Epoch::MAX,
                granted_at: UnixMillis::new(7),
                duration: LeaseDuration::Fixed(Duration::from_secs(15)),
                lock_delay: Duration::from_millis(3),
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
    fn a_lease_comes_back_from_its_row_as_it_was() {
        let key = Key::of_text("ns/lease");
        let stored = stored();
        let row = Row::of(&key, &stored, &stored.retired, 9);
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(Row::decode(Columns(&bytes)), Ok(row.clone()));
        assert_eq!(Row::decode(Columns(&bytes[1..])), Err(NotColumns));
        bytes.push(0);
        assert_eq!(Row::decode(Columns(&bytes)), Err(NotColumns));
        assert_eq!(row.into_lease(), Ok((key.clone(), stored.clone(), 9)));
    }

    #[test]
    fn what_is_left_of_a_time_is_rounded_up() {
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_millis(2)), 2);
        assert_eq!(whole_millis(Duration::ZERO), 0);
    }

    #[test]
    fn each_column_counts_for_the_checksum() {
        let (key, stored) = (Key::of_text("ns/lease"), stored());
        let row = Row::of(&key, &stored, &stored.retired, 9);
        let change: [fn(&mut Row<'_>); 15] = [
            |row| row.namespace = "nsx",
            |row| row.lease = "leasex",
            |row| row.state = "leased",
            |row| row.holder = None,
            |row| row.epoch = Some(1),
            |row| row.granted_at_ms = None,
            |row| row.duration_ms = None,
            |row| row.lease_id = None,
            |row| row.break_ms = Some(6),
            |row| row.lock_delay_ms = Some(0),
            |row| row.metadata = "{}".into(),
            |row| row.reserved_for = None,
            |row| row.reserved_ms = None,
            |row| row.retired = [].as_slice().into(),
            |row| row.revision += 1,
        ];
        for change in change {
            let mut changed = row.clone();
            change(&mut changed);
            assert_ne!(changed.crc(), row.crc(), "{changed:?}");
        }
        let slipped = Row {
            namespace: "nsl",
            lease: "ease",
            ..row.clone()
        };
        assert_ne!(slipped.crc(), row.crc());
    }
}
