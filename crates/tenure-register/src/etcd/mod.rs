//! etcd 3.4 and later, by its JSON gateway.
//!
//! A register is a key, and its version is the key's `mod_revision`. A replace is one transaction:
//! it compares the `mod_revision` (0 if there must be no key), puts the value, or else reads it.
//! Leases and watches of etcd are not used.

mod gateway;
mod http;
mod refusal;
#[cfg(all(test, unix))]
mod tests;
mod upkeep;
mod version;
mod wire;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use tenure_core::UnixMillis;
use tenure_core::time::millis;

use self::gateway::{Gateway, Versions};
use self::upkeep::Upkeep;
use self::wire::{
    Compare, Encoded, Header, KeyValue, RangeRequest, Response, TxnOperation, TxnRequest,
    end_of_prefix,
};
use crate::{
    Answering, BoxFuture, Expected, Failure, Files, HomeFacts, Identity, Limits, Read, Register,
    RegisterKey, Replaced, Seen, Version,
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
    /// Whether [`Files::maintain`] compacts etcd.
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
/// `PREFIXfile/`.
#[derive(Debug)]
pub struct EtcdHome {
    config: EtcdAccess,
    attempt: Duration,
    versions: Versions,
    /// The connections that no request uses now. Requests do not wait for each other: a read that
    /// hangs must not delay a renewal.
    idle: Mutex<Vec<Connection>>,
    upkeep: Mutex<Upkeep>,
}

/// A connection, with the cluster that gave its last answer.
#[derive(Debug)]
struct Connection {
    gateway: Gateway,
    identity: Option<Identity>,
    /// The last revision that an answer contained.
    revision: u64,
}

/// The greatest number of operations that etcd permits in a transaction by default.
const MOST_OPERATIONS: usize = 128;

impl EtcdHome {
    /// The limits of etcd: by default it refuses requests above 1.5 MiB, and values are sent in
    /// base64.
    pub const LIMITS: Limits = Limits {
        value: 1 << 20,
        has_date: true,
    };

    /// Creates the home. `attempt` is the longest time of a request; only an authentication may take
    /// longer.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the configuration is wrong. No request is sent.
    pub fn new(config: EtcdAccess, attempt: Duration) -> Result<Self, Failure> {
        let home = Self {
            upkeep: Mutex::new(Upkeep::new(config.compact, Instant::now())),
            config,
            attempt,
            versions: Versions::default(),
            idle: Mutex::default(),
        };
        let connection = home.connect()?;
        home.put_back(connection);
        Ok(home)
    }

    fn connect(&self) -> Result<Connection, Failure> {
        let gateway = Gateway::open(&self.config, self.attempt, Arc::clone(&self.versions))?;
        Ok(Connection {
            gateway,
            identity: None,
            revision: 0,
        })
    }

    fn take(&self) -> Result<Connection, Failure> {
        let idle = self.idle().pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    fn put_back(&self, connection: Connection) {
        let mut upkeep = self.upkeep();
        upkeep.revision = upkeep.revision.max(connection.revision);
        drop(upkeep);
        self.idle().push(connection);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, kind: &str, key: &RegisterKey) -> Encoded {
        format!("{}{kind}/{key}", self.config.prefix).into()
    }

    /// Sends a request, over a connection that no other request uses.
    async fn ask<R: wire::GatewayRequest>(&self, request: &R) -> Result<R::Answer, Failure> {
        let mut connection = self.take()?;
        let answer = connection.gateway.ask(request).await;
        self.put_back(connection);
        answer
    }
}

impl Connection {
    async fn read(&mut self, key: Encoded) -> Result<(Seen, Option<KeyValue>), Failure> {
        let request = RangeRequest {
            key,
            ..RangeRequest::default()
        };
        let answer = self.gateway.ask(&request).await?;
        Ok((self.saw(&answer.header), answer.kvs.into_iter().next()))
    }

    fn saw(&mut self, header: &Header) -> Seen {
        let identity = Identity::new(format!("cluster id {}", header.cluster_id));
        self.identity = Some(identity.clone());
        self.revision = self.revision.max(header.revision);
        let date = self.gateway.date().and_then(|date| {
            let since_1970 = date.duration_since(UNIX_EPOCH).ok()?;
            Some(UnixMillis::new(millis(since_1970)))
        });
        Seen { identity, date }
    }

    /// Reads registers, in one transaction for as many as etcd permits.
    async fn read_many(&mut self, keys: &[Encoded]) -> Result<Vec<Read>, Failure> {
        let mut reads = Vec::with_capacity(keys.len());
        for keys in keys.chunks(MOST_OPERATIONS) {
            let ranges = keys.iter().map(|key| {
                TxnOperation::Range(RangeRequest {
                    key: key.clone(),
                    ..RangeRequest::default()
                })
            });
            let transaction = TxnRequest::of(ranges.collect());
            let answer = self.gateway.ask(&transaction).await?;
            let seen = self.saw(&answer.header);
            if answer.responses.len() != keys.len() {
                let text = "etcd has not answered all reads of a transaction";
                return Err(Failure::Unknown(text.into()));
            }
            let found = answer.responses.into_iter().map(Response::first);
            reads.extend(found.map(|found| read(seen.clone(), found)));
        }
        Ok(reads)
    }

    async fn replace(
        &mut self,
        key: Encoded,
        expected: &Expected,
        value: &Bytes,
    ) -> Result<Replaced, Failure> {
        // The identity is no part of the condition. A connection that has not shown it reads first.
        if self.identity.as_ref() != Some(&expected.identity) {
            let (seen, found) = self.read(key.clone()).await?;
            if seen.identity != expected.identity {
                return Ok(Replaced::Changed(read(seen, found)));
            }
        }
        let revision = match &expected.version {
            Some(version) => version.as_str(),
            None => "0",
        };
        let request = TxnRequest {
            compare: vec![Compare::mod_revision(key.clone(), revision.to_owned())],
            success: vec![TxnOperation::Put {
                key: key.clone(),
                value: Encoded(value.clone()),
            }],
            failure: vec![TxnOperation::Range(RangeRequest {
                key: key.clone(),
                ..RangeRequest::default()
            })],
        };
        let answer = match self.gateway.ask(&request).await {
            Ok(answer) => answer,
            Err(Failure::Full(text)) => return self.settle(key, expected, value, text).await,
            Err(failure) => {
                // The next attempt may reach a member that was restored meanwhile.
                self.identity = None;
                return Err(failure);
            }
        };
        let seen = self.saw(&answer.header);
        if answer.succeeded && seen.identity != expected.identity {
            // Another cluster, whose key had the same revision, has applied it. This one may not have.
            let text = format!("home has members of another cluster, {}", seen.identity);
            return Err(Failure::Unknown(text));
        }
        if answer.succeeded {
            let version = Version::new(answer.header.revision.to_string());
            return Ok(Replaced::Done { version, seen });
        }
        let found = answer.responses.into_iter().next();
        let found = found.and_then(Response::first);
        Ok(changed(read(seen, found), value))
    }

    /// Finds out whether etcd has applied a replace to which it answered that it has no space. It
    /// checks the space twice: before it proposes a request, which then is not applied, and again
    /// when it applies one, which then *is* applied in spite of the answer (`quotaApplierV3` in its
    /// source). After the answer this attempt is no longer under way, so a linearizable read shows
    /// which of both it was.
    async fn settle(
        &mut self,
        key: Encoded,
        expected: &Expected,
        value: &Bytes,
        text: String,
    ) -> Result<Replaced, Failure> {
        let Ok((seen, found)) = self.read(key).await else {
            return Err(Failure::Unknown(text));
        };
        let version = found.as_ref().map(|found| found.mod_revision.to_string());
        let is_expected = version.as_deref() == expected.version.as_ref().map(Version::as_str);
        match is_expected && seen.identity == expected.identity {
            true => Err(Failure::Full(text)),
            false => Ok(changed(read(seen, found), value)),
        }
    }
}

/// The outcome of a replace that was refused. Values differ, so the writer's own value means that an
/// earlier attempt was applied.
fn changed(read: Read, value: &Bytes) -> Replaced {
    match read {
        Read::Found {
            version,
            value: found,
            seen,
        } if found == *value => Replaced::Done { version, seen },
        read => Replaced::Changed(read),
    }
}

fn read(seen: Seen, found: Option<KeyValue>) -> Read {
    match found {
        None => Read::Absent(seen),
        Some(found) => Read::Found {
            version: Version::new(found.mod_revision.to_string()),
            value: found.value.0,
            seen,
        },
    }
}

impl Register for EtcdHome {
    fn read<'a>(&'a self, key: &'a RegisterKey, known: Option<&'a Version>) -> Answering<'a, Read> {
        Box::pin(async move {
            let mut connection = self.take()?;
            let answer = connection.read(self.key(REGISTER, key)).await;
            self.put_back(connection);
            let (seen, found) = answer?;
            Ok(match read(seen, found) {
                Read::Found { version, seen, .. } if Some(&version) == known => {
                    Read::Unchanged(seen)
                }
                read => read,
            })
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> Answering<'a, Replaced> {
        Box::pin(async move {
            Self::LIMITS.check(key, &value)?;
            let mut connection = self.take()?;
            let key = self.key(REGISTER, key);
            let replaced = connection.replace(key, expected, &value).await;
            self.put_back(connection);
            replaced
        })
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

/// The part of the key that all registers have.
const REGISTER: &str = "register";

/// The part of the key that all files have.
const FILE: &str = "file";

impl Files for EtcdHome {
    fn write<'a>(&'a self, name: &'a RegisterKey, content: Bytes) -> Answering<'a, ()> {
        Box::pin(async move {
            Self::LIMITS.check(name, &content)?;
            let put = TxnOperation::Put {
                key: self.key(FILE, name),
                value: Encoded(content),
            };
            self.ask(&TxnRequest::of(vec![put])).await.map(drop)
        })
    }

    fn read_file<'a>(&'a self, name: &'a RegisterKey) -> Answering<'a, Option<Bytes>> {
        Box::pin(async move {
            let request = RangeRequest {
                key: self.key(FILE, name),
                ..RangeRequest::default()
            };
            let found = self.ask(&request).await?.kvs.into_iter().next();
            Ok(found.map(|found| found.value.0))
        })
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> Answering<'a, ()> {
        Box::pin(async move {
            for names in names.chunks(MOST_OPERATIONS) {
                let deletions = names.iter().map(|name| TxnOperation::DeleteRange {
                    key: self.key(FILE, name),
                });
                self.ask(&TxnRequest::of(deletions.collect())).await?;
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, folder: &'a RegisterKey) -> Answering<'a, Vec<RegisterKey>> {
        Box::pin(async move {
            let all = format!("{}{FILE}/", self.config.prefix);
            let prefix = format!("{all}{folder}/");
            let request = RangeRequest {
                range_end: Some(end_of_prefix(&prefix)),
                key: prefix.into(),
                keys_only: true,
                ..RangeRequest::default()
            };
            let found = self.ask(&request).await?.kvs;
            let names = found.iter().filter_map(|found| {
                let key = std::str::from_utf8(&found.key.0).ok()?;
                key.strip_prefix(&all)?.parse().ok()
            });
            Ok(names.collect())
        })
    }

    fn read_many<'a>(&'a self, keys: &'a [RegisterKey]) -> Answering<'a, Vec<Read>> {
        Box::pin(async move {
            let mut connection = self.take()?;
            let keys: Vec<_> = keys.iter().map(|key| self.key(REGISTER, key)).collect();
            let reads = connection.read_many(&keys).await;
            self.put_back(connection);
            reads
        })
    }

    fn maintain(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.maintain_at(Instant::now()))
    }

    fn facts(&self) -> HomeFacts {
        let upkeep = self.upkeep();
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let size = upkeep.size;
        HomeFacts {
            version: versions.last.clone(),
            bytes: size.map(|size| size.in_use),
            quota_bytes: size.map(|size| size.quota),
            warnings: versions
                .warnings
                .values()
                .chain(&upkeep.warning)
                .cloned()
                .collect(),
        }
    }
}
