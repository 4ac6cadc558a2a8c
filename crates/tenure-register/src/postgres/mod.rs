//! PostgreSQL 13 and later.
//!
//! A register is a row, and its version is 16 random bytes that its writer chose. A replace is one
//! statement, which is a transaction of its own. It needs nothing of its session: no `SET`, no
//! named statement, no lock and no notification. So it also works through a pool that gives each
//! transaction another connection.
//!
//! Four rules keep the meaning of an answer:
//!
//! - The identity of the server is part of the condition. A promoted server may have an earlier
//!   version again, and a replace that was sent before the promotion may arrive after it.
//! - Each write waits for the disk and for a synchronous standby, whatever the role or the database
//!   has set.
//! - No statement is ever cancelled. PostgreSQL reports a commit whose wait for a synchronous
//!   standby was cancelled as a success with a warning, and others see it, although the standby may
//!   not have it. So a request that takes too long closes its connection, and a replace with any
//!   warning has an unknown outcome.
//! - A read proves nothing. If a refusal shows the writer's own value, an earlier attempt was
//!   applied, but its commit may not be durable. So the value is written again, unchanged: a commit
//!   that is acknowledged covers all before it.

mod access;
mod connection_string;
mod error;
mod opening;
mod password_file;
mod schema;
mod session;
mod settings;
mod tls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_core::UnixMillis;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

pub use self::access::{Failover, PostgresAccess, PostgresUrl};
use self::error::PostgresFailure;
use self::opening::humane;
use self::schema::PostgresSchema;
use self::session::PostgresSession;
use crate::{
    Answering, BoxFuture, Expected, Failure, Files, HomeFacts, Identity, Limits, Read, Register,
    RegisterKey, Replaced, Seen, Version, note_warning,
};

/// A schema of PostgreSQL with the tables `register` and `file`, which are created if they are
/// missing. Requests that come one after the other use one connection.
#[derive(Debug)]
pub struct PostgresHome {
    access: PostgresAccess,
    schema: PostgresSchema,
    attempt: Duration,
    /// The part of each write that makes it durable.
    durable: String,
    /// Limits the connections.
    permits: Semaphore,
    /// The connections that no request uses now. Requests do not wait for each other: a read that
    /// hangs must not delay a renewal.
    idle: Mutex<Vec<PostgresSession>>,
    /// The server of the connection string that is tried first.
    first: AtomicUsize,
    upkeep: Mutex<Upkeep>,
}

/// The periodic work and its results.
#[derive(Debug)]
struct Upkeep {
    /// The version of the server that was connected last, as a number: 150018 is 15.18.
    version: Option<u32>,
    /// The standbys are checked at this time.
    check_at: Instant,
    /// The warning about the standbys.
    warning: Option<String>,
}

/// The interval at which the standbys are checked.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Whether the server has standbys, and none of them is synchronous. A user without further rights
/// sees their number.
const STANDBYS: &str = "select current_setting('synchronous_standby_names') = ''
    and exists (select from pg_stat_replication)";

const MAY_LOSE: &str = "PostgreSQL has standbys, and synchronous_standby_names is empty: a promotion \
    of one of them can lose acknowledged changes, although home has failover=lossless. Make a \
    standby synchronous, or write failover=none";

/// The greatest number of connections of a home: PostgreSQL has a process for each, and by default it
/// accepts 100. More than one are only used while a request waits.
const MOST_CONNECTIONS: usize = 4;

/// The settings of a transaction that writes. Roles and databases can have others.
///
/// - The commit waits for the disk and for synchronous standbys.
/// - The warning of a commit that did not wait is not hidden. The settings last until the end of the
///   commit.
/// - A wait for the lock of a row ends before the request does: a statement whose connection was
///   given up must not wait for long at the server. A limit for whole statements would also end the
///   wait for a standby.
const DURABLE: &str = "(select set_config('synchronous_commit', 'on', true),
    set_config('client_min_messages', 'warning', true),
    set_config('lock_timeout', '{ms}', true)) as durable";

/// Reads registers with these keys. A standby has no current file of the log, so it does not answer.
const READ: &str = "select (select {id}), {date}, r.version,
        case when r.version is distinct from $2 then r.value end, r.key
    from (select 1) as one left join {s}.register r on r.key = any($1)";

/// Does one of the next two, and reads the register as it was when the statement began.
const WRITE: &str = "with home as (select {id} as id), won as ({write} returning 1)
    select (select id from home), {date}, r.version, r.value, exists (select from won)
    from (select 1) as one left join {s}.register r on r.key = $1";

/// Replaces a version. PostgreSQL evaluates the condition again after a wait for the lock of the row,
/// on the newest version of the row.
const REPLACE: &str = "update {s}.register r set version = $3, value = $4 from {durable}
    where r.key = $1 and r.version = $2 and (select id from home) = $5";

/// Creates a register. It waits for another client that creates it at the same time.
const CREATE: &str = "insert into {s}.register (key, version, value)
    select $1, $3, $4 from {durable} where $2 is null and (select id from home) = $5
    on conflict do nothing";

/// The date in milliseconds.
const DATE: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

const WRITE_FILE: &str = "insert into {s}.file (name, content) select $1, $2 from {durable}
    on conflict (name) do update set content = excluded.content";

const READ_FILE: &str = "select content from {s}.file where name = $1";

const DELETE_FILES: &str = "delete from {s}.file where name = any($1)";

/// The character 0 comes after the slash.
const LIST_FILES: &str = "select name from {s}.file
    where name > $1 || '/' and name < $1 || '0' order by name";

/// A value of a statement with its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl PostgresHome {
    /// The limits of a home in PostgreSQL. It takes larger values, but its log has each one twice.
    pub const LIMITS: Limits = Limits {
        value: 1 << 20,
        has_date: true,
    };

    /// Creates the home. `attempt` is the longest time of a request; only opening a connection may
    /// take longer.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the access is wrong. No request is sent.
    pub fn new(access: PostgresAccess, attempt: Duration) -> Result<Self, Failure> {
        access.check(attempt)?;
        let schema = PostgresSchema::new(&access.schema)?;
        let lock_timeout = (attempt * 3 / 4).as_millis().max(1);
        Ok(Self {
            access,
            schema,
            attempt,
            durable: DURABLE.replace("{ms}", &lock_timeout.to_string()),
            permits: Semaphore::new(MOST_CONNECTIONS),
            idle: Mutex::default(),
            first: AtomicUsize::new(0),
            upkeep: Mutex::new(Upkeep {
                version: None,
                check_at: Instant::now(),
                warning: None,
            }),
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PostgresSession>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session(&self) -> Result<PostgresSession, Failure> {
        let idle = self.idle().pop();
        if let Some(mut session) = idle
            && session.is_open().await
        {
            return Ok(session);
        }
        let opened = self.access.open(&self.schema, self.attempt, &self.first);
        let session = opened.await?;
        self.upkeep().version = Some(session.version);
        Ok(session)
    }

    /// Sends a statement, over a connection that no other request uses. If the caller gives the
    /// request up, its connection is closed.
    async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        let Ok(_permit) = timeout(self.attempt, self.permits.acquire()).await else {
            return Err(Failure::NotApplied(format!(
                "PostgreSQL: all {MOST_CONNECTIONS} connections have waited for an answer for {}",
                humane(self.attempt)
            )));
        };
        let mut session = self.session().await?;
        let sql = sql
            .replace("{durable}", &self.durable)
            .replace("{date}", DATE);
        let sql = sql.replace("{id}", session.identity_sql);
        // Last, because the name of a schema may contain anything.
        let sql = self.schema.within(&sql);
        let answer = session.send(|client| client.query_typed(&sql, parameters));
        let failed = match timeout(self.attempt, answer).await {
            Ok(Ok(rows)) => {
                self.idle().push(session);
                return Ok(rows);
            }
            Ok(Err(failed)) => failed,
            Err(_) => PostgresFailure::closing(Failure::Unknown(format!(
                "{}: no answer in {}",
                session.name,
                humane(self.attempt)
            ))),
        };
        if failed.keeps_connection {
            self.idle().push(session);
        } else {
            // The others lead to the same server.
            self.idle().clear();
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        Err(failed.error)
    }

    /// Sends one replace. Returns whether it was applied, and the register as it was before.
    async fn send(
        &self,
        key: &RegisterKey,
        expected: Option<&Version>,
        identity: &Identity,
        version: &Version,
        value: &[u8],
    ) -> Result<(bool, Read), Failure> {
        let write = match expected {
            Some(_) => REPLACE,
            None => CREATE,
        };
        let parameters: [Parameter<'_>; 5] = [
            (&key.as_str(), Type::TEXT),
            (&expected.map(Version::as_str), Type::TEXT),
            (&version.as_str(), Type::TEXT),
            (&value, Type::BYTEA),
            (&identity.as_str(), Type::TEXT),
        ];
        let sql = WRITE.replace("{write}", write);
        let rows = self.query(&sql, &parameters).await?;
        Ok((column(first(&rows)?, 4)?, read(first(&rows)?)?))
    }

    /// Reads registers: one row at least, and one for each that there is.
    async fn select(
        &self,
        keys: &[RegisterKey],
        known: Option<&Version>,
    ) -> Result<Vec<Row>, Failure> {
        let keys: Vec<&str> = keys.iter().map(RegisterKey::as_str).collect();
        let known = known.map(Version::as_str);
        let parameters: [Parameter<'_>; 2] = [(&keys, Type::TEXT_ARRAY), (&known, Type::TEXT)];
        self.query(READ, &parameters).await
    }
}

/// Reads the origin, the version and the value, which begin each row of registers.
fn read(row: &Row) -> Result<Read, Failure> {
    let date: i64 = column(row, 1)?;
    let seen = Seen {
        identity: Identity::new(column::<&str>(row, 0)?),
        date: date.try_into().ok().map(UnixMillis::new),
    };
    let value: Option<&[u8]> = column(row, 3)?;
    Ok(match (column::<Option<&str>>(row, 2)?, value) {
        (None, _) => Read::Absent(seen),
        (Some(_), None) => Read::Unchanged(seen),
        (Some(version), Some(value)) => Read::Found {
            version: Version::new(version),
            value: Bytes::copy_from_slice(value),
            seen,
        },
    })
}

/// Whether a read shows this version at this home.
fn shows(read: &Read, identity: &Identity, version: Option<&Version>) -> bool {
    let found = match read {
        Read::Found { version, .. } => Some(version),
        _ => None,
    };
    read.seen().identity == *identity && found == version
}

fn first(rows: &[Row]) -> Result<&Row, Failure> {
    let missing = || Failure::Unknown("PostgreSQL: an answer without a row".into());
    rows.first().ok_or_else(missing)
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Failure> {
    let value = row.try_get(index);
    value.map_err(|error| Failure::Unknown(format!("PostgreSQL: {error}")))
}

impl Register for PostgresHome {
    fn read<'a>(&'a self, key: &'a RegisterKey, known: Option<&'a Version>) -> Answering<'a, Read> {
        Box::pin(async move {
            let rows = self.select(std::slice::from_ref(key), known).await?;
            read(first(&rows)?)
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> Answering<'a, Replaced> {
        Box::pin(async move {
            Self::LIMITS.check(key, &value)?;
            let Expected { version, identity } = expected;
            let (mut expected, mut version) = (version.clone(), Version::random()?);
            loop {
                let sent = self.send(key, expected.as_ref(), identity, &version, &value);
                let (is_done, mut found) = match sent.await {
                    // Without this one, the earlier attempt may not be durable.
                    Err(failure) if expected.as_ref() == Some(&version) => {
                        return Err(Failure::Unknown(failure.to_string()));
                    }
                    sent => sent?,
                };
                if is_done {
                    let seen = found.seen().clone();
                    return Ok(Replaced::Done { version, seen });
                }
                // The statement was refused by a newer version than it shows.
                if shows(&found, identity, expected.as_ref()) {
                    found = Register::read(self, key, None).await?;
                }
                match found {
                    Read::Found {
                        version: own,
                        value: found,
                        seen,
                    } if found == value && seen.identity == *identity => {
                        // An earlier attempt was applied. It counts when it is durable.
                        (expected, version) = (Some(own.clone()), own);
                    }
                    found if shows(&found, identity, expected.as_ref()) => {
                        let text = format!("PostgreSQL: {key} was changed at the same time");
                        return Err(Failure::NotApplied(text));
                    }
                    found => return Ok(Replaced::Changed(found)),
                }
            }
        })
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

impl Files for PostgresHome {
    fn write<'a>(&'a self, name: &'a RegisterKey, content: Bytes) -> Answering<'a, ()> {
        Box::pin(async move {
            Self::LIMITS.check(name, &content)?;
            let parameters: [Parameter<'_>; 2] =
                [(&name.as_str(), Type::TEXT), (&&content[..], Type::BYTEA)];
            self.query(WRITE_FILE, &parameters).await.map(drop)
        })
    }

    fn read_file<'a>(&'a self, name: &'a RegisterKey) -> Answering<'a, Option<Bytes>> {
        Box::pin(async move {
            let parameters: [Parameter<'_>; 1] = [(&name.as_str(), Type::TEXT)];
            let rows = self.query(READ_FILE, &parameters).await?;
            let content = rows
                .first()
                .map(|row| column::<&[u8]>(row, 0))
                .transpose()?;
            Ok(content.map(Bytes::copy_from_slice))
        })
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> Answering<'a, ()> {
        Box::pin(async move {
            let names: Vec<&str> = names.iter().map(RegisterKey::as_str).collect();
            let parameters: [Parameter<'_>; 1] = [(&names, Type::TEXT_ARRAY)];
            self.query(DELETE_FILES, &parameters).await.map(drop)
        })
    }

    fn list<'a>(&'a self, folder: &'a RegisterKey) -> Answering<'a, Vec<RegisterKey>> {
        Box::pin(async move {
            let parameters: [Parameter<'_>; 1] = [(&folder.as_str(), Type::TEXT)];
            let rows = self.query(LIST_FILES, &parameters).await?;
            let names = rows
                .iter()
                .map(|row| Ok(column::<&str>(row, 0)?.parse().ok()));
            Ok(names
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flatten()
                .collect())
        })
    }

    fn read_many<'a>(&'a self, keys: &'a [RegisterKey]) -> Answering<'a, Vec<Read>> {
        Box::pin(async move {
            let rows = self.select(keys, None).await?;
            let seen = read(first(&rows)?)?.seen().clone();
            let mut found = HashMap::new();
            for row in &rows {
                found.insert(column::<Option<&str>>(row, 4)?, read(row)?);
            }
            let reads = keys.iter().map(|key| {
                let found = found.get(&Some(key.as_str())).cloned();
                found.unwrap_or_else(|| Read::Absent(seen.clone()))
            });
            Ok(reads.collect())
        })
    }

    /// Checks that a fail-over which is declared lossless can be so.
    fn maintain(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let now = Instant::now();
            if self.access.failover == Failover::None || now < self.upkeep().check_at {
                return;
            }
            self.upkeep().check_at = now + CHECK_EVERY;
            let rows = self.query(STANDBYS, &[]).await;
            let found = rows.and_then(|rows| column::<bool>(first(&rows)?, 0));
            // Without an answer nothing is known.
            if let Ok(may_lose) = found {
                let warning = may_lose.then(|| MAY_LOSE.to_owned());
                note_warning(&mut self.upkeep().warning, warning);
            }
        })
    }

    fn facts(&self) -> HomeFacts {
        let upkeep = self.upkeep();
        let text = |version| format!("{}.{}", version / 10_000, version % 10_000).into();
        HomeFacts {
            version: upkeep.version.map(text),
            warnings: upkeep.warning.iter().cloned().collect(),
            ..HomeFacts::default()
        }
    }
}
