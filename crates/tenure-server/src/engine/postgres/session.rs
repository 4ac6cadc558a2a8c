//! A session with its prepared statements.

use std::fmt;

use tenure_core::ownership::EngineId;
use tenure_register::postgres::{PostgresFailure, PostgresSchema, PostgresSession};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::identity::engine_id;
use super::schema::{QUERIES, Query};
use crate::engine::shared::log::LogError;

/// A session that is ready for calls.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: PostgresSession,
    statements: [Option<Statement>; QUERIES],
    /// The identity of the server.
    pub(super) engine: EngineId,
}

impl Session {
    pub(super) fn new(connection: PostgresSession) -> Result<Self, LogError> {
        let identity = connection.identity.as_str();
        let engine = engine_id(identity).ok_or_else(|| {
            let name = &connection.name;
            LogError::NotApplied(format!("{name}: its identity has another form: {identity}"))
        })?;
        Ok(Self {
            connection,
            statements: Default::default(),
            engine,
        })
    }

    /// Prepares a statement, unless this connection has it.
    ///
    /// # Errors
    ///
    /// The statement was not sent.
    pub(super) async fn prepare(
        &mut self,
        schema: &PostgresSchema,
        query: Query,
    ) -> Result<(), PostgresFailure> {
        if self.statements[query as usize].is_none() {
            let sql = schema.within(query.sql());
            let prepared = self.connection.run(|client| client.prepare(&sql)).await;
            let prepared = prepared.map_err(|error| self.connection.not_ready(&error))?;
            self.statements[query as usize] = Some(prepared);
        }
        Ok(())
    }

    /// Executes a prepared statement.
    ///
    /// # Errors
    ///
    /// [`LogError::Unknown`] if the statement may have been executed.
    pub(super) async fn execute(
        &mut self,
        query: Query,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresFailure> {
        let statement = self.statements[query as usize].clone();
        let statement = statement.expect("the caller has prepared it");
        let quiet: Vec<Quiet<'_>> = parameters.iter().copied().map(Quiet).collect();
        let quiet: Vec<&(dyn ToSql + Sync)> = quiet.iter().map(|one| one as _).collect();
        let rows = self
            .connection
            .send(|client| client.query(&statement, &quiet));
        rows.await
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
