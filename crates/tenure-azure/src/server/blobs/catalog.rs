//! The containers and blobs, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderValue;
use chrono::{DateTime, Utc};

use crate::server::clock;
use crate::server::headers::{Metadata, http_date};

/// The cost of a container or a blob apart from its bytes.
const OVERHEAD: u64 = 512;

/// The number and the time of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) struct Stamp {
    /// Greater than those of all earlier changes.
    pub(super) number: u64,
    pub(super) wall_ms: i64,
}

/// Containers and their blobs, by account and name.
#[derive(Debug, Default)]
pub(in crate::server) struct Catalog {
    accounts: BTreeMap<String, BTreeMap<String, Container>>,
    bytes: u64,
    pub(super) last: Stamp,
}

#[derive(Clone, Debug)]
pub(in crate::server) struct Container {
    pub(in crate::server) version: Version,
    pub(in crate::server) metadata: Metadata,
    blobs: BTreeMap<String, Arc<Blob>>,
}

#[derive(Clone, Debug)]
pub(in crate::server) struct Blob {
    pub(in crate::server) version: Version,
    pub(in crate::server) created: Stamp,
    pub(in crate::server) body: Body,
    /// The blocks of the body, if they are known: they are lost when the store ends.
    pub(in crate::server) blocks: Arc<[Block]>,
    pub(in crate::server) content: ContentHeaders,
    pub(in crate::server) metadata: Metadata,
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Block {
    pub(in crate::server) id: String,
    pub(in crate::server) len: usize,
}

/// The last change of a container or a blob, with its headers.
#[derive(Clone, Debug)]
pub(in crate::server) struct Version {
    pub(in crate::server) stamp: Stamp,
    pub(in crate::server) etag: HeaderValue,
    pub(in crate::server) last_modified: HeaderValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Body {
    Block(Bytes),
    /// This number of zeros: pages cannot be written.
    Page(u64),
}

/// The content headers of a blob, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct ContentHeaders(pub(in crate::server) BTreeMap<String, String>);

/// One change.
#[derive(Clone, Debug)]
pub(in crate::server) enum BlobChange {
    PutContainer {
        account: String,
        container: String,
        metadata: Metadata,
    },
    DeleteContainer {
        account: String,
        container: String,
    },
    PutBlob {
        account: String,
        container: String,
        name: String,
        blob: Arc<Blob>,
    },
    DeleteBlob {
        account: String,
        container: String,
        name: String,
    },
}

impl Stamp {
    /// The time.
    pub(in crate::server) fn time(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.wall_ms).unwrap_or_default()
    }

    /// The ETag, without quotes.
    pub(in crate::server) fn etag(self) -> String {
        format!("0x{:X}", self.number)
    }
}

impl Version {
    pub(in crate::server) fn new(stamp: Stamp) -> Self {
        let value = |text: String| HeaderValue::try_from(text).expect("it is visible ASCII");
        Self {
            stamp,
            etag: value(format!("\"{}\"", stamp.etag())),
            last_modified: value(http_date(stamp.time())),
        }
    }
}

impl Body {
    pub(in crate::server) const fn len(&self) -> u64 {
        match self {
            Self::Block(bytes) => bytes.len() as u64,
            Self::Page(len) => *len,
        }
    }
}

fn size_of_metadata(metadata: &Metadata) -> u64 {
    let pairs = metadata.iter();
    pairs
        .map(|(name, value)| (name.len() + value.len()) as u64)
        .sum()
}

impl Container {
    pub(super) fn new(stamp: Stamp, metadata: Metadata) -> Self {
        Self {
            version: Version::new(stamp),
            metadata,
            blobs: BTreeMap::new(),
        }
    }

    pub(in crate::server) fn blob(&self, name: &str) -> Option<&Arc<Blob>> {
        self.blobs.get(name)
    }

    /// The blobs from this name on, in order.
    pub(in crate::server) fn blobs_from(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&String, &Arc<Blob>)> {
        self.blobs.range(name.to_owned()..)
    }

    /// The container without its blobs.
    pub(in crate::server) fn without_blobs(&self) -> Self {
        Self {
            version: self.version.clone(),
            metadata: self.metadata.clone(),
            blobs: BTreeMap::new(),
        }
    }

    fn bytes(&self, name: &str) -> u64 {
        OVERHEAD + name.len() as u64 + size_of_metadata(&self.metadata)
    }
}

impl Blob {
    fn bytes(&self, name: &str) -> u64 {
        let body = match &self.body {
            Body::Block(bytes) => bytes.len() as u64,
            Body::Page(_) => 0,
        };
        let blocks = self.blocks.iter();
        OVERHEAD
            + body
            + name.len() as u64
            + blocks
                .map(|block| (size_of::<Block>() + block.id.len()) as u64)
                .sum::<u64>()
            + size_of_metadata(&self.content.0)
            + size_of_metadata(&self.metadata)
    }
}

impl Catalog {
    pub(in crate::server) fn container(&self, account: &str, name: &str) -> Option<&Container> {
        self.accounts.get(account)?.get(name)
    }

    fn container_mut(&mut self, account: &str, name: &str) -> Option<&mut Container> {
        self.accounts.get_mut(account)?.get_mut(name)
    }

    /// The account's containers from this name on, in order.
    pub(in crate::server) fn containers_from(
        &self,
        account: &str,
        name: &str,
    ) -> impl Iterator<Item = (&String, &Container)> {
        let containers = self.accounts.get(account).into_iter();
        containers.flat_map(|containers| containers.range(name.to_owned()..))
    }

    pub(super) fn next_stamp(&self) -> Stamp {
        let wall = clock::unix().get();
        // Not below the clock: after a restore no ETag repeats that was given out after the backup.
        let number = (self.last.number + 1).max(wall.saturating_mul(1000));
        Stamp {
            number,
            wall_ms: wall.try_into().unwrap_or(0),
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The total of bytes after this change.
    pub(super) fn bytes_after(&self, change: &BlobChange) -> u64 {
        let (more, less) = match change {
            BlobChange::PutContainer {
                account,
                container,
                metadata,
            } => {
                let old = self.container(account, container);
                let new = OVERHEAD + container.len() as u64 + size_of_metadata(metadata);
                (new, old.map_or(0, |old| old.bytes(container)))
            }
            BlobChange::DeleteContainer { account, container } => {
                let old = self.container(account, container);
                let all = |old: &Container| {
                    let blobs = old.blobs.iter();
                    old.bytes(container) + blobs.map(|(name, blob)| blob.bytes(name)).sum::<u64>()
                };
                (0, old.map_or(0, all))
            }
            BlobChange::PutBlob {
                account,
                container,
                name,
                blob,
            } => {
                let old = self.container(account, container);
                let old = old.and_then(|container| container.blob(name));
                (blob.bytes(name), old.map_or(0, |old| old.bytes(name)))
            }
            BlobChange::DeleteBlob {
                account,
                container,
                name,
            } => {
                let old = self.container(account, container);
                let old = old.and_then(|container| container.blob(name));
                (0, old.map_or(0, |old| old.bytes(name)))
            }
        };
        (self.bytes + more).saturating_sub(less)
    }

    pub(super) fn apply(&mut self, stamp: Stamp, change: BlobChange) {
        self.bytes = self.bytes_after(&change);
        self.last = self.last.max(stamp);
        match change {
            BlobChange::PutContainer {
                account,
                container,
                metadata,
            } => match self.container_mut(&account, &container) {
                Some(container) => {
                    container.metadata = metadata;
                    container.version = Version::new(stamp);
                }
                None => {
                    let containers = self.accounts.entry(account).or_default();
                    containers.insert(container, Container::new(stamp, metadata));
                }
            },
            BlobChange::DeleteContainer { account, container } => {
                if let Some(containers) = self.accounts.get_mut(&account) {
                    containers.remove(&container);
                }
            }
            BlobChange::PutBlob {
                account,
                container,
                name,
                blob,
            } => {
                if let Some(container) = self.container_mut(&account, &container) {
                    container.blobs.insert(name, blob);
                }
            }
            BlobChange::DeleteBlob {
                account,
                container,
                name,
            } => {
                if let Some(container) = self.container_mut(&account, &container) {
                    container.blobs.remove(&name);
                }
            }
        }
    }
}
