//! Servers that start over a log, or a service, that permits no server of their configuration.

use tenure_core::ownership::{EngineId, HeadState};

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
    change_head(&service, |record| record.head.state = HeadState::Retired);
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
            change_head(&service, |record| record.head.state = HeadState::Vacant);
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
