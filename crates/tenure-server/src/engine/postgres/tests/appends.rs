//! Appends and reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::engine::shared::conformance;
use crate::engine::shared::log::{Edit, PlaceRange};

/// A head with this number, as PostgreSQL reads bytes.
fn hex(number: u64) -> String {
    let bytes = head(number).into_bytes();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\\x{digits}")
}

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
fn an_append_replaces_the_head_that_it_expects_and_no_other() {
    let Some(server) = shared_server("heads") else {
        return;
    };
    let mut log = connect(server, "heads");
    assert_eq!(log.head().unwrap().head, None);
    assert_eq!(append(&mut *log, Some(1), 2).unwrap(), {
        let engine = log.head().unwrap().engine;
        Appended::Refused(crate::engine::shared::log::Sighting { engine, head: None })
    });
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    assert_eq!(refused_by(append(&mut *log, None, 1)), Some(1));
    assert_eq!(append(&mut *log, Some(1), 2), Ok(Appended::Done));
    assert_eq!(refused_by(append(&mut *log, Some(1), 3)), Some(2));
    assert_eq!(refused_by(beat(&mut *log, 1, 3)), Some(2));
    assert_eq!(beat(&mut *log, 2, 3), Ok(Appended::Done));
    // A refusal applies nothing of the append.
    assert_eq!(log.batches(0).unwrap(), [batch(1), batch(2)]);
}

#[test]
fn an_append_writes_its_places_and_deletes_batches() {
    let Some(server) = shared_server("places") else {
        return;
    };
    let mut log = connect(server, "places");
    let put = |key, value| Edit::Put(place(key, value));
    let mut with = |expected: Option<u64>, number, edits: &[Edit], keep_from| {
        let appended = log.append(&Append {
            expected: expected.map(head).as_deref().map(str::as_bytes),
            head: head(number).as_bytes(),
            batch: Some(batch(number)),
            edits,
            keep_from,
        });
        assert_eq!(appended, Ok(Appended::Done));
    };
    let edits = [
        put("b/1", "{}"),
        put("B/1", "{\"B\": 1}"),
        put("b-1", "{}"),
        put("c", "{}"),
    ];
    with(None, 1, &edits, 0);
    with(
        Some(1),
        2,
        &[
            put("b/1", "{\"new\": \"ä\"}"),
            Edit::Delete("c".into()),
            Edit::Delete("d".into()),
        ],
        0,
    );
    with(Some(2), 3, &[], 3);
    with(Some(3), 4, &[], 2);
    assert_eq!(log.batches(0).unwrap(), [batch(3), batch(4)]);
    assert_eq!(log.batches(3).unwrap(), [batch(4)]);
    let mut range = PlaceRange {
        from: "A".into(),
        to: "z".into(),
        descending: false,
        most: 10,
    };
    let (first, second, third) = (
        place("B/1", "{\"B\": 1}"),
        place("b-1", "{}"),
        place("b/1", "{\"new\": \"ä\"}"),
    );
    let places = log.places(&range).unwrap();
    assert_eq!(places, [first.clone(), second.clone(), third.clone()]);
    range.descending = true;
    range.most = 2;
    assert_eq!(log.places(&range).unwrap(), [third, second]);
    range.to = "b-1".into();
    assert_eq!(log.places(&range).unwrap(), [first]);
}

#[test]
fn batches_come_in_pages_of_a_few_megabytes() {
    let Some(server) = shared_server("pages") else {
        return;
    };
    let mut log = connect(server, "pages");
    let mut expected = None;
    for number in 1..=7 {
        let bytes = Bytes::from(vec![u8::try_from(number).unwrap(); 1024 * 1024]);
        let appended = log.append(&Append {
            expected: expected.map(head).as_deref().map(str::as_bytes),
            head: head(number).as_bytes(),
            batch: Some(LoggedBatch {
                sequence: number,
                bytes,
            }),
            edits: &[],
            keep_from: 0,
        });
        assert_eq!(appended, Ok(Appended::Done));
        expected = Some(number);
    }
    let mut after = 0;
    let mut pages = Vec::new();
    loop {
        let page = log.batches(after).unwrap();
        let Some(last) = page.last() else {
            break;
        };
        after = last.sequence;
        pages.push(page.len());
    }
    assert_eq!(pages, [4, 3]);
}

#[test]
fn of_two_appenders_that_race_one_appends_and_the_other_sees_its_head() {
    let Some(server) = shared_server("race") else {
        return;
    };
    // Each round begins at the head of the round before. The locks of the row make the loser wait.
    let mut first = connect(server, "race");
    assert_eq!(append(&mut *first, None, 0), Ok(Appended::Done));
    let rounds = 150;
    let wins = [AtomicU64::new(0), AtomicU64::new(0)];
    let barrier = std::sync::Barrier::new(2);
    let standing = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..2 {
            let (wins, barrier, standing) = (&wins, &barrier, &standing);
            scope.spawn(move || {
                let mut log = connect(server, "race");
                for round in 1..=rounds {
                    barrier.wait();
                    let expected = standing.load(Ordering::SeqCst);
                    barrier.wait();
                    let number = round * 2 + me;
                    let other = round * 2 + 1 - me;
                    match append(&mut *log, Some(expected), number) {
                        Ok(Appended::Done) => {
                            wins[usize::try_from(me).unwrap()].fetch_add(1, Ordering::SeqCst);
                            standing.store(number, Ordering::SeqCst);
                        }
                        refused => assert_eq!(refused_by(refused), Some(other)),
                    }
                }
            });
        }
    });
    let wins = wins.map(AtomicU64::into_inner);
    assert_eq!(wins[0] + wins[1], rounds, "{wins:?}");
    let batches = first.batches(0).unwrap();
    assert_eq!(batches.len() as u64, rounds);
}

#[test]
fn an_append_that_waited_for_the_winner_is_refused_with_the_head_of_the_winner() {
    let Some(server) = shared_server("waits") else {
        return;
    };
    for (schema, is_first) in [("waits", false), ("waits_first", true)] {
        let mut log = connect(server, schema);
        assert_eq!(log.head().unwrap().head, None);
        let write = match is_first {
            true => format!(
                "insert into {schema}.head values ('default', 0, '{}')",
                hex(5)
            ),
            false => {
                assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
                format!("update {schema}.head set record = '{}'", hex(5))
            }
        };
        let expected = (!is_first).then_some(1);
        // The other session commits when the append waits for it.
        let until_it_is_waited_for = "do $$ begin
            for i in 1 .. 3000 loop
                perform pg_sleep(0.02);
                perform from pg_locks where pg_backend_pid() = any(pg_blocking_pids(pid));
                if found then return; end if;
            end loop;
            raise exception 'the append does not wait';
        end $$";
        thread::scope(|scope| {
            let winner = format!("begin; {write}; {until_it_is_waited_for}; commit");
            scope.spawn(move || server.query(&winner));
            wait_for("the lock", || {
                let locks = format!(
                    "select count(*) from pg_stat_activity
                        where wait_event = 'PgSleep' and query like '% {schema}.head %'"
                );
                (server.query(&locks) == "1").then_some(())
            });
            let appended = append(&mut *log, expected, 2);
            assert_eq!(refused_by(appended), Some(5));
        });
    }
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

/// Prints how many appends a second one appender makes: only heads, and with 64 changes.
pub(super) fn measure(name: &str, log: &mut dyn SharedLog) {
    let mut number = 0;
    if append(log, None, 0) != Ok(Appended::Done) {
        panic!("the log is not empty");
    }
    for (kind, size) in [("a head", None), ("a batch of 16 KB", Some(16_384))] {
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < Duration::from_secs(3) {
            let batch = size.map(|size| LoggedBatch {
                sequence: number + 1,
                bytes: Bytes::from(vec![7; size]),
            });
            let appended = log.append(&Append {
                expected: Some(head(number).as_bytes()),
                head: head(number + 1).as_bytes(),
                batch,
                edits: &[],
                keep_from: number.saturating_sub(1_000),
            });
            assert_eq!(appended, Ok(Appended::Done));
            number += 1;
            count += 1;
        }
        let rate = f64::from(count) / began.elapsed().as_secs_f64();
        println!("{name}, {kind}: {rate:.0} appends/s");
    }
}

#[test]
#[ignore = "a measurement"]
fn the_rate_of_appends() {
    let Some(server) = Postgres::start("the rate of appends", "") else {
        return;
    };
    measure("alone", &mut *connect(&server, "tenure"));
    let standby = server.standby("second");
    server.require_standby("second");
    measure(
        "with a synchronous standby",
        &mut *connect(&server, "rates"),
    );
    drop(standby);
}
