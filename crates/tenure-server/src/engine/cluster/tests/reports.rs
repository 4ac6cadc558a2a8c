//! What a server logs, shows and counts about its part in the cluster.

use tenure_register::HomeFacts;

use super::*;
use crate::metrics::Exposition;

/// The value of a series.
pub(super) fn metric(server: &Server, series: &str) -> f64 {
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
fn a_standby_without_its_home_says_so_once_and_its_end_once() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let _owner = server.own();
    let mut standby = Server::new("standby", &home);
    let lines = LogLines::default();
    let _guard = lines.begin();
    assert!(standby.follow(T / 4).is_none());
    // A short failure is not worth a line.
    standby.reached.fail_all(Some(Fault::LoseRequest));
    assert!(standby.follow(T / 2).is_none());
    standby.reached.fail_all(None);
    assert!(standby.follow(T / 12).is_none());
    assert_eq!(lines.count("the log"), 0);

    standby.reached.fail_all(Some(Fault::LoseRequest));
    assert!(standby.follow(100 * T).is_none());
    lines.assert_once(
        "WARN tenure_server::engine::cluster::report: no read of the log for 3.0 s (memory: \
         no answer), taking nothing over until it works",
    );
    // A second line would have another time.
    lines.assert_once("no read of the log");
    assert_eq!(lines.count("can be read again"), 0);
    standby.reached.fail_all(None);
    assert!(standby.follow(T / 4).is_none());
    lines.assert_once(
        " INFO tenure_server::engine::cluster::report: the log in memory can be read again, after 300.0 s",
    );
}

#[test]
fn a_standby_that_its_home_refuses_logs_the_end_of_it_once() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let _owner = server.own();
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 4).is_none());
    let lines = LogLines::default();
    let _guard = lines.begin();
    standby.reached.fail_all(Some(Fault::Misconfigured));
    assert!(standby.follow(2 * T).is_none());
    lines.assert_once("ERROR tenure_server::engine::cluster::report: memory: wrong password");
    assert_eq!(lines.count("no read of the log"), 0);
    standby.reached.fail_all(None);
    assert!(standby.follow(T / 4).is_none());
    lines.assert_once("the log in memory can be read again");
    // The same reason is news again.
    standby.reached.fail_all(Some(Fault::Misconfigured));
    assert!(standby.follow(T / 4).is_none());
    assert_eq!(lines.count("memory: wrong password"), 2);
}

#[test]
fn a_second_server_of_the_same_name_is_noticed_and_an_earlier_start_is_not() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    let mut standby = Server::new("first", &home);
    let lines = LogLines::default();
    let _guard = lines.begin();
    assert!(standby.follow(T / 6).is_none());
    // The last append of the earlier start may arrive after the first look.
    owner.write().unwrap();
    assert!(standby.follow(T / 2).is_none());
    assert_eq!(standby.status().view().reason(), None);
    owner.write().unwrap();
    assert!(standby.follow(T / 2).is_none());
    let text = "another server of this cluster, at http://first, has the name first, too";
    lines.assert_once(text);
    assert!(standby.status().view().reason().unwrap().contains(text));
    drop(owner);
    drop(standby.own());
    assert_eq!(standby.status().view().namesake, None);
}

#[test]
fn a_take_over_and_a_deposition_are_logged_once_with_the_names_of_the_servers() {
    let home = FaultyHome::default();
    let mut first = Server::new("store-1", &home);
    let mut owner = first.own();
    owner.write().unwrap();
    let mut second = Server::new("store-2", &home);
    let lines = LogLines::default();
    let _guard = lines.begin();
    let next = second.own();
    lines.assert_once(
        "WARN tenure_server::engine::cluster::report: store-1 was not heard of for 3.0 s, taking \
         over as generation 2",
    );
    lines.assert_once("active as generation 2: 1 leases, loaded in ");
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
    drop(owner);
    first.stand_by();
    assert!(first.follow(T / 2).is_none());
    lines.assert_once(
        "WARN tenure_server::engine::cluster::report: deposed: superseded by store-2, generation 2; \
         following",
    );
    assert_eq!(lines.count("deposed"), 1);
    assert_eq!(metric(&first, "tenure_cluster_take_overs_total"), 1.0);
    assert_eq!(metric(&second, "tenure_cluster_take_overs_total"), 1.0);
    let refused = "tenure_cluster_appends_total{result=\"refused\"}";
    assert_eq!(metric(&first, refused), 1.0);
    drop(next);
}

#[test]
fn a_server_that_loses_the_race_for_the_log_says_so() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    drop(server.own());
    let mut servers = ["second", "third"].map(|name| Server::new(name, &home));
    let lines = LogLines::default();
    let _guard = lines.begin();
    let [second, third] = &mut servers;
    second.reached.fail_replaces([Some(Fault::LoseRequest)]);
    while second.reached.has_planned_faults() {
        assert!(second.follow(T / 12).is_none());
    }
    drop(third.own());
    assert!(second.follow(T / 4).is_none());
    lines.assert_once("another server was first to take over");
    assert_eq!(tail_of(&home).about.server, "third");
}

#[test]
fn an_owner_without_its_home_says_once_for_how_long_and_counts_it() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let lines = LogLines::default();
    let _guard = lines.begin();
    // A test clock advances in waits, so these are some minutes.
    server
        .reached
        .fail_replaces([Some(Fault::LoseRequest); 100]);
    owner.write().unwrap();
    lines.assert_once(
        "WARN tenure_server::engine::cluster::report: no append for 2.5 s (memory: no \
         answer), answering nobody until it works",
    );
    // That append was sent for the first time too long ago; the next one counts.
    server.advance(T / 6);
    owner.log.upkeep().unwrap();
    lines.assert_once("an append to memory succeeded again");
    assert_eq!(metric(&server, "tenure_cluster_lapses_total"), 1.0);
    let unknown = "tenure_cluster_appends_total{result=\"unknown\"}";
    assert_eq!(metric(&server, unknown), 100.0);
    let done = metric(&server, "tenure_cluster_appends_total{result=\"done\"}");
    let timed = metric(&server, "tenure_cluster_append_duration_seconds_count");
    assert_eq!(done, timed);
    // The take-over, the commit, and at least one heartbeat.
    assert!(done >= 3.0, "{done}");
}

#[test]
fn a_take_over_that_the_home_refused_stays_a_reason_until_a_server_has_appended() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    drop(server.own());
    let mut standby = Server::new("standby", &home);
    assert!(standby.follow(T / 2).is_none());
    standby.reached.fail_replaces([Some(Fault::Full); 3]);
    while standby.reached.has_planned_faults() {
        assert!(standby.follow(T / 12).is_none());
    }
    let text = "the last take-over of this server failed: no space";
    for _ in 0..2 {
        let view = standby.status().view();
        assert_eq!(view.take_over_failure.as_deref(), Some(text));
        assert!(view.reason().is_some());
        // A read that succeeds does not end it.
        standby.reached.fail_replaces([Some(Fault::Full)]);
        assert!(standby.follow(T / 12).is_none());
    }
    standby.reached.fail_replaces([Some(Fault::Full); 9]);
    drop(Server::new("third", &home).own());
    assert!(standby.follow(T / 4).is_none());
    assert_eq!(standby.status().view().reason(), None);
}

#[test]
fn a_failed_take_over_is_over_when_the_owner_goes_on_and_the_home_accepts_writes_of_this_server() {
    for fault in [Fault::Full, Fault::LoseRequest, Fault::Misconfigured] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        let mut standby = Server::new("standby", &home);
        standby.reached.fail_replaces([Some(fault); 3]);
        while standby.reached.has_planned_faults() {
            assert!(standby.follow(T / 12).is_none());
        }
        let status = standby.status();
        let is_failed = || status.view().take_over_failure.is_some();
        assert!(is_failed(), "{fault:?}");
        standby
            .reached
            .fail_files((fault == Fault::Misconfigured).then_some(fault));
        owner.write().unwrap();
        assert!(standby.follow(T / 2).is_none());
        // The reason of this server itself holds.
        assert_eq!(is_failed(), fault == Fault::Misconfigured, "{fault:?}");
        standby.reached.fail_files(None);
        assert!(standby.follow(T / 4).is_none());
        assert_eq!(standby.status().view().reason(), None, "{fault:?}");
    }
}

#[test]
fn the_duration_of_calls_is_an_average_of_the_last_ones() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    assert_eq!(server.status().view().latency, Some(Duration::ZERO));
    let call = Duration::from_millis(80);
    server.reached.advance_in_requests(&server.clock, call);
    owner.write().unwrap();
    assert_eq!(server.status().view().latency, Some(call / 8));
    for _ in 0..40 {
        owner.write().unwrap();
    }
    let latency = server.status().view().latency.unwrap();
    // In each poll an append also reads the entries before it.
    let most = call * 3 / 2;
    assert!((call * 9 / 10..=most).contains(&latency), "{latency:?}");
    let identity = server.status().view().identity.unwrap();
    assert_eq!(identity, "memory, cluster default (memory/0)");
}

#[test]
fn changes_are_refused_in_a_home_that_is_nearly_full_and_beats_are_not() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let used = |bytes| {
        server.reached.set_facts(HomeFacts {
            bytes: Some(bytes),
            quota_bytes: Some(100),
            ..HomeFacts::default()
        });
    };
    used(89);
    owner.write().unwrap();
    used(90);
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
        owner.log.upkeep().unwrap();
        assert!(server.status().serving.check());
    }
    used(50);
    owner.write().unwrap();
    check_chain(&home);
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
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        let mut standby = Server::new("standby", &home);
        owner.write().unwrap();
        change_tail(&home, |value| value.tail.state = state);
        let lines = LogLines::default();
        let _guard = lines.begin();
        assert!(standby.follow(4 * T).is_none());
        lines.assert_once(&format!(
            "WARN tenure_server::engine::cluster::report: taking nothing over: {reason}"
        ));
        assert_eq!(standby.refusal(), reason);
    }
}
