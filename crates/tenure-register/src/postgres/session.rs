//! One connection to one PostgreSQL server, and its warnings.

use std::future::poll_fn;
use std::mem::take;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Client, Error, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Parameter;
use super::error::{Stage, failure, text_of};
use super::settings::Server;
use crate::{Failure, lock};

/// A connection that is ready for calls.
#[derive(Debug)]
pub(super) struct PostgresSession {
    pub(super) client: Client,
    /// Reads and writes the socket. It is closed when the session is dropped.
    _link: JoinSet<()>,
    /// The warnings of the server since the last call began.
    warnings: Arc<Mutex<Vec<String>>>,
    /// The host and port of the server, its database and the schema, for messages.
    pub(super) name: String,
    /// The version of the server as a number: 150018 is 15.18.
    pub(super) version: u32,
    /// The SQL expression of the identity.
    pub(super) identity_sql: &'static str,
}

impl PostgresSession {
    /// Connects to a server. The session is not set up yet.
    pub(super) async fn connect(server: &Server, tls: &MakeRustlsConnect) -> Result<Self, Failure> {
        let connected = server.config.connect(tls.clone()).await;
        let (client, mut connection) =
            connected.map_err(|error| failure(&error, Stage::Before, &server.name))?;
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&warnings);
        let mut link = JoinSet::new();
        link.spawn(async move {
            // The server sends the warnings of a commit before it reports the end of the statement,
            // and the caller gets that report from the next poll.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message {
                    lock(&heard).push(text_of(&notice));
                }
            }
        });
        Ok(Self {
            client,
            _link: link,
            warnings,
            name: server.name.clone(),
            version: 0,
            identity_sql: "",
        })
    }

    /// Sends a statement whose outcome is unknown until it is answered.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] if the statement may have been executed, also if the server gave a
    /// warning: a commit that reports success with a warning may be lost with its server.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        lock(&self.warnings).clear();
        let rows = self.client.query_typed(sql, parameters).await;
        let rows = rows.map_err(|error| failure(&error, Stage::Sent, &self.name))?;
        let warnings = take(&mut *lock(&self.warnings));
        if warnings.is_empty() {
            return Ok(rows);
        }
        Err(Failure::Unknown(format!(
            "{}: the outcome is not certain, because of a warning: {}",
            self.name,
            warnings.join("; ")
        )))
    }

    /// Returns the failure of a call whose statement was not sent.
    pub(super) fn not_ready(&self, error: &Error) -> Failure {
        failure(error, Stage::Before, &self.name)
    }
}
