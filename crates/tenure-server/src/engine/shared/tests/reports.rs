//! What a server logs, shows and counts about its part in the cluster.

use tenure_core::ownership::TailState;

use super::*;
use crate::engine::log_lines::LogLines;
use crate::metrics::Exposition;

/// Lets a standby look every T/12 for this long.
fn follow(server: &mut Server, duration: Duration) {
    for _ in 0..duration.as_nanos() / (T / 12).as_nanos() {
        assert!(server.follower.step().unwrap().is_none());
        server.advance(T / 12);
    }
}

/// The value of a series.
fn metric(server: &Server, series: &str) -> f64 {
    let mut out = Exposition::default();
    server.status().metrics.expose(&mut out);
    let text = out.into_text();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {series} in\n{text}"))
        .parse()
        .unwrap()
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
fn a_standby_that_its_service_refuses_logs_the_end_of_it_once() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let _owner = server.own();
    let mut standby = Server::new("standby", &service);
    follow(&mut standby, T / 4);
    let lines = LogLines::default();
    let _guard = lines.begin();
    standby.connect.fail_all(Some(Fault::Misconfigured));
    follow(&mut standby, 2 * T);
    lines.assert_once("ERROR tenure_server::engine::shared::chain::report: memory: wrong password");
    assert_eq!(lines.count("no read of the log"), 0);
    standby.connect.fail_all(None);
    follow(&mut standby, T / 4);
    lines.assert_once("the log in memory can be read again");
    // The same reason is news again.
    standby.connect.fail_all(Some(Fault::Misconfigured));
    follow(&mut standby, T / 4);
    assert_eq!(lines.count("memory: wrong password"), 2);
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
fn another_store_in_the_place_of_the_known_one_is_named() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    follow(&mut standby, T / 6);
    let other = MemoryService::new();
    let mut elsewhere = Server::new("first", &other);
    drop(elsewhere.own());
    let restored = other.content();
    let store = head_of(&restored).content.store;
    service.change(|content| *content = restored);
    follow(&mut standby, 4 * T);
    let refusal = standby.status().view().refusal.unwrap();
    let part = format!("another store now, {}", store.as_str());
    assert!(refusal.contains(&part), "{refusal}");
}

#[test]
fn a_take_over_and_a_deposition_are_logged_once_with_the_names_of_the_servers() {
    let service = MemoryService::new();
    let mut first = Server::new("store-1", &service);
    let mut owner = first.own();
    owner.write().unwrap();
    let mut second = Server::new("store-2", &service);
    let lines = LogLines::default();
    let _guard = lines.begin();
    let next = second.own();
    lines.assert_once(
        "WARN tenure_server::engine::shared::follow: store-1 was not heard of for 3.0 s, taking \
         over as generation 2",
    );
    lines.assert_once("active as generation 2: 1 leases, loaded in ");
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
    drop(owner);
    first.follower.begin().unwrap();
    follow(&mut first, T / 2);
    lines.assert_once(
        "WARN tenure_server::engine::shared::chain::report: deposed: store-2 is active as \
         generation 2; following",
    );
    assert_eq!(lines.count("deposed"), 1);
    assert_eq!(metric(&first, "tenure_cluster_take_overs_total"), 1.0);
    assert_eq!(metric(&second, "tenure_cluster_take_overs_total"), 1.0);
    let refused = "tenure_cluster_appends_total{result=\"refused\"}";
    assert_eq!(metric(&first, refused), 1.0);
    drop(next);
}

#[test]
fn an_owner_without_its_service_says_once_for_how_long_and_counts_it() {
    let service = MemoryService::new();
    let clock = Arc::new(AtomicU64::new(1_000_000_000));
    let manual = OwnershipClock::Manual(Arc::clone(&clock));
    let mut server = Server::with_clock("first", &service, T, clock, manual);
    let mut owner = server.own();
    let lines = LogLines::default();
    let _guard = lines.begin();
    // A test clock advances in waits, so these are some minutes.
    let lost = [Some(Fault::LoseRequest); 100];
    server.connect.fail_appends(lost);
    owner.write().unwrap();
    lines.assert_once(
        "WARN tenure_server::engine::shared::chain::report: no append for 2.5 s (memory: no \
         answer), answering nobody until it works",
    );
    // That append was sent for the first time too long ago; the next one counts.
    owner.rest();
    lines.assert_once("an append to memory succeeded again");
    assert_eq!(metric(&server, "tenure_cluster_lapses_total"), 1.0);
    let unknown = "tenure_cluster_appends_total{result=\"unknown\"}";
    assert_eq!(metric(&server, unknown), 100.0);
    let done = metric(&server, "tenure_cluster_appends_total{result=\"done\"}");
    let timed = metric(&server, "tenure_cluster_append_duration_seconds_count");
    assert_eq!(done, timed);
    // The take-over, the commit, and the places.
    assert!(done >= 3.0, "{done}");
}

#[test]
fn the_duration_of_calls_is_an_average_of_the_last_ones() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    assert_eq!(server.status().view().latency, Some(Duration::ZERO));
    let call = Duration::from_millis(80);
    server.connect.advance_in_calls(&server.clock, call);
    owner.write().unwrap();
    assert_eq!(server.status().view().latency, Some(call / 8));
    for _ in 0..100 {
        owner.write().unwrap();
    }
    let latency = server.status().view().latency.unwrap();
    assert!((call * 9 / 10..=call).contains(&latency), "{latency:?}");
    let view = server.status().view();
    assert_eq!(view.identity.unwrap().1, "7");
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

#[test]
fn a_log_that_a_running_server_may_not_take_over_is_named_once() {
    for (state, reason) in [
        (
            TailState::Restoring,
            "a restore into the log is not complete: wait for it, or run tenure restore again",
        ),
        (
            TailState::Retired,
            "a final backup has moved the store away: it goes on where that file is restored \
             (tenure restore)",
        ),
    ] {
        let service = MemoryService::new();
        let mut server = Server::new("first", &service);
        let mut owner = server.own();
        owner.write().unwrap();
        let mut standby = Server::new("standby", &service);
        follow(&mut standby, T / 6);
        let mut record = head_of(&service.content());
        record.head.sequence += 1;
        record.head.state = state;
        let head = record.encode(crate::clock::wall());
        service.change(|content| content.head = Some(head));
        let lines = LogLines::default();
        let _guard = lines.begin();
        follow(&mut standby, 4 * T);
        lines.assert_once(&format!(
            "WARN tenure_server::engine::shared::chain: taking nothing over: {reason}"
        ));
        let refusal = standby.status().view().refusal;
        assert_eq!(refusal.as_deref(), Some(reason));
    }
}

#[test]
fn a_log_that_went_back_is_named_once_with_both_positions() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    let early = service.content().head;
    let before = head_of(&service.content()).head;
    owner.write().unwrap();
    let mut standby = Server::new("standby", &service);
    follow(&mut standby, T / 6);
    let last = head_of(&service.content()).head;
    service.change(|content| content.head = early);
    let lines = LogLines::default();
    let _guard = lines.begin();
    follow(&mut standby, 4 * T);
    let text = format!(
        "generation 1, sequence {} was here and now it is generation 1, sequence {}: the home \
         lost what it acknowledged. Stop all servers, then: tenure cluster recover",
        last.sequence, before.sequence
    );
    assert_eq!(standby.status().view().refusal.as_ref(), Some(&text));
    lines.assert_once(&format!(
        "ERROR tenure_server::engine::shared::chain::report: {text}"
    ));
}
