//! The places behind a shared log: their keys, and their values as JSON.
//!
//! | key | value |
//! |---|---|
//! | `lease/{part}/{namespace}/{lease}` | the columns of the lease and their checksum |
//! | `term/{namespace}/{lease}/{first_epoch}` | up to 8 consecutive terms |
//! | `deleted/{revision}` | the lease ids of the ended terms of a deleted lease |
//!
//! Names have only letters, digits, `.`, `_` and `-`, so `/` separates them. Numbers in keys have
//! leading zeros, so that the order of the keys is the order of the numbers.
//!
//! `part` is a byte of a hash of the names, in hexadecimal. It divides the leases into ranges of
//! about the same size, which a server that loads them can read at the same time.

use std::borrow::Cow;
use std::fmt;

use axum::body::Bytes;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Stored};

use super::log::{Page, Place, PlaceRange};
use crate::engine::entry::{
    COLUMNS, Column, Columns, TermFields, columns, decode, fields, put, record,
};
use crate::model::{LeaseKey, TermRecord};

/// The beginnings of the keys of all places.
pub(super) const KINDS: [&str; 3] = ["lease/", "term/", "deleted/"];

/// The greatest number of places in one answer. A service may have a lower limit.
const PAGE: usize = 8_192;

/// The names of the columns of a lease, in the order of [`columns`]. They are those of the table of
/// the embedded engine.
const NAMES: [&str; COLUMNS] = [
    "namespace",
    "lease",
    "state",
    "holder",
    "owner",
    "metadata",
    "reserved_for",
    "without_store",
    LEASE_ID,
    RETIRED,
    "epoch",
    "granted_at_ms",
    "duration_ms",
    "break_ms",
    "lock_delay_ms",
    "reserved_ms",
    "revision",
];

const LEASE_ID: &str = "lease_id";
const RETIRED: &str = "retired";
const CRC: &str = "crc";

/// The lease ids of the ended terms of a deleted lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletedLease {
    pub(super) key: LeaseKey,
    /// The revision of the deletion.
    pub(super) revision: u64,
    /// The ids, oldest first.
    pub(super) retired: Vec<LeaseId>,
}

/// Some consecutive terms of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) first_epoch: u64,
    /// The terms, oldest first.
    pub(super) terms: Vec<TermRecord>,
}

/// A place of the log has content that this engine does not write: the message names the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the place {key} {problem}")]
pub(super) struct BadPlace {
    key: String,
    problem: String,
}

impl BadPlace {
    fn of(place: &Place, problem: impl Into<String>) -> Self {
        Self {
            key: place.key.clone(),
            problem: problem.into(),
        }
    }
}

/// Returns the place of a lease.
pub(super) fn lease(key: &LeaseKey, stored: &Stored, revision: u64) -> Place {
    let columns = columns(key, stored, &stored.retired, revision);
    let mut json = Map::new();
    for (name, column) in NAMES.into_iter().zip(&columns) {
        let value = match column {
            // A column that is missing is null.
            Column::Null => continue,
            Column::Number(number) => (*number).into(),
            Column::Text(text) => text.as_ref().into(),
            Column::Ids(ids) => ids.iter().map(|id| id.to_wire().to_string()).collect(),
            // A lease has no such column.
            Column::Bytes(_) => continue,
        };
        json.insert(name.into(), value);
    }
    let mut bytes = Vec::with_capacity(512);
    put(&mut bytes, &columns);
    json.insert(CRC.into(), crc32fast::hash(&bytes).into());
    Place {
        key: lease_key(key),
        value: Value::Object(json).to_string().into(),
    }
}

/// The columns of a lease as its place has them.
#[derive(Default)]
struct Cells<'a> {
    cells: [Option<Cell<'a>>; COLUMNS],
    crc: Option<u64>,
}

/// A value in the place of a lease.
enum Cell<'a> {
    Number(u64),
    Text(Cow<'a, str>),
    Ids(Vec<LeaseId>),
}

// A server loads all leases before it is active. So nothing is copied that the place has as text, and
// the kind of a value is known from its first character.
impl<'de: 'a, 'a> Deserialize<'de> for Cells<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfLease;

        impl<'de> Visitor<'de> for OfLease {
            type Value = Cells<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the columns of a lease")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cells<'de>, A::Error> {
                let mut read = Cells::default();
                while let Some(name) = map.next_key::<&str>()? {
                    if name == CRC {
                        read.crc = Some(map.next_value()?);
                    } else if let Some(at) = NAMES.iter().position(|it| *it == name) {
                        read.cells[at] = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(read)
            }
        }

        deserializer.deserialize_map(OfLease)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Cell<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfColumn;

        impl<'de> Visitor<'de> for OfColumn {
            type Value = Cell<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text or lease ids")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Cell<'de>, E> {
                Ok(Cell::Number(number))
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cell<'de>, E> {
                Ok(Cell::Text(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Cell<'de>, E> {
                Ok(Cell::Text(text.to_owned().into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Cell<'de>, A::Error> {
                let mut read = Vec::new();
                while let Some(id) = ids.next_element::<&str>()? {
                    read.push(id.parse().map_err(A::Error::custom)?);
                }
                Ok(Cell::Ids(read))
            }
        }

        deserializer.deserialize_any(OfColumn)
    }
}

/// Reads the place of a lease and checks its checksum.
pub(super) fn read_lease(place: &Place) -> Result<(LeaseKey, Stored, u64), BadPlace> {
    let Cells { cells, crc } = parse(place)?;
    let invalid = |name: &str| BadPlace::of(place, format!("has an invalid {name}"));
    let mut bytes = Vec::with_capacity(512);
    for cell in &cells {
        let column = match cell {
            None => Column::Null,
            Some(Cell::Number(number)) => (*number).into(),
            Some(Cell::Text(text)) => Column::from(&**text),
            Some(Cell::Ids(ids)) => Column::Ids(ids),
        };
        put(&mut bytes, &[column]);
    }
    check(place, crc, &bytes)?;
    let lease = decode(&mut Columns(&bytes)).map_err(|error| invalid(error.0))?;
    match lease_key(&lease.0) == place.key {
        true => Ok(lease),
        false => Err(BadPlace::of(place, "has another lease")),
    }
}

/// Returns the key of the place of a lease.
pub(super) fn lease_key(key: &LeaseKey) -> String {
    let part = crc32fast::hash(key.as_str().as_bytes()) >> 24;
    format!("lease/{part:02x}/{}", key.as_str())
}

/// Returns this number of ranges, which together have all leases.
pub(super) fn lease_ranges(number: usize) -> Vec<PlaceRange> {
    let number = number.clamp(1, 256);
    let begin = |range: usize| format!("lease/{:02x}", 256 * range / number);
    let ranges = (0..number).map(|range| PlaceRange {
        from: begin(range),
        to: match range + 1 {
            // `g` comes after all digits.
            next if next == number => "lease/g".into(),
            next => begin(next),
        },
        descending: false,
        most: PAGE,
    });
    ranges.collect()
}

/// Returns the rest of a range after a page of it; `None` if it has no more places.
pub(super) fn rest(range: &PlaceRange, page: &Page) -> Option<PlaceRange> {
    let last = page.places.last().filter(|_| !page.is_last)?;
    Some(PlaceRange {
        from: after(&last.key),
        ..range.clone()
    })
}

#[derive(Serialize, Deserialize)]
struct DeletedJson {
    namespace: String,
    lease: String,
    revision: u64,
    retired: Vec<String>,
    crc: u32,
}

/// Returns the place of a deleted lease.
pub(super) fn deleted(deleted: &DeletedLease) -> Place {
    let ids = deleted.retired.iter();
    let json = DeletedJson {
        namespace: deleted.key.namespace().into(),
        lease: deleted.key.lease().into(),
        revision: deleted.revision,
        retired: ids.map(|id| id.to_wire().to_string()).collect(),
        crc: crc32fast::hash(&deleted_bytes(deleted)),
    };
    Place {
        key: deleted_key(deleted.revision),
        value: to_json(&json),
    }
}

/// Reads the place of a deleted lease and checks its checksum.
pub(super) fn read_deleted(place: &Place) -> Result<DeletedLease, BadPlace> {
    let json: DeletedJson = parse(place)?;
    let invalid = |name: &str| BadPlace::of(place, format!("has an invalid {name}"));
    let key = LeaseKey::of_path(&json.namespace, &json.lease).ok_or_else(|| invalid("name"))?;
    let ids: Result<_, _> = json.retired.iter().map(|id| id.parse()).collect();
    let deleted = DeletedLease {
        key,
        revision: json.revision,
        retired: ids.map_err(|_| invalid(RETIRED))?,
    };
    check(place, Some(json.crc.into()), &deleted_bytes(&deleted))?;
    Ok(deleted)
}

/// Returns the key of the place of the lease that was deleted with this revision.
pub(super) fn deleted_key(revision: u64) -> String {
    format!("deleted/{revision:020}")
}

fn deleted_bytes(deleted: &DeletedLease) -> Vec<u8> {
    let mut bytes = Vec::new();
    let names = [deleted.key.namespace().into(), deleted.key.lease().into()];
    put(&mut bytes, &names);
    put(
        &mut bytes,
        &[deleted.revision.into(), Column::Ids(&deleted.retired)],
    );
    bytes
}

#[derive(Serialize, Deserialize)]
struct SegmentJson {
    terms: Vec<TermFields>,
    crc: u32,
}

/// Returns the place of these terms, oldest first.
pub(super) fn segment(key: &LeaseKey, segment: &Segment) -> Place {
    let terms: Vec<TermFields> = segment.terms.iter().map(fields).collect();
    let crc = crc32fast::hash(&segment_bytes(key, segment.first_epoch, &terms));
    Place {
        key: segment_key(key, segment.first_epoch),
        value: to_json(&SegmentJson { terms, crc }),
    }
}

/// Reads the place of some terms of the lease and checks its checksum.
pub(super) fn read_segment(key: &LeaseKey, place: &Place) -> Result<Segment, BadPlace> {
    let json: SegmentJson = parse(place)?;
    let invalid = |name: &str| BadPlace::of(place, format!("has an invalid {name}"));
    let first_epoch = place.key.rsplit('/').next().and_then(|it| it.parse().ok());
    let first_epoch = first_epoch.ok_or_else(|| invalid("key"))?;
    let bytes = segment_bytes(key, first_epoch, &json.terms);
    check(place, Some(json.crc.into()), &bytes)?;
    let terms: Option<_> = json.terms.into_iter().map(record).collect();
    Ok(Segment {
        first_epoch,
        terms: terms.ok_or_else(|| invalid("term"))?,
    })
}

/// Reads the place of some terms, whose lease is in its key.
pub(super) fn read_terms(place: &Place) -> Result<(LeaseKey, Vec<TermRecord>), BadPlace> {
    let mut names = place.key.split('/').skip(1);
    let key = names.next().zip(names.next());
    let key = key.and_then(|(namespace, lease)| LeaseKey::of_path(namespace, lease));
    let key = key.ok_or_else(|| BadPlace::of(place, "has an invalid key"))?;
    let segment = read_segment(&key, place)?;
    Ok((key, segment.terms))
}

/// Returns the key of the place of the terms from this epoch on.
pub(super) fn segment_key(key: &LeaseKey, first_epoch: u64) -> String {
    format!("term/{}/{first_epoch:016}", key.as_str())
}

fn segment_bytes(key: &LeaseKey, first_epoch: u64, terms: &[TermFields]) -> Vec<u8> {
    let mut bytes = segment_key(key, first_epoch).into_bytes();
    bytes.extend_from_slice(&to_json(&terms));
    bytes
}

/// Returns the range of the terms of a lease up to this epoch, newest first.
pub(super) fn terms_up_to(key: &LeaseKey, last: Epoch) -> PlaceRange {
    PlaceRange {
        from: segment_key(key, 0),
        to: segment_key(key, last.get().saturating_add(1)),
        descending: true,
        most: PAGE,
    }
}

/// Returns the range of all places with this prefix that come after the key `after`.
pub(super) fn all(prefix: &str, after: Option<&str>) -> PlaceRange {
    // Keys have only ASCII characters, and `~` comes after all that are used.
    PlaceRange {
        from: after.map_or_else(|| prefix.to_owned(), self::after),
        to: format!("{prefix}~"),
        descending: false,
        most: PAGE,
    }
}

/// Returns the first possible key after this one. Keys have no character before `-`.
fn after(key: &str) -> String {
    format!("{key}!")
}

fn to_json(value: &impl Serialize) -> Bytes {
    // Numbers and texts always have a form in JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn parse<'a, T: Deserialize<'a>>(place: &'a Place) -> Result<T, BadPlace> {
    serde_json::from_slice(&place.value)
        .map_err(|error| BadPlace::of(place, format!("is not valid: {error}")))
}

fn check(place: &Place, crc: Option<u64>, bytes: &[u8]) -> Result<(), BadPlace> {
    match crc == Some(crc32fast::hash(bytes).into()) {
        true => Ok(()),
        false => Err(BadPlace::of(place, "does not match its checksum")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_together_have_each_lease_once_and_are_of_about_the_same_size() {
        let keys = (0..3_000).map(|number| format!("billing/lease-{number}"));
        let keys: Vec<_> = keys
            .map(|key| lease_key(&LeaseKey::of_text(&key)))
            .collect();
        for number in [1, 2, 3, 7, 256] {
            let ranges = lease_ranges(number);
            assert_eq!(ranges.len(), number);
            let within = |range: &PlaceRange| {
                let keys = keys.iter();
                keys.filter(|key| **key >= range.from && **key < range.to)
                    .count()
            };
            let sizes: Vec<usize> = ranges.iter().map(within).collect();
            assert_eq!(sizes.iter().sum::<usize>(), keys.len(), "{number}");
            let even = keys.len() / number;
            let most = sizes.into_iter().max();
            assert!(most < Some(2 * even + 20), "{most:?} in one of {number}");
        }
    }
}
