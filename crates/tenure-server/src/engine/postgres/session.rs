//! One connection to one PostgreSQL server: its statements and its warnings.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tenure_core::ownership::EngineId;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, Row, SimpleQueryMessage, SimpleQueryRow, Socket,
    Statement,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{Failed, Stage, text_of};
use super::schema::{QUERIES, Query, Schema};
use super::settings::Server;
use crate::engine::shared::log::LogError;

type Link = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection that is ready for calls.
pub(super) struct Session {
    client: Client,
    /// Reads and writes the socket. It is polled only during calls.
    link: Link,
    statements: [Option<Statement>; QUERIES],
    /// The identity of the server. It can't change while a connection lasts: a restore needs a
    /// restart, and a promotion makes a standby writable, which is refused as long as it is one.
    pub(super) engine: EngineId,
    /// The host and port of the server, for messages.
    pub(super) name: String,
    /// The version of the server as a number: 150018 is 15.18.
    pub(super) version: u32,
}

impl Session {
    /// Connects to a server. The session is not set up yet.
    pub(super) async fn connect(server: &Server, tls: &MakeRustlsConnect) -> Result<Self, Failed> {
        let connected = server.config.connect(tls.clone()).await;
        let (client, link) =
            connected.map_err(|error| Failed::of(&error, Stage::Before, &server.name))?;
        Ok(Self {
            client,
            link,
            statements: Default::default(),
            engine: EngineId(0),
            name: server.name.clone(),
            version: 0,
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

    /// Prepares a statement, unless this connection has it.
    ///
    /// # Errors
    ///
    /// The statement was not sent.
    pub(super) async fn prepare(&mut self, schema: &Schema, query: Query) -> Result<(), Failed> {
        if self.statements[query as usize].is_none() {
            let sql = schema.within(query.sql());
            let prepared = self.run(|client| client.prepare(&sql)).await;
            let prepared =
                prepared.map_err(|error| Failed::of(&error, Stage::Before, &self.name))?;
            self.statements[query as usize] = Some(prepared);
        }
        Ok(())
    }

    /// Executes a prepared statement.
    ///
    /// # Errors
    ///
    /// [`LogError::Unknown`] if the statement may have been executed, also if the server gave a
    /// warning: a commit that reports success with a warning may be lost with its server.
    pub(super) async fn execute(
        &mut self,
        query: Query,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failed> {
        let statement = self.statements[query as usize].clone();
        let statement = statement.expect("the caller has prepared it");
        let quiet: Vec<Quiet<'_>> = parameters.iter().copied().map(Quiet).collect();
        let quiet: Vec<&(dyn ToSql + Sync)> = quiet.iter().map(|one| one as _).collect();
        let mut warnings = Vec::new();
        let rows = drive(
            &mut self.link,
            &mut warnings,
            self.client.query(&statement, &quiet),
        );
        let rows = rows.await;
        match (rows, warnings.is_empty()) {
            (Ok(rows), true) => Ok(rows),
            (Ok(_), false) => Err(Failed::closing(LogError::Unknown(format!(
                "{}: the outcome is not certain, because of a warning: {}",
                self.name,
                warnings.join("; ")
            )))),
            (Err(error), _) => Err(Failed::of(&error, Stage::Sent, &self.name)),
        }
    }

    pub(super) async fn batch(&mut self, statements: &str) -> Result<(), Failed> {
        let done = self.run(|client| client.batch_execute(statements)).await;
        done.map_err(|error| Failed::of(&error, Stage::Before, &self.name))
    }

    /// Returns the row of a query that has one.
    pub(super) async fn row(&mut self, query: &str) -> Result<SimpleQueryRow, Failed> {
        let messages = self.run(|client| client.simple_query(query)).await;
        let messages = messages.map_err(|error| Failed::of(&error, Stage::Before, &self.name))?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.ok_or_else(|| {
            let text = format!("{}: no answer to a query of its settings", self.name);
            Failed::closing(LogError::NotApplied(text))
        })
    }

    pub(super) async fn run<'a, T, F>(
        &'a mut self,
        work: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        drive(&mut self.link, &mut Vec::new(), work(&self.client)).await
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

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Session");
        f.field("name", &self.name).field("engine", &self.engine);
        f.finish_non_exhaustive()
    }
}

/// A parameter that the driver does not print: it logs all parameters at the level DEBUG, and a
/// batch contains lease ids.
struct Quiet<'a>(&'a (dyn ToSql + Sync));

impl fmt::Debug for Quiet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl ToSql for Quiet<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql_checked(kind, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql_checked(kind, out)
    }

    fn encode_format(&self, kind: &Type) -> Format {
        self.0.encode_format(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_can_not_log_a_parameter() {
        assert_eq!(format!("{:?}", Quiet(&"a lease id")), "..");
    }
}
