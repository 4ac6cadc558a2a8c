//! A real PostgreSQL.

mod access;
mod failures;
mod tls;

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tenure_register::postgres::{Failover, PostgresAccess, PostgresHome, PostgresUrl};
use tenure_register::{
    Bytes, Expected, Failure, Identity, Read, Register, RegisterKey, Replaced, Version,
};

use crate::checks::{self, absent, create, done, found, put};
use crate::support::postgres::Postgres;
use crate::support::postgres_proxy::{Mistake, Mode, Proxy};

/// The longest time of a request. Nothing waits for it, unless the server does not answer.
const ATTEMPT: Duration = Duration::from_secs(60);

/// The longest time of a request that is not answered.
const SHORT: Duration = Duration::from_secs(2);

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that all tests use that do not harm it; `None` if PostgreSQL is not installed.
fn shared_server(test: &str) -> Option<&'static Postgres> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start(test, "")).as_ref()
}

fn access(url: String, schema: &str) -> PostgresAccess {
    let mut access = PostgresAccess::new(PostgresUrl::Text(url));
    access.schema = schema.to_owned();
    access
}

fn open(url: String, schema: &str) -> PostgresHome {
    PostgresHome::new(access(url, schema), ATTEMPT).unwrap()
}

/// A home of the superuser.
fn home(server: &Postgres, schema: &str) -> PostgresHome {
    open(server.url("postgres", ""), schema)
}

fn key(text: &str) -> RegisterKey {
    text.parse().unwrap()
}

/// A replace whose result is not certain.
async fn replace(
    home: &PostgresHome,
    key: &RegisterKey,
    identity: &Identity,
    version: Option<&Version>,
    value: &str,
) -> Result<Replaced, Failure> {
    let expected = Expected {
        version: version.cloned(),
        identity: identity.clone(),
    };
    let value = Bytes::from(value.to_owned());
    home.replace(key, &expected, value).await
}

async fn value(home: &PostgresHome, key: &RegisterKey) -> Bytes {
    found(home.read(key, None).await.unwrap()).1
}

fn is_unknown<T>(result: &Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::Unknown(_)))
}

/// The text of a refusal that an operator has to end.
#[track_caller]
fn misconfigured<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Misconfigured(text)) => text,
        other => panic!("not misconfigured: {other:?}"),
    }
}

/// The text of a failure that another attempt may end.
#[track_caller]
fn not_applied<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::NotApplied(text)) => text,
        other => panic!("it may be applied: {other:?}"),
    }
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < until, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs statements of the superuser beside the runtime.
async fn run_beside(server: &Postgres, sql: &str) -> Result<String, String> {
    let (port, sql) = (server.port(), sql.to_owned());
    let query = tokio::task::spawn_blocking(move || Postgres::try_query_at(port, &sql));
    query.await.unwrap()
}

/// Waits beside the runtime until a query has this answer.
async fn until_beside(server: &Postgres, sql: &str, answer: &str) {
    let until = Instant::now() + PATIENCE;
    while run_beside(server, sql).await.as_deref() != Ok(answer) {
        assert!(
            Instant::now() < until,
            "timed out waiting for {answer}: {sql}"
        );
    }
}

async fn pass(homes: [PostgresHome; 4]) {
    let connections: Vec<&dyn Register> = homes.iter().map(|home| home as _).collect();
    checks::pass(&connections, "part").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_all_checks() {
    let Some(server) = shared_server("postgres_passes_all_checks") else {
        return;
    };
    // The tables are created by four clients at once, and other schemas share nothing.
    for schema in ["checks", "{date} \"another\" \\ o'ne {s}"] {
        pass([(); 4].map(|()| home(server, schema))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_all_checks_through_a_pool_of_transactions() {
    let test = "postgres_passes_all_checks_through_a_pool_of_transactions";
    let Some(server) = shared_server(test) else {
        return;
    };
    let Some(pooler) = server.pooler(test) else {
        return;
    };
    pass([(); 4].map(|()| open(pooler.url(), "pooled"))).await;
    let used = "select count(*) > 1 from pg_stat_activity where query like '%\"pooled\".%'
        and pid <> pg_backend_pid()";
    assert_eq!(server.query(used), "t");
}

#[tokio::test]
async fn the_checks_find_a_statement_without_its_conditions() {
    let test = "the_checks_find_a_statement_without_its_conditions";
    let Some(server) = shared_server(test) else {
        return;
    };
    let mistakes = [
        ("nothing", ("", "")),
        (
            "identity",
            ("(select id from home) = $5", "$5 = $5 and $5 is not null"),
        ),
        ("version", ("r.version = $2", "$2 is not null")),
    ];
    for (schema, (right, wrong)) in mistakes {
        let url = Proxy::with_mistake(server.port(), (right, wrong)).url();
        let schema = format!("without_{schema}");
        let checks = tokio::spawn(async move {
            let home = open(url, &schema);
            checks::pass(&[&home, &home], "part").await;
        });
        assert_eq!(checks.await.is_ok(), right.is_empty(), "{right:?}");
    }
}

#[tokio::test]
async fn one_connection_serves_requests_that_come_one_after_the_other() {
    let Some(server) = shared_server("one_connection_serves_requests") else {
        return;
    };
    let (home, key) = (home(server, "one"), key("a"));
    let identity = absent(&home, &key).await;
    done(create(&home, &key, &identity, "first").await);
    let count = "from pg_stat_activity where query like '%\"one\".register%'
        and pid <> pg_backend_pid()";
    let connections = || server.query(&format!("select count(*) {count}"));
    assert_eq!(connections(), "1");
    // A connection that ended while it was idle is replaced without a failed request. On a busy
    // machine it may see its end late.
    for attempt in 1.. {
        server.query(&format!("select pg_terminate_backend(pid) {count}"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        if home.read(&key, None).await.is_ok() {
            break;
        }
        assert!(attempt < 10, "each connection that ended failed a request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replace_that_waited_for_the_winner_shows_the_value_of_the_winner() {
    let test = "a_replace_that_waited_for_the_winner";
    let Some(server) = shared_server(test) else {
        return;
    };
    let home = home(server, "waits");
    // The other session commits when the replace waits for it.
    let until_it_is_waited_for = "do $$ begin
        for i in 1 .. 3000 loop
            perform pg_sleep(0.02);
            perform from pg_locks where pg_backend_pid() = any(pg_blocking_pids(pid));
            if found then return; end if;
        end loop;
        raise exception 'the replace does not wait';
    end $$";
    for (name, is_first) in [("created", true), ("replaced", false)] {
        let key = key(name);
        let identity = absent(&home, &key).await;
        let (version, write) = match is_first {
            true => (
                None,
                format!("insert into waits.register values ('{name}', 'v', 'winner')"),
            ),
            false => (
                Some(done(create(&home, &key, &identity, "first").await)),
                format!(
                    "update waits.register set version = 'v', value = 'winner' where key = '{name}'"
                ),
            ),
        };
        let winner = format!("begin; {write}; {until_it_is_waited_for}; commit");
        let winner = run_beside(server, &winner);
        let loser = async {
            let locks = format!(
                "select count(*) from pg_stat_activity
                    where wait_event = 'PgSleep' and query like '% waits.register %{name}%'"
            );
            until_beside(server, &locks, "1").await;
            replace(&home, &key, &identity, version.as_ref(), "loser").await
        };
        let (winner, loser) = tokio::join!(winner, loser);
        winner.unwrap();
        let shown = found(checks::changed(loser.unwrap()));
        assert_eq!((shown.0.as_str(), &shown.1[..]), ("v", &b"winner"[..]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_stays_ends_a_replace_and_delays_no_other_request() {
    let Some(server) = shared_server("a_lock_that_stays") else {
        return;
    };
    let access = access(server.url("postgres", ""), "locks");
    let home = PostgresHome::new(access, SHORT).unwrap();
    let (locked, other) = (key("locked"), key("other"));
    let identity = absent(&home, &locked).await;
    let first = done(create(&home, &locked, &identity, "first").await);
    let lock = "begin; update locks.register set version = version; select pg_sleep(150)";
    let holder = "from pg_stat_activity
        where wait_event = 'PgSleep' and query like '%locks.register set%'";
    let locking = run_beside(server, lock);
    let replacing = async {
        until_beside(server, &format!("select count(*) {holder}"), "1").await;
        let replacing = replace(&home, &locked, &identity, Some(&first), "second");
        let others = async {
            done(create(&home, &other, &identity, "a").await);
            value(&home, &other).await
        };
        let (replaced, _) = tokio::join!(replacing, others);
        // On a busy machine the request may end before the wait for the lock does.
        if !is_unknown(&replaced) {
            assert!(not_applied(replaced).contains("55P03"));
        }
        let waiting = "select count(*) from pg_stat_activity
            where wait_event_type = 'Lock' and query like '%\"locks\".register%'";
        until_beside(server, waiting, "0").await;
        let cancel = format!("select pg_cancel_backend(pid) {holder}");
        run_beside(server, &cancel).await.unwrap();
    };
    let (locked_until, ()) = tokio::join!(locking, replacing);
    locked_until.expect_err("it is cancelled");
    done(put(&home, &locked, &identity, &first, "second").await);
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let Some(server) = shared_server("a_request_that_is_given_up") else {
        return;
    };
    let proxy = Proxy::to(server.port());
    let (home, key) = (open(proxy.url(), "given_up"), key("a"));
    let identity = absent(&home, &key).await;
    proxy.set(Mode::Hold);
    let mut late = Box::pin(replace(&home, &key, &identity, None, "late"));
    let pause = tokio::time::sleep(Duration::from_millis(200));
    tokio::select! {
        replaced = &mut late => panic!("{replaced:?}"),
        () = pause => drop(late),
    }
    proxy.set(Mode::Forward);
    // The next request has a connection of its own, and does not get the answer to the first one.
    let created = replace(&home, &key, &identity, None, "next").await.unwrap();
    let next = match created {
        Replaced::Done(version) => version,
        Replaced::Changed(read) => found(read).0,
    };
    done(put(&home, &key, &identity, &next, "last").await);
    assert_eq!(value(&home, &key).await, "last");
}
