//! Containers and blobs: all of them in memory, and on disk before a change is acknowledged.
//!
//! One request at a time changes something. It reads the catalog, checks the lease, writes to disk,
//! and then publishes the change. Operations on leases that change who may write, which are all
//! except renewals, wait for it: no client acquires the lease of a blob during a write that was
//! allowed before.

mod catalog;
mod copy;
mod disk;
mod rows;
mod staged;
mod watermark;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{OwnedRwLockWriteGuard, RwLock as Order, RwLockReadGuard as Shared};
use tracing::error;

use self::disk::{Disk, WriteError};
use super::error::{INTERNAL_ERROR, REQUEST_BODY_TOO_LARGE, Result, SERVER_BUSY};
use tenure_server::OpenError;
use tenure_server::Store;

pub(super) use catalog::{
    Blob, BlobChange, Block, Body, Catalog, Container, ContentHeaders, Stamp, Version,
};
pub(super) use copy::copy;
pub(super) use disk::{DATABASE, restoring};
pub(super) use staged::{MAX_BLOCKS, Staged, StagedLimits, Target};
pub(super) use watermark::{Watermark, check};

/// All containers and blobs.
pub(super) struct Blobs {
    catalog: RwLock<Catalog>,
    order: Arc<Order<()>>,
    /// `None` if blobs are in memory only.
    disk: Option<Mutex<Disk>>,
    staged: Mutex<Staged>,
    max_total_bytes: u64,
}

/// The right to change containers and blobs.
pub(super) struct WriteLock(#[allow(dead_code)] OwnedRwLockWriteGuard<()>);

impl Blobs {
    /// Reads the database in this directory, or creates one; without a directory, blobs are in
    /// memory only.
    pub(super) fn open(
        folder: Option<&Path>,
        max_total_bytes: usize,
        staged: StagedLimits,
    ) -> Result<Self, OpenError> {
        let (disk, catalog) = match folder {
            Some(folder) => {
                let (disk, catalog) = Disk::open(folder)?;
                (Some(Mutex::new(disk)), catalog)
            }
            None => (None, Catalog::default()),
        };
        Ok(Self {
            catalog: RwLock::new(catalog),
            order: Arc::default(),
            disk,
            staged: Mutex::new(Staged::new(staged)),
            max_total_bytes: max_total_bytes as u64,
        })
    }

    /// The containers and blobs.
    pub(super) fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        // A change is applied completely or not at all, also by a thread that panics.
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The uncommitted blocks. They change only under the write lock, like blobs.
    pub(super) fn staged(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the read lock: nothing changes while it is held.
    pub(super) async fn read_lock(&self) -> Shared<'_, ()> {
        self.order.read().await
    }

    /// Waits for the write lock.
    pub(super) async fn write_lock(&self) -> WriteLock {
        WriteLock(Arc::clone(&self.order).write_owned().await)
    }

    /// Makes a change durable, and then publishes it. Its number, which becomes the ETag, is
    /// greater than all before, also after a restore.
    pub(super) async fn change(
        self: &Arc<Self>,
        store: &Store,
        _lock: &WriteLock,
        change: impl FnOnce(Stamp) -> BlobChange,
    ) -> Result<Stamp> {
        let stamp = self.catalog().next_stamp();
        let change = change(stamp);
        let most = self.max_total_bytes;
        let bytes = self.catalog().bytes_after(&change);
        if bytes > most && bytes > self.catalog().bytes() {
            return Err(REQUEST_BODY_TOO_LARGE.because(format!(
                "containers and blobs would have {bytes} bytes, at most {most} are allowed"
            )));
        }
        let blobs = Arc::clone(self);
        // An fsync blocks.
        let written = tokio::task::spawn_blocking(move || {
            if let Some(disk) = &blobs.disk {
                let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
                disk.write(stamp, &change)?;
            }
            let mut catalog = blobs
                .catalog
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            catalog.apply(stamp, change);
            Ok(())
        });
        match written.await {
            Ok(Ok(())) => Ok(stamp),
            Ok(Err(WriteError::Undone(error))) => {
                tracing::warn!(error, "a change of a blob was undone");
                Err(SERVER_BUSY.into())
            }
            // It is unknown whether it is on disk: nothing more may be acknowledged.
            Ok(Err(WriteError::Fatal(error))) => {
                error!(error, "the database of blobs failed; the store ends");
                store.fail();
                Err(SERVER_BUSY.into())
            }
            Err(error) => {
                error!(%error, "a change of a blob failed by a fault in the store");
                store.fail();
                Err(INTERNAL_ERROR.into())
            }
        }
    }
}
