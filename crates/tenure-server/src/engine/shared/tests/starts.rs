//! Servers that start over a log, or a service, that permits no server of their configuration.

use tenure_core::ownership::{EngineId, TailState};

use super::*;
use crate::clock;
use crate::config::ClusterAccess;
use crate::engine::shared::follow::FollowError;
use crate::engine::shared::log::{Connect as _, LogError};

/// A service whose last owner has handed the log over.
fn vacant() -> Arc<MemoryService> {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    owner.engine.close().unwrap();
    service
}

/// Changes the head as another version or another command would.
fn change_head(service: &Arc<MemoryService>, change: impl FnOnce(&mut HeadRecord)) {
    let mut record = head_of(&service.content());
    change(&mut record);
    let head = record.encode(clock::wall());
    service.change(|content| content.head = Some(head));
}

/// The reason why a server with this access does not start.
fn refused(service: &Arc<MemoryService>, access: ClusterAccess) -> FollowError {
    let mut server = Server::with_access("next", service, access);
    server.follower.look_first().unwrap_err()
}

/// The text of a refusal of the log.
fn text(refused: FollowError) -> String {
    match refused {
        FollowError::Refused(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_does_not_start_over_a_log_that_it_must_not_use() {
    let open = ClusterAccess::Anonymous;
    let service = vacant();
    change_head(&service, |record| record.head.state = TailState::Retired);
    assert_eq!(
        text(refused(&service, open)),
        "a final backup has moved the store away: it goes on where that file is restored (tenure \
         restore)"
    );

    let service = vacant();
    service.change(|content| content.engine = EngineId(8));
    assert_eq!(
        text(refused(&service, open)),
        "the head was written in memory 7 and this is 8: a restored snapshot, or a wrong address. \
         Stop all servers, then: tenure cluster recover"
    );

    let service = vacant();
    service.change(|content| content.head = Some(r#"{"format":2}"#.into()));
    assert_eq!(
        text(refused(&service, open)),
        "the head has format 2 and this version knows 1: upgrade the standbys first"
    );
    service.change(|content| content.head = Some("hello".into()));
    assert!(text(refused(&service, open)).contains("the head of the log is not valid"));
}

#[test]
fn a_log_that_has_lost_its_head_is_not_begun_again() {
    let lost = |entry: &str| {
        let entry = entry.to_owned();
        move |text: String| {
            assert!(text.contains("the log has no head"), "{text}");
            assert!(text.contains(&entry), "{text}");
        }
    };
    let (in_batch, in_place) = (lost("log/"), lost("lease/"));
    let service = vacant();
    service.change(|content| content.head = None);
    in_batch(text(refused(&service, ClusterAccess::Anonymous)));
    service.change(|content| {
        content.batches.clear();
        let value = b"{}".to_vec().into();
        content.places.insert("lease/00/ns/job".into(), value);
    });
    in_place(text(refused(&service, ClusterAccess::Anonymous)));
    let connect = service.connect();
    let begun = super::super::init(&mut *connect.connect().unwrap(), |_| {});
    in_place(begun.unwrap_err().to_string());

    // A server that runs takes nothing over, either, and goes on when the log is empty.
    let mut server = Server::new("next", &service);
    for _ in 0..24 {
        assert!(server.follower.step().unwrap().is_none());
        server.advance(T / 12);
    }
    in_place(server.status().view().error.unwrap());
    assert_eq!(service.content().head, None);
    service.change(|content| content.places.clear());
    assert_eq!(server.own().generation, 1);
}

#[test]
fn a_head_whose_numbers_can_not_grow_is_refused() {
    for (name, change) in [
        (
            "generation",
            (|record: &mut HeadRecord| record.head.generation = u64::MAX) as fn(&mut HeadRecord),
        ),
        ("sequence", |record| record.head.sequence = u64::MAX),
    ] {
        let service = vacant();
        change_head(&service, change);
        let text = text(refused(&service, ClusterAccess::Anonymous));
        let part = format!("its {name} is not valid");
        assert!(text.contains(&part), "{text}");
    }
}

#[test]
fn a_server_does_not_start_if_its_service_definitely_refuses_and_waits_for_one_that_is_away() {
    let service = vacant();
    for (fault, starts) in [
        (Fault::Misconfigured, false),
        (Fault::LoseRequest, true),
        (Fault::NotApplied, true),
        (Fault::Full, true),
    ] {
        let mut server = Server::new("next", &service);
        server.connect.fail_all(Some(fault));
        let looked = server.follower.look_first();
        match starts {
            true => assert_eq!(looked, Ok(()), "{fault:?}"),
            false => assert!(
                matches!(looked, Err(FollowError::Log(LogError::Misconfigured(_)))),
                "{looked:?}"
            ),
        }
        server.connect.fail_all(None);
        if starts {
            assert_eq!(server.own().loaded.leases.len(), 1, "{fault:?}");
            change_head(&service, |record| record.head.state = TailState::Vacant);
        }
    }
}

#[test]
fn a_server_looks_for_two_seconds_before_it_starts_without_an_answer() {
    // It looks every T/12, which is 250 ms.
    for (unanswered, starts) in [(7, false), (9, true)] {
        let mut server = Server::new("next", &vacant());
        let lost = std::iter::repeat_n(Some(Fault::LoseRequest), unanswered);
        server.connect.fail_reads(lost);
        server.connect.fail_all(Some(Fault::Misconfigured));
        let looked = server.follower.look_first();
        assert_eq!(looked.is_ok(), starts, "{unanswered}: {looked:?}");
    }
}

#[test]
fn the_first_look_of_a_server_counts_as_its_first() {
    let service = MemoryService::new();
    let mut first = Server::new("first", &service);
    first.follower.look_first().unwrap();
    let mut owner = first.own();
    assert_eq!(owner.generation, 1);
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    standby.follower.look_first().unwrap();
    let began = standby.clock.load(Ordering::SeqCst);
    drop(owner);
    assert_eq!(standby.own().generation, 2);
    let took = Duration::from_nanos(standby.clock.load(Ordering::SeqCst) - began);
    assert!((T..T + T / 6).contains(&took), "{took:?}");
    check_chain(&service.content());
}

#[test]
fn a_server_waits_for_the_end_of_a_restore() {
    let service = vacant();
    change_head(&service, |record| record.head.state = TailState::Restoring);
    let mut server = Server::new("next", &service);
    server.follower.look_first().unwrap();
    for _ in 0..40 {
        assert!(server.follower.step().unwrap().is_none());
        server.advance(T / 12);
    }
    let refusal = server.status().view().refusal.unwrap();
    assert!(refusal.contains("a restore into the log"), "{refusal}");
    change_head(&service, |record| {
        record.head.state = TailState::Vacant;
        record.head.sequence += 1;
    });
    assert_eq!(server.own().loaded.leases.len(), 1);
    assert_eq!(server.status().view().refusal, None);
}

#[test]
fn a_log_of_servers_with_access_control_is_not_taken_over_by_one_without() {
    let service = vacant();
    let mut guarded = Server::with_access("guarded", &service, ClusterAccess::Guarded);
    guarded.follower.look_first().unwrap();
    let mut owner = guarded.own();
    owner.write().unwrap();
    owner.engine.close().unwrap();
    drop(owner);
    assert!(head_of(&service.content()).content.is_guarded);
    let open = ClusterAccess::Anonymous;
    assert_eq!(refused(&service, open), FollowError::Guarded);

    // A server that could not read the log at its start does not take it over, either.
    let mut late = Server::with_access("late", &service, open);
    late.connect.fail_all(Some(Fault::LoseRequest));
    late.follower.look_first().unwrap();
    late.connect.fail_all(None);
    for _ in 0..40 {
        assert!(late.follower.step().unwrap().is_none());
        late.advance(T / 12);
    }
    let refusal = late.status().view().refusal.unwrap();
    assert!(refusal.contains("no access file"), "{refusal}");

    // An operator may say that it is right, and that is no decision for later servers.
    let allowed = ClusterAccess::AnonymousAllowed;
    let mut server = Server::with_access("allowed", &service, allowed);
    server.follower.look_first().unwrap();
    let mut owner = server.own();
    assert_eq!(owner.loaded.leases.len(), 2);
    owner.write().unwrap();
    owner.engine.close().unwrap();
    assert_eq!(refused(&service, open), FollowError::Guarded);
    check_chain(&service.content());
}

#[test]
fn a_head_with_fields_of_a_later_version_is_followed_and_taken_over() {
    let service = vacant();
    let head = service.content().head.unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&head).unwrap();
    json["later"] = serde_json::json!({"more": [1, 2]});
    json["owner"]["zone"] = "a".into();
    json["version"] = "99.0.0".into();
    let head = serde_json::to_vec(&json).unwrap();
    service.change(|content| content.head = Some(head.into()));
    let mut server = Server::new("next", &service);
    server.follower.look_first().unwrap();
    // The append compares the bytes with the fields that this version does not know.
    let mut owner = server.own();
    assert_eq!(owner.loaded.leases.len(), 1);
    owner.write().unwrap();
}

#[test]
fn a_standby_refuses_while_the_head_has_a_newer_format() {
    let service = MemoryService::new();
    let mut first = Server::new("first", &service);
    let mut owner = first.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    assert!(standby.follower.step().unwrap().is_none());
    let known = service.content().head;
    service.change(|content| content.head = Some(r#"{"format":2}"#.into()));
    for _ in 0..40 {
        standby.advance(T / 12);
        assert!(standby.follower.step().unwrap().is_none());
    }
    assert_eq!(standby.role(), OwnershipRole::Refusing);
    let refusal = standby.status().view().refusal.unwrap();
    assert!(refusal.contains("upgrade the standbys first"), "{refusal}");
    // The newer server was stopped before it wrote anything else, and the head was put back.
    service.change(|content| content.head = known);
    drop(owner);
    assert_eq!(standby.own().generation, 2);
}
