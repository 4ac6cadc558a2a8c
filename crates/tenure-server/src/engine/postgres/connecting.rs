//! A session that is being opened.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Target;
use super::error::Failed;
use super::opening::Opening;
use super::schema::Query;
use super::session::Session;
use super::settings::Server;
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
            work: Box::pin(async move { connect(&target, first, &at).await }),
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

/// Opens a session with the first server that accepts writes, from this one on.
async fn connect(target: &Target, first: usize, asked: &AtomicUsize) -> Result<Session, LogError> {
    // The file of the connection string may have a new password.
    let (settings, tls) = target.read()?;
    let opening = Opening {
        tls: &tls,
        schema: &target.schema,
        user: &settings.user,
        failover: target.config.failover,
        attempt: target.attempt,
    };
    let count = settings.servers.len();
    // A server that does not answer must leave time for another one.
    let limit = match count {
        1 => target.attempt * 3,
        _ => target.attempt,
    };
    let mut errors = Vec::new();
    for number in first..first + count {
        let server = &settings.servers[number % count];
        asked.store(number % count, Ordering::Relaxed);
        match timeout(limit, open(target, &opening, server)).await {
            Ok(Ok(session)) => {
                target.engine.get_or_init(|| session.engine);
                return Ok(session);
            }
            Ok(Err(failed)) => errors.push(failed.error),
            Err(_) => errors.push(LogError::NotApplied(format!(
                "{}: not ready in {}",
                server.name,
                humane(limit)
            ))),
        }
    }
    let texts: Vec<String> = errors.iter().map(LogError::to_string).collect();
    let texts = texts.join("; ");
    let is_refusal = |error: &LogError| matches!(error, LogError::Misconfigured(_));
    Err(match errors.iter().any(is_refusal) {
        true => LogError::Misconfigured(texts),
        false => LogError::NotApplied(texts),
    })
}

async fn open(target: &Target, opening: &Opening<'_>, server: &Server) -> Result<Session, Failed> {
    let mut session = opening.open(server).await?;
    for query in PREPARED {
        session.prepare(&target.schema, query).await?;
    }
    Ok(session)
}

pub(super) fn humane(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
