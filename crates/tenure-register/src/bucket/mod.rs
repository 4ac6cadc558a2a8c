//! Buckets of S3, of stores with its API, of Google Cloud Storage and of Azure.
//!
//! A register is an object, and its version is the object's ETag, or its generation at Google. A
//! replace is one conditional request. Three rules keep the meaning of an answer:
//!
//! - Each request is sent once. The client's own repetitions are off, because the repetition of a
//!   request that was applied is refused.
//! - A refusal is not believed: a store may also refuse a request because another one is under way.
//!   The present value shows the outcome.
//! - A store must have passed [`BucketHome::probe`]: not all of them compare the version, or compare
//!   and write in one step.

mod access;
mod observed;
mod probe;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, GetOptions, PutMode, PutOptions, UpdateVersion};
use tokio::time::timeout;

use self::access::Bucket;
pub use self::access::BucketAccess;
use self::observed::{Answer, Stage, observe};
use crate::{
    BoxFuture, Expected, Failure, Files, HomeFacts, Identity, Limits, Read, Register, RegisterKey,
    Replaced, Seen, Version, describe,
};

/// A prefix of a bucket. Registers are objects below `PREFIX/register/`, and files are objects below
/// `PREFIX/file/`.
#[derive(Debug)]
pub struct BucketHome {
    bucket: Bucket,
    identity: Identity,
    attempt: Duration,
    /// The warning of the probe.
    warning: Mutex<Option<String>>,
}

/// The end of the name of each object. Names have no such character, so no object has the name of a
/// folder that others are in: some stores keep objects as files.
const END: &str = "!";

/// The part of the name that all registers have.
const REGISTER: &str = "register";

/// The part of the name that all files have.
const FILE: &str = "file";

/// The greatest number of requests that one call sends at once.
const AT_ONCE: usize = 16;

/// A request that was not done.
struct Refused {
    reason: Reason,
    failure: Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// There is no such object.
    Missing,
    /// The object has the known version.
    Unchanged,
    /// The condition does not hold, or another request is under way.
    Condition,
    Other,
}

impl BucketHome {
    /// The limits of a bucket. Larger objects are possible, but one request writes each of them.
    pub const LIMITS: Limits = Limits {
        value: 1 << 20,
        has_date: true,
    };

    /// Creates the home. `attempt` is the longest time of a request.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the access is wrong. No request is sent.
    pub fn new(access: &BucketAccess, attempt: Duration) -> Result<Self, Failure> {
        let bucket = access.open()?;
        Ok(Self {
            identity: Identity::new(format!("{}/{}", bucket.url, bucket.prefix)),
            bucket,
            attempt,
            warning: Mutex::default(),
        })
    }

    fn path(&self, kind: &str, key: &RegisterKey) -> Path {
        Path::from(format!("{}/{kind}/{key}{END}", self.bucket.prefix))
    }

    /// Waits for the outcome of a request to an object, or to a folder.
    async fn ask<T>(
        &self,
        path: &Path,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> (Seen, Result<T, Refused>) {
        let (outcome, answer) = observe(timeout(self.attempt, request)).await;
        let seen = Seen {
            identity: self.identity.clone(),
            date: answer.date,
        };
        let error = match outcome {
            Ok(Ok(done)) => return (seen, Ok(done)),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        (seen, Err(self.refused(path, error.as_ref(), answer)))
    }

    /// Returns the meaning of an error; `None` is no answer in time.
    fn refused(&self, path: &Path, error: Option<&Error>, answer: Answer) -> Refused {
        let text = match &error {
            Some(error) => describe(error),
            None => format!("no answer in {:.1} s", self.attempt.as_secs_f64()),
        };
        // The answers of all providers have these elements.
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once("</")?.0)
        };
        let code = element("Code").unwrap_or_default();
        let is_missing = ["NoSuchBucket", "ContainerNotFound"].contains(&code);
        let reason = match error {
            _ if is_missing => Reason::Other,
            Some(Error::NotFound { .. }) => Reason::Missing,
            Some(Error::NotModified { .. }) => Reason::Unchanged,
            Some(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Reason::Condition,
            _ => Reason::Other,
        };
        let text = match (answer.status, element("Message")) {
            (Some(status), Some(message)) => format!("answer {status} {code}: {message}"),
            _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let text = format!("{}/{path}: {text}", self.bucket.url);
        let wrong = |remedy: &str| Failure::Misconfigured(format!("{text}. {remedy}"));
        let failure = match (answer.status, answer.stage) {
            _ if is_missing => wrong("Create the bucket, or correct its URL"),
            (None, Stage::Credentials) if error.is_some() => wrong(
                "There are no credentials: set the variables of the provider, for example \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine or pod a role",
            ),
            (None, Stage::Credentials | Stage::NotConnected) | (Some(429), _) => {
                Failure::NotApplied(text)
            }
            (Some(401 | 403), _) => wrong(
                "The credentials need the rights to read, write, list and delete objects below \
                 the prefix",
            ),
            (Some(507), _) => Failure::Full(text),
            (Some(501), _) => wrong("Use a store that has conditional writes"),
            (Some(300..=399), _) if reason == Reason::Other => {
                wrong("Correct the region or the endpoint")
            }
            // Another request was under way, or it took too long.
            (Some(408 | 409 | 412), _) => Failure::Unknown(text),
            (Some(400..=499), _) => Failure::Misconfigured(text),
            _ => Failure::Unknown(text),
        };
        Refused { reason, failure }
    }

    fn version(&self, e_tag: Option<String>, generation: Option<String>) -> Option<Version> {
        let version = match self.bucket.has_generations {
            true => generation,
            false => e_tag,
        };
        version.map(Version::new)
    }

    async fn get(&self, path: &Path, known: Option<&Version>) -> Result<Read, Failure> {
        let has_generations = self.bucket.has_generations;
        // A generation is no ETag.
        let known_e_tag = known.filter(|_| !has_generations);
        let options = GetOptions {
            if_none_match: known_e_tag.map(|known| known.as_str().to_owned()),
            ..GetOptions::default()
        };
        let request = async {
            let found = self.bucket.store.get_opts(path, options).await?;
            let meta = found.meta.clone();
            Ok((self.version(meta.e_tag, meta.version), found.bytes().await?))
        };
        match self.ask(path, request).await {
            (seen, Ok((Some(version), _))) if has_generations && known == Some(&version) => {
                Ok(Read::Unchanged(seen))
            }
            (seen, Ok((Some(version), value))) => Ok(Read::Found {
                version,
                value,
                seen,
            }),
            (_, Ok((None, _))) => Err(self.no_version(path)),
            (seen, Err(refused)) => match refused.reason {
                Reason::Missing => Ok(Read::Absent(seen)),
                Reason::Unchanged => Ok(Read::Unchanged(seen)),
                _ => Err(refused.failure),
            },
        }
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
        let mode = match &expected.version {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: Some(version.as_str().to_owned()),
                version: Some(version.as_str().to_owned()),
            }),
        };
        let refused = match self.send(path, mode, value.clone()).await {
            (seen, Ok(Some(version))) => return Ok(Replaced::Done { version, seen }),
            (_, Ok(None)) => return Err(self.no_version(path)),
            (_, Err(refused)) if refused.reason == Reason::Condition => refused.failure.to_string(),
            (_, Err(refused)) => return Err(refused.failure),
        };
        let found = self.get(path, None).await;
        let found = found.map_err(|failure| Failure::Unknown(format!("{refused}; {failure}")))?;
        let shown = match &found {
            Read::Found { version, .. } => Some(version),
            _ => None,
        };
        match found {
            // Another request was under way, or this one still is.
            _ if shown == expected.version.as_ref() => Err(Failure::Unknown(refused)),
            // Values differ, so an earlier attempt was applied.
            Read::Found {
                version,
                value: found,
                seen,
            } if found == value => Ok(Replaced::Done { version, seen }),
            found => Ok(Replaced::Changed(found)),
        }
    }

    async fn send(
        &self,
        path: &Path,
        mode: PutMode,
        value: Bytes,
    ) -> (Seen, Result<Option<Version>, Refused>) {
        let options = PutOptions::from(mode);
        let put = self.bucket.store.put_opts(path, value.into(), options);
        let put = async {
            let done = put.await?;
            Ok(self.version(done.e_tag, done.version))
        };
        self.ask(path, put).await
    }

    fn no_version(&self, path: &Path) -> Failure {
        Failure::Unknown(format!(
            "{}/{path}: the answer has no ETag",
            self.bucket.url
        ))
    }

    /// Deletes objects. A missing object is no error.
    async fn remove(&self, paths: Vec<Path>) -> Result<(), Failure> {
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let deletions = self.bucket.store.delete_stream(paths);
        let deletions = deletions.map(|deleted| match deleted {
            Err(Error::NotFound { .. }) => Ok(()),
            deleted => deleted.map(drop),
        });
        let folder = Path::from(self.bucket.prefix.as_str());
        let (_, deleted) = self.ask(&folder, deletions.try_collect::<()>()).await;
        deleted.map_err(|refused| refused.failure)
    }

    fn warning(&self) -> MutexGuard<'_, Option<String>> {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Register for BucketHome {
    fn read<'a>(
        &'a self,
        key: &'a RegisterKey,
        known: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Read, Failure>> {
        Box::pin(async move { self.get(&self.path(REGISTER, key), known).await })
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> BoxFuture<'a, Result<Replaced, Failure>> {
        Box::pin(async move {
            Self::LIMITS.check(key, &value)?;
            self.put(&self.path(REGISTER, key), expected, value).await
        })
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

impl Files for BucketHome {
    fn write<'a>(
        &'a self,
        name: &'a RegisterKey,
        content: Bytes,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            Self::LIMITS.check(name, &content)?;
            let path = self.path(FILE, name);
            let (_, sent) = self.send(&path, PutMode::Overwrite, content).await;
            sent.map(drop).map_err(|refused| refused.failure)
        })
    }

    fn read_file<'a>(
        &'a self,
        name: &'a RegisterKey,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Failure>> {
        Box::pin(async move {
            Ok(match self.get(&self.path(FILE, name), None).await? {
                Read::Found { value, .. } => Some(value),
                _ => None,
            })
        })
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> BoxFuture<'a, Result<(), Failure>> {
        let paths = names.iter().map(|name| self.path(FILE, name)).collect();
        Box::pin(self.remove(paths))
    }

    fn list<'a>(
        &'a self,
        folder: &'a RegisterKey,
    ) -> BoxFuture<'a, Result<Vec<RegisterKey>, Failure>> {
        Box::pin(async move {
            let all = format!("{}/{FILE}/", self.bucket.prefix);
            let path = Path::from(format!("{all}{folder}"));
            let objects = self.bucket.store.list(Some(&path)).try_collect::<Vec<_>>();
            let (_, objects) = self.ask(&path, objects).await;
            let objects = objects.map_err(|refused| refused.failure)?;
            let names = objects.iter().filter_map(|object| {
                let name = object.location.as_ref().strip_prefix(&all)?;
                name.strip_suffix(END)?.parse().ok()
            });
            let mut names: Vec<RegisterKey> = names.collect();
            names.sort_unstable();
            Ok(names)
        })
    }

    fn read_many<'a>(
        &'a self,
        keys: &'a [RegisterKey],
    ) -> BoxFuture<'a, Result<Vec<Read>, Failure>> {
        let reads = stream::iter(keys).map(|key| self.read(key, None));
        Box::pin(reads.buffered(AT_ONCE).try_collect())
    }

    fn facts(&self) -> HomeFacts {
        HomeFacts {
            warnings: self.warning().iter().cloned().collect(),
            ..HomeFacts::default()
        }
    }
}
