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
//! - A read proves nothing. If the writer's own value is there, an earlier attempt was applied, but
//!   its commit may not be durable. So the value is written again, unchanged: a commit that is
//!   acknowledged covers all before it.

mod access;
mod error;
mod opening;
mod session;
mod settings;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tracing::warn;

pub use self::access::{Failover, PostgresAccess, PostgresUrl};
use self::opening::{humane, quoted};
use self::session::PostgresSession;
use crate::tls::TlsCheck;
use crate::{
    Expected, Failure, HomeFacts, Identity, Read, Register, RegisterKey, Replaced, Version,
    check_size, lock, note_warning,
};

/// A schema of PostgreSQL with the tables `register` and `file`, which are created if they are
/// missing. Requests that come one after the other use one connection.
#[derive(Debug)]
pub struct PostgresHome {
    access: PostgresAccess,
    /// The name of the schema in statements.
    schema: String,
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
#[derive(Debug, Default)]
struct Upkeep {
    /// The version of the server that was connected last, as a number: 150018 is 15.18.
    version: Option<u32>,
    /// The standbys are checked at this time; `None` for now.
    check_at: Option<Instant>,
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

/// Reads the registers with these keys. A standby has no current file of the log, so it does not answer.
const READ: &str = "select (select {id}), r.version,
        case when r.version is distinct from $2 then r.value end
    from unnest($1) with ordinality as asked(key, number)
    left join {s}.register r on r.key = asked.key order by number";

/// Does one of the next two, and reads the register as it was when the statement began.
const WRITE: &str = "with home as (select {id} as id), won as ({write} returning r.version)
    select (select id from home), r.version, r.value, (select version from won)
    from (select 1) as one left join {s}.register r on r.key = $1";

/// Replaces a version, or writes the writer's own value again. PostgreSQL evaluates the condition again
/// after a wait for the lock of the row, on the newest version of the row.
const REPLACE: &str = "update {s}.register r set value = $4,
        version = case when r.value = $4 then r.version else $3 end
    from {durable}
    where r.key = $1 and (r.version = $2 or r.value = $4) and (select id from home) = $5";

/// Creates a register, or writes the writer's own value again. It waits for another client that creates
/// it at the same time.
const CREATE: &str = "insert into {s}.register as r (key, version, value)
    select $1, $3, $4 from {durable} where $2 is null and (select id from home) = $5
    on conflict (key) do update set value = excluded.value where r.value = excluded.value";

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
    /// Creates the home. `attempt` is the longest time of a request; only opening a connection may
    /// take longer.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the access is wrong. No request is sent.
    pub fn new(access: PostgresAccess, attempt: Duration) -> Result<Self, Failure> {
        let (settings, _) = access.read(attempt)?;
        if settings.tls.check == TlsCheck::Nothing {
            warn!("sslmode=require does not check the certificate of PostgreSQL: use verify-full");
        }
        let name = &access.schema;
        // PostgreSQL cuts longer names without an error.
        if name.is_empty() || name.len() > 63 || name.contains('\0') || name.starts_with("pg_") {
            return Err(Failure::Misconfigured(format!(
                "schema={name} is not a name for a schema: use 1 to 63 bytes that do \
                 not begin with pg_, for example \"tenure\""
            )));
        }
        let lock_timeout = (attempt * 3 / 4).as_millis().max(1);
        Ok(Self {
            schema: quoted(name),
            access,
            attempt,
            durable: DURABLE.replace("{ms}", &lock_timeout.to_string()),
            permits: Semaphore::new(MOST_CONNECTIONS),
            idle: Mutex::default(),
            first: AtomicUsize::new(0),
            upkeep: Mutex::default(),
        })
    }

    /// Sends a statement, over a connection that no other request uses. If the caller gives the request
    /// up, its connection is closed.
    async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        let Ok(_permit) = timeout(self.attempt, self.permits.acquire()).await else {
            return Err(Failure::NotApplied(format!(
                "PostgreSQL: all {MOST_CONNECTIONS} connections have waited for an answer for {}",
                humane(self.attempt)
            )));
        };
        let idle = lock(&self.idle).pop();
        let session = match idle.filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => self.open().await?,
        };
        let sql = sql.replace("{durable}", &self.durable);
        let sql = sql.replace("{id}", session.identity_sql);
        // Last, because the name of a schema may contain anything.
        let sql = sql.replace("{s}", &self.schema);
        let answer = timeout(self.attempt, session.query(&sql, parameters)).await;
        let answer = answer.unwrap_or_else(|_| {
            let (name, attempt) = (&session.name, humane(self.attempt));
            Err(Failure::Unknown(format!("{name}: no answer in {attempt}")))
        });
        if let Ok(_) | Err(Failure::Misconfigured(_)) = answer {
            // A new connection would create tables that were deleted.
            lock(&self.idle).push(session);
        } else {
            // The server may have become a standby. Or it is a former primary that waits for its standby
            // for ever and keeps the locks of rows, and the standby was promoted. The other connections
            // lead to the same server, so the next one of the connection string is asked.
            lock(&self.idle).clear();
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    async fn select(
        &self,
        keys: &[RegisterKey],
        known: Option<&Version>,
    ) -> Result<Vec<Read>, Failure> {
        let keys: Vec<&str> = keys.iter().map(RegisterKey::as_str).collect();
        let known = known.map(Version::as_str);
        let parameters: [Parameter<'_>; 2] = [(&keys, Type::TEXT_ARRAY), (&known, Type::TEXT)];
        let rows = self.query(READ, &parameters).await?;
        rows.iter().map(read).collect()
    }
}

/// Reads the identity, the version and the value, which begin each row of registers.
fn read(row: &Row) -> Result<Read, Failure> {
    let identity = Identity::new(column::<&str>(row, 0)?);
    let value: Option<&[u8]> = column(row, 2)?;
    Ok(match (column::<Option<&str>>(row, 1)?, value) {
        (None, _) => Read::Absent(identity),
        (Some(_), None) => Read::Unchanged(identity),
        (Some(version), Some(value)) => {
            let value = Bytes::copy_from_slice(value);
            Read::found(Version::new(version), value, identity, None)
        }
    })
}

fn first<T>(rows: impl IntoIterator<Item = T>) -> Result<T, Failure> {
    let missing = || Failure::Unknown("PostgreSQL: an answer without a row".into());
    rows.into_iter().next().ok_or_else(missing)
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Failure> {
    let value = row.try_get(index);
    value.map_err(|error| Failure::Unknown(format!("PostgreSQL: {error}")))
}

#[async_trait]
impl Register for PostgresHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        first(self.select(std::slice::from_ref(key), known).await?)
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        check_size(key, &value)?;
        let version = expected.version.as_ref().map(Version::as_str);
        let sql = WRITE.replace("{write}", version.map_or(CREATE, |_| REPLACE));
        let new = Version::random()?;
        let parameters: [Parameter<'_>; 5] = [
            (&key.as_str(), Type::TEXT),
            (&version, Type::TEXT),
            (&new.as_str(), Type::TEXT),
            (&&value[..], Type::BYTEA),
            (&expected.identity.as_str(), Type::TEXT),
        ];
        // A statement that has waited for the winner shows the value before that of the winner. So the
        // second one is refused by the value that it shows.
        for _ in 0..2 {
            let rows = self.query(&sql, &parameters).await?;
            let row = first(&rows)?;
            if let Some(version) = column::<Option<&str>>(row, 3)? {
                return Ok(Replaced::Done(Version::new(version)));
            }
            let found = read(row)?;
            if !found.is_expected(expected) {
                return Ok(Replaced::Changed(found));
            }
        }
        let text = format!("PostgreSQL: {key} was changed at the same time");
        Err(Failure::NotApplied(text))
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        check_size(name, &content)?;
        let parameters: [Parameter<'_>; 2] =
            [(&name.as_str(), Type::TEXT), (&&content[..], Type::BYTEA)];
        self.query(WRITE_FILE, &parameters).await.map(drop)
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        let parameter = (&name.as_str() as _, Type::TEXT);
        let rows = self.query(READ_FILE, &[parameter]).await?;
        let content = rows.first().map(|row| column(row, 0)).transpose()?;
        Ok(content.map(Bytes::copy_from_slice))
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        let names: Vec<&str> = names.iter().map(RegisterKey::as_str).collect();
        let parameter = (&names as _, Type::TEXT_ARRAY);
        self.query(DELETE_FILES, &[parameter]).await.map(drop)
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let parameter = (&folder.as_str() as _, Type::TEXT);
        let rows = self.query(LIST_FILES, &[parameter]).await?;
        let names = rows.iter().map(|row| column::<&str>(row, 0));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    async fn read_many(&self, keys: &[RegisterKey]) -> Result<Vec<Read>, Failure> {
        self.select(keys, None).await
    }

    /// Checks that a fail-over which is declared lossless can be so.
    async fn maintain(&self) {
        let now = Instant::now();
        if self.access.failover == Failover::None || Some(now) < lock(&self.upkeep).check_at {
            return;
        }
        lock(&self.upkeep).check_at = Some(now + CHECK_EVERY);
        let rows = self.query(STANDBYS, &[]).await;
        let found = rows.and_then(|rows| column::<bool>(first(&rows)?, 0));
        // Without an answer nothing is known.
        if let Ok(may_lose) = found {
            let warning = may_lose.then(|| MAY_LOSE.to_owned());
            note_warning(&mut lock(&self.upkeep).warning, warning);
        }
    }

    fn facts(&self) -> HomeFacts {
        let upkeep = lock(&self.upkeep);
        let text = |version| format!("{}.{}", version / 10_000, version % 10_000).into();
        HomeFacts {
            version: upkeep.version.map(text),
            warnings: upkeep.warning.iter().cloned().collect(),
            ..HomeFacts::default()
        }
    }
}
