//! Servers that follow, race, hand over and come back.

use std::thread;
use std::time::Instant;

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
fn an_idle_owner_is_called_in_time_for_its_beats_and_stays_the_owner() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &service);
    assert!(standby.follower.step().unwrap().is_none());
    let began = head_of(&service.content()).head.sequence;
    for _ in 0..60 {
        let within = owner.engine.checkpoint_within().unwrap();
        assert!(within <= T / 6, "{within:?}");
        server.advance(within);
        assert!(server.serving().check());
        owner.engine.checkpoint(Load::Idle).unwrap();
        standby.advance(within);
        assert!(standby.follower.step().unwrap().is_none());
    }
    let beats = head_of(&service.content()).head.sequence - began;
    assert!((55..=62).contains(&beats), "{beats}");
    assert_eq!(standby.role(), OwnershipRole::Following);
    // Without beats the standby takes over, and not before T has passed.
    let taken = follow(&mut standby, T * 11 / 12);
    assert!(taken.is_none());
    let owner = follow(&mut standby, T / 2).expect("a take-over");
    assert_eq!(owner.generation, 2);
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

#[test]
fn a_standby_counts_from_the_arrival_of_a_read_and_an_owner_from_the_sending_of_an_append() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    drop(server.own());
    let mut standby = Server::new("standby", &service);
    // Each call takes T/8 by the clock of its server.
    standby.connect.advance_in_calls(&standby.clock, T / 8);
    let began = standby.clock.load(Ordering::SeqCst);
    let next = standby.own();
    let took = Duration::from_nanos(standby.clock.load(Ordering::SeqCst) - began);
    // A read, T from its answer, and the append. The content is read while the server follows.
    assert!(took >= T / 8 + T + T / 8, "{took:?}");
    assert_eq!(next.generation, 2);
    drop(next);

    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    server.connect.advance_in_calls(&server.clock, T / 8);
    let began = server.clock.load(Ordering::SeqCst);
    owner.write().unwrap();
    let passed = Duration::from_nanos(server.clock.load(Ordering::SeqCst) - began);
    server.advance(T * 5 / 6 - passed - Duration::from_millis(1));
    assert!(server.serving().check());
    server.advance(Duration::from_millis(1));
    assert!(!server.serving().check());
}

#[test]
fn an_engine_that_is_dropped_without_a_hand_over_serves_nothing_and_is_handed_over_later() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    drop(owner);
    assert!(!server.serving().check());
    server.follower.begin().unwrap();
    assert!(server.follower.step().unwrap().is_none());
    let state = head_of(&service.content()).head.state;
    assert_eq!(state, tenure_core::ownership::TailState::Vacant);
    assert_eq!(server.own().loaded.leases.len(), 1);
}

#[test]
fn a_take_over_that_arrives_late_loses_against_the_first_one() {
    let service = MemoryService::new();
    let mut slow = Server::new("slow", &service);
    slow.connect.fail_appends([Some(Fault::Late)]);
    assert!(slow.follower.step().unwrap().is_none());
    let mut quick = Server::new("quick", &service);
    let mut owner = quick.own();
    service.deliver_late();
    assert!(follow(&mut slow, T / 2).is_none());
    assert_eq!(slow.role(), OwnershipRole::Following);
    owner.write().unwrap();
    assert_eq!(service.content().heads.len(), 2);
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

#[test]
fn of_several_servers_that_start_together_one_at_a_time_owns_the_log() {
    let service = MemoryService::new();
    let ownership = Duration::from_secs(1);
    // At least for a while, and until several servers had their turn.
    let begin = Instant::now();
    let is_over = move |service: &MemoryService| {
        let head = service.content().head;
        let head = head.and_then(|head| HeadRecord::decode(&head).ok());
        let had_turns = head.is_some_and(|record| record.head.generation >= 3);
        let passed = begin.elapsed();
        passed > Duration::from_millis(1_500) && had_turns || passed > Duration::from_secs(60)
    };
    let servers: Vec<_> = (0..3)
        .map(|number| {
            let service = Arc::clone(&service);
            thread::spawn(move || {
                let clock = Arc::new(AtomicU64::new(0));
                let name = format!("store-{number}");
                let system = OwnershipClock::System;
                let mut server = Server::with_clock(&name, &service, ownership, clock, system);
                let stop = Arc::clone(&server.stop);
                let stopping = thread::spawn(move || {
                    while !is_over(&service) {
                        thread::sleep(Duration::from_millis(10));
                    }
                    stop.set();
                });
                let mut written = 0_u64;
                while let Ok(reign) = server.follower.run_until_owner() {
                    let mut owner = server.owner(reign);
                    for _ in 0..20 {
                        written += u64::from(owner.write().is_ok());
                    }
                    let _ = owner.engine.close();
                }
                stopping.join().unwrap();
                written
            })
        })
        .collect();
    let written: u64 = servers
        .into_iter()
        .map(|server| server.join().unwrap())
        .sum();
    let content = service.content();
    check_chain(&content);
    assert_eq!(head_of(&content).content.leases, written);
    assert!(head_of(&content).head.generation >= 3, "{written}");
}
