//! The access to PostgreSQL.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::Settings;
use crate::Failure;

/// The access to PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresAccess {
    /// The URL, or the file with it. Settings that it lacks come from `PG*` and the password file.
    pub url: PostgresUrl,
    /// The schema of the tables.
    pub schema: String,
    /// Whether a promoted standby has every acknowledged commit.
    pub failover: Failover,
}

/// The connection string of PostgreSQL: a URL.
#[derive(Clone, PartialEq, Eq)]
pub enum PostgresUrl {
    /// A file that contains it. It is read again at each connection.
    File(PathBuf),
    /// The string itself, which may contain a password.
    Text(String),
}

/// What a fail-over of PostgreSQL to another machine may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// There is no fail-over, or it may lose commits: a promoted server has another identity.
    #[default]
    None,
    /// The operator guarantees that a promoted server has every acknowledged commit, and that the
    /// former primary acknowledges nothing after it.
    Lossless,
}

impl PostgresAccess {
    /// The default of [`PostgresAccess::schema`].
    pub const SCHEMA: &str = "tenure";

    /// Creates the access by this connection string, with the defaults of all other values.
    #[must_use]
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            schema: Self::SCHEMA.into(),
            failover: Failover::default(),
        }
    }

    /// Reads the connection string and the files that it names.
    pub(super) fn read(&self, attempt: Duration) -> Result<(Settings, MakeRustlsConnect), Failure> {
        let (place, text) = match &self.url {
            PostgresUrl::File(path) => {
                let place = format!("home_file: {}", path.display());
                (place, fs::read_to_string(path))
            }
            PostgresUrl::Text(text) => ("home".to_owned(), Ok(text.clone())),
        };
        let wrong = |error| Failure::Misconfigured(format!("{place}: {error}"));
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let variable = |name: &str| std::env::var(name).ok();
        let settings = Settings::parse(&text, attempt, variable).map_err(wrong)?;
        let tls = MakeRustlsConnect::new(settings.tls.config().map_err(wrong)?);
        Ok((settings, tls))
    }
}

/// The password in a connection string must not be in a log.
impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}
