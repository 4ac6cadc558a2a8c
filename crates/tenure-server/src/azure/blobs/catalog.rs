//! What containers and blobs there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderValue;
use chrono::{DateTime, Utc};

use crate::azure::headers::{Metadata, http_date};
use crate::clock;

/// What a container or a blob costs apart from its bytes.
const ROOM: u64 = 512;

/// When, and as which of all changes, something was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::azure) struct Stamp {
    /// Greater than those of all changes before.
    pub(super) number: u64,
    pub(super) wall_ms: i64,
}

/// Containers and their blobs, by account and name.
#[derive(Debug, Default)]
pub(in crate::azure) struct Catalog {
    accounts: BTreeMap<String, BTreeMap<String, Container>>,
    bytes: u64,
    pub(super) last: Stamp,
}

#[derive(Clone, Debug)]
pub(in crate::azure) struct Container {
    pub(in crate::azure) version: Version,
    pub(in crate::azure) metadata: Metadata,
    blobs: BTreeMap<String, Arc<Blob>>,
}

#[derive(Clone, Debug)]
pub(in crate::azure) struct Blob {
    pub(in crate::azure) version: Version,
    pub(in crate::azure) created: Stamp,
    pub(in crate::azure) body: Body,
    /// What the body was made of, as far as it is known: that is forgotten when the store ends.
    pub(in crate::azure) blocks: Arc<[Block]>,
    pub(in crate::azure) content: ContentHeaders,
    pub(in crate::azure) metadata: Metadata,
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::azure) struct Block {
    pub(in crate::azure) id: String,
    pub(in crate::azure) len: usize,
}

/// What the last change made of something, as its headers say it.
#[derive(Clone, Debug)]
pub(in crate::azure) struct Version {
    pub(in crate::azure) stamp: Stamp,
    pub(in crate::azure) etag: HeaderValue,
    pub(in crate::azure) last_modified: HeaderValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::azure) enum Body {
    Block(Bytes),
    /// So many zeros: pages can't be written here.
    Page(u64),
}

/// What is told with a blob's body, by header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::azure) struct ContentHeaders(pub(in crate::azure) BTreeMap<String, String>);

/// One change.
#[derive(Clone, Debug)]
pub(in crate::azure) enum Change {
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
    /// When.
    pub(in crate::azure) fn time(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.wall_ms).unwrap_or_default()
    }

    /// The ETag, without quotes.
    pub(in crate::azure) fn etag(self) -> String {
        format!("0x{:X}", self.number)
    }
}

impl Version {
    pub(in crate::azure) fn new(stamp: Stamp) -> Self {
        let value = |text: String| HeaderValue::try_from(text).expect("it is visible ASCII");
        Self {
            stamp,
            etag: value(format!("\"{}\"", stamp.etag())),
            last_modified: value(http_date(stamp.time())),
        }
    }
}

impl Body {
    pub(in crate::azure) const fn len(&self) -> u64 {
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

    pub(in crate::azure) fn blob(&self, name: &str) -> Option<&Arc<Blob>> {
        self.blobs.get(name)
    }

    /// The blobs from this name on, in order.
    pub(in crate::azure) fn blobs_from(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&String, &Arc<Blob>)> {
        self.blobs.range(name.to_owned()..)
    }

    /// The same, with nothing in it.
    pub(in crate::azure) fn without_blobs(&self) -> Self {
        Self {
            version: self.version.clone(),
            metadata: self.metadata.clone(),
            blobs: BTreeMap::new(),
        }
    }

    fn bytes(&self, name: &str) -> u64 {
        ROOM + name.len() as u64 + size_of_metadata(&self.metadata)
    }
}

impl Blob {
    fn bytes(&self, name: &str) -> u64 {
        let body = match &self.body {
            Body::Block(bytes) => bytes.len() as u64,
            Body::Page(_) => 0,
        };
        let blocks = self.blocks.iter();
        ROOM + body
            + name.len() as u64
            + blocks
                .map(|block| (size_of::<Block>() + block.id.len()) as u64)
                .sum::<u64>()
            + size_of_metadata(&self.content.0)
            + size_of_metadata(&self.metadata)
    }
}

impl Catalog {
    pub(in crate::azure) fn container(&self, account: &str, name: &str) -> Option<&Container> {
        self.accounts.get(account)?.get(name)
    }

    fn container_mut(&mut self, account: &str, name: &str) -> Option<&mut Container> {
        self.accounts.get_mut(account)?.get_mut(name)
    }

    /// The account's containers from this name on, in order.
    pub(in crate::azure) fn containers_from(
        &self,
        account: &str,
        name: &str,
    ) -> impl Iterator<Item = (&String, &Container)> {
        let containers = self.accounts.get(account).into_iter();
        containers.flat_map(|containers| containers.range(name.to_owned()..))
    }

    pub(super) fn next_stamp(&self) -> Stamp {
        let wall = clock::wall().get();
        // Not below the clock, so that after a backup was restored no ETag comes again that was
        // given after it.
        let number = (self.last.number + 1).max(wall.saturating_mul(1000));
        Stamp {
            number,
            wall_ms: wall.try_into().unwrap_or(0),
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes there are after this change.
    pub(super) fn bytes_after(&self, change: &Change) -> u64 {
        let (more, less) = match change {
            Change::PutContainer {
                account,
                container,
                metadata,
            } => {
                let old = self.container(account, container);
                let new = ROOM + container.len() as u64 + size_of_metadata(metadata);
                (new, old.map_or(0, |old| old.bytes(container)))
            }
            Change::DeleteContainer { account, container } => {
                let old = self.container(account, container);
                let all = |old: &Container| {
                    let blobs = old.blobs.iter();
                    old.bytes(container) + blobs.map(|(name, blob)| blob.bytes(name)).sum::<u64>()
                };
                (0, old.map_or(0, all))
            }
            Change::PutBlob {
                account,
                container,
                name,
                blob,
            } => {
                let old = self.container(account, container);
                let old = old.and_then(|container| container.blob(name));
                (blob.bytes(name), old.map_or(0, |old| old.bytes(name)))
            }
            Change::DeleteBlob {
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

    pub(super) fn apply(&mut self, stamp: Stamp, change: Change) {
        self.bytes = self.bytes_after(&change);
        self.last = self.last.max(stamp);
        match change {
            Change::PutContainer {
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
            Change::DeleteContainer { account, container } => {
                if let Some(containers) = self.accounts.get_mut(&account) {
                    containers.remove(&container);
                }
            }
            Change::PutBlob {
                account,
                container,
                name,
                blob,
            } => {
                if let Some(container) = self.container_mut(&account, &container) {
                    container.blobs.insert(name, blob);
                }
            }
            Change::DeleteBlob {
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
