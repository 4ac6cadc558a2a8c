//! Users, rights, settings of the server, and a full disk.

use std::thread;

use super::*;

/// Connections of a user with this password.
fn connects_as(server: &Postgres, user: &str, password: &str, schema: &str) -> PostgresConnect {
    let config = config(server.url(user, password), schema);
    PostgresConnect::new(config, "default", ATTEMPT).unwrap()
}

/// The text of a refusal that an operator has to end.
fn misconfigured<T: std::fmt::Debug>(result: Result<T, LogError>) -> String {
    match result {
        Err(LogError::Misconfigured(text)) => text,
        other => panic!("not misconfigured: {other:?}"),
    }
}

#[test]
fn two_servers_that_create_the_tables_at_once_both_succeed() {
    let Some(server) = shared_server("creation") else {
        return;
    };
    for round in 0..5 {
        let schema = format!("creation{round}");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(connect(server, &schema).head().unwrap().head, None));
            }
        });
        let tables = format!("select count(*) from pg_tables where schemaname = '{schema}'");
        assert_eq!(server.query(&tables), "3");
    }
}

#[test]
fn settings_of_the_role_do_not_change_the_settings_of_a_connection() {
    let Some(server) = shared_server("settings") else {
        return;
    };
    server.query(
        "create role changed superuser login password 'p';
         alter role changed set synchronous_commit = off;
         alter role changed set statement_timeout = 1;
         alter role changed set default_transaction_isolation = serializable;
         alter role changed set search_path = nowhere;",
    );
    let mut log = connects_as(server, "changed", "p", "changed")
        .connect()
        .unwrap();
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    assert_eq!(append(&mut *log, Some(1), 2), Ok(Appended::Done));
    server.query("alter role changed set default_transaction_read_only = on");
    let mut log = connects_as(server, "changed", "p", "changed")
        .connect()
        .unwrap();
    let error = append(&mut *log, Some(2), 3).unwrap_err();
    assert!(matches!(error, LogError::NotApplied(_)), "{error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn a_warning_of_any_kind_makes_the_outcome_unknown() {
    let Some(server) = shared_server("warnings") else {
        return;
    };
    let mut log = connect(server, "warnings");
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    server.query(
        "create function warnings.warns() returns trigger language plpgsql as
            $$ begin raise warning 'beware'; return new; end $$;
         create constraint trigger warns after update on warnings.head
            deferrable initially deferred for each row execute function warnings.warns()",
    );
    let appended = append(&mut *log, Some(1), 2);
    assert!(is_unknown(&appended), "{appended:?}");
    assert!(appended.unwrap_err().to_string().contains("beware"));
    server.query("drop trigger warns on warnings.head");
    assert_eq!(refused_by(append(&mut *log, Some(1), 2)), Some(2));
}

#[test]
fn a_server_without_fsync_is_refused() {
    let Some(server) = Postgres::start("fsync", "fsync = off") else {
        return;
    };
    let text = misconfigured(connect(&server, "tenure").head());
    assert!(text.contains("fsync is off"), "{text}");
}
