//! Appends and reads.

use std::thread;

use super::*;
use crate::engine::shared::conformance;
use crate::engine::shared::log::{Edit, PlaceRange};

#[test]
fn the_log_passes_the_checks_of_all_shared_logs() {
    let Some(server) = shared_server("conformance") else {
        return;
    };
    let mut count = 0;
    conformance::check(|| {
        count += 1;
        connects(server, &format!("conformance{count}"), ATTEMPT)
    });
}

#[test]
fn clusters_in_one_schema_do_not_see_each_other() {
    let Some(server) = shared_server("clusters") else {
        return;
    };
    let open = |cluster| {
        let config = config(server.url("postgres", ""), "clusters");
        let connects = PostgresConnect::new(config, cluster, ATTEMPT);
        connects.unwrap().connect().unwrap()
    };
    let (mut one, mut two) = (open("one"), open("two"));
    for log in [&mut one, &mut two] {
        let edits = [Edit::Put(place("lease/a/a", "{}"))];
        let appended = log.append(&Append {
            expected: None,
            head: head(1).as_bytes(),
            batch: Some(batch(1)),
            edits: &edits,
            keep_from: 0,
        });
        assert_eq!(appended, Ok(Appended::Done));
    }
    let appended = one.append(&Append {
        expected: Some(head(1).as_bytes()),
        head: head(2).as_bytes(),
        batch: Some(batch(2)),
        edits: &[Edit::Delete("lease/a/a".into())],
        keep_from: 2,
    });
    assert_eq!(appended, Ok(Appended::Done));
    assert_eq!(two.head().unwrap().head, Some(head(1).into()));
    assert_eq!(two.batches(0).unwrap(), [batch(1)]);
    let range = PlaceRange {
        from: "lease/".into(),
        to: "lease0".into(),
        descending: false,
        most: 10,
    };
    assert_eq!(one.places(&range).unwrap(), []);
    assert_eq!(two.places(&range).unwrap().len(), 1);
    assert_eq!(one.batches(0).unwrap(), [batch(2)]);
}

#[test]
fn a_statement_of_a_connection_that_was_given_up_does_not_wait_for_long() {
    let Some(server) = shared_server("locks") else {
        return;
    };
    let mut log = connects(server, "locks", SHORT).connect().unwrap();
    wait_for("the tables", || log.head().ok());
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    thread::scope(|scope| {
        let update = "begin; update locks.head set record = record; select pg_sleep(150); commit";
        scope.spawn(|| server.try_query(update).expect_err("it is cancelled"));
        let holder = "from pg_stat_activity
            where wait_event = 'PgSleep' and query like '%locks.head set%'";
        wait_for("the lock", || {
            (server.query(&format!("select count(*) {holder}")) == "1").then_some(())
        });
        for _ in 0..2 {
            // On a busy machine the attempt may end before the wait for the lock does.
            wait_for("the end of a wait for the lock", || {
                let error = append(&mut *log, Some(1), 2).unwrap_err();
                let is_ended = error.to_string().contains("55P03");
                assert!(
                    !is_ended || matches!(error, LogError::NotApplied(_)),
                    "{error:?}"
                );
                is_ended.then_some(())
            });
        }
        wait_for("the end of all waits for the lock", || {
            let waiting = "select count(*) from pg_stat_activity
                where wait_event_type = 'Lock' and query like '%\"locks\".head%'";
            (server.query(waiting) == "0").then_some(())
        });
        server.query(&format!("select pg_cancel_backend(pid) {holder}"));
    });
    wait_for("the append", || append(&mut *log, Some(1), 2).ok());
}

#[test]
fn people_read_heads_leases_and_terms_in_views() {
    let Some(server) = shared_server("views") else {
        return;
    };
    let mut log = connect(server, "views");
    let edits = [
        Edit::Put(place(
            "lease/2f/billing/invoices",
            r#"{"state": "leased", "holder": "a", "epoch": 7, "granted_at_ms": 1795230310385,
                "duration_ms": 15000, "metadata": "{}", "revision": 12, "lease_id": "secret"}"#,
        )),
        Edit::Put(place(
            "term/billing/invoices/0000000000000005",
            r#"{"terms": [[5, "b", 1795230300000, 1795230305000, "released", null, null, null]]}"#,
        )),
    ];
    let appended = log.append(&Append {
        expected: None,
        head: br#"{"state": "owned", "owner": {"name": "store-1"}, "generation": 3}"#,
        batch: None,
        edits: &edits,
        keep_from: 0,
    });
    assert_eq!(appended, Ok(Appended::Done));
    let clusters = server.query("select cluster, state, owner, generation from views.clusters");
    assert_eq!(clusters, "default|owned|store-1|3");
    let leases = server.query(
        "set timezone = 'UTC'; select namespace, lease, holder, epoch, granted_at, duration_ms
            from views.leases",
    );
    assert_eq!(
        leases,
        "billing|invoices|a|7|2026-11-21 03:05:10.385+00|15000"
    );
    assert!(
        !server
            .query("select * from views.leases")
            .contains("secret")
    );
    let terms = server.query("select epoch, holder, \"end\" from views.terms");
    assert_eq!(terms, "5|b|released\n7|a|");
}
