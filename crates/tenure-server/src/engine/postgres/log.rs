//! The calls of a shared log in PostgreSQL.

use std::cell::Cell;
use std::fmt;
use std::str;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tenure_core::ownership::EngineId;
use tenure_register::postgres::{PostgresFailure, humane};
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tracing::warn;

use super::Target;
use super::connecting::Connecting;
use super::identity::is_same_system;
use super::schema::Query;
use super::session::Session;
use crate::config::Failover;
use crate::engine::shared::engine_of;
use crate::engine::shared::log::{
    Append, Appended, Edit, LogError, LoggedBatch, Place, PlaceRange, ServiceFacts, SharedLog,
    Sighting,
};

/// A connection to the log of a cluster in PostgreSQL. It opens a new session after a failure.
pub(super) struct PostgresLog {
    target: Arc<Target>,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    session: Option<Session>,
    connecting: Option<Connecting>,
    /// The server of the connection string that is tried first.
    first: usize,
    /// Batches below this one are deleted already.
    kept_from: u64,
    /// The identity in the last head, if a promotion makes no other engine.
    written: Option<EngineId>,
    /// The version of the last server, as a number and as text.
    version: (u32, Option<Arc<str>>),
    /// The standbys are checked at this time.
    check_at: Instant,
    /// The warning about the standbys.
    warning: Option<String>,
}

/// How far a call has come. After a time-out this says what is known.
struct Progress {
    is_sent: Cell<bool>,
}

impl PostgresLog {
    pub(super) fn new(target: Arc<Target>, runtime: Runtime) -> Self {
        Self {
            target,
            runtime: Some(runtime),
            session: None,
            connecting: None,
            first: 0,
            kept_from: 0,
            written: None,
            version: (0, None),
            check_at: Instant::now(),
            warning: None,
        }
    }

    /// Notes the version of a server: 150018 is 15.18.
    fn note_version(&mut self, version: u32) {
        if self.version.0 != version {
            let text = format!("{}.{}", version / 10_000, version % 10_000);
            self.version = (version, Some(text.into()));
        }
    }

    /// Warns if a fail-over is declared lossless, and all standbys of the server are asynchronous.
    fn check_standbys(&mut self) {
        let found = self.call(async |session, _, _| {
            let row = session.connection.row(STANDBYS).await?;
            let has_asynchronous = row.get(0) == Some("t");
            Ok(has_asynchronous.then(|| {
                format!(
                    "{} has standbys, and synchronous_standby_names is empty: a promotion of one of \
                     them can lose acknowledged changes, although postgres.failover is \"lossless\". \
                     Make a standby synchronous, or set postgres.failover = \"none\"",
                    session.connection.name
                )
            }))
        });
        // Without an answer nothing is known.
        let Ok(warning) = found else {
            return;
        };
        if self.warning != warning {
            self.warning = warning;
            self.warning.iter().for_each(|warning| warn!("{warning}"));
        }
    }

    /// Returns what is seen, as of the engine that the head names if only the timeline differs and a
    /// fail-over loses nothing. So a log goes on whose first servers had another
    /// `postgres.failover`, also after a promotion, and beside them before it.
    ///
    /// It is safe for the reason that `Lossless` is: the operator guarantees that every acknowledged
    /// commit is at the promoted server, and that the former primary acknowledges none afterwards.
    /// So a head of an earlier timeline is still the newest one, and an append at a former primary
    /// does not succeed. The head keeps its timeline, so that a server without that guarantee still
    /// goes on before a promotion and refuses after it.
    fn as_written(&mut self, mut seen: Sighting) -> Sighting {
        if self.target.config.failover == Failover::Lossless {
            let written = seen.head.as_deref().and_then(engine_of).or(self.written);
            if let Some(written) = written
                && is_same_system(written, seen.engine)
            {
                self.written = Some(written);
                seen.engine = written;
            }
        }
        seen
    }

    /// Makes a call within the time limit, on the open session or a new one.
    fn call<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session, &Target, &Progress) -> Result<T, PostgresFailure>,
    ) -> Result<T, LogError> {
        let until = Instant::now() + self.target.attempt;
        let mut session = self.ready_session(until)?;
        let progress = Progress {
            is_sent: Cell::new(false),
        };
        let target = &self.target;
        let runtime = self.runtime.as_ref().expect("it is there until the drop");
        let done = runtime
            .block_on(async { timeout_at(until, work(&mut session, target, &progress)).await });
        let failed = match done {
            Ok(Ok(done)) => {
                self.note_version(session.connection.version);
                self.session = Some(session);
                return Ok(done);
            }
            Ok(Err(failed)) => failed,
            Err(_) => {
                let limit = humane(self.target.attempt);
                let name = &session.connection.name;
                PostgresFailure::closing(match progress.is_sent.get() {
                    false => LogError::NotApplied(format!("{name}: not ready in {limit}")),
                    true => LogError::Unknown(format!("{name}: no answer in {limit}")),
                })
            }
        };
        match failed.keeps_connection {
            true => self.session = Some(session),
            // The socket is closed here, and the next server is tried first.
            false => self.first += 1,
        }
        Err(failed.error)
    }

    /// Returns the open session, or goes on to open a new one.
    fn ready_session(&mut self, until: Instant) -> Result<Session, LogError> {
        let runtime = self.runtime.as_ref().expect("it is there until the drop");
        if let Some(mut session) = self.session.take()
            && runtime.block_on(session.connection.is_open())
        {
            return Ok(session);
        }
        let (target, first) = (&self.target, self.first);
        let begin = || Connecting::begin(Arc::clone(target), first);
        let connecting = self.connecting.get_or_insert_with(begin);
        let opened = runtime.block_on(connecting.within(until));
        self.first = connecting.asked();
        let since = humane(connecting.elapsed());
        let Some(opened) = opened else {
            // The next call goes on with it.
            return Err(LogError::NotApplied(format!(
                "PostgreSQL: no connection after {since}"
            )));
        };
        self.connecting = None;
        let session = opened?;
        // A statement that is sent late has an unknown outcome when the time is up.
        if until - Instant::now() < self.target.attempt / 2 {
            let name = session.connection.name.clone();
            self.session = Some(session);
            return Err(LogError::NotApplied(format!(
                "{name}: connected after {since}, too late for this call"
            )));
        }
        Ok(session)
    }
}

/// Sends a statement whose outcome is unknown until it is answered.
async fn send(
    session: &mut Session,
    progress: &Progress,
    query: Query,
    parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<Vec<Row>, PostgresFailure> {
    progress.is_sent.set(true);
    session.execute(query, parameters).await
}

impl SharedLog for PostgresLog {
    fn head(&mut self) -> Result<Sighting, LogError> {
        let seen = self.call(async |session, target, progress| {
            session.prepare(&target.schema, Query::Head).await?;
            let rows = send(session, progress, Query::Head, &[&target.cluster]).await?;
            sighting(session, &rows)
        })?;
        Ok(self.as_written(seen))
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        let statement = AppendStatement::new(append, self.kept_from)?;
        let appended = self.call(async |session, target, progress| {
            // The head is compared in another engine, too, but there it may be older than one that
            // was acknowledged.
            let known = *target.engine.get_or_init(|| session.engine);
            if known != session.engine {
                return refused(session, target).await;
            }
            statement.execute(session, target, progress).await
        })?;
        Ok(match appended {
            Appended::Done => {
                self.kept_from = self.kept_from.max(append.keep_from);
                Appended::Done
            }
            Appended::Refused(seen) => Appended::Refused(self.as_written(seen)),
        })
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.call(async |session, target, progress| {
            session.prepare(&target.schema, Query::Batches).await?;
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
                [&target.cluster, &after];
            let rows = send(session, progress, Query::Batches, &parameters).await?;
            let batches = rows.iter().map(|row| {
                let sequence: i64 = row.try_get(0)?;
                let bytes: Vec<u8> = row.try_get(1)?;
                Ok(LoggedBatch {
                    sequence: sequence.cast_unsigned(),
                    bytes: bytes.into(),
                })
            });
            let batches: Result<_, tokio_postgres::Error> = batches.collect();
            batches.map_err(|error| session.connection.unanswered(&error))
        })
    }

    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        let query = match range.descending {
            true => Query::PlacesDescending,
            false => Query::Places,
        };
        let most = i64::try_from(range.most.min(MOST_PLACES)).unwrap_or(i64::MAX);
        self.call(async |session, target, progress| {
            session.prepare(&target.schema, query).await?;
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&target.cluster, &range.from, &range.to, &most];
            let rows = send(session, progress, query, &parameters).await?;
            let places = rows.iter().map(|row| {
                let value: String = row.try_get(1)?;
                Ok(Place {
                    key: row.try_get(0)?,
                    value: value.into(),
                })
            });
            let places: Result<_, tokio_postgres::Error> = places.collect();
            places.map_err(|error| session.connection.unanswered(&error))
        })
    }

    fn maintain(&mut self) {
        if self.target.config.failover == Failover::Lossless && Instant::now() >= self.check_at {
            self.check_standbys();
            self.check_at = Instant::now() + CHECK_EVERY;
        }
    }

    fn facts(&self) -> ServiceFacts {
        ServiceFacts {
            version: self.version.1.clone(),
            warnings: self.warning.iter().cloned().collect(),
            ..ServiceFacts::default()
        }
    }
}

/// The interval at which the standbys are checked.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Whether the server has standbys, and none of them is synchronous. A user without further rights
/// sees their number.
const STANDBYS: &str = "select current_setting('synchronous_standby_names') = ''
    and exists (select from pg_stat_replication)";

/// The greatest number of places in one answer: some megabytes.
const MOST_PLACES: usize = 4_000;

/// Returns the head of a row, if there is one.
fn sighting(session: &Session, rows: &[Row]) -> Result<Sighting, PostgresFailure> {
    let record = rows.first().map(|row| row.try_get::<_, Vec<u8>>(0));
    let record = record.transpose();
    let record = record.map_err(|error| session.connection.unanswered(&error))?;
    Ok(Sighting {
        engine: session.engine,
        head: record.map(Bytes::from),
    })
}

/// An append in the types of PostgreSQL.
struct AppendStatement<'a> {
    query: Query,
    expected: Option<&'a [u8]>,
    head: &'a [u8],
    sequence: Option<i64>,
    batch: Option<&'a [u8]>,
    kept_from: i64,
    keep_from: i64,
    keys: Vec<&'a str>,
    values: Vec<&'a str>,
    deleted: Vec<&'a str>,
}

impl<'a> AppendStatement<'a> {
    fn new(append: &'a Append<'a>, kept_from: u64) -> Result<Self, LogError> {
        let (mut keys, mut values, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for edit in append.edits {
            match edit {
                Edit::Put(place) => {
                    keys.push(place.key.as_str());
                    values.push(text(&place.value)?);
                }
                Edit::Delete(key) => deleted.push(key.as_str()),
            }
        }
        let deletes = append.keep_from > kept_from;
        let is_beat = append.batch.is_none() && append.edits.is_empty() && !deletes;
        let batch = append.batch.as_ref();
        Ok(Self {
            query: match append.expected {
                None => Query::First,
                Some(_) if is_beat => Query::Beat,
                Some(_) => Query::Append,
            },
            expected: append.expected,
            head: append.head,
            sequence: batch.map(|batch| number(batch.sequence)).transpose()?,
            batch: batch.map(|batch| &*batch.bytes),
            kept_from: number(kept_from)?,
            keep_from: number(append.keep_from)?,
            keys,
            values,
            deleted,
        })
    }

    async fn execute(
        &self,
        session: &mut Session,
        target: &Target,
        progress: &Progress,
    ) -> Result<Appended, PostgresFailure> {
        session.prepare(&target.schema, self.query).await?;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 10] = [
            &target.cluster,
            &self.head,
            &self.expected,
            &self.sequence,
            &self.batch,
            &self.kept_from,
            &self.keep_from,
            &self.keys,
            &self.values,
            &self.deleted,
        ];
        let parameters = match self.query {
            Query::Beat => &parameters[..3],
            _ => &parameters[..],
        };
        let rows = send(session, progress, self.query, parameters).await?;
        match rows.first().and_then(|row| row.try_get(0).ok()) {
            Some(1_i64) => Ok(Appended::Done),
            Some(_) => refused(session, target).await,
            None => Err(PostgresFailure::closing(LogError::Unknown(format!(
                "{}: the answer has another form",
                session.connection.name
            )))),
        }
    }
}

/// Returns the head that stands. It is read by a new statement, which sees all commits that the
/// append waited for, and it is written again, unchanged: the head may be the one of an earlier
/// attempt of this append, whose commit was never acknowledged. The commit of this statement
/// comes after that one, so both are durable when it is acknowledged.
async fn refused(session: &mut Session, target: &Target) -> Result<Appended, PostgresFailure> {
    session.prepare(&target.schema, Query::Confirm).await?;
    let rows = session.execute(Query::Confirm, &[&target.cluster]).await?;
    sighting(session, &rows).map(Appended::Refused)
}

fn text(bytes: &[u8]) -> Result<&str, LogError> {
    str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| {
            let text = "PostgreSQL keeps only text as places, and this is not text";
            LogError::Misconfigured(text.into())
        })
}

fn number(number: u64) -> Result<i64, LogError> {
    number.try_into().map_err(|_| {
        LogError::Misconfigured("PostgreSQL keeps no sequence numbers above 2^63".into())
    })
}

impl fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PostgresLog");
        f.field("session", &self.session).finish_non_exhaustive()
    }
}

impl Drop for PostgresLog {
    fn drop(&mut self) {
        // A look-up of a host name may still block one of its threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
