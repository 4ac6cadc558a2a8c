//! A session that is being opened.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_register::postgres::{PostgresFailure, humane};
use tokio::time::{Instant, timeout};

use super::Target;
use super::schema::Query;
use super::session::Session;
use crate::engine::shared::log::LogError;

/// The queries of a server that follows the log or owns it. A new session prepares them, so that a
/// call on it sends nothing but its statement.
const PREPARED: [Query; 4] = [Query::Head, Query::Beat, Query::Append, Query::Confirm];

/// A session that is being opened. It outlasts a call: a busy service may take longer to accept a
/// connection, to check a password and to prepare statements than to execute one.
pub(super) struct Connecting {
    work: Pin<Box<dyn Future<Output = Result<Session, LogError>> + Send>>,
    /// The number of the server in the connection string that is asked at the moment.
    asked: Arc<AtomicUsize>,
    began: Instant,
}

impl Connecting {
    /// Begins with this server of the connection string. The others follow.
    pub(super) fn begin(target: Arc<Target>, first: usize) -> Self {
        let asked = Arc::new(AtomicUsize::new(first));
        let at = Arc::clone(&asked);
        Self {
            work: Box::pin(async move { connect(&target, &at).await }),
            asked,
            began: Instant::now(),
        }
    }

    /// The number of the server that is asked at the moment.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Goes on until the session is ready; `None` if it is not at this instant.
    pub(super) async fn within(&mut self, until: Instant) -> Option<Result<Session, LogError>> {
        tokio::time::timeout_at(until, &mut self.work).await.ok()
    }

    /// Returns how long the session has been opened.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Opens a session with the first server that accepts writes.
async fn connect(target: &Target, asked: &AtomicUsize) -> Result<Session, LogError> {
    // Roles and databases can have other values. A wait for the lock of the head ends before the
    // attempt does: the statement of a connection that was given up must not wait for long at the
    // server. A limit for whole statements would also end the wait for a standby.
    let lock_timeout = (target.attempt * 3 / 4).as_millis().max(1);
    let settings = format!(
        "set synchronous_commit = on; set statement_timeout = 0;
         set lock_timeout = {lock_timeout}; set client_min_messages = warning;
         set default_transaction_isolation = 'read committed';
         set search_path = pg_catalog, pg_temp;"
    );
    let opened = target
        .config
        .open(&target.schema, &settings, target.attempt, asked);
    let mut session = Session::new(opened.await?)?;
    let limit = target.attempt * 3;
    match timeout(limit, set_up(target, &mut session)).await {
        Ok(set_up) => set_up.map_err(|failed| failed.error)?,
        Err(_) => {
            let (name, limit) = (&session.connection.name, humane(limit));
            let text = format!("{name}: not ready in {limit}");
            return Err(LogError::NotApplied(text));
        }
    }
    target.engine.get_or_init(|| session.engine);
    Ok(session)
}

async fn set_up(target: &Target, session: &mut Session) -> Result<(), PostgresFailure> {
    let row = session.connection.row("show synchronous_commit").await?;
    let name = &session.connection.name;
    check_commits(name, row.get(0).unwrap_or_default()).map_err(PostgresFailure::closing)?;
    for query in PREPARED {
        session.prepare(&target.schema, query).await?;
    }
    Ok(())
}

/// Checks the value of `synchronous_commit` that the next statement of a session has.
fn check_commits(name: &str, value: &str) -> Result<(), LogError> {
    match value {
        "on" => Ok(()),
        _ => Err(LogError::Misconfigured(format!(
            "{name}: synchronous_commit is {value} after it was set to on: connect directly, or \
             through a pool of sessions, not of transactions"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_forgets_its_settings_is_refused() {
        assert_eq!(check_commits("P", "on"), Ok(()));
        for value in ["off", "local", ""] {
            let error = check_commits("P", value).unwrap_err();
            assert!(matches!(error, LogError::Misconfigured(_)), "{value}");
        }
    }
}
