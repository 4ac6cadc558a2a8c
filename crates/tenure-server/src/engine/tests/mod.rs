//! Helpers for the tests of engines.

pub(super) mod log_lines;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::{
    Acquire, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules, Stored, TermEnd, apply,
};
use tenure_core::{Epoch, Instant as CoreInstant, UnixMillis};

use super::first_revision;
use crate::model::{
    Cause, ChangeSet, Content, Deleted, LeaseChange, LeaseKey, LeaseVersion, TermRecord,
};

pub(super) fn stored(metadata_len: usize) -> Stored {
    let request = Acquire {
        lease_id: LeaseId::from_random_bits(0, 1),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Infinite,
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::from([("k".into(), "x".repeat(metadata_len))]),
    };
    let now = CoreInstant::default();
    let mut record = Record::default();
    let acquire = Operation::Acquire(request, UnixMillis::new(7));
    apply(&mut record, &acquire, now, &Rules::NATIVE).unwrap();
    record.store(now)
}

pub(super) fn change(of: u64, revision: u64, content: Content) -> LeaseChange {
    LeaseChange {
        key: LeaseKey::of_text(&format!("ns/job-{of}")),
        revision,
        content,
        term: None,
        cause: Cause::Deleted,
        grant_path: None,
        waiters: 0,
        remaining_ms: None,
        trace: None,
    }
}

pub(super) fn write(revision: u64, metadata_len: usize) -> LeaseChange {
    let stored = stored(metadata_len).into();
    change(revision, revision, Content::Lease(stored))
}

pub(super) fn delete(revision: u64, of: u64, epoch: u64) -> LeaseChange {
    let deleted = Deleted {
        last: Epoch::new(epoch),
        retired: Vec::new(),
    };
    change(of, revision, Content::Deleted(deleted))
}

/// Returns the end of the term `epoch` of the lease of `write(1, _)`.
pub(super) fn end(revision: u64, epoch: u64) -> LeaseChange {
    let term = TermRecord {
        epoch: Epoch::new(epoch).unwrap(),
        holder: "a".parse().unwrap(),
        owner: None,
        began_at: UnixMillis::new(epoch),
        ended: Some((TermEnd::Released, UnixMillis::new(epoch + 1))),
        reason: None,
        without_store: None,
    };
    LeaseChange {
        term: Some(term.into()),
        ..change(1, revision, Content::Lease(stored(10).into()))
    }
}

/// Returns a set with a single change, which has all retired ids.
pub(super) fn alone(change: LeaseChange) -> ChangeSet {
    let before = LeaseVersion::default();
    ChangeSet {
        before,
        changes: vec![change],
        ..ChangeSet::default()
    }
}

/// Returns batches in which some leases change, end terms, are deleted and are created again, in
/// some order; and the retired ids of each lease at the end.
pub(super) fn batches(
    leases: u64,
    revisions: std::ops::Range<u64>,
) -> (Vec<Vec<ChangeSet>>, Vec<Vec<LeaseId>>) {
    let mut batches: Vec<Vec<ChangeSet>> = Vec::new();
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut versions = vec![None; leases as usize + 1];
    let mut retired = vec![Vec::new(); leases as usize + 1];
    for revision in revisions {
        let of = 1 + next(leases);
        let mut change = match next(12) {
            0 => delete(revision, of, 3 + revision / leases),
            1..4 => write(revision, (10 * revision % 700) as usize),
            _ => end(revision, 3 + revision / leases),
        };
        change.key = LeaseKey::of_text(&format!("ns/job-{of}"));
        let (list, version) = (&mut retired[of as usize], &mut versions[of as usize]);
        let before = version.take().unwrap_or_default();
        match &mut change.content {
            Content::Deleted(deleted) => deleted.retired = std::mem::take(list),
            Content::Lease(stored) => {
                // Each change adds an id to the retired ones, and forgets some.
                list.retain(|_| next(8) > 0);
                list.push(LeaseId::from_random_bits(0, revision));
                let stored = Arc::make_mut(stored);
                stored.retired.clone_from(list);
                let record = Record::restore(stored.clone(), CoreInstant::default());
                *version = Some(LeaseVersion {
                    record,
                    revision,
                    ..LeaseVersion::default()
                });
            }
        }
        if let Some(term) = &mut change.term {
            term.reason = (next(2) == 0).then(|| format!("at {revision}").into());
            term.ended = term.ended.filter(|_| next(3) > 0);
        }
        let set = ChangeSet {
            before,
            changes: vec![change],
            ..ChangeSet::default()
        };
        match batches.last_mut() {
            Some(batch) if next(2) == 0 => batch.push(set),
            _ => batches.push(vec![set]),
        }
    }
    (batches, retired)
}

#[test]
fn the_first_revision_is_the_time_and_leaves_room_for_later_ones() {
    let first = |wall| first_revision(UnixMillis::new(wall));
    assert_eq!(first(1_795_230_310_385), 1_795_230_310_385_000);
    assert_eq!((first(0), first(u64::MAX)), (0, 0));
    let last = (1 << 52) / 1_000;
    assert_eq!((first(last), first(last + 1)), (last * 1_000, 0));
}
