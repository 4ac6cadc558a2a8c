//! What a server logs, shows and counts about its part in the cluster.

use super::*;
use crate::engine::log_lines::LogLines;

/// Lets a standby look every T/12 for this long.
fn follow(server: &mut Server, duration: Duration) {
    for _ in 0..duration.as_nanos() / (T / 12).as_nanos() {
        assert!(server.follower.step().unwrap().is_none());
        server.advance(T / 12);
    }
}

#[test]
fn a_standby_without_its_service_says_so_once_and_its_end_once() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let _owner = server.own();
    let mut standby = Server::new("standby", &service);
    let lines = LogLines::default();
    let _guard = lines.begin();
    follow(&mut standby, T / 4);
    // A short failure is not worth a line.
    standby.connect.fail_all(Some(Fault::LoseRequest));
    follow(&mut standby, T / 2);
    standby.connect.fail_all(None);
    follow(&mut standby, T / 12);
    assert_eq!(lines.count("the log"), 0);

    standby.connect.fail_all(Some(Fault::LoseRequest));
    follow(&mut standby, 100 * T);
    lines.assert_once(
        "WARN tenure_server::engine::shared::chain::report: no read of the log for 3.0 s (memory: \
         no answer), taking nothing over until it works",
    );
    // A second line would have another time.
    lines.assert_once("no read of the log");
    assert_eq!(lines.count("can be read again"), 0);
    standby.connect.fail_all(None);
    follow(&mut standby, T / 4);
    lines.assert_once(
        " INFO tenure_server::engine::shared::chain::report: the log in memory can be read",
    );
    lines.assert_once("can be read again, after 300.0 s");
}

#[test]
fn a_standby_that_can_not_copy_the_log_says_so_once() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &service);
    let lines = LogLines::default();
    let _guard = lines.begin();
    owner.write().unwrap();
    service.change(|content| {
        let last = *content.batches.keys().next_back().unwrap();
        content.batches.insert(last, b"damaged".to_vec().into());
    });
    for _ in 0..18 {
        server.advance(T / 6);
        owner.write().unwrap();
        follow(&mut standby, T / 6);
    }
    lines.assert_once(
        "WARN tenure_server::engine::shared::follow: this server can't copy the log, so it could \
         not go on with it: the log may be damaged",
    );
    // An operator sees it, too, until the server has a copy.
    let view = standby.status().view();
    assert!(view.reason().unwrap().contains("can't copy the log"));
    assert_eq!(view.behind, None);
    // Everything is in its place then, so the damaged batch is not needed. The standby tries again
    // after a pause that has grown.
    owner.rest();
    service.change(|content| content.batches.clear());
    for _ in 0..60 {
        server.advance(T / 6);
        owner.write().unwrap();
        follow(&mut standby, T / 6);
    }
    let view = standby.status().view();
    assert_eq!((view.reason(), view.behind), (None, Some(0)));
}

#[test]
fn a_second_server_of_the_same_name_is_noticed_and_an_earlier_start_is_not() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("first", &service);
    let lines = LogLines::default();
    let _guard = lines.begin();
    follow(&mut standby, T / 6);
    // The last append of the earlier start may arrive after the first look.
    owner.write().unwrap();
    follow(&mut standby, T / 2);
    assert_eq!(standby.status().view().reason(), None);
    owner.write().unwrap();
    follow(&mut standby, T / 2);
    let text = "another server of this cluster, at http://first, has the name first, too";
    lines.assert_once(text);
    assert!(standby.status().view().reason().unwrap().contains(text));
    drop(owner);
    drop(standby.own());
    assert_eq!(standby.status().view().namesake, None);
}

#[test]
fn changes_are_refused_in_a_service_that_is_nearly_full_and_beats_are_not() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    service.change(|content| content.used = Some((89, 100)));
    owner.write().unwrap();
    service.change(|content| content.used = Some((90, 100)));
    let refused = owner.write().unwrap_err();
    let AppendError::DiskFull(text) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        text,
        "memory has used 90 % of its space, and from 90 % on only renewals are accepted: compact \
         and defragment it, or raise its quota"
    );
    // For an hour the server stays active.
    for _ in 0..7_200 {
        server.advance(T / 6);
        owner.engine.checkpoint(Load::Idle).unwrap();
        assert!(server.serving().check());
    }
    service.change(|content| content.used = Some((50, 100)));
    owner.write().unwrap();
    check_chain(&service.content());
}
