//! Errors of PostgreSQL, as outcomes of a call.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::engine::shared::log::LogError;
use tenure_register::certificates::CertificateNames;

/// The names in messages about certificates.
const CERTIFICATES: CertificateNames = CertificateNames {
    service: "PostgreSQL",
    addresses: "host of the connection string",
    authorities: "postgres.ca_file",
    client: "sslcert and sslkey of the connection string",
    client_authorities: "ssl_ca_file of PostgreSQL",
};

/// Whether the statement of the call may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not yet: nothing was applied.
    Before,
    /// It was sent.
    Sent,
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: LogError,
    /// Whether the connection can be used again.
    pub(super) keeps_connection: bool,
}

impl Failed {
    /// A failure after which the connection is closed.
    pub(super) fn closing(error: LogError) -> Self {
        Self {
            error,
            keeps_connection: false,
        }
    }

    /// Returns the outcome of this error. `subject` names the server.
    pub(super) fn of(error: &tokio_postgres::Error, stage: Stage, subject: &str) -> Self {
        let Some(reported) = error.as_db_error() else {
            let text = format!("{subject}: {}", describe(error));
            // Without a client certificate the server answers with an error of its own.
            return Self::closing(match (stage, CERTIFICATES.explain(error, true)) {
                (Stage::Before, Some(reason)) => {
                    LogError::Misconfigured(format!("{subject}: {reason}"))
                }
                (Stage::Before, None) => LogError::NotApplied(text),
                (Stage::Sent, _) => LogError::Unknown(text),
            });
        };
        let is_session_alive = reported.parsed_severity() == Some(Severity::Error);
        let error = outcome(
            reported.code(),
            is_session_alive,
            stage,
            format!("{subject}: {}", text_of(reported)),
        );
        Self {
            // A server that became a standby is left for the next one of the connection string. So
            // is one whose head stays locked: a former primary that waits for its standby for ever
            // keeps that lock, and the standby may have been promoted.
            keeps_connection: is_session_alive
                && *reported.code() != SqlState::READ_ONLY_SQL_TRANSACTION
                && *reported.code() != SqlState::LOCK_NOT_AVAILABLE
                && !matches!(error, LogError::Unknown(_)),
            error,
        }
    }
}

/// Returns the outcome for an error of the server.
///
/// A statement that ends with an error of severity ERROR changed nothing, so those with a known
/// cause are definite. FATAL and PANIC end the session or the server, possibly in the middle of a
/// commit: for example the log of PostgreSQL can't be written because the disk is full.
fn outcome(code: &SqlState, is_error: bool, stage: Stage, text: String) -> LogError {
    let is_definite = is_error || stage == Stage::Before;
    match code.code() {
        _ if !is_definite => LogError::Unknown(text),
        "42501" => LogError::Misconfigured(format!(
            "{text}. The user needs the rights select, insert, update and delete on the tables of \
             the schema, and usage on the schema"
        )),
        "42P01" | "42703" | "42P10" | "3F000" => LogError::Misconfigured(format!(
            "{text}. The tables were changed or deleted: restart this server, which creates \
             missing tables"
        )),
        "3D000" => LogError::Misconfigured(format!(
            "{text}. Create the database, or set dbname in the connection string"
        )),
        code if code.starts_with("28") => LogError::Misconfigured(format!(
            "{text}. Check user and password in the connection string, and pg_hba.conf of the \
             server"
        )),
        "53100" => LogError::Full(format!("{text}. Give its disk more space")),
        // Read only, serialization failure, deadlock, a lock that was not available in time, too
        // many connections.
        "25006" | "40001" | "40P01" | "55P03" | "53300" => LogError::NotApplied(text),
        _ => match stage {
            // The server starts up or shuts down, or the set-up of the session failed.
            Stage::Before => LogError::NotApplied(text),
            Stage::Sent => LogError::Unknown(text),
        },
    }
}

/// Returns the message of the server, with its SQLSTATE.
pub(super) fn text_of(reported: &DbError) -> String {
    let detail = match reported.detail() {
        Some(detail) => format!(" ({detail})"),
        None => String::new(),
    };
    format!(
        "{}{detail} [{}]",
        reported.message(),
        reported.code().code()
    )
}

/// Returns an error of the driver with its causes.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str, is_error: bool, stage: Stage) -> LogError {
        outcome(&SqlState::from_code(code), is_error, stage, "text".into())
    }

    #[test]
    fn only_errors_with_a_known_cause_are_definite_after_the_statement_was_sent() {
        use Stage::{Before, Sent};
        let unknown = |error| matches!(error, LogError::Unknown(_));
        let misconfigured = |error| matches!(error, LogError::Misconfigured(_));
        let not_applied = |error| matches!(error, LogError::NotApplied(_));
        for code in ["28P01", "28000", "42501", "3D000", "42P01"] {
            assert!(misconfigured(of(code, true, Sent)), "{code}");
        }
        for code in ["25006", "40001", "53300", "55P03"] {
            assert!(not_applied(of(code, true, Sent)), "{code}");
        }
        assert!(matches!(of("53100", true, Sent), LogError::Full(_)));
        // Starting up, shutting down, a cancelled statement, a lost connection, an internal error,
        // an unknown completion, and an error that no version has.
        for code in [
            "57P03", "57P01", "57014", "08006", "XX000", "40003", "ZZ999",
        ] {
            assert!(unknown(of(code, true, Sent)), "{code}");
            assert!(not_applied(of(code, true, Before)), "{code}");
        }
    }

    #[test]
    fn an_error_that_ends_the_session_after_the_statement_was_sent_is_never_definite() {
        for code in ["53100", "28000", "42501", "40001", "53300"] {
            let error = of(code, false, Stage::Sent);
            assert!(matches!(error, LogError::Unknown(_)), "{code}: {error:?}");
        }
        // Before the statement, FATAL is how the server refuses a connection.
        let refused = of("28P01", false, Stage::Before);
        assert!(matches!(refused, LogError::Misconfigured(_)));
    }
}
