//! Servers that follow, race, hand over and come back.

use std::thread;

use super::*;

/// Lets the server look every T/12 for this long.
fn follow(server: &mut Server, duration: Duration) -> Option<Owner> {
    let steps = duration.as_nanos() / (T / 12).as_nanos();
    for _ in 0..steps {
        if let Some(reign) = server.follower.step().unwrap() {
            return Some(server.owner(reign));
        }
        server.advance(T / 12);
    }
    None
}

#[test]
fn a_standby_has_a_copy_and_takes_over_without_reading_the_places() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &service);
    for number in 0..200 {
        owner.write().unwrap();
        if number % 7 == 0 {
            owner.engine.checkpoint(Load::Idle).unwrap();
            assert!(follow(&mut standby, T / 12).is_none());
        }
    }
    // The first look comes before the places were read, the second one after that.
    assert!(follow(&mut standby, T / 6).is_none());
    let view = standby.status().view();
    assert_eq!(
        (view.behind, view.role),
        (Some(0), OwnershipRole::Following)
    );
    let active = view.active.unwrap();
    assert_eq!(
        (active.name.as_str(), active.address.as_str()),
        ("first", "http://first")
    );
    // Places that can't be read show that they are not needed.
    service.change(|content| content.places.clear());
    let owner = standby.own();
    assert_eq!(owner.loaded.leases.len(), 200);
}

#[test]
fn a_standby_that_the_log_no_longer_reaches_reads_the_places_again() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    assert!(follow(&mut standby, T / 4).is_none());
    assert_eq!(standby.status().view().behind, Some(0));
    owner.rest();
    owner.write().unwrap();
    owner.rest();
    // The log keeps no batch.
    service.change(|content| content.batches.clear());
    for _ in 0..4 {
        owner.write().unwrap();
        assert!(follow(&mut standby, T / 12).is_none());
    }
    assert!(follow(&mut standby, T / 4).is_none());
    assert_eq!(standby.status().view().behind, Some(0));
    drop(owner);
    assert_eq!(standby.own().loaded.leases.len(), 6);
}

#[test]
fn a_server_that_hands_over_is_followed_at_once_and_stands_by() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    assert!(follow(&mut standby, T / 4).is_none());
    owner.engine.close().unwrap();
    assert!(!server.serving().check());
    drop(owner);
    let mut next = follow(&mut standby, T / 6).expect("a take-over at the next look");
    assert_eq!((next.generation, next.loaded.leases.len()), (2, 1));
    next.write().unwrap();
    // The first server follows again with the same connection, and takes over when it must.
    server.follower.begin().unwrap();
    assert!(follow(&mut server, T / 2).is_none());
    assert_eq!(server.status().view().active.unwrap().name, "standby");
    next.engine.close().unwrap();
    drop(next);
    let mut again = follow(&mut server, T / 6).expect("a take-over");
    assert_eq!((again.generation, again.loaded.leases.len()), (3, 2));
    again.write().unwrap();
    check_chain(&service.content());
}

/// While a server loads, it appends, so that loading may take longer than T.
#[test]
fn a_server_that_loads_for_long_stays_the_owner() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    for _ in 0..3 {
        owner.write().unwrap();
    }
    owner.rest();
    drop(owner);
    let clock = Arc::new(AtomicU64::new(0));
    let system = OwnershipClock::System;
    let ownership = Duration::from_secs(1);
    let mut next = Server::with_clock("next", &service, ownership, clock, system);
    // Each read takes a while, and the pages are small: more than T in total.
    let connect = next.connect.clone();
    let status = next.status();
    let owning = thread::spawn(move || {
        let owner = next.own();
        (owner.loaded.leases.len(), owner)
    });
    while status.view().role != OwnershipRole::Loading && !owning.is_finished() {
        thread::sleep(Duration::from_millis(1));
        connect.fail_all(Some(Fault::Delay(Duration::from_millis(300))));
    }
    connect.fail_all(Some(Fault::Delay(Duration::from_millis(300))));
    let (count, mut owner) = owning.join().unwrap();
    connect.fail_all(None);
    assert_eq!(count, 3);
    owner.write().unwrap();
    check_chain(&service.content());
}
