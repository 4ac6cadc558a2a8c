//! A container or a blob, and the document that stores it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_server::Document;

use crate::server::headers::Metadata;
use crate::server::target::{Level, Target};

/// The size that is counted for each item, in addition to its bytes.
const OVERHEAD: usize = 512;

/// A container or a blob. A container has no body.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::server) struct Item {
    /// The store's revision of the last change.
    #[serde(skip)]
    pub(in crate::server) revision: u64,
    pub(in crate::server) modified_ms: i64,
    pub(in crate::server) created_ms: i64,
    /// The content headers, by name.
    pub(in crate::server) content: BTreeMap<String, String>,
    pub(in crate::server) metadata: Metadata,
    #[serde(skip)]
    pub(in crate::server) body: Body,
    /// The blocks of the body, if they are known. They are lost when the store ends.
    #[serde(skip)]
    pub(in crate::server) blocks: Arc<[Block]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Body {
    Block(Bytes),
    /// This number of zeros, because pages cannot be written.
    Page(u64),
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Block {
    pub(in crate::server) id: String,
    pub(in crate::server) len: usize,
}

impl Item {
    /// Returns the ETag, without quotes.
    pub(in crate::server) fn etag(&self) -> String {
        format!("0x{:X}", self.revision)
    }

    /// Returns the time of the last change.
    pub(in crate::server) fn modified(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.modified_ms).unwrap_or_default()
    }

    pub(in crate::server) fn created(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.created_ms).unwrap_or_default()
    }

    /// Returns the size that is counted for the item.
    pub(super) fn bytes(&self, target: &Target) -> u64 {
        let text = |pairs: &BTreeMap<String, String>| -> usize {
            pairs
                .iter()
                .map(|(name, text)| name.len() + text.len())
                .sum()
        };
        let body = match &self.body {
            Body::Block(bytes) => bytes.len(),
            Body::Page(_) => 0,
        };
        let blocks = self.blocks.iter();
        let blocks: usize = blocks
            .map(|block| size_of::<Block>() + block.id.len())
            .sum();
        let name = match target.level() {
            Level::Blob => &target.blob,
            Level::Container | Level::Account => &target.container,
        };
        (OVERHEAD + name.len() + text(&self.metadata) + text(&self.content) + body + blocks) as u64
    }

    /// Serialises the item: the properties and the length of a page blob in JSON, a line feed, and
    /// the body.
    pub(super) fn to_document(&self) -> Bytes {
        let pages = match &self.body {
            Body::Block(_) => None,
            Body::Page(len) => Some(len),
        };
        let mut bytes = serde_json::to_vec(&(self, pages)).expect("texts by name can be written");
        bytes.push(b'\n');
        if let Body::Block(body) = &self.body {
            bytes.extend_from_slice(body);
        }
        bytes.into()
    }

    /// Parses the item of a document. Returns `None` if another program wrote the document.
    pub(super) fn read(document: &Document) -> Option<(Target, Self)> {
        let mut names = document.name.splitn(3, '/');
        let target = Target::new(names.next()?, names.next()?, names.next()?);
        let content = &document.content;
        let end = content.iter().position(|byte| *byte == b'\n')?;
        let (item, pages): (Self, Option<u64>) = serde_json::from_slice(&content[..end]).ok()?;
        let body = match pages {
            // A slice would keep the buffer with the properties in memory.
            None => Body::Block(Bytes::copy_from_slice(&content[end + 1..])),
            Some(len) => Body::Page(len),
        };
        let revision = document.revision;
        Some((
            target,
            Self {
                revision,
                body,
                ..item
            },
        ))
    }
}

impl Body {
    pub(in crate::server) const fn len(&self) -> u64 {
        match self {
            Self::Block(bytes) => bytes.len() as u64,
            Self::Page(len) => *len,
        }
    }

    /// Returns the type of the blob, as the service names it.
    pub(in crate::server) const fn kind(&self) -> &'static str {
        match self {
            Self::Block(_) => "BlockBlob",
            Self::Page(_) => "PageBlob",
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Block(Bytes::new())
    }
}

impl Target {
    /// Returns the name of the document. Names of accounts and containers contain no slash, so
    /// document names are unique.
    pub(super) fn document_name(&self) -> String {
        format!("{}/{}/{}", self.account, self.container, self.blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_whole_item() {
        let target = Target::new("acct", "leases", "a/b");
        let texts = BTreeMap::from([("name".to_owned(), "line\nfeed".to_owned())]);
        for body in [Body::Block(Bytes::from("x\ny")), Body::Page(512)] {
            let item = Item {
                revision: 7,
                modified_ms: 2,
                created_ms: 1,
                content: texts.clone(),
                metadata: texts.clone(),
                body,
                blocks: Arc::default(),
            };
            let document = Document {
                name: target.document_name(),
                revision: item.revision,
                content: item.to_document(),
            };
            let (read_target, read) = Item::read(&document).unwrap();
            assert_eq!(read_target, target);
            assert_eq!(format!("{read:?}"), format!("{item:?}"));
        }
    }
}
