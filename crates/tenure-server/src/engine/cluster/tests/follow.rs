//! Servers that follow, race, hand over and come back.

use std::time::Instant;

use super::*;

#[test]
fn an_idle_owner_is_called_in_time_for_its_beats_and_stays_the_owner() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &home);
    assert!(standby.step().unwrap().is_none());
    let began = tail_of(&home).tail.sequence;
    let asked = standby.reached.requests();
    for _ in 0..60 {
        let within = owner.log.upkeep_within().unwrap();
        assert!(within <= T / 6, "{within:?}");
        server.advance(within);
        assert!(server.status().serving.check());
        owner.log.upkeep().unwrap();
        standby.advance(within);
        assert!(standby.step().unwrap().is_none());
    }
    let beats = tail_of(&home).tail.sequence - began;
    assert!((55..=62).contains(&beats), "{beats}");
    // For each entry the standby reads its slot and the next one: each read of a bucket costs money.
    let asked = standby.reached.requests() - asked;
    assert!(asked as u64 <= 2 * beats, "{asked} for {beats}");
    assert_eq!(standby.role(), OwnershipRole::Following);
    // Without beats the standby takes over, and not before T has passed.
    assert!(standby.follow(T * 11 / 12).is_none());
    let owner = standby.follow(T / 2).expect("a take-over");
    assert_eq!(owner.generation, 2);
}

#[test]
fn a_standby_has_a_copy_and_takes_over_without_reading_a_file() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &home);
    for number in 0..600 {
        owner.write().unwrap();
        if number % 7 == 0 {
            assert!(standby.follow(T / 12).is_none());
        }
    }
    assert!(standby.follow(T / 12).is_none());
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
    assert!(tail_of(&home).base.is_some());
    now(home.memory.delete(&files_of(&home)));
    assert_eq!(standby.own().loaded.leases.len(), 600);
}

#[test]
fn a_standby_that_the_log_no_longer_reaches_reads_the_base_again() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 4).is_none());
    assert_eq!(standby.status().view().behind, Some(0));
    for _ in 0..700 {
        owner.write().unwrap();
    }
    assert!(standby.follow(T / 6).is_none());
    assert_eq!(standby.status().view().behind, Some(0));
    drop(owner);
    assert_eq!(standby.own().loaded.leases.len(), 701);
}

#[test]
fn a_server_that_hands_over_is_followed_at_once_and_stands_by_without_reading_the_log_again() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 4).is_none());
    owner.log.close().unwrap();
    assert!(!server.status().serving.check());
    drop(owner);
    let mut next = standby.follow(T / 6).expect("a take-over at the next look");
    assert_eq!((next.generation, next.loaded.leases.len()), (2, 1));
    next.write().unwrap();
    // The first server follows again with its copy, and takes over when it must.
    let before = server.reached.requests();
    server.stand_by();
    assert!(server.step().unwrap().is_none());
    // The slots of two new entries, and two more.
    assert_eq!(server.reached.requests() - before, 4);
    assert!(server.follow(T / 2).is_none());
    let view = server.status().view();
    assert_eq!(
        (view.active.unwrap().name.as_str(), view.behind),
        ("standby", Some(0))
    );
    next.log.close().unwrap();
    drop(next);
    let mut again = server.follow(T / 6).expect("a take-over");
    assert_eq!((again.generation, again.loaded.leases.len()), (3, 2));
    again.write().unwrap();
    check_chain(&home);
}

#[test]
fn a_log_that_is_left_to_one_server_is_taken_over_by_it_and_by_another_one_after_the_ownership() {
    for is_there in [true, false] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        let mut servers = ["second", "third"].map(|name| Server::new(name, &home));
        servers
            .iter_mut()
            .for_each(|it| assert!(it.follow(T / 6).is_none()));
        server.status().leave_to(Some("third".into()));
        owner.log.close().unwrap();
        let [second, third] = &mut servers;
        assert!(second.follow(T * 11 / 12).is_none());
        let next = if is_there { third } else { second };
        assert_eq!(next.follow(T / 4).expect("a take-over").generation, 2);
    }
}

#[test]
fn a_standby_counts_from_the_arrival_of_a_read_and_an_owner_from_the_sending_of_an_append() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    drop(server.own());
    let mut standby = Server::new("standby", &home);
    // Each request takes T/8 by the clock of its server.
    standby.reached.advance_in_requests(&standby.clock, T / 8);
    let began = standby.clock.load(Ordering::SeqCst);
    let next = standby.own();
    let took = Duration::from_nanos(standby.clock.load(Ordering::SeqCst) - began);
    // A read, T from its answer, a read of the tail, and the append.
    assert!(took >= T / 8 + T + T / 4, "{took:?}");
    assert_eq!(next.generation, 2);
    drop(next);

    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    server.reached.advance_in_requests(&server.clock, T / 8);
    let began = server.clock.load(Ordering::SeqCst);
    owner.write().unwrap();
    let passed = Duration::from_nanos(server.clock.load(Ordering::SeqCst) - began);
    server.advance(T * 5 / 6 - passed - Duration::from_millis(1));
    assert!(server.status().serving.check());
    server.advance(Duration::from_millis(1));
    assert!(!server.status().serving.check());
}

#[test]
fn a_log_that_is_dropped_without_a_hand_over_serves_nothing_and_is_handed_over_later() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    drop(owner);
    assert!(!server.status().serving.check());
    server.stand_by();
    assert!(server.step().unwrap().is_none());
    assert_eq!(tail_of(&home).tail.state, TailState::Vacant);
    assert_eq!(server.own().loaded.leases.len(), 1);
}

#[test]
fn a_server_whose_home_is_away_while_it_gives_the_log_up_hands_it_over_when_the_home_is_back() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    server.reached.fail_all(Some(Fault::LoseRequest));
    owner.log.close().unwrap();
    drop(owner);
    server.reached.fail_all(None);
    // Without the append that was under way, it would wait for ever.
    let stop = server.stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(20));
        stop.cancel();
    });
    server.stand_by();
    assert_eq!(tail_of(&home).tail.state, TailState::Vacant);
    assert_eq!(server.own().loaded.leases.len(), 1);
}

#[test]
fn a_take_over_that_arrives_late_loses_against_the_first_one() {
    let home = FaultyHome::default();
    let mut slow = Server::new("slow", &home);
    slow.reached.fail_replaces([Some(Fault::Late)]);
    assert!(slow.step().unwrap().is_none());
    let mut quick = Server::new("quick", &home);
    let mut owner = quick.own();
    assert_eq!(home.memory.deliver(), Some(false));
    assert!(slow.follow(T / 2).is_none());
    assert_eq!(slow.role(), OwnershipRole::Following);
    owner.write().unwrap();
    assert_eq!(tail_of(&home).tail.sequence, 2);
    check_chain(&home);
}

#[test]
fn of_several_servers_that_start_together_one_at_a_time_owns_the_log() {
    let home = FaultyHome::default();
    // At least for a while, and until several servers had their turn.
    let begin = Instant::now();
    let is_over = move |home: &FaultyHome| {
        let had_turns = entries_of(home)
            .last()
            .is_some_and(|it| it.tail.generation >= 3);
        let passed = begin.elapsed();
        passed > Duration::from_millis(1_500) && had_turns || passed > Duration::from_secs(60)
    };
    let servers = [0, 1, 2].map(|number| {
        let home = home.clone();
        thread::spawn(move || {
            let name = format!("store-{number}");
            let mut server = Server::in_real_time(&name, &home, Duration::from_secs(1));
            let stop = server.stop.clone();
            let stopping = thread::spawn(move || {
                while !is_over(&home) {
                    thread::sleep(Duration::from_millis(10));
                }
                stop.cancel();
            });
            let mut written = 0;
            while let Ok(taken_over) = server.standby.run_until_owner() {
                let mut owner = Owner::new(taken_over);
                for _ in 0..20 {
                    written += usize::from(owner.write().is_ok());
                }
                let _ = owner.log.close();
            }
            stopping.join().unwrap();
            written
        })
    });
    let written: usize = servers.map(|it| it.join().unwrap()).iter().sum();
    check_chain(&home);
    assert!(tail_of(&home).tail.generation >= 3, "{written}");
    assert_eq!(
        Server::new("last", &home).own().loaded.leases.len(),
        written
    );
}

#[test]
fn a_standby_whose_home_hangs_ends_at_once_when_the_server_stops() {
    for is_owned in [false, true] {
        let home = FaultyHome::default();
        let mut server = Server::in_real_time("first", &home, Duration::from_secs(1));
        // The first read, or the append of the take-over, gets no answer.
        match is_owned {
            false => server.reached.fail_all(Some(Fault::Hang)),
            true => server.reached.fail_replaces([Some(Fault::Hang)]),
        }
        let stop = server.stop.clone();
        let following = thread::spawn(move || server.standby.run_until_owner().map(drop));
        thread::sleep(Duration::from_millis(50));
        assert!(!following.is_finished());
        let began = Instant::now();
        stop.cancel();
        assert_eq!(following.join().unwrap(), Err(Ended::Stopped));
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(Server::new("next", &home).own().generation, 1);
    }
}
