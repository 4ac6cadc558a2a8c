//! Servers that start over a log, or a home, that permits no server of their configuration.

use super::super::StandbyError;
use super::*;
use crate::engine::entry::{put, put_frame};

/// A home whose last owner has handed the log over.
fn vacant() -> FaultyHome {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    owner.log.close().unwrap();
    home
}

/// The reason why a server with this access does not start.
fn refused(home: &FaultyHome, access: ClusterAccess) -> StandbyError {
    let mut server = Server::with_access("next", home, access);
    server.standby.look_first().unwrap_err()
}

/// The text of a refusal of the log.
fn text(home: &FaultyHome) -> String {
    match refused(home, ClusterAccess::Anonymous) {
        StandbyError::Refused(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The value of a format that a later version writes.
pub(super) fn of_later_format() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 0, |to| put(to, &(2_u32, "something else")));
    bytes
}

#[test]
fn a_server_does_not_start_over_a_log_that_it_must_not_use() {
    let home = vacant();
    change_tail(&home, |value| value.tail.state = TailState::Retired);
    assert_eq!(
        text(&home),
        "a final backup has moved the store away: it goes on where that file is restored (tenure \
         restore)"
    );

    let home = vacant();
    home.memory.promote(0);
    assert_eq!(
        text(&home),
        "the log was written in memory, cluster default (memory/0) and this is memory, cluster default \
         (memory/1): a restored or promoted server, a copy, or a wrong address. If a promotion of \
         PostgreSQL loses nothing, write failover=lossless into home before. Stop all servers, then: tenure cluster \
         recover"
    );

    let home = vacant();
    overwrite(&home, 3, of_later_format());
    assert_eq!(
        text(&home),
        "the log has format 2, which this version does not know: upgrade the standbys first"
    );
    overwrite(&home, 3, "hello");
    assert_eq!(
        text(&home),
        "slot 3 is damaged: another program writes to the log in memory, cluster default. Make a backup \
         while a server is active, stop all servers, and restore it into another prefix, schema or \
         cluster name"
    );
}

#[test]
fn a_copy_of_a_log_in_another_place_is_not_used() {
    let home = vacant();
    let copied = ClusterConfig {
        name: "copy".into(),
        ..config("next", T)
    };
    for slot in 1..=3 {
        let Read::Found { value, .. } = now(home.memory.read(&slot_key(slot), None)) else {
            panic!("slot {slot} is empty")
        };
        let key: RegisterKey = format!("copy/slot-{slot}").parse().unwrap();
        let read = now(home.memory.read(&key, None));
        let identity = read.identity().clone();
        let version = None;
        now(home
            .memory
            .replace(&key, &Expected { version, identity }, value));
    }
    let mut server = Server::with_config(&copied, &home);
    let StandbyError::Refused(text) = server.standby.look_first().unwrap_err() else {
        panic!("another reason")
    };
    let expected = "the log was written in memory, cluster default (memory/0) and this is memory, \
                    cluster copy (memory/0): ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_log_that_has_lost_all_slots_is_not_begun_again() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    for _ in 0..200 {
        owner.write().unwrap();
    }
    drop(owner);
    // The task of the owner may still write a file, and ends before the server follows.
    server.stand_by();
    (0..256).for_each(|slot| home.memory.remove(&slot_key(slot)));
    let check = |text: &str| {
        assert!(
            text.contains("the log has no entry, but the file default/file/0"),
            "{text}"
        );
        assert!(text.contains("its slots were deleted"), "{text}");
    };
    check(&text(&home));
    let opened = home.open(&config("operator", T));
    check(&init(&opened, &|_| {}).unwrap_err().to_string());

    // A server that runs takes nothing over, either, and goes on when the log is really empty.
    let mut server = Server::new("next", &home);
    assert!(server.follow(3 * T).is_none());
    check(&server.refusal());
    assert!(entries_of(&home).is_empty());
    now(home.memory.delete(&files_of(&home)));
    assert_eq!(server.own().generation, 1);
}

#[test]
fn an_entry_whose_numbers_can_not_grow_is_refused() {
    for change in [
        (|value: &mut SlotValue| value.tail.generation = u64::MAX) as fn(&mut SlotValue),
        |value| value.tail.sequence = u64::MAX,
        |value| value.tail.undone = u64::MAX,
    ] {
        let home = vacant();
        change_tail(&home, change);
        assert!(text(&home).contains("slot 3 is damaged"), "{}", text(&home));
    }
}

#[test]
fn a_server_does_not_start_if_its_home_definitely_refuses_and_waits_for_one_that_is_away() {
    let home = vacant();
    for (fault, starts) in [
        (Fault::Misconfigured, false),
        (Fault::LoseRequest, true),
        (Fault::NotApplied, true),
        (Fault::Full, true),
    ] {
        let mut server = Server::new("next", &home);
        server.reached.fail_all(Some(fault));
        let looked = server.standby.look_first();
        match starts {
            true => assert_eq!(looked, Ok(()), "{fault:?}"),
            false => assert!(
                matches!(looked, Err(StandbyError::Home(Failure::Misconfigured(_)))),
                "{looked:?}"
            ),
        }
        server.reached.fail_all(None);
        if starts {
            assert_eq!(server.own().loaded.leases.len(), 1, "{fault:?}");
        }
    }
}

#[test]
fn a_server_without_the_right_to_write_does_not_start() {
    let home = vacant();
    for (fault, starts) in [(Fault::Misconfigured, false), (Fault::Full, true)] {
        let mut server = Server::new("next", &home);
        server.reached.fail_files(Some(fault));
        let looked = server.standby.look_first();
        let is_refused = matches!(looked, Err(StandbyError::Home(Failure::Misconfigured(_))));
        assert_eq!(is_refused, !starts, "{looked:?}");
    }
    assert!(files_of(&home).is_empty());
}

#[test]
fn a_server_looks_for_two_seconds_before_it_starts_without_an_answer() {
    // It looks every T/12, which is 250 ms.
    for (unanswered, starts) in [(7, false), (9, true)] {
        let mut server = Server::new("next", &vacant());
        let lost = std::iter::repeat_n(Some(Fault::LoseRequest), unanswered);
        server.reached.fail_reads(lost);
        server.reached.fail_all(Some(Fault::Misconfigured));
        let looked = server.standby.look_first();
        assert_eq!(looked.is_ok(), starts, "{unanswered}: {looked:?}");
    }
}

#[test]
fn the_first_look_of_a_server_counts_as_its_first() {
    let home = FaultyHome::default();
    let mut first = Server::new("first", &home);
    first.standby.look_first().unwrap();
    let mut owner = first.own();
    assert_eq!(owner.generation, 1);
    owner.write().unwrap();
    let mut standby = Server::new("standby", &home);
    standby.standby.look_first().unwrap();
    let began = standby.clock.load(Ordering::SeqCst);
    drop(owner);
    assert_eq!(standby.own().generation, 2);
    let took = Duration::from_nanos(standby.clock.load(Ordering::SeqCst) - began);
    assert!((T..T + T / 6).contains(&took), "{took:?}");
    check_chain(&home);
}

#[test]
fn a_server_waits_for_the_end_of_a_restore() {
    let home = vacant();
    change_tail(&home, |value| value.tail.state = TailState::Restoring);
    let mut server = Server::new("next", &home);
    server.standby.look_first().unwrap();
    assert!(server.follow(3 * T).is_none());
    assert_eq!(
        server.refusal(),
        "a restore into the log is not complete: wait for it, or run tenure restore again"
    );
}

#[test]
fn a_log_of_servers_with_access_control_is_not_taken_over_by_one_without() {
    let home = vacant();
    let mut guarded = Server::with_access("guarded", &home, ClusterAccess::Guarded);
    guarded.standby.look_first().unwrap();
    let mut owner = guarded.own();
    owner.write().unwrap();
    owner.log.close().unwrap();
    drop(owner);
    assert!(tail_of(&home).about.is_guarded);
    let open = ClusterAccess::Anonymous;
    assert!(refused(&home, open).to_string().contains("no access file"));

    // A server that could not read the log at its start does not take it over, either.
    let mut late = Server::with_access("late", &home, open);
    late.reached.fail_all(Some(Fault::LoseRequest));
    late.standby.look_first().unwrap();
    late.reached.fail_all(None);
    assert!(late.follow(3 * T).is_none());
    assert!(
        late.refusal().contains("no access file"),
        "{}",
        late.refusal()
    );

    // An operator may say that it is right, and that is no decision for later servers.
    let allowed = ClusterAccess::AnonymousAllowed;
    let mut server = Server::with_access("allowed", &home, allowed);
    server.standby.look_first().unwrap();
    let mut owner = server.own();
    assert_eq!(owner.loaded.leases.len(), 2);
    owner.write().unwrap();
    owner.log.close().unwrap();
    assert!(refused(&home, open).to_string().contains("no access file"));
    check_chain(&home);
}

#[test]
fn a_standby_refuses_while_the_next_entry_has_a_newer_format() {
    let home = FaultyHome::default();
    let mut first = Server::new("first", &home);
    let mut owner = first.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &home);
    assert!(standby.step().unwrap().is_none());
    overwrite(&home, 3, of_later_format());
    assert!(standby.follow(3 * T).is_none());
    assert_eq!(standby.role(), OwnershipRole::Refusing);
    assert!(standby.refusal().contains("upgrade the standbys first"));
    let before = home.copied();
    let mut cold = Server::new("cold", &before);
    assert!(cold.follow(3 * T).is_none());
    assert!(cold.refusal().contains("upgrade the standbys first"));
    // The newer server was stopped before it wrote anything else, and the slot was put back.
    home.memory.remove(&slot_key(3));
    drop(owner);
    assert_eq!(standby.own().generation, 2);
}
