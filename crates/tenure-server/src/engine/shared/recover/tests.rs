//! The first head of a log, and recoveries, over a log in memory.

use std::sync::Arc;

use tenure_core::lease::{Grant, LeaseDuration, LeaseId, Stored, StoredState};
use tenure_core::ownership::EngineId;
use tenure_core::{Epoch, UnixMillis};

use super::super::follow::{Follower, Reign};
use super::super::memory::{Fault, MemoryService};
use super::super::places;
use super::super::stop::Stop;
use super::*;
use crate::config::{ClusterConfig, EtcdConfig, Home};
use crate::engine::shared::log::Connect as _;
use crate::model::{EPOCHS_LEFT, Floors, HistoryLimits, LeaseKey};

const EPOCH: u64 = 1_700_000_000_000;

fn no_wait(_: Duration) {}

fn log(service: &Arc<MemoryService>) -> Box<dyn SharedLog> {
    service.connect().connect().unwrap()
}

fn head(service: &MemoryService) -> HeadRecord {
    HeadRecord::decode(&service.content().head.unwrap()).unwrap()
}

/// Follows the log until this server owns it.
fn own(service: &Arc<MemoryService>) -> Reign {
    let engine = Home::Etcd(EtcdConfig::new(Vec::new()));
    let mut config = ClusterConfig::new("store-1", "http://store-1", engine);
    config.ownership = Duration::from_secs(1);
    let stop = Arc::<Stop>::default();
    let mut follower = Follower::new(
        Arc::new(service.connect()),
        &config,
        HistoryLimits::NONE,
        stop,
    )
    .unwrap();
    follower.run_until_owner().unwrap()
}

/// A log with a lease that is held, written by a server that is gone.
fn used() -> Arc<MemoryService> {
    let service = MemoryService::new();
    init(&mut *log(&service), no_wait).unwrap();
    let id = LeaseId::from_random_bits(1, 2);
    let grant = Grant {
        lease_id: id,
        holder: "worker".parse().unwrap(),
        owner: None,
        epoch: Epoch::new(EPOCH).unwrap(),
        granted_at: UnixMillis::new(EPOCH),
        duration: LeaseDuration::Fixed(Duration::from_secs(40)),
        lock_delay: Duration::from_secs(2),
        without_store: None,
    };
    let stored = Stored {
        state: StoredState::Leased,
        grant: Some(grant),
        metadata: Default::default(),
        reserved: None,
        retired: Vec::new(),
    };
    service.change(|content| {
        let mut record = HeadRecord::decode(content.head.as_ref().unwrap()).unwrap();
        let key = LeaseKey::of_text("billing/nightly");
        record.content.revision += 1;
        let place = places::lease(&key, &stored, record.content.revision);
        content.places.insert(place.key, place.value);
        record.head.state = TailState::Owned;
        record.head.generation = 7;
        record.head.sequence = 1_200;
        record.head.ownership = Duration::from_secs(3);
        record.server.name = "store-1".into();
        (record.content.placed, record.content.leases) = (1_200, 1);
        record.content.placed_revision = record.content.revision;
        content.head = Some(record.encode(UnixMillis::new(0)));
    });
    service
}

#[test]
fn the_first_server_takes_a_log_that_was_begun_over_at_once() {
    let service = MemoryService::new();
    let store = init(&mut *log(&service), no_wait).unwrap();
    let error = init(&mut *log(&service), no_wait).unwrap_err().to_string();
    assert!(error.contains(store.as_str()), "{error}");
    let reign = own(&service);
    assert_eq!(reign.loaded.store_id, Some(store));
    assert_eq!(reign.generation, 2);
}

#[test]
fn after_a_recovery_epochs_and_revisions_are_far_above_and_all_leases_are_there() {
    let service = used();
    service.change(|content| content.engine = EngineId(8));
    let before = head(&service);
    let mut waited = Vec::new();
    let recovered = recover(&mut *log(&service), |time| waited.push(time)).unwrap();
    assert_eq!(waited, [Duration::from_secs(3)]);
    assert_eq!(recovered.contents.longest, Duration::from_secs(42));
    assert_eq!((recovered.contents.leases, recovered.contents.held), (1, 1));
    assert!(recovered.epochs_above >= EPOCH + 24 * 60 * 60 * 1000);
    let after = head(&service);
    assert_eq!(after.head.engine, EngineId(8));
    assert_eq!(after.content.store, before.content.store);
    assert_eq!(
        after.content.revision,
        before.content.revision + REVISIONS_AHEAD
    );
    assert_eq!(recovered.revisions_above, after.content.revision);

    // The next server accepts the log, with the changes after the recovery in one chain.
    let reign = own(&service);
    assert_eq!(reign.generation, 9);
    assert_eq!(reign.loaded.leases.len(), 1);
    assert_eq!(reign.loaded.revision, after.content.revision);
    assert_eq!(
        reign.loaded.last_epoch().unwrap().get(),
        recovered.epochs_above
    );
}

#[test]
fn a_log_that_a_server_writes_to_is_not_recovered() {
    let service = used();
    let before = service.content().head;
    let beats = |_| {
        service.change(|content| {
            let mut record = HeadRecord::decode(content.head.as_ref().unwrap()).unwrap();
            record.head.sequence += 1;
            content.head = Some(record.encode(UnixMillis::new(0)));
        });
    };
    let error = recover(&mut *log(&service), beats).unwrap_err();
    let server = "store-1".to_owned();
    assert_eq!(error, RecoverError::InUse { server });
    assert_ne!(service.content().head, before);
    assert_eq!(head(&service).head.generation, 7);
}

#[test]
fn a_recovery_whose_answer_is_lost_is_not_made_twice() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::NotApplied] {
        let service = used();
        let connect = service.connect();
        let first = (fault != Fault::NotApplied).then_some(fault);
        connect.fail_appends([first.or(Some(Fault::LoseRequest)), Some(fault), None]);
        let mut log = connect.connect().unwrap();
        recover(&mut *log, no_wait).unwrap();
        assert_eq!(head(&service).head.sequence, 1_201, "{fault:?}");
    }
}

#[test]
fn what_can_t_be_recovered_is_left_as_it_is() {
    let empty = MemoryService::new();
    let error = recover(&mut *log(&empty), no_wait).unwrap_err();
    assert_eq!(error, RecoverError::Empty);
    for state in [TailState::Restoring, TailState::Retired] {
        let service = changed(|record| record.head.state = state);
        assert!(matches!(tried(&service), RecoverError::Closed(_)));
    }
    let service = changed(|record| record.content.leases = 2);
    let error = tried(&service).to_string();
    assert!(
        error.contains("restore a backup into another prefix"),
        "{error}"
    );
    let last = Epoch::MAX.get() - EPOCHS_LEFT;
    let service = changed(|record| {
        record.content.floors = Floors::of_all_leases(Epoch::new(last));
    });
    assert_eq!(tried(&service), RecoverError::EpochsUsedUp { last });
    let service = used();
    service.change(|content| content.head = Some(r#"{"format":2}"#.into()));
    let error = tried(&service).to_string();
    assert!(error.contains("format 2"), "{error}");
}

/// A used log with another head.
fn changed(change: impl FnOnce(&mut HeadRecord)) -> Arc<MemoryService> {
    let service = used();
    service.change(|content| {
        let mut record = HeadRecord::decode(content.head.as_ref().unwrap()).unwrap();
        change(&mut record);
        content.head = Some(record.encode(UnixMillis::new(0)));
    });
    service
}

/// The error of a recovery, which must change nothing.
fn tried(service: &Arc<MemoryService>) -> RecoverError {
    let before = service.content().head;
    let error = recover(&mut *log(service), no_wait).unwrap_err();
    assert_eq!(service.content().head, before);
    error
}
