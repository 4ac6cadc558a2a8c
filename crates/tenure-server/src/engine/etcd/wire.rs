//! The JSON bodies of etcd's gateway, as far as they are used. Bytes are in base64, and 64-bit
//! integers are strings.

use std::fmt;

use axum::body::Bytes;
use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A request, with the path that it goes to.
pub(super) trait Request: Serialize {
    /// The path at the gateway.
    const PATH: &'static str;
    /// The answer.
    type Answer: DeserializeOwned;
}

#[derive(Debug, Default, Serialize)]
pub(super) struct RangeRequest {
    pub(super) key: Encoded,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_end: Option<Encoded>,
    /// The greatest number of keys in the answer; 0 is no limit.
    pub(super) limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_order: Option<&'static str>,
    pub(super) count_only: bool,
}

impl Request for RangeRequest {
    const PATH: &'static str = "/v3/kv/range";
    type Answer = RangeAnswer;
}

#[derive(Debug, Deserialize)]
pub(super) struct RangeAnswer {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    /// Whether the range has keys after these.
    #[serde(default)]
    pub(super) more: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) cluster_id: u64,
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    pub(super) key: Encoded,
    #[serde(default)]
    pub(super) value: Encoded,
}

/// A transaction: the operations of `success` if all comparisons hold, otherwise those of
/// `failure`.
#[derive(Debug, Default, Serialize)]
pub(super) struct TxnRequest {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
    pub(super) failure: Vec<Operation>,
}

impl Request for TxnRequest {
    const PATH: &'static str = "/v3/kv/txn";
    type Answer = TxnAnswer;
}

#[derive(Debug, Serialize)]
pub(super) struct Compare {
    key: Encoded,
    target: &'static str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Encoded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_revision: Option<&'static str>,
}

impl Compare {
    /// Compares the value of a key. It does not hold if there is no such key.
    pub(super) const fn value(key: Encoded, value: Encoded) -> Self {
        Self {
            key,
            target: "VALUE",
            result: "EQUAL",
            value: Some(value),
            create_revision: None,
        }
    }

    /// Checks that there is no such key.
    pub(super) const fn is_missing(key: Encoded) -> Self {
        Self {
            key,
            target: "CREATE",
            result: "EQUAL",
            value: None,
            create_revision: Some("0"),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) enum Operation {
    #[serde(rename = "request_range")]
    Range(RangeRequest),
    #[serde(rename = "request_put")]
    Put { key: Encoded, value: Encoded },
    #[serde(rename = "request_delete_range")]
    DeleteRange {
        key: Encoded,
        #[serde(skip_serializing_if = "Option::is_none")]
        range_end: Option<Encoded>,
    },
}

#[derive(Debug, Deserialize)]
pub(super) struct TxnAnswer {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    pub(super) responses: Vec<Response>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) response_range: Option<Found>,
}

/// The answer to a range request in a transaction.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Found {
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    #[serde(default, deserialize_with = "number")]
    pub(super) count: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct CompactRequest {
    pub(super) revision: u64,
}

impl Request for CompactRequest {
    const PATH: &'static str = "/v3/kv/compaction";
    type Answer = serde_json::Value;
}

#[derive(Debug, Serialize)]
pub(super) struct StatusRequest {}

impl Request for StatusRequest {
    const PATH: &'static str = "/v3/maintenance/status";
    type Answer = StatusAnswer;
}

/// The size of the database. Versions before 3.6 do not tell their quota.
#[derive(Debug, Deserialize)]
pub(super) struct StatusAnswer {
    #[serde(rename = "dbSizeInUse", default, deserialize_with = "number")]
    pub(super) size_in_use: u64,
    #[serde(rename = "dbSizeQuota", default, deserialize_with = "number")]
    pub(super) quota: u64,
}

#[derive(Serialize)]
pub(super) struct AuthenticateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

impl Request for AuthenticateRequest<'_> {
    const PATH: &'static str = "/v3/auth/authenticate";
    type Answer = AuthenticateAnswer;
}

#[derive(Deserialize)]
pub(super) struct AuthenticateAnswer {
    pub(super) token: String,
}

/// The body of a refusal.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorAnswer {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) code: u32,
}

/// Bytes that are base64 in JSON.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Encoded(pub(super) Bytes);

impl Encoded {
    pub(super) fn copy(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl From<String> for Encoded {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Encoded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Encoded, E> {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                Ok(Encoded(bytes.into()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Number(u64),
    }
    match Number::deserialize(deserializer)? {
        Number::Text(text) => text.parse().map_err(D::Error::custom),
        Number::Number(number) => Ok(number),
    }
}
