//! One connection to one PostgreSQL server, and its warnings.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, SimpleQueryMessage, SimpleQueryRow, Socket,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{PostgresFailure, Stage, text_of};
use super::settings::Server;
use crate::Failure;

type Link = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection that is ready for calls.
pub(super) struct PostgresSession {
    client: Client,
    /// Reads and writes the socket. It is polled only during calls, and a session that is dropped
    /// closes it.
    link: Link,
    /// The host and port of the server, its database and the schema, for messages.
    pub(super) name: String,
    /// The version of the server as a number: 150018 is 15.18.
    pub(super) version: u32,
    /// The SQL expression of the identity.
    pub(super) identity_sql: &'static str,
}

impl PostgresSession {
    /// Connects to a server. The session is not set up yet.
    pub(super) async fn connect(
        server: &Server,
        tls: &MakeRustlsConnect,
    ) -> Result<Self, PostgresFailure> {
        let connected = server.config.connect(tls.clone()).await;
        let (client, link) =
            connected.map_err(|error| PostgresFailure::of(&error, Stage::Before, &server.name))?;
        Ok(Self {
            client,
            link,
            name: server.name.clone(),
            version: 0,
            identity_sql: "",
        })
    }

    /// Whether the connection is still open, as far as this side has heard.
    pub(super) async fn is_open(&mut self) -> bool {
        // The runtime looks at the socket while this task waits for its next turn.
        tokio::task::yield_now().await;
        let link = &mut self.link;
        poll_fn(|context| {
            loop {
                match link.poll_message(context) {
                    // A warning between two statements concerns neither.
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(false),
                    Poll::Pending => return Poll::Ready(true),
                }
            }
        })
        .await
    }

    /// Sends a statement whose outcome is unknown until it is answered.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] if the statement may have been executed, also if the server gave a
    /// warning: a commit that reports success with a warning may be lost with its server.
    pub(super) async fn send<'a, T, F>(
        &'a mut self,
        work: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, PostgresFailure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut warnings = Vec::new();
        let done = drive(&mut self.link, &mut warnings, work(&self.client)).await;
        match (done, warnings.is_empty()) {
            (Ok(done), true) => Ok(done),
            (Ok(_), false) => Err(PostgresFailure::closing(Failure::Unknown(format!(
                "{}: the outcome is not certain, because of a warning: {}",
                self.name,
                warnings.join("; ")
            )))),
            (Err(error), _) => Err(self.unanswered(&error)),
        }
    }

    /// Runs a statement that is not part of a call, for example one that prepares a call.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub(super) async fn run<'a, T, F>(
        &'a mut self,
        work: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        drive(&mut self.link, &mut Vec::new(), work(&self.client)).await
    }

    /// Returns the row of a query that has one, and is not part of a call.
    ///
    /// # Errors
    ///
    /// The query failed, or has no row.
    pub(super) async fn row(&mut self, query: &str) -> Result<SimpleQueryRow, PostgresFailure> {
        let messages = self.run(|client| client.simple_query(query)).await;
        let messages = messages.map_err(|error| self.not_ready(&error))?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.ok_or_else(|| {
            let text = format!("{}: no answer to a query of its settings", self.name);
            PostgresFailure::closing(Failure::NotApplied(text))
        })
    }

    /// Returns the failure of a call whose statement was not sent.
    pub(super) fn not_ready(&self, error: &Error) -> PostgresFailure {
        PostgresFailure::of(error, Stage::Before, &self.name)
    }

    /// Returns the failure of a call whose statement was sent, for example because its answer has
    /// another form.
    pub(super) fn unanswered(&self, error: &Error) -> PostgresFailure {
        PostgresFailure::of(error, Stage::Sent, &self.name)
    }
}

/// Waits for an answer, and moves the bytes of the connection meanwhile. It collects warnings. The
/// server sends the warnings of a commit before it reports the end of the statement, and the
/// driver waits for that report.
async fn drive<T>(
    link: &mut Link,
    warnings: &mut Vec<String>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut work = pin!(work);
    poll_fn(|context| {
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            let broken = match link.poll_message(context) {
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    warnings.push(text_of(&notice));
                    continue;
                }
                Poll::Ready(Some(Ok(_))) => continue,
                Poll::Ready(Some(Err(error))) => Some(error),
                Poll::Ready(None) => None,
                // This poll may have moved the answer to the work.
                Poll::Pending => return work.as_mut().poll(context),
            };
            // The work may have got the reason from the server. Without the connection it does not
            // wait for anything else.
            return match (work.as_mut().poll(context), broken) {
                (Poll::Ready(Ok(done)), _) => Poll::Ready(Ok(done)),
                (Poll::Ready(Err(error)), None) => Poll::Ready(Err(error)),
                (Poll::Ready(Err(error)), _) if error.as_db_error().is_some() => {
                    Poll::Ready(Err(error))
                }
                (_, Some(error)) => Poll::Ready(Err(error)),
                (Poll::Pending, None) => Poll::Pending,
            };
        }
    })
    .await
}

impl fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PostgresSession");
        f.field("name", &self.name).finish_non_exhaustive()
    }
}
