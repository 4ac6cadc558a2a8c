//! Settings of roles, and a full disk.

use std::fs;

use super::*;
use crate::support::needs::SmallDisk;

/// Connections of a user with this password.
fn connects_as(server: &Postgres, user: &str, password: &str, schema: &str) -> PostgresConnect {
    let config = config(server.url(user, password), schema);
    PostgresConnect::new(config, "default", ATTEMPT).unwrap()
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
