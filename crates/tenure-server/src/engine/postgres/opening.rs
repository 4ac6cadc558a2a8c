//! Opening a session: its settings, the checks of the server, the tables, and the identity.

use std::time::Duration;

use tenure_core::ownership::EngineId;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{Failed, Stage, describe};
use super::schema::{IDENTITY, LEAST_VERSION, Schema};
use super::session::Session;
use super::settings::Server;
use crate::config::Failover;
use crate::engine::shared::log::LogError;

/// How often a server tries to create the tables while others create them, too.
const CREATE_ATTEMPTS: usize = 5;

/// How sessions are opened.
pub(super) struct Opening<'a> {
    pub(super) tls: &'a MakeRustlsConnect,
    pub(super) schema: &'a Schema,
    pub(super) user: &'a str,
    pub(super) failover: Failover,
    /// The time limit of a call.
    pub(super) attempt: Duration,
}

impl Opening<'_> {
    /// Connects, sets up the session, and creates the tables if there are none.
    pub(super) async fn open(&self, server: &Server) -> Result<Session, Failed> {
        let mut session = Session::connect(server, self.tls).await?;
        // Roles and databases can have other values. A wait for the lock of the head ends before
        // the attempt does: the statement of a connection that was given up must not wait for long
        // at the server. A limit for whole statements would also end the wait for a standby.
        let lock_timeout = (self.attempt * 3 / 4).as_millis().max(1);
        let settings = format!(
            "set synchronous_commit = on; set statement_timeout = 0;
             set lock_timeout = {lock_timeout}; set client_min_messages = warning;
             set default_transaction_isolation = 'read committed';
             set search_path = pg_catalog, pg_temp;"
        );
        session.batch(&settings).await?;
        self.check(&mut session).await?;
        session.engine = self.identity(&mut session).await?;
        Ok(session)
    }

    /// Checks the server, and creates the tables if there are none.
    async fn check(&self, session: &mut Session) -> Result<(), Failed> {
        for _ in 0..CREATE_ATTEMPTS {
            let row = session.row(&self.schema.inspect()).await?;
            let value = |column| row.get(column).unwrap_or_default();
            if let Some(error) = unfit(&session.name, &value) {
                return Err(Failed::closing(error));
            }
            session.version = value(0).parse().unwrap_or_default();
            if value(7) == "3" {
                return Ok(());
            }
            let has_schema = value(6) == "t";
            let database = value(8).to_owned();
            let create = self.schema.create(has_schema);
            let created = session.run(|client| client.batch_execute(&create)).await;
            let Err(error) = created else {
                continue;
            };
            let code = error.code().map_or("", |code| code.code());
            match code {
                // Another server has created the same at the same time.
                "23505" | "42P06" | "42P07" | "XX000" | "40P01" => {}
                "42501" => {
                    return Err(Failed::closing(LogError::Misconfigured(format!(
                        "{}: user {} may not create the tables of tenure in schema {} of database \
                         {database} ({}). An administrator of that database has to run: {}",
                        session.name,
                        self.user,
                        self.schema.quoted(),
                        describe(&error),
                        self.schema.grant(has_schema, self.user)
                    ))));
                }
                _ => return Err(Failed::of(&error, Stage::Before, &session.name)),
            }
        }
        Err(Failed::closing(LogError::NotApplied(format!(
            "{}: the tables could not be created, because others create them at the same time",
            session.name
        ))))
    }

    async fn identity(&self, session: &mut Session) -> Result<EngineId, Failed> {
        let messages = session.run(|client| client.simple_query(IDENTITY)).await;
        let error = match messages {
            Ok(messages) => match identity_of(&messages) {
                Some((system, timeline)) => return Ok(engine_id(system, timeline, self.failover)),
                None => "the answer has another form".to_owned(),
            },
            Err(error) if error.as_db_error().is_some() => describe(&error),
            Err(error) => return Err(Failed::of(&error, Stage::Before, &session.name)),
        };
        match self.failover {
            // The operator answers for the server, so it may hide its identity.
            Failover::Lossless => Ok(EngineId(0)),
            Failover::None => Err(Failed::closing(LogError::Misconfigured(format!(
                "{}: its identity and timeline can't be read ({error}), so a fail-over that loses \
                 commits would not be noticed. If its fail-over loses nothing, set \
                 postgres.failover = \"lossless\"; else use another PostgreSQL",
                session.name
            )))),
        }
    }
}

/// Returns why a server can't keep a log, from the row of [`Schema::inspect`].
fn unfit<'a>(name: &str, value: &impl Fn(usize) -> &'a str) -> Option<LogError> {
    let misconfigured = |text: String| Some(LogError::Misconfigured(format!("{name}: {text}")));
    let version: u32 = value(0).parse().unwrap_or_default();
    if version < LEAST_VERSION {
        return misconfigured(format!(
            "its version is {}: use PostgreSQL {} or later",
            version / 10_000,
            LEAST_VERSION / 10_000
        ));
    }
    if value(4) == "t" {
        return Some(LogError::NotApplied(format!(
            "{name} is a standby, and only its primary accepts writes: name all servers in the \
             connection string (host=a,b)"
        )));
    }
    if value(5) != "off" {
        return Some(LogError::NotApplied(format!(
            "{name} is read-only (default_transaction_read_only)"
        )));
    }
    if value(1) != "on" {
        return misconfigured(format!(
            "synchronous_commit is {} after it was set to on: connect directly, or through a pool \
             of sessions, not of transactions",
            value(1)
        ));
    }
    if value(2) != "on" {
        return misconfigured(
            "fsync is off, so a crash of its machine would lose acknowledged changes: set fsync = \
             on in postgresql.conf"
                .into(),
        );
    }
    if value(3) != "UTF8" {
        return misconfigured(format!(
            "the database has the encoding {}: create one with encoding 'UTF8'",
            value(3)
        ));
    }
    None
}

fn identity_of(messages: &[SimpleQueryMessage]) -> Option<(u64, u32)> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })?;
    let system = row.get(0)?.parse::<i64>().ok()?.cast_unsigned();
    let timeline = u32::from_str_radix(row.get(1)?, 16).ok()?;
    Some((system, timeline))
}

/// Returns the identity as the head has it: the system identifier, and the timeline if a promotion
/// makes another engine.
fn engine_id(system: u64, timeline: u32, failover: Failover) -> EngineId {
    let timeline = match failover {
        Failover::None => timeline,
        Failover::Lossless => 0,
    };
    EngineId(u128::from(system) << 64 | u128::from(timeline))
}

/// Returns an identity in readable form.
pub(super) fn identity_text(engine: EngineId) -> String {
    let (system, timeline) = parts(engine);
    match timeline {
        // The operator says that a promotion makes no other engine.
        0 => format!("system identifier {system}"),
        timeline => format!("system identifier {system}, timeline {timeline}"),
    }
}

/// Returns the system identifier and the timeline of an identity.
const fn parts(EngineId(id): EngineId) -> (u64, u32) {
    ((id >> 64) as u64, id as u32)
}

/// Whether two identities differ in the timeline at most.
pub(super) const fn is_same_system(one: EngineId, other: EngineId) -> bool {
    parts(one).0 == parts(other).0
}

/// Returns why this server is another engine than the one that was there before.
pub(super) fn other_engine(
    name: &str,
    failover: Failover,
    before: EngineId,
    now: EngineId,
) -> String {
    let ((old_system, old_timeline), (system, timeline)) = (parts(before), parts(now));
    match (failover, old_timeline) {
        _ if system != old_system => format!(
            "{name} is another PostgreSQL (system identifier {system}, was {old_system}): a wrong \
             address, or a restored copy. Stop all servers; after a restore: tenure cluster recover"
        ),
        // The log takes any timeline, so it has shown heads with two of them.
        (Failover::Lossless, _) => format!(
            "the log in {name} was recovered or begun anew while this server ran, or a former \
             primary answers: restart this server"
        ),
        (Failover::None, 0) => {
            "the log was written with postgres.failover = \"lossless\": keep that setting, or stop \
             all servers, then: tenure cluster recover"
                .into()
        }
        (Failover::None, _) => format!(
            "{name} was promoted or restored (timeline {timeline}, was {old_timeline}). If its \
             fail-over loses nothing: postgres.failover = \"lossless\"; else stop all servers, \
             then: tenure cluster recover"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promotion_makes_another_engine_unless_it_is_declared_lossless() {
        let id = |timeline, failover| engine_id(u64::MAX - 5, timeline, failover);
        assert_ne!(id(1, Failover::None), id(2, Failover::None));
        assert_eq!(id(1, Failover::Lossless), id(2, Failover::Lossless));
        assert!(is_same_system(
            id(1, Failover::None),
            id(2, Failover::Lossless)
        ));
    }

    #[test]
    fn a_refusal_of_another_engine_says_what_to_do() {
        let id = |timeline, failover| engine_id(u64::MAX - 5, timeline, failover);
        let (strict, lossless) = (Failover::None, Failover::Lossless);
        let other = engine_id(6, 1, strict);
        for (failover, before, now, expected) in [
            (strict, id(1, strict), id(2, strict), "(timeline 2, was 1)"),
            (strict, id(1, lossless), id(1, strict), "keep that setting"),
            (lossless, id(1, lossless), id(2, strict), "restart this"),
            (lossless, id(1, strict), id(2, lossless), "restart this"),
            (strict, id(1, strict), other, "is another PostgreSQL"),
            (lossless, id(1, lossless), other, "is another PostgreSQL"),
        ] {
            let text = other_engine("P", failover, before, now);
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("timeline 0"), "{text}");
        }
    }

    #[test]
    fn a_server_that_may_lose_commits_or_takes_none_is_refused() {
        let good = ["150018", "on", "on", "UTF8", "f", "off", "t", "3", "db"];
        let judge = |column: usize, value: &'static str| {
            let mut row = good;
            row[column] = value;
            unfit("P", &|column| row[column])
        };
        assert_eq!(judge(0, "150018"), None);
        for (column, value) in [(0, "120005"), (1, "local"), (2, "off"), (3, "LATIN1")] {
            let error = judge(column, value);
            assert!(matches!(error, Some(LogError::Misconfigured(_))), "{value}");
        }
        for (column, value) in [(4, "t"), (5, "on")] {
            let error = judge(column, value);
            assert!(matches!(error, Some(LogError::NotApplied(_))), "{value}");
        }
    }
}
