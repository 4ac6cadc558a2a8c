//! One lease as columns.

use std::borrow::Cow;
use std::time::Duration;

use tenure_core::lease::{Grant, LeaseDuration, LeaseId, Metadata, Owner, Stored, StoredState};
use tenure_core::time::millis;
use tenure_core::{Epoch, Name, UnixMillis};

use super::codec::{self, Columns, DecodeError};
use super::retired::{bytes_of, ids_of};
use crate::model::LeaseKey;

/// The columns of a lease, in a batch and in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFields<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) lease: &'a str,
    pub(crate) state: &'a str,
    pub(crate) holder: Option<&'a str>,
    pub(crate) owner: Option<&'a str>,
    pub(crate) epoch: Option<u64>,
    pub(crate) granted_at_ms: Option<u64>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) lease_id: Option<[u8; 16]>,
    pub(crate) break_ms: Option<u64>,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) metadata: Cow<'a, str>,
    pub(crate) reserved_for: Option<&'a str>,
    pub(crate) reserved_ms: Option<u64>,
    pub(crate) retired: Cow<'a, [u8]>,
    pub(crate) revision: u64,
}

impl<'a> LeaseFields<'a> {
    /// The columns of a lease that has these retired ids.
    pub(crate) fn of(
        key: &'a LeaseKey,
        stored: &'a Stored,
        retired: &[LeaseId],
        revision: u64,
    ) -> Self {
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
            owner: grant
                .and_then(|grant| grant.owner.as_ref())
                .map(Owner::as_str),
            epoch: grant.map(|grant| grant.epoch.get()),
            granted_at_ms: grant.map(|grant| grant.granted_at.get()),
            duration_ms: grant.and_then(|grant| match grant.duration {
                LeaseDuration::Fixed(duration) => Some(whole_millis(duration)),
                LeaseDuration::Infinite => None,
            }),
            lease_id: grant.map(|grant| grant.lease_id.to_bytes()),
            break_ms,
            lock_delay_ms: grant.map(|grant| whole_millis(grant.lock_delay)),
            metadata,
            reserved_for: reserved.map(|(to, _)| to.as_str()),
            reserved_ms: reserved.map(|&(_, within)| whole_millis(within)),
            retired: bytes_of(retired).into(),
            revision,
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("{:?}/{:?}", self.namespace, self.lease)
    }

    /// The lease. The caller has checked the checksum, so another program wrote a value that is not valid.
    pub(crate) fn into_lease(self) -> Result<(LeaseKey, Stored, u64), String> {
        let name = self.name();
        let nonsense = |column: &str| format!("the row of {name} has an invalid {column}");
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
            lease_id: self
                .lease_id
                .map(LeaseId::from_bytes)
                .ok_or_else(|| nonsense("lease_id"))?,
            holder: self
                .holder
                .and_then(|holder| holder.parse().ok())
                .ok_or_else(|| nonsense("holder"))?,
            owner: self.owner.map(Owner::new),
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
        Ok((LeaseKey::new(&namespace, &lease), stored, self.revision))
    }

    /// Appends all columns.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        for text in [Some(self.namespace), Some(self.lease), Some(self.state)]
            .into_iter()
            .chain([
                self.holder,
                self.owner,
                Some(&self.metadata),
                self.reserved_for,
            ])
        {
            codec::put(to, text.map(str::as_bytes));
        }
        codec::put(to, self.lease_id.as_ref().map(<[u8; 16]>::as_slice));
        codec::put(to, Some(&self.retired));
        for number in [
            self.epoch,
            self.granted_at_ms,
            self.duration_ms,
            self.break_ms,
            self.lock_delay_ms,
            self.reserved_ms,
            Some(self.revision),
        ] {
            codec::put_number(to, number);
        }
    }

    /// Reads the columns that [`LeaseFields::encode`] appended, and nothing after them.
    pub(crate) fn decode(mut columns: Columns<'a>) -> Result<Self, DecodeError> {
        let namespace = columns.text()?;
        let lease = columns.text()?;
        let state = columns.text()?;
        let holder = columns.optional_text()?;
        let owner = columns.optional_text()?;
        let metadata = columns.text()?.into();
        let reserved_for = columns.optional_text()?;
        let lease_id = columns.optional_bytes()?.map(TryInto::try_into);
        let lease_id = lease_id.transpose().map_err(|_| DecodeError)?;
        let retired = columns.bytes()?.into();
        let fields = Self {
            namespace,
            lease,
            state,
            holder,
            owner,
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
        Ok(fields)
    }

    /// The checksum over all columns.
    pub(crate) fn crc(&self) -> u32 {
        let mut bytes = Vec::with_capacity(1024);
        self.encode(&mut bytes);
        crc32fast::hash(&bytes)
    }
}

/// Milliseconds, rounded up: a promise must not end before its instant.
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
                owner: Some(Owner::new("worker")),
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
    fn a_lease_is_decoded_as_it_was_encoded() {
        let key = LeaseKey::of_text("ns/lease");
        let stored = stored();
        let row = LeaseFields::of(&key, &stored, &stored.retired, 9);
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(LeaseFields::decode(Columns(&bytes)), Ok(row.clone()));
        assert_eq!(LeaseFields::decode(Columns(&bytes[1..])), Err(DecodeError));
        bytes.push(0);
        assert_eq!(LeaseFields::decode(Columns(&bytes)), Err(DecodeError));
        assert_eq!(row.into_lease(), Ok((key.clone(), stored.clone(), 9)));
    }

    #[test]
    fn a_remaining_time_is_rounded_up() {
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_millis(2)), 2);
        assert_eq!(whole_millis(Duration::ZERO), 0);
    }

    #[test]
    fn the_checksum_covers_each_column() {
        let (key, stored) = (LeaseKey::of_text("ns/lease"), stored());
        let row = LeaseFields::of(&key, &stored, &stored.retired, 9);
        let change: [fn(&mut LeaseFields<'_>); 16] = [
            |row| row.namespace = "nsx",
            |row| row.lease = "leasex",
            |row| row.state = "leased",
            |row| row.holder = None,
            |row| row.owner = None,
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
        let slipped = LeaseFields {
            namespace: "nsl",
            lease: "ease",
            ..row.clone()
        };
        assert_ne!(slipped.crc(), row.crc());
    }
}
