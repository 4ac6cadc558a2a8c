//! Opening a session: the server, its checks, the tables, and the identity.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::PostgresHome;
use super::access::Failover;
use super::session::PostgresSession;
use super::settings::Settings;
use crate::{Failure, describe, lock};

/// The version of PostgreSQL from which on everything here works.
const LEAST_VERSION: u32 = 130_000;

/// How often a client tries to create the tables while others create them, too.
const CREATE_ATTEMPTS: usize = 5;

/// The properties of a server, as text.
const INSPECT: &str = "select current_setting('server_version_num'),
    current_setting('fsync'),
    current_setting('server_encoding'),
    pg_is_in_recovery()::text,
    current_setting('transaction_read_only'),
    exists (select from pg_namespace where nspname = $1)::text,
    current_database()::text,
    ((select count(*) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname = $1 and relname in ('register', 'file')) = 2)::text";

/// A page has room for several versions of each row, and values are stored as they are: an entry is
/// compressed already.
const TABLES: &str = "
    create table if not exists {s}.register (
        key text collate \"C\" primary key, version text not null, value bytea not null
    ) with (fillfactor = 50);
    create table if not exists {s}.file (
        name text collate \"C\" primary key, content bytea not null
    );
    alter table {s}.register alter value set storage external;
    alter table {s}.file alter content set storage external;
";

/// The system identifier, which `initdb` makes, and the timeline, which each promotion changes. The
/// name of the current file of the log begins with the timeline. `pg_control_checkpoint()` still has
/// the former timeline for a while after a promotion.
const SYSTEM_AND_TIMELINE: &str = "'system ' || (select system_identifier from pg_control_system())
    || ', timeline ' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)";

/// The identity if a promotion loses nothing.
const SYSTEM: &str = "'system ' || (select system_identifier from pg_control_system())";

/// The identity of a server that hides even that one.
const HIDDEN: &str = "'system not shown'";

impl PostgresHome {
    /// Opens a session with the first server that accepts writes, beginning with the one of the number
    /// `first`. Meanwhile the number is that of the server that is asked. Missing tables are created.
    ///
    /// # Errors
    ///
    /// [`Failure::NotApplied`] or [`Failure::Misconfigured`], with the reasons of all servers.
    pub(super) async fn open(&self) -> Result<PostgresSession, Failure> {
        // The file of the connection string may have a new password.
        let (Settings { servers, .. }, tls) = self.access.read(self.attempt)?;
        let (first, count) = (self.first.load(Ordering::Relaxed), servers.len());
        // A server that does not answer must leave time for another one. A busy one may take longer
        // to accept a connection and to check a password than to execute a statement.
        let limit = match count {
            1 => self.attempt * 3,
            _ => self.attempt,
        };
        let (mut texts, mut is_refusal) = (Vec::new(), false);
        for number in first..first + count {
            let server = &servers[number % count];
            self.first.store(number % count, Ordering::Relaxed);
            let open = async {
                let mut session = PostgresSession::connect(server, &tls).await?;
                let user = server.config.get_user().unwrap_or_default();
                self.check(&mut session, user).await?;
                identify(&mut session, self.access.failover).await?;
                Ok(session)
            };
            match timeout(limit, open).await {
                Ok(Ok(session)) => {
                    lock(&self.upkeep).version = Some(session.version);
                    return Ok(session);
                }
                Ok(Err(failure)) => {
                    is_refusal |= matches!(failure, Failure::Misconfigured(_));
                    texts.push(failure.to_string());
                }
                Err(_) => texts.push(format!("{}: not ready in {}", server.name, humane(limit))),
            }
        }
        Err(match is_refusal {
            true => Failure::Misconfigured(texts.join("; ")),
            false => Failure::NotApplied(texts.join("; ")),
        })
    }

    /// Checks the server, and creates the tables if there are none.
    async fn check(&self, session: &mut PostgresSession, user: &str) -> Result<(), Failure> {
        let (name, schema) = (session.name.clone(), &self.schema);
        let quoted_user = quoted(user);
        for _ in 0..CREATE_ATTEMPTS {
            let inspected = session
                .client
                .query_typed_one(INSPECT, &[(&self.access.schema, Type::TEXT)])
                .await;
            let row = inspected.map_err(|error| session.not_ready(&error))?;
            let value = |column| row.try_get(column).unwrap_or_default();
            if let Some(failure) = unfit(&name, &value) {
                return Err(failure);
            }
            session.version = value(0).parse().unwrap_or_default();
            let (has_schema, database) = (value(5) == "true", value(6));
            if value(7) == "true" {
                session.name = format!("{name}, database {database}, schema {schema}");
                return Ok(());
            }
            let (create_schema, grant) = match has_schema {
                true => (
                    "",
                    format!("grant usage, create on schema {schema} to {quoted_user}"),
                ),
                false => (
                    "create schema {s};",
                    format!("create schema {schema} authorization {quoted_user}"),
                ),
            };
            let create = [create_schema, TABLES].concat().replace("{s}", schema);
            let Err(error) = session.client.batch_execute(&create).await else {
                continue;
            };
            match error.code().map_or("", SqlState::code) {
                // Another client has created the same at the same time.
                "23505" | "42P06" | "42P07" | "XX000" | "40P01" => {}
                "42501" => {
                    return Err(Failure::Misconfigured(format!(
                        "{name}: user {user} may not create the tables of tenure in schema \
                         {schema} of database {database} ({}). An administrator of that database \
                         has to run: {grant}",
                        describe(&error),
                    )));
                }
                _ => return Err(session.not_ready(&error)),
            }
        }
        Err(Failure::NotApplied(format!(
            "{name}: the tables could not be created, because others create them at the same time"
        )))
    }
}

/// Returns the name of a schema or a user as a part of a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Chooses the expression of the identity, and checks that it can be read.
async fn identify(session: &mut PostgresSession, failover: Failover) -> Result<(), Failure> {
    session.identity_sql = match failover {
        Failover::None => SYSTEM_AND_TIMELINE,
        Failover::Lossless => SYSTEM,
    };
    let sql = format!("select {}", session.identity_sql);
    let row = session.client.query_typed_one(&sql, &[]).await;
    let Err(error) = row.and_then(|row| row.try_get::<_, String>(0)) else {
        return Ok(());
    };
    // A missing right or a missing function.
    let code = error.code().map_or("", SqlState::code);
    let is_hidden = code.starts_with("42") || code.starts_with("0A");
    match failover {
        _ if !is_hidden => Err(session.not_ready(&error)),
        // The operator answers for the server, so it may hide its identity.
        Failover::Lossless => {
            session.identity_sql = HIDDEN;
            Ok(())
        }
        Failover::None => Err(Failure::Misconfigured(format!(
            "{}: its identity and timeline can't be read ({}), so a fail-over that loses commits \
             would not be noticed. If its fail-over loses nothing, write \
             failover=lossless into home; else use another PostgreSQL",
            session.name,
            describe(&error)
        ))),
    }
}

/// Returns why a server can't keep values, from the row of [`INSPECT`].
fn unfit<'a>(name: &str, value: &impl Fn(usize) -> &'a str) -> Option<Failure> {
    let version: u32 = value(0).parse().unwrap_or_default();
    let (major, least) = (version / 10_000, LEAST_VERSION / 10_000);
    let encoding = value(2);
    let old = format!("its version is {major}: use PostgreSQL {least} or later");
    let standby = "it is a standby, and only its primary accepts writes: name all servers in home \
        (postgres://a,b/...)";
    let read_only = "it is read-only (default_transaction_read_only)";
    let fsync = "fsync is off, so a crash of its machine would lose acknowledged changes: set fsync = on \
        in postgresql.conf";
    let other =
        format!("the database has the encoding {encoding}: create one with encoding 'UTF8'");
    type Kind = fn(String) -> Failure;
    let problems: [(bool, Kind, &str); 5] = [
        (version < LEAST_VERSION, Failure::Misconfigured, &old),
        (value(3) == "true", Failure::NotApplied, standby),
        (value(4) != "off", Failure::NotApplied, read_only),
        (value(1) != "on", Failure::Misconfigured, fsync),
        (encoding != "UTF8", Failure::Misconfigured, &other),
    ];
    let problem = problems.into_iter().find(|(is_there, ..)| *is_there);
    problem.map(|(_, failure, text)| failure(format!("{name}: {text}")))
}

/// Returns a duration for messages.
pub(super) fn humane(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_lose_commits_or_takes_none_is_refused() {
        let good = ["150018", "on", "UTF8", "false", "off", "true", "db", "true"];
        let judge = |column: usize, value: &'static str| {
            let mut row = good;
            row[column] = value;
            unfit("P", &|column| row[column])
        };
        assert_eq!(judge(0, "150018"), None);
        for (column, value) in [(0, "120005"), (1, "off"), (2, "LATIN1")] {
            let failure = judge(column, value);
            assert!(
                matches!(failure, Some(Failure::Misconfigured(_))),
                "{value}"
            );
        }
        for (column, value) in [(3, "true"), (4, "on")] {
            let failure = judge(column, value);
            assert!(matches!(failure, Some(Failure::NotApplied(_))), "{value}");
        }
    }
}
