//! The meaning of etcd's refusals: whether a request was applied, and what the operator has to
//! change.

use serde_json::Value;

use super::EtcdAccess;
use crate::Failure;

/// The reason why a request to one member failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// This member can't be used, and has not applied the request. Another member may be usable.
    Member(Failure),
    /// etcd has definitely refused the request. Another member would refuse it, too.
    Refused(Failure),
    /// The token is missing, or no longer valid. The request was not applied.
    Token(String),
    /// The connection ended before an answer. The outcome is unknown.
    Cut(String),
    /// The outcome is unknown.
    Unknown(String),
}

const INVALID_ARGUMENT: u64 = 3;
const PERMISSION_DENIED: u64 = 7;
const RESOURCE_EXHAUSTED: u64 = 8;
const FAILED_PRECONDITION: u64 = 9;
const UNAUTHENTICATED: u64 = 16;

/// Returns the meaning of an answer that is not a success.
///
/// A refusal is definite only if it is in this list. All others leave the outcome unknown, because
/// etcd also answers with an error when a proposal may still be applied: `request timed out`,
/// `leader changed`, `unavailable`.
pub(super) fn meaning(
    access: &EtcdAccess,
    url: &str,
    path: &str,
    bytes: usize,
    status: u16,
    body: &[u8],
) -> Refusal {
    let text = String::from_utf8_lossy(body);
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = answer["message"].as_str().unwrap_or_default();
    let says = |part| message.contains(part);
    let said = format!("etcd at {url}: {message}");
    let (user, prefix) = (access.user.as_deref(), &access.prefix);
    let refused = |text: String| Refusal::Refused(Failure::Misconfigured(text));
    let member = |text| Refusal::Member(Failure::Misconfigured(text));
    match (status, answer["code"].as_u64().unwrap_or_default()) {
        (404, 0) => member(format!(
            "etcd at {url} answers 404 to {path}: its JSON gateway is off (--enable-grpc-gateway) \
             or on another port (--listen-client-http-urls)"
        )),
        (400, 0) if text.contains("HTTPS server") => member(format!(
            "etcd at {url} requires TLS: write etcds:// in home"
        )),
        (400, 0) if text.contains("CommonName") => refused(COMMON_NAME.into()),
        (_, UNAUTHENTICATED) => Refusal::Token(said),
        (_, INVALID_ARGUMENT) if says("auth store is old") => Refusal::Token(said),
        (_, INVALID_ARGUMENT) if says("user name is empty") => match user {
            Some(_) => Refusal::Token(said),
            None if access.certificate.is_some() => refused(COMMON_NAME.into()),
            None => {
                refused("etcd requires a user: write a user into home, and password_file".into())
            }
        },
        (_, INVALID_ARGUMENT) if says("authentication failed") => refused(format!(
            "etcd refuses the password of the user {}: correct the file password_file, which is \
             read again at the next attempt",
            user.unwrap_or_default()
        )),
        (_, INVALID_ARGUMENT) if says("too many operations") => refused(
            "etcd permits too few operations in a transaction: set its option --max-txn-ops to at \
             least 128, its default"
                .into(),
        ),
        (_, INVALID_ARGUMENT | RESOURCE_EXHAUSTED)
            if says("request is too large") || says("larger than max") =>
        {
            refused(format!(
                "etcd refuses a request of {bytes} bytes: set its option --max-request-bytes to at \
                 least 1572864, its default"
            ))
        }
        // The answer to an authentication.
        (_, FAILED_PRECONDITION) if says("authentication is not enabled") => {
            Refusal::Refused(Failure::NotApplied("etcd has no authentication".into()))
        }
        (_, PERMISSION_DENIED) if says("permission denied") => refused(format!(
            "the etcd user {} may not use {path} for keys below {prefix}: etcdctl role \
             grant-permission ROLE readwrite --prefix=true {prefix}",
            user.unwrap_or("of this connection")
        )),
        (_, RESOURCE_EXHAUSTED) if says("database space exceeded") => {
            Refusal::Refused(Failure::Full(
                "etcd has no space left: compact and defragment it or raise \
                 --quota-backend-bytes, and then run etcdctl alarm disarm"
                    .into(),
            ))
        }
        (_, RESOURCE_EXHAUSTED) if says("too many requests") => {
            Refusal::Member(Failure::NotApplied(said))
        }
        (_, 0) => Refusal::Unknown(format!(
            "{url} answers {status} to {path}: {}",
            beginning(&text)
        )),
        _ => Refusal::Unknown(said),
    }
}

const COMMON_NAME: &str = "etcd takes no client certificate with a common name at its gateway: write a user \
    into home, and password_file, or use a certificate without a common name";

/// Returns the beginning of a body that is not etcd's, in one line.
fn beginning(body: &str) -> String {
    let words: Vec<&str> = body.split_whitespace().collect();
    words.join(" ").chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meaning of an answer to a transaction of the user `tenure`.
    fn meaning(status: u16, body: &str) -> Refusal {
        let mut access = EtcdAccess::new(Vec::new());
        access.user = Some("tenure".into());
        let (url, path) = ("http://etcd:2379", "/v3/kv/txn");
        super::meaning(&access, url, path, 2_000_000, status, body.as_bytes())
    }

    fn answer(code: u32, message: &str) -> String {
        format!(r#"{{"error":"{message}","message":"{message}","code":{code}}}"#)
    }

    #[test]
    fn only_listed_refusals_are_definite() {
        for (status, code, message) in [
            (500, 2, "etcdserver: request timed out"),
            (503, 14, "etcdserver: leader changed"),
            (
                503,
                14,
                "etcdserver: request timed out, possibly due to previous leader failure",
            ),
            (503, 14, "etcdserver: no leader"),
            (503, 14, "transport is closing"),
            (504, 4, "context deadline exceeded"),
            (408, 1, "context canceled"),
            (400, 3, "etcdserver: something new"),
            (403, 7, "something new"),
            (429, 8, "something new"),
            (400, 9, "something new"),
        ] {
            let meaning = meaning(status, &answer(code, message));
            let expected = format!("etcd at http://etcd:2379: {message}");
            assert_eq!(meaning, Refusal::Unknown(expected), "{message}");
        }
    }

    #[test]
    fn the_answer_of_another_service_is_shown_in_one_line() {
        let page = format!("<html>\n  <p>Bad Gateway</p>{}", "x".repeat(1_000));
        let Refusal::Unknown(message) = meaning(502, &page) else {
            panic!("a definite refusal")
        };
        let begin = "http://etcd:2379 answers 502 to /v3/kv/txn: <html> <p>Bad Gateway</p>xxx";
        assert!(message.starts_with(begin), "{message}");
        assert!(message.len() < 200, "{message}");
    }

    #[test]
    fn an_overloaded_member_has_not_applied_the_request() {
        let meaning = meaning(429, &answer(8, "etcdserver: too many requests"));
        let message = "etcd at http://etcd:2379: etcdserver: too many requests".to_owned();
        assert_eq!(meaning, Refusal::Member(Failure::NotApplied(message)));
    }

    #[test]
    fn limits_that_were_lowered_are_named() {
        for (status, code, message, option) in [
            (
                400,
                3,
                "etcdserver: request is too large",
                "--max-request-bytes",
            ),
            (
                429,
                8,
                "grpc: received message larger than max (3 vs. 2)",
                "--max-request-bytes",
            ),
            (
                400,
                3,
                "etcdserver: too many operations in txn request",
                "--max-txn-ops",
            ),
        ] {
            let meaning = meaning(status, &answer(code, message));
            let Refusal::Refused(Failure::Misconfigured(text)) = meaning else {
                panic!("{meaning:?}")
            };
            assert!(text.contains(option), "{text}");
        }
    }

    #[test]
    fn a_token_of_an_older_revision_is_asked_for_again() {
        for (code, message) in [
            (16, "etcdserver: invalid auth token"),
            (3, "etcdserver: revision of auth store is old"),
            (3, "etcdserver: user name is empty"),
        ] {
            let meaning = meaning(400, &answer(code, message));
            assert!(matches!(meaning, Refusal::Token(_)), "{meaning:?}");
        }
    }
}
