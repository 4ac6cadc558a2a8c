//! Errors of PostgreSQL, as outcomes of a call.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::certificates::CertificateNames;
use crate::{Failure, describe};

/// The names in messages about certificates.
const CERTIFICATES: CertificateNames = CertificateNames {
    service: "PostgreSQL",
    authorities: "sslrootcert",
    client: "sslcert and sslkey",
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
pub(super) struct PostgresFailure {
    /// What is known about the call.
    pub(super) error: Failure,
    /// Whether the connection can be used again.
    pub(super) keeps_connection: bool,
}

impl PostgresFailure {
    /// Returns a failure after which the connection is closed.
    pub(super) const fn closing(error: Failure) -> Self {
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
                    Failure::Misconfigured(format!("{subject}: {reason}"))
                }
                (Stage::Before, None) => Failure::NotApplied(text),
                (Stage::Sent, _) => Failure::Unknown(text),
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
            // is one on which a row stays locked: a former primary that waits for its standby for
            // ever keeps that lock, and the standby may have been promoted.
            keeps_connection: is_session_alive
                && !["25006", "55000", "55P03"].contains(&reported.code().code())
                && !matches!(error, Failure::Unknown(_)),
            error,
        }
    }
}

/// Returns the outcome for an error of the server.
///
/// A statement that ends with an error of severity ERROR changed nothing, so those with a known
/// cause are definite. FATAL and PANIC end the session or the server, possibly in the middle of a
/// commit: for example the log of PostgreSQL can't be written because the disk is full.
fn outcome(code: &SqlState, is_error: bool, stage: Stage, text: String) -> Failure {
    let is_definite = is_error || stage == Stage::Before;
    match code.code() {
        _ if !is_definite => Failure::Unknown(text),
        "42501" => Failure::Misconfigured(format!(
            "{text}. The user needs the rights select, insert, update and delete on the tables of \
             the schema, and usage on the schema"
        )),
        "42P01" | "42703" | "42P10" | "3F000" => Failure::Misconfigured(format!(
            "{text}. The tables were changed or deleted: restart this program, which creates \
             missing tables"
        )),
        "3D000" => Failure::Misconfigured(format!(
            "{text}. Create the database, or set dbname in the connection string"
        )),
        code if code.starts_with("28") => Failure::Misconfigured(format!(
            "{text}. Check user and password in the connection string, and pg_hba.conf of the \
             server"
        )),
        "53100" => Failure::Full(format!("{text}. Give its disk more space")),
        // Read only, a standby, serialization failure, deadlock, a lock that was not available in
        // time, too many connections.
        "25006" | "55000" | "40001" | "40P01" | "55P03" | "53300" => Failure::NotApplied(text),
        _ => match stage {
            // The server starts up or shuts down, or the set-up of the session failed.
            Stage::Before => Failure::NotApplied(text),
            Stage::Sent => Failure::Unknown(text),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str, is_error: bool, stage: Stage) -> Failure {
        outcome(&SqlState::from_code(code), is_error, stage, "text".into())
    }

    #[test]
    fn only_errors_with_a_known_cause_are_definite_after_the_statement_was_sent() {
        use Stage::{Before, Sent};
        let unknown = |error| matches!(error, Failure::Unknown(_));
        let misconfigured = |error| matches!(error, Failure::Misconfigured(_));
        let not_applied = |error| matches!(error, Failure::NotApplied(_));
        for code in ["28P01", "28000", "42501", "3D000", "42P01"] {
            assert!(misconfigured(of(code, true, Sent)), "{code}");
        }
        for code in ["25006", "55000", "40001", "53300", "55P03"] {
            assert!(not_applied(of(code, true, Sent)), "{code}");
        }
        assert!(matches!(of("53100", true, Sent), Failure::Full(_)));
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
            assert!(matches!(error, Failure::Unknown(_)), "{code}: {error:?}");
        }
        // Before the statement, FATAL is how the server refuses a connection.
        let refused = of("28P01", false, Stage::Before);
        assert!(matches!(refused, Failure::Misconfigured(_)));
    }
}
