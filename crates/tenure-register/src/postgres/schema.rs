//! The schema of the tables.

use crate::Failure;

/// A schema of PostgreSQL with its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostgresSchema {
    name: String,
    quoted: String,
}

/// A page has room for several versions of each row, and values are stored as they are: an entry is
/// compressed already.
const TABLES: &str = "
    create table if not exists {s}.register (
        key text collate \"C\" primary key, version text not null, value bytea not null
    ) with (fillfactor = 50);
    create table if not exists {s}.file (
        name text collate \"C\" primary key, content bytea not null
    );
    alter table {s}.register alter value set storage external;
    alter table {s}.file alter content set storage external;
";

impl PostgresSchema {
    /// Creates a schema with this name.
    ///
    /// # Errors
    ///
    /// PostgreSQL permits no such name. The message says what is right.
    pub(super) fn new(name: &str) -> Result<Self, Failure> {
        // PostgreSQL cuts longer names without an error.
        if name.is_empty() || name.len() > 63 || name.contains('\0') || name.starts_with("pg_") {
            return Err(Failure::Misconfigured(format!(
                "schema={name} is not a name for a schema: use 1 to 63 bytes that do \
                 not begin with pg_, for example \"tenure\""
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            quoted: format!("\"{}\"", name.replace('"', "\"\"")),
        })
    }

    pub(super) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// Returns the name as a string in a statement.
    fn literal(&self) -> String {
        format!(
            "E'{}'",
            self.name.replace('\\', "\\\\").replace('\'', "\\'")
        )
    }

    /// Returns a statement with this schema in place of each `{s}`.
    pub(super) fn within(&self, statement: &str) -> String {
        statement.replace("{s}", &self.quoted)
    }

    /// Returns the query for the properties of a server. It has one row.
    pub(super) fn inspect(&self) -> String {
        let schema = self.literal();
        format!(
            "select current_setting('server_version_num'),
                current_setting('fsync'),
                current_setting('server_encoding'),
                pg_is_in_recovery(),
                current_setting('transaction_read_only'),
                exists (select from pg_namespace where nspname = {schema}),
                current_database(),
                (select count(*) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
                    where nspname = {schema} and relname in ('register', 'file')) = 2"
        )
    }

    /// Returns the statements that create everything. They are one transaction.
    pub(super) fn create(&self, has_schema: bool) -> String {
        let create_schema = match has_schema {
            true => "",
            false => "create schema {s};",
        };
        self.within(&[create_schema, TABLES].concat())
    }

    /// Returns the statement for an administrator.
    pub(super) fn grant(&self, has_schema: bool, user: &str) -> String {
        let (schema, user) = (&self.quoted, user.replace('"', "\"\""));
        match has_schema {
            true => format!("grant usage, create on schema {schema} to \"{user}\""),
            false => format!("create schema {schema} authorization \"{user}\""),
        }
    }
}
