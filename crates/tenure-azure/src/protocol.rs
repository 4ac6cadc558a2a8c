//! The names and signatures that client and server of the Azure Blob lease protocol share.
//!
//! The sources are "Authorize with Shared Key" and "Naming and referencing containers, blobs, and
//! metadata" of the Azure Storage REST API.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use http::{HeaderMap, HeaderName};

/// The well-known account of emulators. **Its key is public.**
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The key of [`DEVELOPMENT_ACCOUNT`], in base64.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The number of characters in the name of a container.
pub const CONTAINER_NAME: RangeInclusive<usize> = 3..=63;

/// The length of the longest name of a blob, in characters.
pub const MAX_BLOB_NAME: usize = 1024;

/// The header with a request's date. It replaces `Date`, which some clients can't set.
pub const DATE_HEADER: &str = "x-ms-date";

/// The header with the version of the protocol.
pub const VERSION: &str = "x-ms-version";

/// The header with the client's id of a request.
pub const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";

/// The header of an answer with the service's id of the request.
pub const REQUEST_ID: &str = "x-ms-request-id";

/// The header of an answer with the error code.
pub const ERROR_CODE: &str = "x-ms-error-code";

/// The header with the type of a blob.
pub const BLOB_TYPE: &str = "x-ms-blob-type";

/// The header with an operation on a lease.
pub const LEASE_ACTION: &str = "x-ms-lease-action";

/// The header of a request with the duration of a lease, and of an answer with its kind.
pub const LEASE_DURATION: &str = "x-ms-lease-duration";

/// The header with the lease id.
pub const LEASE_ID: &str = "x-ms-lease-id";

/// The header with the lease id that a client proposes.
pub const PROPOSED_LEASE_ID: &str = "x-ms-proposed-lease-id";

/// The header with the state of a lease.
pub const LEASE_STATE: &str = "x-ms-lease-state";

/// The prefix of a header with metadata.
pub const METADATA_PREFIX: &str = "x-ms-meta-";

/// The headers that are signed before the `x-ms-*` headers, in this order.
const SIGNED_HEADERS: [&str; 11] = [
    "content-encoding",
    "content-language",
    CONTENT_LENGTH,
    "content-md5",
    "content-type",
    DATE,
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

const CONTENT_LENGTH: &str = "content-length";
const DATE: &str = "date";

/// Versions of the service before this one sign a `Content-Length` of 0 as `0`. Later versions sign
/// it as an empty text.
const LENGTH_CHANGED: &[u8] = b"2015-02-21";

/// Returns whether an account may have this name, which consists of 3 to 24 lower-case letters and
/// digits.
#[must_use]
pub fn is_account(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=24).contains(&name.len()) && name.bytes().all(allowed)
}

/// Returns whether a container may have this name, which consists of 3 to 63 lower-case letters,
/// digits and single hyphens between them, or is one of the service's own names.
#[must_use]
pub fn is_container(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    matches!(name, "$root" | "$web" | "$logs")
        || (CONTAINER_NAME.contains(&name.len())
            && name.bytes().all(allowed)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.contains("--"))
}

/// Returns whether a blob may have this name, which has 1 to [`MAX_BLOB_NAME`] characters.
#[must_use]
pub fn is_blob(name: &str) -> bool {
    (1..=MAX_BLOB_NAME).contains(&name.chars().count())
}

/// Returns the text that a Shared Key of this account signs. It is the request as sent, without
/// normalisation. `path` is the path of the URL with its escapes. `order` is the order of the
/// `x-ms-*` headers, usually [`collate`]; commas join repeated headers. `query` contains the names
/// of the query in lower case and its values, both decoded.
#[must_use]
pub fn text_to_sign<'a>(
    method: &str,
    account: &str,
    path: &str,
    headers: &HeaderMap,
    order: impl Fn(&str, &str) -> Ordering,
    query: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(method.as_bytes());
    text.push(b'\n');
    let value = |name| Some(headers.get(name)?.as_bytes().trim_ascii());
    // Versions are dates, which compare as text.
    let signs_no_length = value(VERSION).is_some_and(|version| version < LENGTH_CHANGED);
    for name in SIGNED_HEADERS {
        let value = value(name).unwrap_or_default();
        let is_left_out = match name {
            CONTENT_LENGTH => value == b"0" && !signs_no_length,
            DATE => headers.contains_key(DATE_HEADER),
            _ => false,
        };
        if !is_left_out {
            text.extend_from_slice(value);
        }
        text.push(b'\n');
    }
    let names = headers.keys().map(HeaderName::as_str);
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("x-ms-")).collect();
    names.sort_unstable_by(|a, b| order(a, b));
    for name in names {
        text.extend_from_slice(name.as_bytes());
        let values = headers.get_all(name).iter();
        let values: Vec<&[u8]> = values.map(|value| value.as_bytes().trim_ascii()).collect();
        text.push(b':');
        text.extend_from_slice(&values.join(&b","[..]));
        text.push(b'\n');
    }
    text.push(b'/');
    text.extend_from_slice(account.as_bytes());
    text.extend_from_slice(path.as_bytes());
    let mut pairs: Vec<(&str, &str)> = query.collect();
    pairs.sort_unstable();
    for (name, value) in pairs {
        for part in ["\n", name, ":", value] {
            text.extend_from_slice(part.as_bytes());
        }
    }
    text
}

/// Compares names in the order of the service: hyphens count only if nothing else differs, and `_`
/// comes before digits, digits before letters.
#[must_use]
pub fn collate(a: &str, b: &str) -> Ordering {
    let weight = |byte: u8| match byte {
        b'_' => (1, byte),
        b'0'..=b'9' => (2, byte),
        b'a'..=b'z' => (3, byte),
        _ => (0, byte),
    };
    fn words(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(|byte| *byte != b'-')
    }
    fn hyphens_last(name: &str) -> impl Iterator<Item = u8> {
        let last = |byte| if byte == b'-' { u8::MAX } else { byte };
        name.bytes().map(last)
    }
    words(a)
        .map(weight)
        .cmp(words(b).map(weight))
        .then_with(|| hyphens_last(a).cmp(hyphens_last(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn hyphens_count_only_if_nothing_else_differs() {
        let mut names = [
            "x-ms-blob-type",
            "x-ms-blobtype",
            "x-ms-blob-content-type",
            "x-ms-blobs",
        ];
        names.sort_by(|a, b| collate(a, b));
        assert_eq!(
            names,
            [
                "x-ms-blob-content-type",
                "x-ms-blobs",
                "x-ms-blobtype",
                "x-ms-blob-type",
            ]
        );
    }

    #[test]
    fn the_header_x_ms_date_replaces_date_and_a_length_of_zero_is_not_signed() {
        let text = |headers: &[(&'static str, &'static str)], query: &[(&str, &str)]| {
            let always = [
                ("content-length", "0"),
                ("date", "yesterday"),
                ("if-none-match", " * "),
            ];
            let headers = always.iter().chain(headers).map(|(name, value)| {
                let value = HeaderValue::from_static(value);
                (HeaderName::from_static(name), value)
            });
            let (headers, query) = (headers.collect(), query.iter().copied());
            let text = text_to_sign("PUT", "acct", "/c/b%20", &headers, collate, query);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            text(
                &[(DATE_HEADER, "today")],
                &[("comp", "lease"), ("a", "x y")]
            ),
            "PUT\n\n\n\n\n\n\n\n\n*\n\n\nx-ms-date:today\n/acct/c/b%20\na:x y\ncomp:lease"
        );
        assert_eq!(
            text(&[], &[]),
            "PUT\n\n\n\n\n\nyesterday\n\n\n*\n\n\n/acct/c/b%20"
        );
        for (version, length) in [("2014-02-14", "0"), ("2015-02-21", "")] {
            let start = std::format!("PUT\n\n\n{length}\n\n\nyesterday\n");
            let text = text(&[(VERSION, version)], &[]);
            assert!(text.starts_with(&start), "{version}");
        }
    }

    #[test]
    fn names_that_the_service_refuses_are_refused() {
        for good in ["abc", "a-b", "123", "$root", &"a".repeat(63)] {
            assert!(is_container(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "", "ab", "Abc", "-ab", "ab-", "a--b", "a_b", "a.b", "$x", &long,
        ] {
            assert!(!is_container(bad), "{bad}");
        }
        assert!(is_blob(&"ä".repeat(1024)) && !is_blob(&"a".repeat(1025)) && !is_blob(""));
        assert!(is_account(DEVELOPMENT_ACCOUNT) && !is_account("v1") && !is_account("my-own"));
    }
}
