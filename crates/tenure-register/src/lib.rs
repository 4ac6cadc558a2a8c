//! Registers: values under keys, each of which is replaced on a condition.
//!
//! A *home* is a service that keeps registers. An election, or the log of a store, needs
//! no more than [`Register`]: one conditional replace of one key. Watches, sessions, locks and
//! transactions over two keys are deliberately not in it, because not every home has them, and no
//! home has them with the same meaning.
//!
//! - [`memory`]: a home for tests
//! - `bucket`: the registers are objects of S3, Google Cloud Storage or Azure (feature `bucket`)
//! - [`etcd`]: the registers are keys
//! - [`postgres`]: the registers are rows of a table

#[cfg(feature = "bucket")]
pub mod bucket;
pub mod etcd;
mod key;
pub mod memory;
pub mod postgres;
mod tls;
mod url;

/// The programs that tests of homes need, from the tests of the workspace.
#[cfg(all(test, unix))]
#[path = "../../../tests/support"]
#[allow(dead_code, unreachable_pub)] // Other tests use the rest.
mod support {
    pub(crate) mod etcd;
    pub(crate) mod needs;
    pub(crate) mod ports;
}

use std::error::Error;
use std::iter::successors;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use async_trait::async_trait;
pub use bytes::Bytes;
pub use key::{RegisterKey, RegisterKeyError};
pub use url::HomeUrl;

/// A service that stores values under keys, and files, each of which is written once under a name of its
/// own.
///
/// A home applies the replaces of one key one after the other. It keeps what it has acknowledged,
/// or answers with another [`Identity`] after it has lost something.
#[async_trait]
pub trait Register: Send + Sync + fmt::Debug {
    /// Reads a value. If its version is `known`, the home may answer [`Read::Unchanged`] without the
    /// value.
    ///
    /// The answer may be older than a value that was written meanwhile. So a read proves nothing: it
    /// can only make the next write fail.
    ///
    /// # Errors
    ///
    /// [`Failure`]. A read changes nothing, so [`Failure::Unknown`] says no more than
    /// [`Failure::NotApplied`].
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure>;

    /// Replaces exactly the expected version, or creates the value.
    ///
    /// Each version has at most one successor, so a late or repeated replace changes nothing. Two
    /// writers must not write the same bytes: in some homes the version is a hash of the value.
    ///
    /// # Errors
    ///
    /// [`Failure`]. After [`Failure::Unknown`] the replace may have been applied, or may still be.
    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure>;

    /// Writes a file, durably.
    ///
    /// # Errors
    ///
    /// [`Failure`]. After any of them, the file may be complete, partly written or missing.
    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure>;

    /// Reads a file. Returns `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// [`Failure`]
    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure>;

    /// Deletes files. A file that is missing is no error.
    ///
    /// # Errors
    ///
    /// [`Failure`]. Some of the files may be deleted.
    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure>;

    /// Returns the names of all files of which the first parts are these, in the order of the names.
    ///
    /// # Errors
    ///
    /// [`Failure`]
    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure>;

    /// Reads several registers, in one request if the home can.
    ///
    /// # Errors
    ///
    /// As of [`Self::read`], for the first one that can't be read.
    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        let mut reads = Vec::with_capacity(keys.len());
        for key in keys {
            reads.push(self.read(key, None).await?);
        }
        Ok(reads)
    }

    /// Does the periodic work that is due, for example a compaction. The owner of a log calls it
    /// about once a second. Failures are logged.
    async fn maintain(&self) {}

    /// Returns the facts that are known. No request is sent.
    fn facts(&self) -> HomeFacts {
        HomeFacts::default()
    }
}

/// Facts about a home, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeFacts {
    /// Its version.
    pub version: Option<Arc<str>>,
    /// The size of its data in bytes, without the space that it can use again.
    pub bytes: Option<u64>,
    /// The size at which it refuses changes, in bytes.
    pub quota_bytes: Option<u64>,
    /// Its problems that its operator should correct, although it can be used.
    pub warnings: Vec<String>,
}

impl HomeFacts {
    /// Returns the used share of the space, if it is known: 0.0 to 1.0.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // A database has far less than 2^52 bytes.
    pub fn used_space(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.quota_bytes? as f64)
    }
}

/// The state of a register that a replace names. While the home does not go back, the version of a
/// key never returns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

/// The home that gives an answer, so that a home which was restored, promoted or replaced is noticed:
/// for example a cluster id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(Arc<str>);

/// The condition of a replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The version that is replaced; `None` if there must be no value.
    pub version: Option<Version>,
    /// The home that has shown this version. A home that can check its identity within the write
    /// does so; another one checks that the connection has shown it.
    pub identity: Identity,
}

/// The answer to a read, with the home that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is no value.
    Absent(Identity),
    /// The value has the known version.
    Unchanged(Identity),
    /// The value with its version.
    Found {
        /// The version, for the next replace.
        version: Version,
        /// The value.
        value: Bytes,
        /// The home.
        identity: Identity,
    },
}

impl Read {
    /// Returns the home that gave the answer.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        match self {
            Self::Absent(identity) | Self::Unchanged(identity) | Self::Found { identity, .. } => {
                identity
            }
        }
    }

    /// Returns the answer of a home that has found this value, to a read that knows a version.
    fn found(version: Version, value: Bytes, identity: Identity, known: Option<&Version>) -> Self {
        if known == Some(&version) {
            return Self::Unchanged(identity);
        }
        Self::Found {
            version,
            value,
            identity,
        }
    }

    /// Returns the value, if there is one.
    fn into_value(self) -> Option<Bytes> {
        match self {
            Self::Found { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether there is the version that a replace expects, or no value if it expects none.
    fn is_expected(&self, expected: &Expected) -> bool {
        let version = match self {
            Self::Found { version, .. } => Some(version),
            _ => None,
        };
        *self.identity() == expected.identity && version == expected.version.as_ref()
    }
}

/// The answer to a replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The expected home has written the value, which has this version.
    Done(Version),
    /// The register does not have the expected version, or the home has another identity. Nothing
    /// was applied, and nothing of this replace will be. The read shows the present value.
    Changed(Read),
}

impl Replaced {
    /// Returns the outcome of a replace of this value that was refused, from a read after the refusal.
    /// `None` if the expected version is still there: the replace may still be under way.
    fn refused(found: Read, expected: &Expected, value: &Bytes) -> Option<Self> {
        match found {
            found if found.is_expected(expected) => None,
            // Values differ, so an earlier attempt was applied.
            Read::Found {
                version,
                value: found,
                identity,
            } if found == *value && identity == expected.identity => Some(Self::Done(version)),
            found => Some(Self::Changed(found)),
        }
    }
}

/// The reason why there is no answer. The text is for people, and names the home.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The request may have been applied, or may still be. The default: only an answer that proves
    /// that nothing was applied is another failure.
    #[error("{0}")]
    Unknown(String),
    /// The request was not applied and will not be. Another attempt may succeed.
    #[error("{0}")]
    NotApplied(String),
    /// The home has no space for the value. The request was not applied.
    #[error("{0}")]
    Full(String),
    /// The request was not applied, and no attempt succeeds before somebody changes the
    /// configuration or the home.
    #[error("{0}")]
    Misconfigured(String),
}

/// The size of the greatest value or file, in bytes. By default etcd refuses requests above 1.5 MiB, and
/// takes values in base64.
pub const MOST_BYTES: usize = 1 << 20;

/// Checks the size of a value.
fn check_size(key: &RegisterKey, value: &Bytes) -> Result<(), Failure> {
    match value.len() {
        len if len > MOST_BYTES => Err(Failure::Misconfigured(format!(
            "the value of {key} has {len} bytes, and the limit is {MOST_BYTES}"
        ))),
        _ => Ok(()),
    }
}

impl Version {
    /// Creates a version from the text by which a home names it.
    fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns a version that no other writer chooses.
    ///
    /// # Errors
    ///
    /// [`Failure::NotApplied`] if the operating system gives no random bits.
    fn random() -> Result<Self, Failure> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits)
            .map_err(|error| Failure::NotApplied(format!("no random bits: {error}")))?;
        Ok(Self::new(format!("{:032x}", u128::from_ne_bytes(bits))))
    }

    /// Returns the text by which the home names it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Identity {
    /// Creates an identity from the text that a home gives.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the identity as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of the place of each register in a home that has one space of names.
const REGISTER: &str = "register";

/// The part of the place of each file.
const FILE: &str = "file";

/// Returns an error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| {
        // An I/O error does not show the error in it as its source.
        let inner = error.downcast_ref().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

/// Returns an error with its causes as text.
fn describe(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.is_empty() => cause,
        cause if text.contains(&cause) => text,
        cause => format!("{text}: {cause}"),
    })
}

/// Locks what no panic leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a problem of a home, or that it has none, and logs a new one.
fn note_warning(noted: &mut Option<String>, found: Option<String>) {
    if let Some(warning) = &found
        && *noted != found
    {
        tracing::warn!("{warning}");
    }
    *noted = found;
}
