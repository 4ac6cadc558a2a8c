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
mod connection_string;
mod error;
mod log;
mod opening;
mod schema;
mod session;
mod settings;
mod tls;

#[cfg(all(test, unix))]
mod tests;

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tenure_core::ownership::EngineId;
use tokio_postgres_rustls::MakeRustlsConnect;

use self::log::PostgresLog;
use self::schema::Schema;
use self::settings::Settings;
use crate::config::{PostgresConfig, PostgresUrl};
use crate::engine::shared::log::{Connect, LogError, SharedLog};

/// Opens connections to the log of a cluster in PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct PostgresConnect(Arc<Target>);

/// The configuration that all connections of a server share.
#[derive(Debug)]
struct Target {
    config: PostgresConfig,
    schema: Schema,
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
        let schema = Schema::new(&config.schema).map_err(LogError::Misconfigured)?;
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
        let (settings, _) = self.0.read()?;
        if settings.encryption == settings::Encryption::Unverified
            && settings.root_certificate.is_none()
            && self.0.config.ca_file.is_none()
        {
            tracing::warn!(
                "sslmode=require does not check the certificate of PostgreSQL: use verify-full"
            );
        }
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
        opening::identity_text(engine)
    }

    fn other_engine(&self, written: EngineId, answering: EngineId) -> String {
        opening::other_engine(self.name(), self.0.config.failover, written, answering)
    }
}

impl Target {
    /// Reads the connection string and the files that it names.
    fn read(&self) -> Result<(Settings, MakeRustlsConnect), LogError> {
        let (place, text) = match &self.config.url {
            PostgresUrl::File(path) => {
                let place = format!("postgres.url_file: {}", path.display());
                match fs::read_to_string(path) {
                    Ok(text) => (place, text),
                    Err(error) => {
                        return Err(LogError::Misconfigured(format!("{place}: {error}")));
                    }
                }
            }
            PostgresUrl::Text(text) => ("postgres.url".to_owned(), text.clone()),
        };
        let wrong = |error| LogError::Misconfigured(format!("{place}: {error}"));
        let settings = Settings::parse(&text, self.attempt).map_err(wrong)?;
        let tls = tls::connector(&settings, self.config.ca_file.as_deref()).map_err(wrong)?;
        Ok((settings, tls))
    }
}
