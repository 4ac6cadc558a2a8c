//! etcd 3.4 and later, by its JSON gateway.
//!
//! A register is a key, and its version is the key's `mod_revision`. A replace is one transaction:
//! it compares the `mod_revision` (0 if there must be no key), puts the value, or else reads it.
//! Leases and watches of etcd are not used.

mod gateway;
mod refusal;
#[cfg(all(test, unix))]
mod tests;
mod upkeep;
mod version;

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use self::gateway::{Answer, State, text};
use crate::{
    Expected, FILE, Failure, HomeFacts, REGISTER, Read, Register, RegisterKey, Replaced, Version,
    check_size, lock,
};

/// The members of an etcd cluster, and the access to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// The URLs of the members, for example `https://10.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// The beginning of all keys.
    pub prefix: String,
    /// The user; `None` if etcd has no authentication, or if a client certificate is used.
    pub user: Option<String>,
    /// The file with the password of the user, or with a URL that has it (`etcds://user:password@...`).
    /// It is read again at each authentication.
    pub password_file: Option<PathBuf>,
    /// The file with the certificates (PEM) of the authorities that sign the certificates of etcd.
    /// Without it the authorities of the system are used.
    pub ca_file: Option<PathBuf>,
    /// The file with the certificate (PEM) of this client, which must have no common name.
    pub certificate: Option<PathBuf>,
    /// The file with the key of that certificate (PEM).
    pub key: Option<PathBuf>,
    /// Whether [`Register::maintain`] compacts etcd.
    pub compact: Compaction,
}

/// Whether and when the owner of a log removes old revisions from etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Every five minutes, unless etcd has keys outside of the prefix.
    #[default]
    Auto,
    /// Never: etcd does it itself (`--auto-compaction-retention`).
    Off,
    /// Every time that this duration has passed, even if etcd has other keys.
    Every(Duration),
}

impl EtcdAccess {
    /// The default of [`EtcdAccess::prefix`].
    pub const PREFIX: &str = "tenure/";

    /// Creates the access to the members at these URLs, with the defaults of all other values.
    #[must_use]
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            prefix: Self::PREFIX.into(),
            ..Self::default()
        }
    }
}

/// An etcd cluster. Registers are keys below `PREFIXregister/`, and files are keys below
/// `PREFIXfile/`. Requests do not wait for each other: a read that hangs must not delay a renewal.
pub struct EtcdHome {
    access: EtcdAccess,
    attempt: Duration,
    state: Mutex<State>,
}

/// Passwords and tokens must not be in a log.
impl fmt::Debug for EtcdHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("EtcdHome");
        f.field("access", &self.access).finish_non_exhaustive()
    }
}

/// The greatest number of operations that etcd permits in a transaction by default.
const MOST_OPERATIONS: usize = 128;

const RANGE: &str = "/v3/kv/range";

const TXN: &str = "/v3/kv/txn";

impl EtcdHome {
    /// Creates the home. `attempt` is the longest time of a request; only an authentication may take
    /// longer.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the configuration is wrong. No request is sent.
    pub fn new(access: EtcdAccess, attempt: Duration) -> Result<Self, Failure> {
        Ok(Self {
            state: Mutex::new(State::new(&access, attempt)?),
            access,
            attempt,
        })
    }

    /// Returns the request that reads a key.
    fn range(&self, kind: &str, key: &RegisterKey) -> Value {
        json!({"key": STANDARD.encode(format!("{}{kind}/{key}", self.access.prefix))})
    }

    async fn get(&self, kind: &str, key: &RegisterKey) -> Result<Read, Failure> {
        let answer = self.ask(RANGE, &self.range(kind, key)).await?;
        read(&answer, &answer.body, None)
    }

    /// Executes operations without a condition, in as few transactions as etcd permits. Returns the answer
    /// to each of them.
    async fn execute(&self, operations: Vec<Value>) -> Result<Vec<Answer>, Failure> {
        let mut answers = Vec::with_capacity(operations.len());
        for operations in operations.chunks(MOST_OPERATIONS) {
            let mut answer = self.ask(TXN, &json!({"success": operations})).await?;
            let Value::Array(responses) = answer.body["responses"].take() else {
                continue;
            };
            answers.extend(responses.into_iter().map(|body| Answer {
                identity: answer.identity.clone(),
                body,
            }));
        }
        if answers.len() == operations.len() {
            return Ok(answers);
        }
        let text = "etcd has not answered all operations of a transaction";
        Err(Failure::Unknown(text.into()))
    }
}

/// Returns the request that reads all keys with this prefix.
fn range_of_prefix(prefix: &str) -> Value {
    let Some((last, start)) = prefix.as_bytes().split_last() else {
        // From the first key, and without an end.
        return json!({"key": "AA==", "range_end": "AA=="});
    };
    // No byte of UTF-8 is 255.
    let end = [start, &[last + 1]].concat();
    json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)})
}

/// Returns the first key in the answer to a range request.
fn read(answer: &Answer, range: &Value, known: Option<&Version>) -> Result<Read, Failure> {
    let identity = answer.identity.clone();
    let found = &range["kvs"][0];
    if found.is_null() {
        return Ok(Read::Absent(identity));
    }
    let version = Version::new(text(&found["mod_revision"]));
    let value = decoded(&found["value"])?.into();
    Ok(Read::found(version, value, identity, known))
}

fn decoded(base64: &Value) -> Result<Vec<u8>, Failure> {
    let bytes = STANDARD.decode(text(base64));
    bytes.map_err(|error| Failure::Unknown(format!("an answer is not etcd's: {error}")))
}

#[async_trait]
impl Register for EtcdHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        let answer = self.ask(RANGE, &self.range(REGISTER, key)).await?;
        read(&answer, &answer.body, known)
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        check_size(key, &value)?;
        // The identity is no part of the condition. So it is read first, unless the last answer has shown it.
        // After a failure this read also shows the outcome, however often answers to replaces are lost.
        let is_known = {
            let state = lock(&self.state);
            state.identity.as_ref() == Some(&expected.identity) && !state.has_failed
        };
        if !is_known {
            let found = match self.get(REGISTER, key).await {
                // If every second answer is lost, the next one arrives.
                Err(Failure::Unknown(_)) => self.get(REGISTER, key).await?,
                found => found?,
            };
            lock(&self.state).has_failed = false;
            if let Some(replaced) = Replaced::refused(found, expected, &value) {
                return Ok(replaced);
            }
        }
        let revision = expected.version.as_ref().map_or("0", Version::as_str);
        let range = self.range(REGISTER, key);
        let request = json!({
            "compare": [{"key": range["key"], "target": "MOD", "result": "EQUAL", "mod_revision": revision}],
            "success": [{"request_put": {"key": range["key"], "value": STANDARD.encode(&value)}}],
            "failure": [{"request_range": range}],
        });
        let answer = match self.ask(TXN, &request).await {
            // etcd checks the space twice: before it proposes a request, which then is not applied, and
            // again when it applies one, which then *is* applied in spite of the answer
            // (`quotaApplierV3` in its source). After the answer this attempt is no longer under way,
            // so a linearizable read shows which of both it was.
            Err(Failure::Full(text)) => {
                let Ok(found) = self.get(REGISTER, key).await else {
                    return Err(Failure::Unknown(text));
                };
                return Replaced::refused(found, expected, &value).ok_or(Failure::Full(text));
            }
            Err(failure) => {
                lock(&self.state).has_failed = true;
                return Err(failure);
            }
            Ok(answer) => answer,
        };
        if answer.body["succeeded"] != true {
            let range = &answer.body["responses"][0]["response_range"];
            let found = read(&answer, range, None)?;
            let shown = || Failure::Unknown("etcd refuses the revision that it shows".into());
            return Replaced::refused(found, expected, &value).ok_or_else(shown);
        }
        let identity = &answer.identity;
        if *identity == expected.identity {
            return Ok(Replaced::Done(Version::new(answer.revision())));
        }
        // Another cluster, whose key had the same revision, has applied it. This one may not have.
        let text = format!("home has members of another cluster, {identity}");
        Err(Failure::Unknown(text))
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        check_size(name, &content)?;
        let mut put = self.range(FILE, name);
        put["value"] = STANDARD.encode(content).into();
        let put = json!({"request_put": put});
        self.execute(vec![put]).await.map(drop)
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        Ok(self.get(FILE, name).await?.into_value())
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        let keys = names.iter().map(|name| self.range(FILE, name));
        let deletions = keys.map(|key| json!({"request_delete_range": key}));
        self.execute(deletions.collect()).await.map(drop)
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let all = format!("{}{FILE}/", self.access.prefix);
        let mut request = range_of_prefix(&format!("{all}{folder}/"));
        request["keys_only"] = true.into();
        let answer = self.ask(RANGE, &request).await?;
        let found = answer.body["kvs"].as_array().into_iter().flatten();
        let names = found.filter_map(|found| {
            let key = String::from_utf8(decoded(&found["key"]).ok()?).ok()?;
            key.strip_prefix(&all)?.parse().ok()
        });
        Ok(names.collect())
    }

    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        let ranges = keys.iter().map(|key| self.range(REGISTER, key));
        let reads = ranges.map(|range| json!({"request_range": range}));
        let answers = self.execute(reads.collect()).await?;
        let answers = answers.iter();
        let reads = answers.map(|answer| read(answer, &answer.body["response_range"], None));
        reads.collect()
    }

    async fn maintain(&self) {
        self.maintain_at(Instant::now()).await;
    }

    fn facts(&self) -> HomeFacts {
        let state = lock(&self.state);
        HomeFacts {
            version: state.version.clone(),
            warnings: state.warnings().cloned().collect(),
            ..state.upkeep.size.clone()
        }
    }
}
