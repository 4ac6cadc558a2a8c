use std::sync::mpsc;

use super::*;
use crate::model::{Cause, Content, Deleted};

impl CommitQueue {
    /// Returns the last revision.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }
}

impl Ticket {
    fn is_pending(&self) -> bool {
        self.0.borrow().is_none()
    }
}

fn queue(last: u64, durability: Durability) -> CommitQueue {
    CommitQueue::new(last, durability, Vec::new())
}

fn set() -> ChangeSet {
    let change = LeaseChange {
        key: LeaseKey::of_text("a/b"),
        revision: 0,
        content: Content::Deleted(Deleted::default()),
        term: None,
        cause: Cause::Deleted,
        grant_path: None,
        waiters: 0,
        remaining_ms: None,
        trace: None,
    };
    let before = LeaseVersion::default();
    ChangeSet {
        before,
        changes: vec![change],
        ..ChangeSet::default()
    }
}

fn take(queue: &CommitQueue) -> Arc<Vec<ChangeSet>> {
    match queue.take(Some(Duration::ZERO)) {
        Work::Commit(sets) => sets,
        Work::Idle | Work::Close => Arc::default(),
    }
}

/// Publishes a batch, lets its answers leave, and returns the number of its change sets.
fn publish(queue: &CommitQueue, batch: Arc<Vec<ChangeSet>>) -> usize {
    let (sets, resolve) = queue.publish(batch, Duration::ZERO);
    resolve();
    sets.len()
}

#[tokio::test]
async fn a_ticket_succeeds_when_its_revision_is_durable_and_not_before() {
    let queue = queue(10, Durability::OnDisk);
    assert!(queue.ticket(10).is_none());
    assert_eq!(queue.append(set()).0, 11);
    let ticket = queue.ticket(11).unwrap();
    let batch = take(&queue);
    // Other change sets are queued while the commit thread has this one.
    assert_eq!(queue.append(set()).0, 12);
    let (again, behind) = (queue.ticket(11).unwrap(), queue.ticket(12).unwrap());
    assert!(
        [&ticket, &again, &behind]
            .into_iter()
            .all(Ticket::is_pending)
    );
    assert_eq!(publish(&queue, batch), 1);
    assert_eq!(ticket.durable().await, Ok(()));
    assert_eq!(again.durable().await, Ok(()));
    assert!(behind.is_pending());
    assert!(queue.ticket(11).is_none());
    let batch = take(&queue);
    assert!(behind.is_pending());
    assert_eq!(publish(&queue, batch), 1);
    assert_eq!(behind.durable().await, Ok(()));
    assert!(take(&queue).is_empty());
}

#[test]
fn answers_share_an_append_and_more_of_them_if_all_answers_need_one() {
    for (all, every) in [(false, CONFIRM_EVERY), (true, CONFIRM_ALL_EVERY)] {
        let queue = queue(0, Durability::OnDisk);
        if all {
            queue.expect_all_confirmed();
        }
        let began = Instant::now();
        for _ in 0..2 {
            let tickets = [queue.confirm(), queue.confirm()];
            let Work::Commit(sets) = queue.take(None) else {
                panic!("there is nothing to append");
            };
            publish(&queue, sets);
            assert!(!tickets.iter().any(Ticket::is_pending));
        }
        assert!(began.elapsed() >= every);
        // A change does not wait for the next one.
        queue.append(set());
        assert_eq!(publish(&queue, take(&queue)), 1);
    }
}

#[tokio::test]
async fn a_change_that_was_undone_stays_undone_whatever_becomes_durable_later() {
    let queue = queue(0, Durability::OnDisk);
    let first = queue.append(set()).0;
    let kept = queue.ticket(first);
    publish(&queue, take(&queue));
    let second = queue.append(set()).0;
    let lost = queue.ticket(second);
    let batch = take(&queue);
    let third = queue.append(set()).0;
    let behind = queue.ticket(third);
    let (sets, resolve) = queue.fail(batch, CommitFailure::DiskFull);
    resolve();
    let revisions: Vec<_> = sets.iter().map(ChangeSet::last_revision).collect();
    assert_eq!(revisions, [second, third]);
    let fourth = queue.append(set()).0;
    let later = queue.ticket(fourth).unwrap();
    assert!(later.is_pending());
    publish(&queue, take(&queue));
    assert_eq!(kept.unwrap().durable().await, Ok(()));
    assert_eq!(lost.unwrap().durable().await, Err(CommitFailure::DiskFull));
    assert_eq!(
        behind.unwrap().durable().await,
        Err(CommitFailure::DiskFull)
    );
    assert_eq!(later.durable().await, Ok(()));
}

#[test]
fn a_callback_is_called_when_its_revision_is_durable_or_undone() {
    let queue = queue(0, Durability::OnDisk);
    let (called, calls) = mpsc::channel();
    let on_durable = |revision| {
        let called = called.clone();
        queue.on_durable(revision, move |outcome| {
            called.send((revision, outcome)).unwrap();
        });
    };
    on_durable(0);
    assert_eq!(calls.try_recv(), Ok((0, Ok(()))));
    on_durable(queue.append(set()).0);
    let batch = take(&queue);
    on_durable(queue.append(set()).0);
    assert!(calls.try_recv().is_err());
    publish(&queue, batch);
    assert_eq!(calls.try_recv(), Ok((1, Ok(()))));
    let (_, resolve) = queue.fail(take(&queue), CommitFailure::Busy);
    assert!(calls.try_recv().is_err());
    resolve();
    assert_eq!(calls.try_recv(), Ok((2, Err(CommitFailure::Busy))));
}

#[test]
fn a_new_holder_is_woken_before_the_other_requests_that_wait_for_the_commit() {
    let queue = queue(0, Durability::OnDisk);
    let (revision, ticket) = queue.append(set());
    let (woken, order) = mpsc::channel();
    queue.on_durable(revision, move |_| {
        woken.send(ticket.unwrap().is_pending()).unwrap();
    });
    publish(&queue, take(&queue));
    assert_eq!(order.try_recv(), Ok(true));
}

#[test]
fn a_large_batch_takes_no_more_changes() {
    let queue = queue(0, Durability::OnDisk);
    let of_one = set().size();
    let sets = 2 * BATCH_BYTES / of_one;
    let last = (0..sets).map(|_| queue.append(set()).0).last();
    let (mut taken, mut batches) = (0, 0);
    while taken < sets {
        let batch = take(&queue);
        assert!((batch.len() - 1) * of_one < BATCH_BYTES);
        taken += batch.len();
        batches += 1;
        publish(&queue, batch);
    }
    assert!(batches > 1);
    assert_eq!(Some(queue.durable()), last);
}

#[tokio::test]
async fn a_dropped_queue_makes_nothing_durable() {
    let queue = queue(0, Durability::OnDisk);
    let ticket = queue.append(set()).1.unwrap();
    drop(queue);
    assert_eq!(ticket.durable().await, Err(CommitFailure::Failed));
}

#[test]
fn in_memory_a_change_is_durable_at_once() {
    let queue = queue(0, Durability::InMemory);
    let revision = queue.append(set()).0;
    assert!(queue.ticket(revision).is_none());
}
