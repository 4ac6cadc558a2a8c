//! The JSON bodies of etcd's gateway, as far as they are used. Bytes are in base64, and 64-bit
//! integers are strings.

use std::fmt;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A request, with the path that it goes to.
pub(super) trait GatewayRequest: Serialize {
    /// The path at the gateway.
    const PATH: &'static str;
    /// The answer.
    type Answer: DeserializeOwned;
}

/// Reads the keys of a range.
#[derive(Debug, Default, Serialize)]
pub(super) struct RangeRequest {
    /// The first key.
    pub(super) key: Encoded,
    /// The end of the range, which is not in it. Without it, only the first key is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_end: Option<Encoded>,
    /// Whether the answer has only the number of keys.
    pub(super) count_only: bool,
    /// Whether the answer has no values.
    pub(super) keys_only: bool,
}

impl GatewayRequest for RangeRequest {
    const PATH: &'static str = "/v3/kv/range";
    type Answer = RangeAnswer;
}

/// The answer to [`RangeRequest`].
#[derive(Debug, Deserialize)]
pub(super) struct RangeAnswer {
    /// The origin.
    pub(super) header: Header,
    /// The keys with their values.
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
}

/// The origin of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    /// The identity of the cluster.
    #[serde(deserialize_with = "number")]
    pub(super) cluster_id: u64,
    /// The revision of the cluster.
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

/// A key with its value.
#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    /// The key.
    pub(super) key: Encoded,
    /// The revision of its last change.
    #[serde(default, deserialize_with = "number")]
    pub(super) mod_revision: u64,
    /// The value; empty if only keys were read.
    #[serde(default)]
    pub(super) value: Encoded,
}

/// A transaction: the operations of `success` if all comparisons hold, otherwise those of
/// `failure`.
#[derive(Debug, Default, Serialize)]
pub(super) struct TxnRequest {
    /// The comparisons.
    pub(super) compare: Vec<Compare>,
    /// The operations if all of them hold.
    pub(super) success: Vec<TxnOperation>,
    /// The operations if one of them does not hold.
    pub(super) failure: Vec<TxnOperation>,
}

impl TxnRequest {
    /// Makes a transaction without a condition.
    pub(super) const fn of(operations: Vec<TxnOperation>) -> Self {
        Self {
            compare: Vec::new(),
            success: operations,
            failure: Vec::new(),
        }
    }
}

impl GatewayRequest for TxnRequest {
    const PATH: &'static str = "/v3/kv/txn";
    type Answer = TxnAnswer;
}

/// A comparison of a transaction.
#[derive(Debug, Serialize)]
pub(super) struct Compare {
    key: Encoded,
    target: &'static str,
    result: &'static str,
    mod_revision: String,
}

impl Compare {
    /// Compares the revision of the last change of a key; 0 if there must be no such key.
    pub(super) const fn mod_revision(key: Encoded, revision: String) -> Self {
        Self {
            key,
            target: "MOD",
            result: "EQUAL",
            mod_revision: revision,
        }
    }
}

/// An operation of a transaction.
#[derive(Debug, Serialize)]
pub(super) enum TxnOperation {
    /// Reads keys.
    #[serde(rename = "request_range")]
    Range(RangeRequest),
    /// Writes the value of a key.
    #[serde(rename = "request_put")]
    Put {
        /// The key.
        key: Encoded,
        /// Its value.
        value: Encoded,
    },
    /// Deletes a key.
    #[serde(rename = "request_delete_range")]
    DeleteRange {
        /// The key.
        key: Encoded,
    },
}

/// The answer to [`TxnRequest`].
#[derive(Debug, Deserialize)]
pub(super) struct TxnAnswer {
    /// The origin. The revision is that of the transaction, if it has changed a key.
    pub(super) header: Header,
    /// Whether all comparisons held.
    #[serde(default)]
    pub(super) succeeded: bool,
    /// The answers to the operations.
    #[serde(default)]
    pub(super) responses: Vec<Response>,
}

/// The answer to an operation.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    /// The answer, if the operation was a read.
    pub(super) response_range: Option<RangeResult>,
}

impl Response {
    /// Returns the first key that a read has found.
    pub(super) fn first(self) -> Option<KeyValue> {
        self.response_range?.kvs.into_iter().next()
    }
}

/// The answer to a range request in a transaction.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RangeResult {
    /// The keys with their values.
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    /// The number of keys in the range.
    #[serde(default, deserialize_with = "number")]
    pub(super) count: u64,
}

/// Removes the revisions before this one.
#[derive(Debug, Serialize)]
pub(super) struct CompactRequest {
    /// The first revision that stays.
    pub(super) revision: u64,
}

impl GatewayRequest for CompactRequest {
    const PATH: &'static str = "/v3/kv/compaction";
    type Answer = serde_json::Value;
}

/// Reads the state of one member.
#[derive(Debug, Serialize)]
pub(super) struct StatusRequest {}

impl GatewayRequest for StatusRequest {
    const PATH: &'static str = "/v3/maintenance/status";
    type Answer = StatusAnswer;
}

/// The size of the database. Versions before 3.6 do not tell their quota.
#[derive(Debug, Deserialize)]
pub(super) struct StatusAnswer {
    /// The size in use, in bytes.
    #[serde(rename = "dbSizeInUse", default, deserialize_with = "number")]
    pub(super) size_in_use: u64,
    /// The quota, in bytes; 0 if the member does not tell it.
    #[serde(rename = "dbSizeQuota", default, deserialize_with = "number")]
    pub(super) quota: u64,
}

#[derive(Serialize)]
pub(super) struct AuthenticateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

impl GatewayRequest for AuthenticateRequest<'_> {
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
    /// Copies bytes.
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

/// Returns the end of the range of keys that begin with this prefix.
pub(super) fn end_of_prefix(prefix: &str) -> Encoded {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Encoded(end.into());
        }
    }
    // A range that ends with this key has no end.
    Encoded::copy(b"\0")
}
