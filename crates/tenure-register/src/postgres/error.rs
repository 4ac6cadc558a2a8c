//! Errors of PostgreSQL, as outcomes of a call.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::tls::TlsNames;
use crate::{Failure, causes, describe};

/// The names in messages about certificates.
pub(super) const TLS: TlsNames = TlsNames {
    service: "PostgreSQL",
    authorities: "sslrootcert",
    client: ["sslcert", "sslkey"],
    client_authorities: "ssl_ca_file of PostgreSQL",
};

/// The driver's errors about the configuration, and what to change.
const REMEDIES: [(&str, &str); 2] = [
    (
        "password missing",
        "The server asks for a password: set PGPASSWORD, add a line for this server and user to ~/.pgpass, \
         or write the URL with the password into a file and name it in home_file",
    ),
    (
        "server does not support TLS",
        "Switch TLS on in PostgreSQL (ssl = on), or write sslmode=disable into home in a network that you \
         trust",
    ),
];

/// Whether the statement of the call may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not yet: nothing was applied.
    Before,
    /// It was sent.
    Sent,
}

/// Returns what is known about a call that failed with this error. `subject` names the server.
pub(super) fn failure(error: &tokio_postgres::Error, stage: Stage, subject: &str) -> Failure {
    let Some(reported) = error.as_db_error() else {
        let text = format!("{subject}: {}", describe(error));
        let cause = causes(error).last().map(ToString::to_string);
        let remedy = REMEDIES
            .iter()
            .find(|(known, _)| cause.as_deref() == Some(*known));
        if let (Stage::Before, Some((_, remedy))) = (stage, remedy) {
            return Failure::Misconfigured(format!("{text}. {remedy}"));
        }
        // Without a client certificate the server answers with an error of its own.
        return match (stage, TLS.explain(error, true)) {
            (Stage::Before, Some(reason)) => Failure::Misconfigured(format!("{subject}: {reason}")),
            (Stage::Before, None) => Failure::NotApplied(text),
            (Stage::Sent, _) => Failure::Unknown(text),
        };
    };
    let is_session_alive = reported.parsed_severity() == Some(Severity::Error);
    let text = format!("{subject}: {}", text_of(reported));
    outcome(reported.code(), is_session_alive, stage, text)
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
            "{text}. The tables were changed or deleted, and the log with them. Stop all servers, \
             and put the tables back from a backup of PostgreSQL, then: tenure cluster recover; or \
             restore a backup into another schema. A start creates empty tables: a new log would \
             grant epochs a second time"
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
    let detail = reported.detail().map(|detail| format!(" ({detail})"));
    format!(
        "{}{} [{}]",
        reported.message(),
        detail.unwrap_or_default(),
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
    fn deleted_tables_are_put_back_and_not_created_by_a_start() {
        for code in ["42P01", "42703", "42P10", "3F000"] {
            let text = of(code, true, Stage::Sent).to_string();
            assert!(
                text.contains("tenure cluster recover; or restore"),
                "{text}"
            );
            assert!(text.contains("would grant epochs a second time"), "{text}");
            assert!(!text.contains("restart"), "{text}");
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
