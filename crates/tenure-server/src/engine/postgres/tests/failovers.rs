//! Synchronous standbys, promotions, and connections that break.

use std::thread;
use std::time::Duration;

use super::*;

/// Lets commits wait for a standby with this name.
pub(super) fn require_standby(primary: &Postgres, name: &str) {
    primary.query(&format!(
        "alter system set synchronous_standby_names = '{name}'"
    ));
    primary.query("select pg_reload_conf()");
    wait_for("the standby", || {
        let state = primary.query("select sync_state from pg_stat_replication");
        (state == "sync").then_some(())
    });
}

/// The statement of a session that waits for a synchronous standby.
const WAITS: &str = "from pg_stat_activity where wait_event = 'SyncRep'";

fn wait_for_sync_wait(primary: &Postgres) {
    wait_for("an append that waits for the standby", || {
        let count = primary.query(&format!("select count(*) {WAITS}"));
        (count != "0").then_some(())
    });
}

#[test]
fn an_append_counts_only_after_the_synchronous_standby_has_it() {
    let Some(primary) = Postgres::start("the cancelled wait", "") else {
        return;
    };
    let mut standby = primary.standby("second");
    require_standby(&primary, "second");
    let connects = connects(&primary, "tenure", Duration::from_secs(2));
    let mut log = connects.connect().unwrap();
    wait_for("the tables", || log.head().ok());
    let mut patient = connect(&primary, "tenure");
    assert_eq!(append(&mut *patient, None, 1), Ok(Appended::Done));

    standby.crash();
    let cancelled = thread::scope(|scope| {
        let appending = scope.spawn(|| append(&mut *patient, Some(1), 2));
        wait_for_sync_wait(&primary);
        primary.query(&format!("select pg_cancel_backend(pid) {WAITS}"));
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
fn a_lossless_fail_over_to_a_standby_that_is_not_synchronous_is_warned_of() {
    let Some(primary) = Postgres::start("the warning", "") else {
        return;
    };
    let _standby = primary.standby("second");
    let mut config = config(
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            primary.port()
        ),
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
    require_standby(&primary, "second");
    wait_for("the end of the warning", || {
        warnings(&config).is_empty().then_some(())
    });
}
