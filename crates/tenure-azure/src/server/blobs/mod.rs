//! Containers and blobs. All of them are in memory, and a change is written to documents of the
//! store before it is acknowledged.
//!
//! Only one request at a time changes containers or blobs. It reads the catalog, checks the lease,
//! lets the store commit the change, and then publishes it. Lease operations other than renewals
//! can change the permission to write, so they wait for that request. This way no client acquires
//! the lease of a blob during a write that was already permitted.

mod catalog;
mod item;
mod staged;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tenure_server::{OpenError, Store};
use tokio::sync::{RwLock as Order, RwLockReadGuard as ReadLock, RwLockWriteGuard};

use super::clock;
use super::config::AzureConfig;
use super::error::{REQUEST_BODY_TOO_LARGE, Result};
use super::target::Target;

pub(super) use catalog::Catalog;
pub(super) use item::{Block, Body, Item};
pub(super) use staged::{MAX_BLOCKS, Staged, StagedLimits};

/// All containers and blobs.
pub(super) struct Blobs {
    store: Store,
    catalog: RwLock<Catalog>,
    order: Order<()>,
    staged: Mutex<Staged>,
    max_total_bytes: u64,
}

/// The permission to change containers and blobs.
pub(super) type WriteLock<'a> = RwLockWriteGuard<'a, ()>;

impl Blobs {
    /// Reads the containers and blobs from the store.
    pub(super) fn open(store: &Store, config: &AzureConfig) -> Result<Self, OpenError> {
        let mut catalog = Catalog::default();
        for document in store.take_documents() {
            let Some((target, item)) = Item::read(&document) else {
                return Err(OpenError::Damaged {
                    path: document.name.into(),
                    detail: "this document of the store is not a container or a blob".into(),
                });
            };
            catalog.put(target, item.into());
        }
        Ok(Self {
            store: store.clone(),
            catalog: RwLock::new(catalog),
            order: Order::default(),
            staged: Mutex::new(Staged::new(config.staged())),
            max_total_bytes: config.max_total_bytes as u64,
        })
    }

    /// Returns the containers and blobs.
    pub(super) fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        // A change is applied completely or not at all, even if a thread panics.
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the uncommitted blocks. They change only under the write lock, like blobs.
    pub(super) fn staged(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the read lock. No container or blob changes while it is held.
    pub(super) async fn read_lock(&self) -> ReadLock<'_, ()> {
        self.order.read().await
    }

    /// Waits for the write lock.
    pub(super) async fn write_lock(&self) -> WriteLock<'_> {
        self.order.write().await
    }

    /// Makes a container or a blob durable, and then publishes it. Its revision, which becomes the
    /// ETag, is greater than all earlier revisions, even after a restore.
    pub(super) async fn put(
        &self,
        _lock: &WriteLock<'_>,
        target: Target,
        mut item: Item,
    ) -> Result<Item> {
        item.modified_ms = clock::unix_ms();
        let (bytes, most) = (self.catalog().bytes, self.max_total_bytes);
        let total = self.catalog().bytes_with(&target, &item);
        if total > most && total > bytes {
            return Err(REQUEST_BODY_TOO_LARGE.because(format!(
                "containers and blobs would have {total} bytes, at most {most} are allowed"
            )));
        }
        let document = (target.document_name(), Some(item.to_document()));
        item.revision = self.store.write_documents([document]).await?;
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        catalog.put(target, item.clone().into());
        Ok(item)
    }

    /// Deletes containers and blobs. Either all of them are deleted or none.
    pub(super) async fn delete(&self, _lock: &WriteLock<'_>, targets: &[Target]) -> Result<()> {
        let documents = targets.iter().map(|target| (target.document_name(), None));
        self.store.write_documents(documents).await?;
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        for target in targets {
            catalog.remove(target);
        }
        Ok(())
    }
}
