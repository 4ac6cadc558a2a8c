use std::time::Duration;

use tenure_core::lease::{
    Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules, apply,
};
use tenure_core::{Epoch, Instant, UnixMillis};

use super::*;
use crate::model::{Cause, Content, Deleted, LeaseKey};

const SECRET: u64 = 0x5ec2_e700_5ec2_e700;

/// A grant with this much metadata.
fn change(lease: &str, revision: u64, metadata: usize) -> LeaseChange {
    let now = Instant::default();
    let mut record = Record::default();
    let request = Acquire {
        lease_id: LeaseId::from_random_bits(SECRET, SECRET),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Fixed(Duration::from_secs(15)),
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::from([("key".into(), "x".repeat(metadata))]),
    };
    let operation = Operation::Acquire(request, UnixMillis::new(1_700_000_000_000));
    apply(&mut record, &operation, now, &Rules::NATIVE).unwrap();
    LeaseChange {
        key: LeaseKey::of_text(lease),
        revision,
        content: Content::Lease(record.store(now).into()),
        term: None,
        cause: Cause::Requested(Change::Granted(Epoch::new(1).unwrap()), None),
        grant_path: None,
        waiters: 2,
        remaining_ms: Some(15_000),
        trace: None,
    }
}

fn lease(name: &str) -> Topic {
    Topic::Lease(LeaseKey::of_text(name))
}

fn revisions(page: &Page) -> Vec<u64> {
    let event = page.events.iter().map(|event| event.upgrade().unwrap());
    event.map(|event| event.change.revision).collect()
}

#[test]
fn the_ring_is_bounded_in_events_and_in_bytes() {
    let events = Arc::new(Events::after(0));
    let history = |events: &Events| {
        let published = events.lock();
        (published.ring.events.len(), published.ring.bytes)
    };
    for revision in 1..=RING.events as u64 + 10 {
        events.committed(&[change("ns/a", revision, 0)]);
        assert!(history(&events).1 <= RING.bytes);
    }
    assert_eq!(history(&events).0, RING.events);
    let large = 4 * 1024;
    for revision in 10_000..14_000 {
        events.committed(&[change("ns/a", revision, large)]);
        assert!(history(&events).1 <= RING.bytes);
    }
    assert!(history(&events).0 <= RING.bytes / large);
}

#[test]
fn a_watcher_that_does_not_read_costs_pointers_and_no_events() {
    let events = Arc::new(Events::after(0));
    let _slow = [
        Subscription::new(&events, lease("ns/a"), true),
        Subscription::new(&events, Topic::Namespace("ns".into()), true),
    ];
    let first = {
        events.committed(&[change("ns/a", 1, 0)]);
        let published = events.lock();
        let page = published.ring.after(&lease("ns/a"), true, 0, 1).unwrap();
        page.events[0].clone()
    };
    for revision in 2..=3 * RING.events as u64 {
        events.committed(&[change("ns/a", revision, 0)]);
        events.publish_renewal(change("ns/a", revision, 0));
    }
    assert!(first.upgrade().is_none());
    let published = events.lock();
    assert!(published.undispatched.len() <= RING.events + 1);
    assert!(published.renewals.events.len() <= RENEWALS.events);
}

#[tokio::test]
async fn an_event_goes_to_the_watchers_of_its_topics_only() {
    let events = Arc::new(Events::after(0));
    let dispatcher = std::thread::spawn({
        let events = Arc::clone(&events);
        move || events.dispatch()
    });
    let mut one = Subscription::new(&events, lease("ns/a"), false);
    let mut all = Subscription::new(&events, Topic::Namespace("ns".into()), false);
    let mut other = Subscription::new(&events, Topic::Namespace("n".into()), false);
    events.committed(&[
        change("ns/b", 1, 0),
        change("ns/a", 2, 0),
        change("n/a", 3, 0),
    ]);
    assert_eq!(one.next().await.unwrap().change.revision, 2);
    assert_eq!(all.next().await.unwrap().change.revision, 1);
    assert_eq!(all.next().await.unwrap().change.revision, 2);
    assert_eq!(other.next().await.unwrap().change.revision, 3);
    events.close();
    dispatcher.join().unwrap();
}

#[test]
fn a_topic_is_removed_with_its_last_watcher() {
    let events = Arc::new(Events::after(0));
    let key = LeaseKey::of_text("ns/a");
    let two = [true, false].map(|renewed| Subscription::new(&events, lease("ns/a"), renewed));
    assert!(events.topics.wants_renewals(&key));
    assert!(!events.topics.wants_renewals(&LeaseKey::of_text("ns/b")));
    let [renewals, changes] = two;
    drop(renewals);
    assert!(events.topics.is_any_watched() && !events.topics.wants_renewals(&key));
    drop(changes);
    assert!(!events.topics.is_any_watched());
    let _all = Subscription::new(&events, Topic::Namespace("ns".into()), true);
    assert!(events.topics.wants_renewals(&key));
    assert!(!events.topics.wants_renewals(&LeaseKey::of_text("n/a")));
}

#[test]
fn missed_events_come_in_pages_or_not_at_all() {
    let events = Arc::new(Events::after(100));
    let watch = Subscription::new(&events, lease("ns/a"), false);
    // Revisions that were undone leave gaps.
    for revision in (110..3_000).step_by(2) {
        let name = if revision % 100 == 0 { "ns/a" } else { "ns/b" };
        events.committed(&[change(name, revision, 0)]);
    }
    assert!(
        watch.missed(99, 0).is_none(),
        "before the store's first revision"
    );
    assert!(watch.missed(2_999, 0).is_none(), "another store's");
    let page = watch.missed(2_999, 2_999).unwrap();
    assert!(page.events.is_empty() && page.up_to == 2_999 && page.is_last);
    let (mut found, mut from, mut pages) = (Vec::new(), 100, 0);
    loop {
        let page = watch.missed(from, 0).unwrap();
        found.extend(revisions(&page));
        assert!(page.events.len() <= 32 && page.up_to > from);
        (from, pages) = (page.up_to, pages + 1);
        if page.is_last {
            break;
        }
    }
    let all: Vec<u64> = (200..3_000).step_by(100).collect();
    assert_eq!((found, from), (all, 2_998));
    assert!(pages > 1);
    let all = Subscription::new(&events, Topic::Namespace("n".into()), false);
    assert!(
        all.missed(2_900, 0).unwrap().events.is_empty(),
        "another namespace's"
    );
    let page = watch.missed(2_998, 0).unwrap();
    assert!(page.is_last && page.events.is_empty());
}

#[tokio::test]
async fn a_renewal_goes_to_watchers_that_want_it_and_only_after_the_change_before_it() {
    let events = Arc::new(Events::after(0));
    let dispatcher = std::thread::spawn({
        let events = Arc::clone(&events);
        move || events.dispatch()
    });
    let renewal = |revision| {
        let mut change = change("ns/a", revision, 0);
        change.cause = Cause::Requested(Change::Renewed(Epoch::new(1).unwrap()), None);
        change
    };
    let mut renewals = Subscription::new(&events, lease("ns/a"), true);
    let mut changes = Subscription::new(&events, lease("ns/a"), false);
    events.publish_renewal(renewal(1));
    events.committed(&[change("ns/a", 1, 0)]);
    events.publish_renewal(renewal(1));
    events.committed(&[change("ns/a", 2, 0)]);
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(renewals.next().await.unwrap().id);
    }
    assert_eq!(heard, [Some(1), None, Some(2)]);
    assert_eq!(changes.next().await.unwrap().id, Some(1));
    assert_eq!(changes.next().await.unwrap().id, Some(2));
    events.close();
    dispatcher.join().unwrap();
}

#[test]
fn an_event_shows_the_public_view_and_no_lease_id() {
    let event = PublishedEvent::change(change("ns/a", 7, 1));
    let data: serde_json::Value = serde_json::from_str(event.data()).unwrap();
    assert_eq!(
        data,
        serde_json::json!({
            "namespace": "ns", "lease": "a", "state": "leased", "holder": "a",
            "epoch": 1_700_000_000_000u64, "duration_ms": 15_000, "remaining_ms": 15_000,
            "granted_at": "2023-11-14T22:13:20.000Z", "metadata": {"key": "x"}, "waiters": 2,
            "revision": 7,
        })
    );
    let deleted = PublishedEvent::change(LeaseChange {
        content: Content::Deleted(Deleted::default()),
        cause: Cause::Deleted,
        waiters: 0,
        remaining_ms: None,
        ..change("ns/a", 8, 0)
    });
    let data: serde_json::Value = serde_json::from_str(deleted.data()).unwrap();
    assert_eq!(
        (&data["state"], &data["holder"]),
        (&"available".into(), &().into())
    );
}
