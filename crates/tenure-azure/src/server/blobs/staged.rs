//! Uncommitted blocks, which clients have put but which are not part of a blob yet. They are in
//! memory only.
//!
//! Like the service, a store drops them when the blob is written or deleted, or when no block has
//! arrived for some time. Unlike the service, a store loses them when it ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use crate::server::error::{
    BLOCK_COUNT_EXCEEDS_LIMIT, REQUEST_BODY_TOO_LARGE, Result, SERVER_BUSY,
};
use crate::server::target::Target;

/// The greatest number of blocks of a blob, which is the service's limit for a block list.
pub(in crate::server) const MAX_BLOCKS: usize = 50_000;

/// The size that is counted for each block, in addition to its bytes and its id.
const OVERHEAD: u64 = 256;

/// The limits of uncommitted blocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct StagedLimits {
    /// The greatest number of bytes in the blocks of one blob.
    pub(in crate::server) blob_bytes: u64,
    /// The greatest number of bytes in all blocks, with names, ids and [`OVERHEAD`] for each block.
    pub(in crate::server) total_bytes: u64,
    /// The time for which the blocks of a blob stay after the last one arrived.
    pub(in crate::server) time: Duration,
}

/// All uncommitted blocks.
#[derive(Debug)]
pub(in crate::server) struct Staged {
    limits: StagedLimits,
    uploads: BTreeMap<Target, Upload>,
    /// The size that is counted for all of them.
    cost: u64,
}

/// The uncommitted blocks of one blob.
#[derive(Debug)]
struct Upload {
    blocks: BTreeMap<String, Bytes>,
    /// The number of bytes in all of them.
    bytes: u64,
    last_put: Instant,
}

impl Upload {
    fn cost(&self, target: &Target) -> u64 {
        let blocks = self.blocks.iter();
        blocks.map(|(id, bytes)| cost(target, id, bytes)).sum()
    }
}

fn cost(target: &Target, id: &str, bytes: &Bytes) -> u64 {
    let names = target.account.len() + target.container.len() + target.blob.len();
    OVERHEAD + (names + id.len() + bytes.len()) as u64
}

impl Staged {
    pub(super) const fn new(limits: StagedLimits) -> Self {
        Self {
            limits,
            uploads: BTreeMap::new(),
            cost: 0,
        }
    }

    /// Adds a block. It replaces an earlier block with the same id.
    pub(in crate::server) fn put(
        &mut self,
        target: Target,
        id: String,
        bytes: Bytes,
        now: Instant,
    ) -> Result<()> {
        self.drop_expired(now);
        let known = self.uploads.get(&target);
        let replaced = known.and_then(|upload| upload.blocks.get(&id));
        let most = self.limits.blob_bytes;
        let freed = replaced.map_or(0, |bytes| bytes.len() as u64);
        let size = known.map_or(0, |upload| upload.bytes) - freed + bytes.len() as u64;
        if size > most {
            return Err(REQUEST_BODY_TOO_LARGE.because(format!(
                "the blob's uncommitted blocks would have {size} bytes, at most {most} are allowed"
            )));
        }
        if replaced.is_none() && known.is_some_and(|upload| upload.blocks.len() >= MAX_BLOCKS) {
            return Err(BLOCK_COUNT_EXCEEDS_LIMIT.into());
        }
        let freed = replaced.map_or(0, |bytes| cost(&target, &id, bytes));
        let added = cost(&target, &id, &bytes);
        let most = self.limits.total_bytes;
        let total = self.cost - freed + added;
        if total > most {
            // A retry succeeds after others commit, or after their blocks expire.
            return Err(SERVER_BUSY.because(format!(
                "the uncommitted blocks of all blobs would have {total} bytes, at most {most} are allowed"
            )));
        }
        self.cost = total;
        let upload = self.uploads.entry(target).or_insert_with(|| Upload {
            blocks: BTreeMap::new(),
            bytes: 0,
            last_put: now,
        });
        upload.last_put = now;
        upload.bytes = size;
        upload.blocks.insert(id, bytes);
        Ok(())
    }

    /// Returns the blocks of a blob, in the order of their ids.
    pub(in crate::server) fn of(
        &mut self,
        target: &Target,
        now: Instant,
    ) -> Option<&BTreeMap<String, Bytes>> {
        self.drop_expired(now);
        self.uploads.get(target).map(|upload| &upload.blocks)
    }

    /// Drops the blocks of a blob.
    pub(in crate::server) fn discard(&mut self, target: &Target) {
        if let Some(upload) = self.uploads.remove(target) {
            self.cost -= upload.cost(target);
        }
    }

    /// Drops the blocks of all blobs of a container.
    pub(in crate::server) fn discard_container(&mut self, container: &Target) {
        self.discard_if(|target, _| target.of_container() == *container);
    }

    fn drop_expired(&mut self, now: Instant) {
        let time = self.limits.time;
        self.discard_if(|_, upload| now.saturating_duration_since(upload.last_put) >= time);
    }

    fn discard_if(&mut self, gone: impl Fn(&Target, &Upload) -> bool) {
        let cost = &mut self.cost;
        self.uploads.retain(|target, upload| {
            let goes = gone(target, upload);
            if goes {
                *cost -= upload.cost(target);
            }
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::error::AzureErrorCode;

    const LIMITS: StagedLimits = StagedLimits {
        blob_bytes: 100,
        total_bytes: 3 * (OVERHEAD + 3 + 1 + 60),
        time: Duration::from_secs(60),
    };

    fn target(blob: &str) -> Target {
        Target::new("a", "c", blob)
    }

    fn put(
        staged: &mut Staged,
        blob: &str,
        id: &str,
        bytes: usize,
        now: Instant,
    ) -> Option<AzureErrorCode> {
        let put = staged.put(target(blob), id.into(), vec![0; bytes].into(), now);
        put.err().map(|error| error.code)
    }

    #[test]
    fn blocks_are_limited_and_replaced_blocks_free_their_bytes() {
        let now = Instant::now();
        let mut staged = Staged::new(LIMITS);
        assert_eq!(put(&mut staged, "x", "1", 60, now), None);
        let too_large = Some(REQUEST_BODY_TOO_LARGE);
        assert_eq!(put(&mut staged, "x", "2", 60, now), too_large);
        assert_eq!(put(&mut staged, "x", "1", 50, now), None);
        assert_eq!(put(&mut staged, "x", "1", 60, now), None);
        assert_eq!(put(&mut staged, "y", "1", 60, now), None);
        assert_eq!(put(&mut staged, "z", "1", 60, now), None);
        // A fourth blob does not fit until the blocks of another one are dropped.
        assert_eq!(put(&mut staged, "u", "1", 1, now), Some(SERVER_BUSY));
        staged.discard(&target("y"));
        assert_eq!(put(&mut staged, "u", "1", 1, now), None);
        staged.discard_container(&Target::new("a", "other", ""));
        assert!(staged.of(&target("u"), now).is_some());
        staged.discard_container(&Target::new("a", "c", ""));
        assert!(staged.uploads.is_empty() && staged.cost == 0);
    }

    #[test]
    fn blocks_expire_some_time_after_the_last_one() {
        let start = Instant::now();
        let later = start + LIMITS.time / 2;
        let mut staged = Staged::new(LIMITS);
        put(&mut staged, "x", "1", 10, start);
        put(&mut staged, "x", "2", 10, later);
        let count = |staged: &mut Staged, now| staged.of(&target("x"), now).map(BTreeMap::len);
        assert_eq!(count(&mut staged, start + LIMITS.time), Some(2));
        assert_eq!(count(&mut staged, later + LIMITS.time), None);
        // The store drops the old blocks of other blobs to make room for this one.
        for blob in ["x", "y", "z"] {
            assert_eq!(put(&mut staged, blob, "1", 60, start), None);
        }
        assert_eq!(put(&mut staged, "u", "1", 60, later), Some(SERVER_BUSY));
        assert_eq!(put(&mut staged, "u", "1", 60, start + LIMITS.time), None);
    }
}
