//! Synchronous standbys, promotions, and connections that break.

use std::thread;
use std::time::Duration;

use super::*;
use crate::support::postgres_proxy::{Mode, Proxy};

#[test]
fn an_append_counts_only_after_the_synchronous_standby_has_it() {
    let Some(primary) = Postgres::start("the cancelled wait", "") else {
        return;
    };
    let mut standby = primary.standby("second");
    primary.require_standby("second");
    let connects = connects(&primary, "tenure", Duration::from_secs(2));
    let mut log = connects.connect().unwrap();
    wait_for("the tables", || log.head().ok());
    let mut patient = connect(&primary, "tenure");
    assert_eq!(append(&mut *patient, None, 1), Ok(Appended::Done));

    standby.crash();
    let cancelled = thread::scope(|scope| {
        let appending = scope.spawn(|| append(&mut *patient, Some(1), 2));
        Postgres::cancel_wait_for_standby(primary.port());
        appending.join().unwrap()
    });
    // PostgreSQL says that it succeeded, with a warning; and others see the new head.
    assert!(is_unknown(&cancelled), "{cancelled:?}");
    assert!(cancelled.unwrap_err().to_string().contains("01000"));
    assert_eq!(primary.query("select count(*) from tenure.log"), "2");
    // A repetition sees its own head, but the standby still does not have it.
    let repeated = append(&mut *log, Some(1), 2);
    assert!(is_unknown(&repeated), "{repeated:?}");

    standby.restart();
    let repeated = wait_for("an answer", || append(&mut *patient, Some(1), 2).ok());
    assert_eq!(refused_by(Ok(repeated)), Some(2));
    assert_eq!(append(&mut *patient, Some(2), 3), Ok(Appended::Done));
    // The standby has the append on its disk, and shows it soon.
    wait_for("the append at the standby", || {
        let on_standby = standby.query("select count(*) from tenure.log");
        (on_standby == "3").then_some(())
    });
}

#[test]
fn a_promoted_standby_is_another_engine_unless_a_fail_over_loses_nothing() {
    let Some(mut primary) = Postgres::start("the promotion", "") else {
        return;
    };
    let standby = primary.standby("second");
    primary.require_standby("second");
    let mut config = config(
        format!(
            "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
            primary.port(),
            standby.port()
        ),
        "tenure",
    );
    let connects =
        |config: &PostgresConfig| PostgresConnect::new(config.clone(), "default", ATTEMPT).unwrap();
    let strict = connects(&config);
    config.failover = Failover::Lossless;
    let lossless = connects(&config);
    let mut first = strict.connect().unwrap();
    let mut second = lossless.connect().unwrap();
    let before = (first.head().unwrap().engine, second.head().unwrap().engine);
    assert_eq!(append(&mut *first, None, 1), Ok(Appended::Done));
    assert_eq!(beat(&mut *second, 1, 2), Ok(Appended::Done));

    primary.crash();
    // Before the promotion there is only a standby.
    let error = append(&mut *second, Some(2), 3).unwrap_err();
    assert!(!matches!(error, LogError::Misconfigured(_)), "{error:?}");
    let error = append(&mut *second, Some(2), 3).unwrap_err();
    assert!(matches!(error, LogError::NotApplied(_)), "{error:?}");
    assert!(error.to_string().contains("is a standby"), "{error}");
    standby.promote();

    // A connection that was there before, and one that the same server opens later.
    for mut log in [first, strict.connect().unwrap()] {
        let appended = wait_for("an answer", || append(&mut *log, Some(2), 3).ok());
        let Appended::Refused(sighting) = appended else {
            panic!("another engine took an append: {appended:?}");
        };
        assert_ne!(sighting.engine, before.0);
        assert_eq!(log.head(), Ok(sighting));
    }
    assert_eq!(append(&mut *second, Some(2), 3), Ok(Appended::Done));
    let sighting = second.head().unwrap();
    assert_eq!(sighting.engine, before.1);
    assert_eq!(sighting.head, Some(head(3).into()));
}

#[test]
fn a_lossless_fail_over_to_a_standby_that_is_not_synchronous_is_warned_of() {
    let Some(primary) = Postgres::start("the warning", "") else {
        return;
    };
    let _standby = primary.standby("second");
    let mut config = config(
        format!("postgres://postgres@127.0.0.1:{}/postgres", primary.port()),
        "tenure",
    );
    // A new connection checks at once, and then each minute.
    let warnings = |config: &PostgresConfig| {
        let connects = PostgresConnect::new(config.clone(), "default", ATTEMPT).unwrap();
        let mut log = connects.connect().unwrap();
        wait_for("an answer", || log.head().ok());
        log.maintain();
        log.facts().warnings
    };
    let strict = config.clone();
    config.failover = Failover::Lossless;
    let warned = wait_for("a warning", || warnings(&config).pop());
    assert_eq!(warnings(&strict), <[String; 0]>::default());
    assert!(
        warned.contains("a promotion of one of them can lose"),
        "{warned}"
    );
    primary.require_standby("second");
    wait_for("the end of the warning", || {
        warnings(&config).is_empty().then_some(())
    });
}

#[test]
fn an_isolated_former_primary_acknowledges_nothing() {
    let Some(primary) = Postgres::start("the isolated primary", "") else {
        return;
    };
    let standby = primary.standby("second");
    primary.require_standby("second");
    let (old, new) = (primary.port(), standby.port());
    let mut config = config(
        format!("postgres://postgres@127.0.0.1:{old},127.0.0.1:{new}/postgres"),
        "tenure",
    );
    config.failover = Failover::Lossless;
    let connects = PostgresConnect::new(config, "default", Duration::from_secs(2)).unwrap();
    let mut log = connects.connect().unwrap();
    wait_for("the tables", || log.head().ok());
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    standby.promote();
    // The former primary is there and accepts writes. No attempt at it succeeds, and after an
    // attempt without an answer the next server is asked.
    let unanswered = append(&mut *log, Some(1), 2);
    assert!(is_unknown(&unanswered), "{unanswered:?}");
    append_in_time(&mut *log, 1, 2);
    assert_eq!(standby.query("select count(*) from tenure.log"), "2");
    assert_eq!(primary.query("select count(*) from tenure.log"), "1");
}

#[test]
fn an_append_whose_connection_breaks_has_an_unknown_outcome_that_a_repetition_resolves() {
    let Some(server) = shared_server("proxy") else {
        return;
    };
    let proxy = Proxy::to(server.port());
    let connects = PostgresConnect::new(config(proxy.url(), "proxied"), "default", ATTEMPT);
    let mut log = connects.unwrap().connect().unwrap();
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    // So that its statement is prepared.
    assert_eq!(append(&mut *log, Some(1), 2), Ok(Appended::Done));

    proxy.set(Mode::CloseAtAnswer);
    let applied = append(&mut *log, Some(2), 3);
    assert!(is_unknown(&applied), "{applied:?}");
    assert_eq!(refused_by(append(&mut *log, Some(2), 3)), Some(3));

    assert_eq!(append(&mut *log, Some(3), 4), Ok(Appended::Done));
    proxy.set(Mode::CloseAtRequest);
    let lost = append(&mut *log, Some(4), 5);
    assert!(is_unknown(&lost), "{lost:?}");
    assert_eq!(append(&mut *log, Some(4), 5), Ok(Appended::Done));
}

#[test]
fn a_connection_may_take_longer_than_a_call() {
    let Some(server) = shared_server("a slow connection") else {
        return;
    };
    // The tables are there, so the connection needs about ten answers, and a call needs one or two.
    assert_eq!(
        append(&mut *connect(server, "slow"), None, 1),
        Ok(Appended::Done)
    );
    let proxy = Proxy::to(server.port());
    proxy.set(Mode::Slow);
    let connects = PostgresConnect::new(config(proxy.url(), "slow"), "default", SHORT);
    let mut log = connects.unwrap().connect().unwrap();
    let early = log.head();
    assert!(matches!(early, Err(LogError::NotApplied(_))), "{early:?}");
    wait_for("a connection", || log.head().ok());
    append_in_time(&mut *log, 1, 2);
}

/// Appends until the outcome is known: on a busy machine an answer may come too late.
fn append_in_time(log: &mut dyn SharedLog, expected: u64, number: u64) {
    let appended = wait_for("an append", || append(log, Some(expected), number).ok());
    if appended != Appended::Done {
        assert_eq!(refused_by(Ok(appended)), Some(number));
    }
}

#[test]
fn a_connection_that_ended_while_it_was_idle_is_replaced_without_a_failed_call() {
    let Some(server) = shared_server("idle") else {
        return;
    };
    let mut log = connect(server, "idle");
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    let terminate = "select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'tenure' and query like '%\"idle\".head%'";
    // On a busy machine the connection may see its end late.
    let is_replaced = |number: u64| {
        assert!(server.query(terminate).contains('t'));
        thread::sleep(Duration::from_millis(300));
        let appended = append(&mut *log, Some(number), number + 1);
        if appended != Ok(Appended::Done) {
            append_in_time(&mut *log, number, number + 1);
        }
        appended == Ok(Appended::Done)
    };
    assert!((1..=10).any(is_replaced));
}
