//! A shared log in PostgreSQL: a schema with three tables.
//!
//! An append is one statement (see `schema.rs`). Its update takes the lock of the head's row and
//! compares the whole record, so of two appends that expect the same head one is applied. Locks
//! that go with a session are not used: they end with the session, while a commit of it may still
//! come.
//!
//! Three rules keep the meaning of a commit:
//!
//! - No statement is ever cancelled. PostgreSQL reports a commit whose wait for a synchronous
//!   standby was cancelled as a success with a warning, and others see it, although the standby may
//!   not have it. So an attempt that takes too long closes its connection, and an append with any
//!   warning has an unknown outcome.
//! - A read proves nothing. A refusal that shows this server's own head counts only after the head
//!   was written again and that commit was acknowledged: an acknowledged commit covers all before
//!   it.
//! - A promoted server counts as another engine, unless its operator says that a fail-over loses
//!   nothing. Then the timeline in a head says nothing (see `PostgresLog::as_written`).

mod connecting;
mod identity;
mod log;
mod schema;
mod session;

#[cfg(all(test, unix))]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tenure_core::ownership::EngineId;
use tenure_register::postgres::PostgresSchema;

use self::log::PostgresLog;
use crate::config::PostgresConfig;
use crate::engine::shared::log::{Connect, LogError, SharedLog};

/// Opens connections to the log of a cluster in PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct PostgresConnect(Arc<Target>);

/// The configuration that all connections of a server share.
#[derive(Debug)]
struct Target {
    config: PostgresConfig,
    schema: PostgresSchema,
    cluster: String,
    /// The time limit of a call.
    attempt: Duration,
    /// The identity of the first server that answered. Appends are sent to no other.
    engine: OnceLock<EngineId>,
}

impl PostgresConnect {
    /// Creates the connections of a server of this cluster. `attempt` is the time limit of a call.
    ///
    /// # Errors
    ///
    /// The name of the schema is not valid.
    pub(crate) fn new(
        config: PostgresConfig,
        cluster: &str,
        attempt: Duration,
    ) -> Result<Self, LogError> {
        let schema = schema::schema(&config.schema)?;
        Ok(Self(Arc::new(Target {
            config,
            schema,
            cluster: cluster.to_owned(),
            attempt,
            engine: OnceLock::new(),
        })))
    }
}

impl Connect for PostgresConnect {
    fn connect(&self) -> Result<Box<dyn SharedLog>, LogError> {
        self.0.config.check(self.0.attempt)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| LogError::NotApplied(error.to_string()))?;
        Ok(Box::new(PostgresLog::new(Arc::clone(&self.0), runtime)))
    }

    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn identity(&self, engine: EngineId) -> String {
        identity::identity_text(engine)
    }

    fn other_engine(&self, written: EngineId, answering: EngineId) -> String {
        identity::other_engine(self.name(), self.0.config.failover, written, answering)
    }
}
