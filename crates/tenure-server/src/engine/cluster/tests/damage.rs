//! Other programs that write to the log, and a home that lost entries.

use super::super::StandbyError;
use super::starts::of_later_format;
use super::*;

/// A log with this number of entries of one owner, and the owner.
fn used(entries: u64) -> (FaultyHome, Server, Owner) {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    for _ in 1..entries {
        owner.write().unwrap();
    }
    (home, server, owner)
}

/// The reason why a server does not start, which must change nothing.
fn refused(home: &FaultyHome) -> String {
    let mut server = Server::new("next", home);
    match server.standby.look_first() {
        Err(StandbyError::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Checks that a server which does not stop after its first look takes nothing over.
fn check_closed(home: &FaultyHome, text: &str) {
    assert!(refused(home).contains(text), "{}", refused(home));
    let mut server = Server::new("next", home);
    for _ in 0..4 {
        assert!(server.follow(2 * T).is_none());
        assert!(server.refusal().contains(text), "{}", server.refusal());
        assert_eq!(server.role(), OwnershipRole::Refusing);
    }
}

#[test]
fn a_start_refuses_a_log_without_one_of_its_slots() {
    // The first slot, one in the middle, and the last one but one; with a base and without one.
    for (entries, back) in [(30, 29), (30, 13), (30, 1), (700, 1), (700, 3)] {
        let (home, _server, mut owner) = used(entries);
        // A base that was named just now has the entries before it, so nobody needs their slots.
        let is_needed =
            |it: &SlotValue| it.base.map_or(0, |it| it.covered) + back < it.tail.sequence;
        while !is_needed(&tail_of(&home)) {
            owner.write().unwrap();
        }
        drop(owner);
        let before = tail_of(&home);
        let deleted = (before.tail.sequence - back) % 256;
        home.memory.remove(&slot_key(deleted));
        check_closed(&home, &format!("slot {deleted} was deleted"));
        let opened = home.open(&config("operator", T));
        let error = recover(&opened, &|_| {}).unwrap_err().to_string();
        assert!(
            error.contains(&format!("slot {deleted} was deleted")),
            "{error}"
        );
        assert_eq!(tail_of(&home), before);
    }
}

#[test]
fn an_owner_that_comes_to_a_slot_that_was_deleted_resigns_and_nobody_takes_over() {
    // The slot is deleted while the owner has seen it, and before it takes over.
    for is_seen in [true, false] {
        let (home, mut server, mut owner) = used(700);
        let mut standby = Server::new("standby", &home);
        assert!(standby.follow(T / 12).is_none());
        let deleted = 710 % 256;
        home.memory.remove(&slot_key(deleted));
        if !is_seen {
            drop(owner);
            server = Server::new("second", &home);
            owner = server.own();
        }
        let refused = loop {
            match owner.write() {
                Ok(()) => assert!(tail_of(&home).tail.sequence < 710),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, AppendError::NotOwner(_)), "{refused:?}");
        assert!(!server.status().serving.check());
        let text = format!(
            "slot {deleted} was deleted: another program writes to the log in memory, cluster default. \
             Make a backup while a server is active, stop all servers, and restore it into another \
             prefix, schema or cluster name"
        );
        assert_eq!(server.refusal(), text);
        drop(owner);
        server.stand_by();
        assert!(server.follow(3 * T).is_none());
        assert!(standby.follow(3 * T).is_none());
        assert_eq!(standby.refusal(), text);
        assert_eq!(tail_of(&home).tail.sequence, 709);
    }
}

#[test]
fn a_slot_with_something_else_is_named_and_nobody_takes_over() {
    let entries = 300;
    let (home, mut server, mut owner) = used(entries);
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 12).is_none());
    let next = (entries + 1) % 256;
    // No entry at all; an entry of another slot.
    let Read::Found { value, .. } = now(home.memory.read(&slot_key(next + 1), None)) else {
        panic!("an empty slot")
    };
    for bytes in [b"hello".to_vec().into(), value] {
        overwrite(&home, next, bytes);
        check_closed(&home, &format!("slot {next} is damaged"));
    }
    assert!(standby.follow(3 * T).is_none());
    assert!(
        standby
            .refusal()
            .contains(&format!("slot {next} is damaged"))
    );
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
    assert!(
        server
            .refusal()
            .contains(&format!("slot {next} is damaged"))
    );
    drop(owner);
    server.stand_by();
    assert!(server.follow(3 * T).is_none());
    overwrite(&home, next, of_later_format());
    assert!(server.follow(T).is_none());
    let text = "the log has format 2, which this version does not know: upgrade the standbys first";
    assert_eq!(server.refusal(), text);
}

#[test]
fn an_entry_that_does_not_follow_is_refused() {
    let (home, _server, owner) = used(30);
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 12).is_none());
    drop(owner);
    // The last entry but one is another one than that which the last entry follows.
    let mut entries = entries_of(&home);
    let mut other = entries.swap_remove(entries.len() - 2);
    other.about.server = "other".into();
    overwrite(&home, 29, other.encode());
    assert_eq!(refused(&home), refused(&home));
    check_closed(&home, "slot 30 is damaged");
}

#[test]
fn a_log_that_went_back_is_named_once_with_both_positions() {
    let (home, mut server, mut owner) = used(300);
    let before = tail_of(&home);
    owner.write().unwrap();
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 6).is_none());
    home.memory.go_back(1);
    // The owner notices it within a poll, and the standby before it takes over.
    server.advance(T / 6);
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
    assert!(!server.status().serving.check());
    drop(owner);
    server.stand_by();
    assert!(server.follow(2 * T).is_none());
    let lines = LogLines::default();
    let _guard = lines.begin();
    assert!(standby.follow(4 * T).is_none());
    let text = "generation 1, sequence 301 was here and now it is generation 1, sequence 300: the home \
                lost what it acknowledged. If a backup was restored there, restart this server. Else stop all servers, \
                then: tenure cluster recover; or restore a backup into another prefix, schema or cluster \
                name";
    assert_eq!(server.refusal(), text);
    assert_eq!(standby.refusal(), text);
    lines.assert_once(&format!(
        "ERROR tenure_server::engine::cluster::report: {text}"
    ));
    assert_eq!(tail_of(&home), before);
    // A server that starts goes on.
    let mut next = Server::new("next", &home);
    assert_eq!(next.own().loaded.leases.len(), 299);
    // The standby never follows this log again.
    assert!(standby.follow(4 * T).is_none());
    assert_eq!(standby.refusal(), text);
}

#[test]
fn an_owner_that_goes_on_after_an_entry_was_lost_stops_within_a_poll() {
    let (home, mut server, mut owner) = used(30);
    home.memory.go_back(1);
    // The slot of the next entry is as it was.
    owner.write().unwrap();
    assert!(server.status().serving.check());
    server.advance(T / 12);
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
    assert!(!server.status().serving.check());
    drop(owner);
    server.stand_by();
    assert!(server.follow(2 * T).is_none());
    assert!(
        server.refusal().contains("slot 30 was deleted"),
        "{}",
        server.refusal()
    );
}

#[test]
fn an_owner_that_is_shown_an_older_log_once_owns_it_again() {
    for lasts in [T / 12, T / 2] {
        let (home, mut server, mut owner) = used(30);
        let former = home.memory.copied();
        owner.write().unwrap();
        server.advance(T / 12);
        server.reached.read_from(Some(former));
        assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
        assert!(!server.status().serving.check());
        drop(owner);
        server.stand_by();
        assert!(server.follow(lasts).is_none());
        server.reached.read_from(None);
        let owner = server.follow(2 * T).expect("an owner");
        assert_eq!(owner.loaded.leases.len(), 30);
        assert_eq!(owner.generation, 2);
    }
}

#[test]
fn another_log_in_the_place_of_the_known_one_is_refused_until_a_restart() {
    let (home, _server, owner) = used(30);
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 12).is_none());
    drop(owner);
    (0..256).for_each(|slot| home.memory.remove(&slot_key(slot)));
    assert!(standby.follow(3 * T).is_none());
    assert!(
        standby.refusal().contains("now it is not: "),
        "{}",
        standby.refusal()
    );
    // Another store begins there.
    let mut other = Server::new("other", &home);
    let mut owner = other.own();
    for _ in 0..40 {
        owner.write().unwrap();
    }
    drop(owner);
    assert!(standby.follow(3 * T).is_none());
    assert!(
        standby.refusal().contains("sequence 30 was here"),
        "{}",
        standby.refusal()
    );
    assert_eq!(Server::new("standby", &home).own().loaded.leases.len(), 40);
}

#[test]
fn servers_with_one_name_of_a_cluster_are_one_cluster_and_the_longer_ownership_counts() {
    let home = FaultyHome::default();
    let mut server = Server::with_config(&config("one", 2 * T), &home);
    drop(server.own());
    let mut other = Server::with_config(&config("other", T), &home);
    assert!(other.follow(2 * T - T / 6).is_none());
    let view = other.status().view();
    assert_eq!(view.active.map(|it| it.name).as_deref(), Some("one"));
    let lines = LogLines::default();
    let _guard = lines.begin();
    assert!(other.follow(T / 2).is_some());
    lines.assert_once("one was not heard of for 6.0 s, taking over as generation 2");
}

#[test]
fn no_server_takes_a_log_over_that_it_can_not_load_and_they_go_on_when_it_is_mended() {
    let (home, _server, owner) = used(700);
    drop(owner);
    let file = files_of(&home).swap_remove(0);
    let content = now(home.memory.read_file(&file)).unwrap();
    now(home.memory.delete(std::slice::from_ref(&file)));
    let mut servers = ["second", "third"].map(|name| Server::new(name, &home));
    for server in &mut servers {
        server.standby.look_first().unwrap();
        assert!(server.follow(20 * T).is_none());
        let view = server.status().view();
        assert_eq!(view.role, OwnershipRole::Refusing);
        let text = format!("the log in memory, cluster default is damaged ({file} is missing)");
        assert!(view.reason().unwrap().contains(&text), "{view:?}");
    }
    assert_eq!(tail_of(&home).tail.sequence, 700);
    now(home.memory.write(&file, content));
    let [mut second, mut third] = servers;
    let owner = second.own();
    assert_eq!((owner.generation, owner.loaded.leases.len()), (2, 699));
    assert_eq!(second.status().view().reason(), None);
    assert!(third.follow(T / 2).is_none());
    drop(owner);
    assert_eq!(third.own().loaded.leases.len(), 699);
}
