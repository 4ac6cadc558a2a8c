//! Buckets of S3, of stores with its API, of Google Cloud Storage and of Azure.
//!
//! A register is an object, and its version is the object's ETag, or its generation at Google. A
//! replace is one conditional request. Four rules keep the meaning of an answer:
//!
//! - Each request is sent once: the repetition of a request that was applied is refused.
//! - A refusal is not believed: a store may also refuse a request because another one is under way.
//!   The present value shows the outcome.
//! - An ETag that is a hash must be that of the content: some stores change both one after the other.
//!   With the version of a value that it has never seen, a writer would replace that value.
//! - A store must have passed [`BucketHome::probe`]: not all of them compare the version, or compare
//!   and write in one step.

mod access;
mod probe;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use md5::{Digest, Md5};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, PutMode, UpdateVersion};
use tokio::time::{sleep, timeout};

pub use self::access::BucketAccess;
use crate::{
    Expected, FILE, Failure, Identity, REGISTER, Read, Register, RegisterKey, Replaced, Version,
    check_size, describe, lock,
};

/// A prefix of a bucket. Registers are objects below `PREFIX/register/`, and files are objects below
/// `PREFIX/file/`.
#[derive(Debug)]
pub struct BucketHome {
    store: Arc<dyn ObjectStore>,
    /// The name of the bucket or container.
    bucket: String,
    prefix: RegisterKey,
    /// The URL.
    identity: Identity,
    attempt: Duration,
    /// Whether ETags with the form of a hash are hashes, as far as the writes of this client show.
    has_hashes: AtomicBool,
    /// The objects that show an ETag that is not the hash of their content, with the ETag and the instant of
    /// the first such read.
    torn: Mutex<HashMap<Path, (Version, Instant)>>,
}

/// The end of the name of each object. Names have no such character, so no object has the name of a
/// folder that others are in: some stores keep objects as files.
const END: &str = "!";

/// The error of the client if a bucket is in another region.
const WRONG_REGION: &str = "incorrectly configured region";

/// How often an object is read at once whose ETag is not the hash of its content.
const TORN_READS: u32 = 3;

/// The number of attempts after which such an object is taken as it is: the store was killed between the
/// two, or has other ETags now. As it is an ownership duration, a write that was under way has ended.
const TORN_ATTEMPTS: u32 = 6;

/// The greatest number of registers that are read at once.
const READS: usize = 16;

impl BucketHome {
    /// Creates the home. `attempt` is the longest time of a request.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the access is wrong. No request is sent.
    pub fn new(access: &BucketAccess, attempt: Duration) -> Result<Self, Failure> {
        let (store, bucket, prefix) = access.open()?;
        Ok(Self {
            store,
            bucket,
            prefix,
            identity: Identity::new(access.url.trim_end_matches('/')),
            attempt,
            has_hashes: AtomicBool::new(true),
            torn: Mutex::default(),
        })
    }

    fn path(&self, kind: &str, key: &RegisterKey) -> Path {
        Path::from(format!("{}/{kind}/{key}{END}", self.prefix))
    }

    async fn ask<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let answer = timeout(self.attempt, request).await;
        answer.unwrap_or_else(|_| {
            Err(Error::Generic {
                store: "bucket",
                source: format!("no answer in {:.1} s", self.attempt.as_secs_f64()).into(),
            })
        })
    }

    /// Returns the meaning of an error of a request to this object.
    fn failure(&self, path: &Path, error: &Error) -> Failure {
        // The client shows the URL, the status and the answer only in its text.
        let text = describe(error);
        let between = |start: &str, end: &str| {
            let (_, rest) = text.split_once(start)?;
            Some(rest.split_once(end)?.0)
        };
        let status = between("status code: ", " ").unwrap_or_default();
        let reason = match (between("<Code>", "<"), between("<Message>", "<")) {
            (Some(code), Some(message)) => format!("answer {status} {code}: {message}"),
            _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let reason = format!("{path} in bucket {}: {reason}", self.bucket);
        let is_of_bucket = text.contains(&self.bucket) || text.contains("REDACTED");
        match status {
            _ if text.contains("Error performing ") && !is_of_bucket => {
                Failure::Misconfigured(format!(
                    "{reason}. The client has no credentials: set the variables of the provider, \
                     for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine \
                     or pod a role"
                ))
            }
            "429" => Failure::NotApplied(reason),
            "507" => Failure::Full(reason),
            // Another request was under way, the condition did not hold, or it took too long.
            "408" | "409" | "412" => Failure::Unknown(reason),
            _ if status.starts_with('4') || status == "501" || text.contains(WRONG_REGION) => {
                Failure::Misconfigured(reason)
            }
            _ => Failure::Unknown(reason),
        }
    }

    /// Returns the version of an object. Without an ETag it is empty, and the probe refuses the store.
    fn version(&self, e_tag: Option<String>, generation: Option<String>) -> Version {
        let is_google = self.identity.as_str().starts_with("gs:");
        let version = if is_google { generation } else { e_tag };
        Version::new(version.unwrap_or_default())
    }

    /// Reads an object. The version is that of the content.
    async fn get(&self, path: &Path, known: Option<&Version>) -> Result<Read, Failure> {
        for _ in 0..TORN_READS {
            let read = self.get_once(path, known).await?;
            if self.is_whole(path, &read) {
                return Ok(read);
            }
            sleep(self.attempt / 20).await;
        }
        Err(Failure::Unknown(format!(
            "{path} in bucket {}: the store shows the ETag of one write with the content of another",
            self.bucket
        )))
    }

    /// Returns whether the version that was read is that of the content.
    fn is_whole(&self, path: &Path, read: &Read) -> bool {
        let mut torn = lock(&self.torn);
        match read {
            Read::Found { version, value, .. }
                if self.has_hashes.load(Ordering::Relaxed) && is_other_hash(version, value) =>
            {
                let first = (version.clone(), Instant::now());
                let seen = torn.entry(path.clone()).or_insert_with(|| first.clone());
                if seen.0 != first.0 {
                    *seen = first;
                }
                seen.1.elapsed() >= TORN_ATTEMPTS * self.attempt
            }
            _ => {
                torn.remove(path);
                true
            }
        }
    }

    async fn get_once(&self, path: &Path, known: Option<&Version>) -> Result<Read, Failure> {
        let options = GetOptions {
            if_none_match: known.map(|known| known.as_str().to_owned()),
            ..GetOptions::default()
        };
        let found = async {
            let found = self.store.get_opts(path, options).await?;
            let meta = found.meta.clone();
            Ok((self.version(meta.e_tag, meta.version), found.bytes().await?))
        };
        let identity = self.identity.clone();
        match self.ask(found).await {
            // A generation is no ETag, so the known object is sent again.
            Ok((version, value)) => Ok(Read::found(version, value, identity, known)),
            Err(Error::NotModified { .. }) => Ok(Read::Unchanged(identity)),
            Err(error @ Error::NotFound { .. }) if !is_without_bucket(&error) => {
                Ok(Read::Absent(identity))
            }
            Err(error) => Err(self.failure(path, &error)),
        }
    }

    /// Sends a write, and returns the new version.
    async fn send(
        &self,
        path: &Path,
        mode: PutMode,
        value: Bytes,
    ) -> object_store::Result<Version> {
        let put = async {
            let done = self.store.put_opts(path, value.clone().into(), mode.into());
            let done = done.await?;
            Ok(self.version(done.e_tag, done.version))
        };
        let version = self.ask(put).await?;
        let has_hashes = !is_other_hash(&version, &value);
        self.has_hashes.store(has_hashes, Ordering::Relaxed);
        Ok(version)
    }

    /// Replaces or creates an object.
    async fn put(
        &self,
        path: &Path,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        // This home has one identity, so a version of another one is not sent.
        if expected.identity != self.identity {
            return Ok(Replaced::Changed(self.get(path, None).await?));
        }
        let mode = match expected.version.as_ref().map(Version::as_str) {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: Some(version.to_owned()),
                version: Some(version.to_owned()),
            }),
        };
        let refused = match self.send(path, mode, value.clone()).await {
            Ok(version) => return Ok(Replaced::Done(version)),
            Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => error,
            Err(error) => return Err(self.failure(path, &error)),
        };
        let unknown = |failure: Failure| Failure::Unknown(failure.to_string());
        let found = self.get(path, None).await.map_err(unknown)?;
        let outcome = Replaced::refused(found, expected, &value);
        outcome.ok_or_else(|| unknown(self.failure(path, &refused)))
    }

    /// Deletes objects. A missing object is no error.
    async fn remove(&self, paths: Vec<Path>) -> Result<(), Failure> {
        let folder = Path::from(self.prefix.as_str());
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let deletions = self
            .store
            .delete_stream(paths)
            .map(|deleted| match deleted {
                Err(Error::NotFound { .. }) => Ok(()),
                deleted => deleted.map(drop),
            });
        let deleted = self.ask(deletions.try_collect::<()>()).await;
        deleted.map_err(|error| self.failure(&folder, &error))
    }
}

/// Whether a version has the form of an MD5 hash, as the ETag of most stores is one, and is not that of the
/// content.
fn is_other_hash(version: &Version, value: &Bytes) -> bool {
    let digits = version.as_str().trim_matches('"');
    let hash = u128::from_str_radix(digits, 16).ok();
    let hash = hash.filter(|_| digits.len() == 32);
    hash.is_some_and(|hash| hash != u128::from_be_bytes(Md5::digest(value).into()))
}

/// Whether an object is missing because there is no bucket.
fn is_without_bucket(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("NoSuchBucket") || text.contains("ContainerNotFound")
}

#[async_trait]
impl Register for BucketHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        self.get(&self.path(REGISTER, key), known).await
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        check_size(key, &value)?;
        self.put(&self.path(REGISTER, key), expected, value).await
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        check_size(name, &content)?;
        let path = self.path(FILE, name);
        let sent = self.send(&path, PutMode::Overwrite, content).await;
        sent.map(drop).map_err(|error| self.failure(&path, &error))
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        Ok(self.get(&self.path(FILE, name), None).await?.into_value())
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        let paths = names.iter().map(|name| self.path(FILE, name)).collect();
        self.remove(paths).await
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let all = format!("{}/{FILE}/", self.prefix);
        let path = Path::from(format!("{all}{folder}"));
        let objects = self.store.list(Some(&path)).try_collect::<Vec<_>>();
        let objects = self.ask(objects).await;
        let objects = objects.map_err(|error| self.failure(&path, &error))?;
        let names = objects.iter().filter_map(|object| {
            let name = object.location.as_ref().strip_prefix(&all)?;
            name.strip_suffix(END)?.parse().ok()
        });
        let mut names: Vec<RegisterKey> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        let reads: Vec<_> = keys.iter().map(|key| self.read(key, None)).collect();
        stream::iter(reads).buffered(READS).try_collect().await
    }
}
