//! Users, rights, settings of the server, and a full disk.

use std::fs;
use std::thread;

use super::*;
use crate::support::needs::SmallDisk;

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
fn a_wrong_password_is_reported_without_it_and_the_right_one_is_read_from_the_file() {
    let Some(server) = shared_server("passwords") else {
        return;
    };
    server.query(
        "create role guarded login password 'right'; create schema guarded authorization guarded",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    fs::write(&file, server.url("guarded", "hunter2")).unwrap();
    let mut config = config(String::new(), "guarded");
    config.url = PostgresUrl::File(file.clone());
    let connects = PostgresConnect::new(config, "default", ATTEMPT).unwrap();
    let mut log = connects.connect().unwrap();
    let text = misconfigured(log.head());
    assert!(text.contains("password authentication failed"), "{text}");
    assert!(text.contains("pg_hba.conf"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!format!("{connects:?} {log:?}").contains("hunter2"));
    fs::write(&file, server.url("guarded", "right")).unwrap();
    assert_eq!(log.head().unwrap().head, None);
    fs::remove_file(&file).unwrap();
    let text = misconfigured(connects.connect().map(drop));
    assert!(text.contains("url_file"), "{text}");
}

#[test]
fn a_user_without_rights_is_told_the_statement_for_an_administrator() {
    let Some(server) = shared_server("rights") else {
        return;
    };
    server.query("create role limited login password 'p'");
    let connects = connects_as(server, "limited", "p", "rights");
    let mut log = connects.connect().unwrap();
    // First the schema, then the right to create tables in a schema of another user.
    for is_there in [false, true] {
        if is_there {
            server.query("drop schema rights; create schema rights");
        }
        let text = misconfigured(log.head());
        let (_, statement) = text.split_once("has to run: ").expect("a statement");
        let expected = match is_there {
            false => "create schema \"rights\" authorization \"limited\"",
            true => "grant usage, create on schema \"rights\" to \"limited\"",
        };
        assert_eq!(statement, expected);
        server.query(statement);
        if is_there {
            assert_eq!(log.head().unwrap().head, None);
        }
    }
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    server.query("alter table rights.log owner to postgres; revoke all on rights.log from limited");
    let text = misconfigured(append(&mut *log, Some(1), 2));
    assert!(text.contains("permission denied for table log"), "{text}");
    assert!(text.contains("insert"), "{text}");
    server.query("grant select, insert, update, delete on rights.log to limited");
    assert_eq!(append(&mut *log, Some(1), 2), Ok(Appended::Done));
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
fn a_server_that_becomes_read_only_refuses_definitely() {
    let Some(server) = shared_server("demotion") else {
        return;
    };
    let mut log = connect(server, "demotion");
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    assert_eq!(append(&mut *log, Some(1), 2), Ok(Appended::Done));
    // A trigger that makes the transaction end as in a server that was demoted.
    server.query(
        "create function demotion.demoted() returns trigger language plpgsql as
            $$ begin raise exception 'demoted' using errcode = '25006'; end $$;
         create trigger demoted before update on demotion.head
            for each row execute function demotion.demoted()",
    );
    let error = append(&mut *log, Some(2), 3).unwrap_err();
    assert!(matches!(error, LogError::NotApplied(_)), "{error:?}");
    server.query("drop trigger demoted on demotion.head");
    assert_eq!(append(&mut *log, Some(2), 3), Ok(Appended::Done));
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
fn a_full_disk_is_reported_and_nothing_is_applied() {
    let Some(disk) = SmallDisk::mount("a full disk of PostgreSQL", 4_096) else {
        return;
    };
    let Some(server) = Postgres::start("a full disk of PostgreSQL", "") else {
        return;
    };
    // The tables are on a small disk, and the log of PostgreSQL is not.
    let place = disk.path().join("space");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(
        disk.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    server.own(&place);
    server.query(&format!(
        "create tablespace small location '{}'",
        place.display()
    ));
    server.query("alter role postgres set default_tablespace = small");
    let mut log = connect(&server, "tenure");
    assert_eq!(append(&mut *log, None, 1), Ok(Appended::Done));
    let ballast = disk.fill();
    let large = LoggedBatch {
        sequence: 2,
        // Bytes that PostgreSQL can't compress.
        bytes: (0..1_000_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect::<Vec<_>>()
            .into(),
    };
    let (expected, new) = (head(1), head(2));
    let with_batch = Append {
        expected: Some(expected.as_bytes()),
        head: new.as_bytes(),
        batch: Some(large),
        edits: &[],
        keep_from: 0,
    };
    let error = log.append(&with_batch).unwrap_err();
    assert!(matches!(error, LogError::Full(_)), "{error:?}");
    assert_eq!(log.head().unwrap().head, Some(head(1).into()));
    // A head needs no space of the tables.
    assert_eq!(beat(&mut *log, 1, 10), Ok(Appended::Done));
    fs::remove_file(ballast).unwrap();
    let expected = head(10);
    let with_batch = Append {
        expected: Some(expected.as_bytes()),
        ..with_batch
    };
    assert_eq!(log.append(&with_batch), Ok(Appended::Done));
    drop(server);
}

#[test]
fn a_server_without_fsync_is_refused() {
    let Some(server) = Postgres::start("fsync", "fsync = off") else {
        return;
    };
    let text = misconfigured(connect(&server, "tenure").head());
    assert!(text.contains("fsync is off"), "{text}");
}

#[test]
fn a_server_that_is_away_is_named_and_a_full_one_too() {
    let Some(server) = Postgres::start("connections", "superuser_reserved_connections = 0") else {
        return;
    };
    let mut log = connect(&server, "tenure");
    assert_eq!(log.head().unwrap().head, None);
    server.query("create role crowd login password 'p' connection limit 0");
    let error = connects_as(&server, "crowd", "p", "tenure")
        .connect()
        .unwrap()
        .head()
        .unwrap_err();
    assert!(matches!(error, LogError::NotApplied(_)), "{error:?}");
    assert!(error.to_string().contains("53300"), "{error}");
    let port = server.port();
    drop(server);
    let error = append(&mut *log, None, 1).unwrap_err();
    assert!(matches!(error, LogError::NotApplied(_)), "{error:?}");
    assert!(
        error.to_string().contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
}
