//! The record of the head in a shared log: a JSON object, which people can read.

use std::time::Duration;

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use tenure_core::ownership::{EngineId, OwnerId, Tail, TailState};
use tenure_core::time::millis;
use tenure_core::{Epoch, UnixMillis};

use crate::clock;
use crate::model::{Floors, StoreId};

/// The format of the log that this version writes and reads.
pub(super) const FORMAT: u32 = 1;

/// The greatest number of appends or take-overs in a head. A log never has as many: a million appends
/// in each second would take 290,000 years.
const MOST_APPENDS: u64 = u64::MAX / 2;

/// The head of a shared log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeadRecord {
    /// The part that decides which server owns the log.
    pub(super) head: Tail,
    pub(super) content: ContentRecord,
    pub(super) server: ServerRecord,
    /// With a vacant head: the name of the server that is to take over.
    pub(super) successor: Option<String>,
    /// With a head that no server wrote: what an operator did, for the audit log of the next owner.
    pub(super) note: Option<String>,
}

/// The part of a head about the content of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentRecord {
    /// The id of the store.
    pub(super) store: StoreId,
    /// The revision of the last change.
    pub(super) revision: u64,
    /// The floors of deleted leases, and those that a restore set.
    pub(super) floors: Floors,
    /// All batches up to this sequence number are in their places.
    pub(super) placed: u64,
    /// The revision of the last batch among them.
    pub(super) placed_revision: u64,
    /// The log has all batches from this sequence number on.
    pub(super) kept: u64,
    /// The number of leases that have a place.
    pub(super) leases: u64,
    /// Whether a server with access control has owned the log.
    pub(super) is_guarded: bool,
}

/// The part of a head that is for people: the server that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerRecord {
    /// The name of the server.
    pub(super) name: String,
    /// The URL at which clients reach the server.
    pub(super) address: String,
    /// The time of the server's take-over.
    pub(super) since: UnixMillis,
}

/// The reason why the bytes of a head can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    /// A newer version wrote it.
    #[error(
        "the head has format {found} and this version knows {FORMAT}: upgrade the standbys first"
    )]
    Newer {
        /// Its format.
        found: u32,
    },
    /// It is not the head of a log.
    #[error(
        "the head of the log is not valid ({0}): another program wrote it. Give the cluster a prefix, \
         schema or name of its own, and restore a backup there"
    )]
    NotValid(String),
}

/// The reason why a server does not take a log over that is in order, with what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Closed {
    /// A backup is being restored into it.
    #[error("a restore into the log is not complete: wait for it, or run tenure restore again")]
    Restoring,
    /// Its content was moved away for good.
    #[error(
        "a final backup has moved the store away: it goes on where that file is restored (tenure \
         restore)"
    )]
    Retired,
    /// Servers with access control have owned it, and this one has none.
    #[error(
        "the servers of this cluster have access control, and this one has no access file: name it \
         in access.file, or start it with --allow-anonymous"
    )]
    Guarded,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Deserialize)]
struct Written {
    engine: String,
}

#[derive(Serialize, Deserialize)]
struct Json {
    format: u32,
    store: String,
    engine: String,
    generation: u64,
    sequence: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    undone: u64,
    revision: u64,
    /// The greatest floor, for servers that do not know `floors`. They apply it to all leases.
    floor: Option<Epoch>,
    #[serde(default)]
    floors: Option<Floors>,
    placed: u64,
    placed_revision: u64,
    kept: u64,
    leases: u64,
    state: State,
    owner: Owner,
    ownership_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    successor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    guarded: bool,
    /// The time of the append.
    at: Option<String>,
    version: String,
}

#[derive(Serialize, Deserialize)]
struct Owner {
    id: String,
    name: String,
    address: String,
    since_ms: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Owned,
    Vacant,
    Restoring,
    Retired,
}

impl HeadRecord {
    /// Returns why no server takes the log over, if that is so.
    pub(super) const fn closed(&self) -> Option<Closed> {
        match self.head.state {
            TailState::Owned | TailState::Vacant => None,
            TailState::Restoring => Some(Closed::Restoring),
            TailState::Retired => Some(Closed::Retired),
        }
    }

    /// Returns the bytes of the head, written at this time.
    pub(super) fn encode(&self, at: UnixMillis) -> Bytes {
        let (head, content, server) = (&self.head, &self.content, &self.server);
        let json = Json {
            format: FORMAT,
            store: content.store.as_str().to_owned(),
            engine: hex(head.engine.0),
            generation: head.generation,
            sequence: head.sequence,
            undone: head.undone,
            revision: content.revision,
            floor: content.floors.greatest(),
            floors: Some(content.floors.clone()),
            placed: content.placed,
            placed_revision: content.placed_revision,
            kept: content.kept,
            leases: content.leases,
            state: match head.state {
                TailState::Owned => State::Owned,
                TailState::Vacant => State::Vacant,
                TailState::Restoring => State::Restoring,
                TailState::Retired => State::Retired,
            },
            owner: Owner {
                id: hex(head.owner.0),
                name: server.name.clone(),
                address: server.address.clone(),
                since_ms: server.since.get(),
            },
            ownership_ms: millis(head.ownership),
            successor: self.successor.clone(),
            note: self.note.clone(),
            guarded: content.is_guarded,
            at: clock::rfc3339(at),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        // Numbers and texts always have a form in JSON.
        serde_json::to_vec(&json).unwrap_or_default().into()
    }

    /// Reads the bytes of a head.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let not_valid = |error: serde_json::Error| HeadError::NotValid(error.to_string());
        // A newer format may have other fields, so only its number is read.
        let Format { format } = serde_json::from_slice(bytes).map_err(not_valid)?;
        if format > FORMAT {
            return Err(HeadError::Newer { found: format });
        }
        let json: Json = serde_json::from_slice(bytes).map_err(not_valid)?;
        let field = |name: &str| HeadError::NotValid(format!("its {name} is not valid"));
        // A number that can't grow would stop the chain of heads.
        let counter = |name, number| match number <= MOST_APPENDS {
            true => Ok(number),
            false => Err(field(name)),
        };
        Ok(Self {
            head: Tail {
                engine: EngineId(unhex(&json.engine).ok_or_else(|| field("engine"))?),
                generation: counter("generation", json.generation)?,
                sequence: counter("sequence", json.sequence)?,
                undone: counter("undone", json.undone)?,
                state: match json.state {
                    State::Owned => TailState::Owned,
                    State::Vacant => TailState::Vacant,
                    State::Restoring => TailState::Restoring,
                    State::Retired => TailState::Retired,
                },
                owner: OwnerId(unhex(&json.owner.id).ok_or_else(|| field("owner.id"))?),
                ownership: Duration::from_millis(json.ownership_ms),
            },
            content: ContentRecord {
                store: StoreId::parse(&json.store).ok_or_else(|| field("store"))?,
                revision: json.revision,
                floors: json
                    .floors
                    .unwrap_or_else(|| Floors::of_all_leases(json.floor)),
                placed: json.placed,
                placed_revision: json.placed_revision,
                kept: json.kept,
                leases: json.leases,
                is_guarded: json.guarded,
            },
            server: ServerRecord {
                name: json.owner.name,
                address: json.owner.address,
                since: UnixMillis::new(json.owner.since_ms),
            },
            successor: json.successor,
            note: json.note,
        })
    }
}

/// Returns the identity of the service in which a head was written, if the bytes have one.
pub(crate) fn engine_of(bytes: &[u8]) -> Option<EngineId> {
    let written: Written = serde_json::from_slice(bytes).ok()?;
    unhex(&written.engine).map(EngineId)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
const fn is_false(flag: &bool) -> bool {
    !*flag
}

fn hex(number: u128) -> String {
    format!("{number:032x}")
}

fn unhex(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: TailState) -> HeadRecord {
        HeadRecord {
            head: Tail {
                engine: EngineId(u128::MAX),
                generation: 7,
                sequence: 1_200,
                undone: 0,
                state,
                owner: OwnerId(3),
                ownership: Duration::from_millis(1_500),
            },
            content: ContentRecord {
                store: StoreId::parse(&"a1".repeat(16)).unwrap(),
                revision: 90,
                floors: Floors::of_all_leases(Epoch::new(5)),
                placed: 1_100,
                placed_revision: 80,
                kept: 1_000,
                leases: 4,
                is_guarded: state == TailState::Owned,
            },
            server: ServerRecord {
                name: "store-1".into(),
                address: "http://\"ä".into(),
                since: UnixMillis::new(7),
            },
            successor: (state == TailState::Vacant).then(|| "store-2".into()),
            note: (state == TailState::Vacant).then(|| "restored".into()),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for state in [
            TailState::Owned,
            TailState::Vacant,
            TailState::Restoring,
            TailState::Retired,
        ] {
            let mut head = record(state);
            let mut raised = Floors::of_all_leases(Epoch::new(5));
            raised.raise("ns", Epoch::new(9));
            for floors in [Floors::default(), raised] {
                head.content.floors = floors;
                let bytes = head.encode(UnixMillis::new(1_700_000_000_123));
                assert_eq!(HeadRecord::decode(&bytes), Ok(head.clone()));
                assert_eq!(engine_of(&bytes), Some(head.head.engine));
            }
        }
    }

    /// The fields are those of the first build that wrote heads. Later builds may add fields to format
    /// 1, and never remove one or change its meaning.
    #[test]
    fn a_head_of_the_first_build_is_read_and_one_of_a_later_build_with_more_fields_too() {
        let first = r#"{"format":1,"store":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1",
            "engine":"ffffffffffffffffffffffffffffffff","generation":7,"sequence":1200,
            "revision":90,"floor":5,"placed":1100,"placed_revision":80,"kept":1000,"leases":4,
            "state":"vacant","owner":{"id":"00000000000000000000000000000003","name":"store-1",
            "address":"http://\"ä","since_ms":7},"ownership_ms":1500,"successor":"store-2",
            "note":"restored","at":"2023-11-14T22:13:20.123Z","version":"0.1.0"}"#;
        let expected = record(TailState::Vacant);
        assert_eq!(HeadRecord::decode(first.as_bytes()), Ok(expected.clone()));
        let later = first.replace(r#""kept""#, r#""later":{"more":[]},"kept""#);
        assert_eq!(HeadRecord::decode(later.as_bytes()), Ok(expected.clone()));
        // Builds that run beside this one read what it writes: it has all of these fields.
        let written = expected.encode(UnixMillis::new(1_700_000_000_123));
        let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        let (first, written) = (read(first.as_bytes()), read(&written));
        for (field, value) in first.as_object().unwrap() {
            let is_version = field == "version";
            assert!(is_version || written[field] == *value, "{field}: {written}");
        }
    }

    #[test]
    fn a_newer_format_is_named_and_other_bytes_are_refused() {
        let newer = HeadRecord::decode(br#"{"format":2,"more":[]}"#);
        let message = "the head has format 2 and this version knows 1: upgrade the standbys first";
        assert_eq!(newer.unwrap_err().to_string(), message);
        let good = record(TailState::Owned).encode(UnixMillis::new(0));
        let good = String::from_utf8(good.to_vec()).unwrap();
        for bad in [
            String::new(),
            "{}".into(),
            good.replace("\"owned\"", "\"other\""),
            good.replace("a1a1", "a1"),
            good.replace("ffff", "xx"),
        ] {
            let error = HeadRecord::decode(bad.as_bytes());
            assert!(matches!(error, Err(HeadError::NotValid(_))), "{bad}");
        }
    }
}
