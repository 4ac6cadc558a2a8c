//! Users, rights, settings of the server, and a full disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_register::postgres::Failover;

use super::*;
use crate::support::needs::SmallDisk;

#[tokio::test]
async fn a_wrong_password_is_reported_without_it_and_the_right_one_is_read_from_the_file() {
    let Some(server) = shared_server("passwords") else {
        return;
    };
    server.query(
        "create role guarded login password 'right'; create schema guarded authorization guarded",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    fs::write(&file, server.url("guarded", "hunter2")).unwrap();
    let mut access = access(String::new(), "guarded");
    access.url = PostgresUrl::File(file.clone());
    let (home, key) = (
        PostgresHome::new(access.clone(), ATTEMPT).unwrap(),
        key("a"),
    );
    let text = misconfigured(home.read(&key, None).await);
    assert!(text.contains("password authentication failed"), "{text}");
    assert!(text.contains("pg_hba.conf"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!format!("{access:?} {home:?}").contains("hunter2"));
    let url = server.url("guarded", "").replace("guarded:@", "guarded@");
    fs::write(&file, url).unwrap();
    let text = misconfigured(home.read(&key, None).await);
    for part in ["password missing", "PGPASSWORD", ".pgpass", "home_file"] {
        assert!(text.contains(part), "{text}");
    }
    fs::write(&file, server.url("guarded", "right")).unwrap();
    absent(&home, &key).await;
    fs::remove_file(&file).unwrap();
    let text = misconfigured(PostgresHome::new(access, ATTEMPT));
    assert!(text.contains("home_file"), "{text}");
}

#[tokio::test]
async fn a_user_without_rights_is_told_the_statement_for_an_administrator() {
    let Some(server) = shared_server("rights") else {
        return;
    };
    server.query("create role limited login password 'p'");
    let (home, key) = (open(server.url("limited", "p"), "rights"), key("a"));
    // First the schema, then the right to create tables in a schema of another user.
    for is_there in [false, true] {
        if is_there {
            server.query("drop schema rights; create schema rights");
        }
        let text = misconfigured(home.read(&key, None).await);
        let (_, statement) = text.split_once("has to run: ").expect("a statement");
        let expected = match is_there {
            false => "create schema \"rights\" authorization \"limited\"",
            true => "grant usage, create on schema \"rights\" to \"limited\"",
        };
        assert_eq!(statement, expected);
        server.query(statement);
        if is_there {
            absent(&home, &key).await;
        }
    }
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    // The rights that are needed when the tables are there, and no others.
    server.query(
        "alter table rights.register owner to postgres; revoke all on rights.register from limited",
    );
    let text = misconfigured(replace(&home, &key, &identity, Some(&first), "second").await);
    for part in [
        &format!(
            "127.0.0.1:{}, database postgres, schema \"rights\"",
            server.port()
        ),
        "permission denied for table register",
        "insert",
    ] {
        assert!(text.contains(part), "{text}");
    }
    server.query("grant select, insert, update, delete on rights.register to limited");
    done(put(&home, &key, &identity, &first, "second").await);
    server.query("drop table rights.register");
    // It is not created again: an empty table would look like a home that has lost everything.
    for _ in 0..2 {
        let text = misconfigured(home.read(&key, None).await);
        assert!(text.contains("were changed or deleted"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_hides_its_identity_needs_a_lossless_fail_over() {
    let Some(server) = Postgres::start("the hidden identity", "") else {
        return;
    };
    server
        .query("create role tenant login password 'p'; create schema hidden authorization tenant");
    let access = access(server.url("tenant", "p"), "hidden");
    let key = key("a");
    let identity = |failover| {
        let mut access = access.clone();
        access.failover = failover;
        let home = PostgresHome::new(access, ATTEMPT).unwrap();
        let key = key.clone();
        async move {
            let read = home.read(&key, None).await;
            read.map(|read| read.identity().clone())
        }
    };
    let strict = identity(Failover::None).await.unwrap();
    let system = identity(Failover::Lossless).await.unwrap();
    assert!(
        strict
            .as_str()
            .starts_with(&format!("{system}, timeline 0000000")),
        "{strict}"
    );
    let hide = |function| {
        server.query(&format!(
            "revoke execute on function {function} from public"
        ));
    };
    hide("pg_walfile_name");
    let text = misconfigured(identity(Failover::None).await);
    assert!(text.contains("failover=lossless"), "{text}");
    assert_eq!(identity(Failover::Lossless).await.unwrap(), system);
    hide("pg_control_system");
    let hidden = identity(Failover::Lossless).await.unwrap();
    assert_eq!(hidden.as_str(), "system not shown");
}

#[tokio::test]
async fn settings_of_the_role_do_not_change_the_meaning_of_a_statement() {
    let Some(server) = shared_server("settings") else {
        return;
    };
    server.query(
        "create role changed superuser login password 'p';
         alter role changed set default_transaction_isolation = serializable;
         alter role changed set search_path = nowhere;
         alter role changed set lock_timeout = 1;",
    );
    let url = server.url("changed", "p");
    let (home, key) = (open(url.clone(), "changed"), key("a"));
    let other = open(url, "changed");
    checks::pass(&[&home], "part").await;
    let identity = absent(&home, &key).await;
    // Under `serializable` the loser of a race gets an error.
    let race = tokio::join!(
        replace(&home, &key, &identity, None, "one"),
        replace(&other, &key, &identity, None, "two")
    );
    for outcome in [race.0, race.1] {
        assert!(
            matches!(outcome, Ok(_) | Err(Failure::NotApplied(_))),
            "{outcome:?}"
        );
    }
    let version = found(home.read(&key, None).await.unwrap()).0;
    done(put(&home, &key, &identity, &version, "three").await);
    server.query("alter role changed set default_transaction_read_only = on");
    let home = open(server.url("changed", "p"), "changed");
    let text = not_applied(replace(&home, &key, &identity, Some(&version), "four").await);
    assert!(text.contains("read-only"), "{text}");
}

#[tokio::test]
async fn a_server_that_becomes_a_standby_or_warns_gives_no_certain_success() {
    let Some(server) = shared_server("demotion") else {
        return;
    };
    let (home, key) = (home(server, "demotion"), key("a"));
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    // A trigger that makes the transaction end as in a server that was demoted.
    server.query(
        "create function demotion.demoted() returns trigger language plpgsql as
            $$ begin raise exception 'demoted' using errcode = '25006'; end $$;
         create trigger demoted before update on demotion.register
            for each row execute function demotion.demoted()",
    );
    let text = not_applied(replace(&home, &key, &identity, Some(&first), "second").await);
    assert!(text.contains("25006"), "{text}");
    server.query(
        "drop trigger demoted on demotion.register;
         create function demotion.warns() returns trigger language plpgsql as
            $$ begin raise warning 'beware'; return new; end $$;
         create constraint trigger warns after update on demotion.register
            deferrable initially deferred for each row execute function demotion.warns()",
    );
    let warned = replace(&home, &key, &identity, Some(&first), "second").await;
    assert!(is_unknown(&warned), "{warned:?}");
    assert!(warned.unwrap_err().to_string().contains("beware"));
    server.query("drop trigger warns on demotion.register");
    let repeated = replace(&home, &key, &identity, Some(&first), "second").await;
    done(repeated.unwrap());
}

#[tokio::test]
async fn a_full_disk_is_reported_and_nothing_is_applied() {
    let test = "a full disk of PostgreSQL";
    let (Some(disk), Some(server)) = (SmallDisk::mount(test, 4_096), Postgres::start(test, ""))
    else {
        return;
    };
    // The tables are on a small disk, and the log of PostgreSQL is not.
    let place = disk.path().join("space");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
    server.own(&place);
    server.query(&format!(
        "create tablespace small location '{}'",
        place.display()
    ));
    server.query("alter role postgres set default_tablespace = small");
    let (home, key) = (home(&server, "tenure"), key("a"));
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    let ballast = disk.fill();
    let large = "x".repeat(1_000_000);
    let full = replace(&home, &key, &identity, Some(&first), &large).await;
    assert!(matches!(full, Err(Failure::Full(_))), "{full:?}");
    let full = home.write(&key, large.clone().into()).await;
    assert!(matches!(full, Err(Failure::Full(_))), "{full:?}");
    assert_eq!(value(&home, &key).await, "first");
    fs::remove_file(ballast).unwrap();
    done(put(&home, &key, &identity, &first, &large).await);
    drop(server);
}

#[tokio::test]
async fn a_server_that_is_away_full_or_without_fsync_is_named() {
    let settings = "superuser_reserved_connections = 0\nfsync = off";
    let Some(server) = Postgres::start("the unfit server", settings) else {
        return;
    };
    let key = key("a");
    let text = misconfigured(home(&server, "tenure").read(&key, None).await);
    assert!(text.contains("fsync is off"), "{text}");
    let url = server.url("postgres", "") + "?dbname=missing";
    let text = misconfigured(open(url, "tenure").read(&key, None).await);
    assert!(text.contains("\"missing\" does not exist"), "{text}");
    server.query("create role crowd login password 'p' connection limit 0");
    let crowded = open(server.url("crowd", "p"), "tenure");
    let text = not_applied(crowded.read(&key, None).await);
    assert!(text.contains("53300"), "{text}");
    let (port, url) = (server.port(), server.url("postgres", ""));
    drop(server);
    let text = not_applied(open(url, "tenure").read(&key, None).await);
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[test]
fn a_wrong_schema_is_refused_before_any_request() {
    for wrong in ["", "pg_tenure", &"x".repeat(64)] {
        let access = access("postgres://u@127.0.0.1".to_owned(), wrong);
        let text = misconfigured(PostgresHome::new(access, ATTEMPT));
        assert!(text.contains("schema="), "{text}");
    }
}
