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
pub trait GatewayRequest: Serialize {
    /// The path at the gateway.
    const PATH: &'static str;
    /// The answer.
    type Answer: DeserializeOwned;
}

/// Reads the keys of a range.
#[derive(Debug, Default, Serialize)]
pub struct RangeRequest {
    /// The first key.
    pub key: Encoded,
    /// The end of the range, which is not in it. Without it, only the first key is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_end: Option<Encoded>,
    /// The greatest number of keys in the answer; 0 is no limit.
    pub limit: usize,
    /// `DESCEND` for the order from the last key to the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_order: Option<&'static str>,
    /// Whether the answer has only the number of keys.
    pub count_only: bool,
    /// Whether the answer has no values.
    pub keys_only: bool,
}

impl GatewayRequest for RangeRequest {
    const PATH: &'static str = "/v3/kv/range";
    type Answer = RangeAnswer;
}

/// The answer to [`RangeRequest`].
#[derive(Debug, Deserialize)]
pub struct RangeAnswer {
    /// The origin.
    pub header: Header,
    /// The keys with their values.
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
    /// Whether the range has keys after these.
    #[serde(default)]
    pub more: bool,
}

/// The origin of an answer.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// The identity of the cluster.
    #[serde(deserialize_with = "number")]
    pub cluster_id: u64,
    /// The revision of the cluster.
    #[serde(default, deserialize_with = "number")]
    pub revision: u64,
}

/// A key with its value.
#[derive(Debug, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Encoded,
    /// The revision of its last change.
    #[serde(default, deserialize_with = "number")]
    pub mod_revision: u64,
    /// The value; empty if only keys were read.
    #[serde(default)]
    pub value: Encoded,
}

/// A transaction: the operations of `success` if all comparisons hold, otherwise those of
/// `failure`.
#[derive(Debug, Default, Serialize)]
pub struct TxnRequest {
    /// The comparisons.
    pub compare: Vec<Compare>,
    /// The operations if all of them hold.
    pub success: Vec<TxnOperation>,
    /// The operations if one of them does not hold.
    pub failure: Vec<TxnOperation>,
}

impl TxnRequest {
    /// Makes a transaction without a condition.
    #[must_use]
    pub const fn of(operations: Vec<TxnOperation>) -> Self {
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
pub struct Compare {
    key: Encoded,
    target: &'static str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Encoded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_revision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mod_revision: Option<String>,
}

impl Compare {
    /// Compares the value of a key. It does not hold if there is no such key.
    pub const fn value(key: Encoded, value: Encoded) -> Self {
        Self {
            key,
            target: "VALUE",
            result: "EQUAL",
            value: Some(value),
            create_revision: None,
            mod_revision: None,
        }
    }

    /// Checks that there is no such key.
    pub const fn is_missing(key: Encoded) -> Self {
        Self {
            key,
            target: "CREATE",
            result: "EQUAL",
            value: None,
            create_revision: Some("0"),
            mod_revision: None,
        }
    }

    /// Compares the revision of the last change of a key; 0 if there must be no such key.
    #[must_use]
    pub const fn mod_revision(key: Encoded, revision: String) -> Self {
        Self {
            key,
            target: "MOD",
            result: "EQUAL",
            value: None,
            create_revision: None,
            mod_revision: Some(revision),
        }
    }
}

/// An operation of a transaction.
#[derive(Debug, Serialize)]
pub enum TxnOperation {
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
    /// Deletes the keys of a range, or one key.
    #[serde(rename = "request_delete_range")]
    DeleteRange {
        /// The first key.
        key: Encoded,
        /// The end of the range, which is not in it.
        #[serde(skip_serializing_if = "Option::is_none")]
        range_end: Option<Encoded>,
    },
}

/// The answer to [`TxnRequest`].
#[derive(Debug, Deserialize)]
pub struct TxnAnswer {
    /// The origin. The revision is that of the transaction, if it has changed a key.
    pub header: Header,
    /// Whether all comparisons held.
    #[serde(default)]
    pub succeeded: bool,
    /// The answers to the operations.
    #[serde(default)]
    pub responses: Vec<Response>,
}

/// The answer to an operation.
#[derive(Debug, Deserialize)]
pub struct Response {
    /// The answer, if the operation was a read.
    pub response_range: Option<RangeResult>,
}

impl Response {
    /// Returns the first key that a read has found.
    pub(super) fn first(self) -> Option<KeyValue> {
        self.response_range?.kvs.into_iter().next()
    }
}

/// The answer to a range request in a transaction.
#[derive(Debug, Default, Deserialize)]
pub struct RangeResult {
    /// The keys with their values.
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
    /// The number of keys in the range.
    #[serde(default, deserialize_with = "number")]
    pub count: u64,
}

/// Removes the revisions before this one.
#[derive(Debug, Serialize)]
pub struct CompactRequest {
    /// The first revision that stays.
    pub revision: u64,
}

impl GatewayRequest for CompactRequest {
    const PATH: &'static str = "/v3/kv/compaction";
    type Answer = serde_json::Value;
}

/// Reads the state of one member.
#[derive(Debug, Serialize)]
pub struct StatusRequest {}

impl GatewayRequest for StatusRequest {
    const PATH: &'static str = "/v3/maintenance/status";
    type Answer = StatusAnswer;
}

/// The size of the database. Versions before 3.6 do not tell their quota.
#[derive(Debug, Deserialize)]
pub struct StatusAnswer {
    /// The size in use, in bytes.
    #[serde(rename = "dbSizeInUse", default, deserialize_with = "number")]
    pub size_in_use: u64,
    /// The quota, in bytes; 0 if the member does not tell it.
    #[serde(rename = "dbSizeQuota", default, deserialize_with = "number")]
    pub quota: u64,
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
pub struct Encoded(pub Bytes);

impl Encoded {
    /// Copies bytes.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Self {
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
#[must_use]
pub fn end_of_prefix(prefix: &str) -> Encoded {
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
