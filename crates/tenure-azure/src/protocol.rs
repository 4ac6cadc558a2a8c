//! The common part of client and server of the Azure Blob lease protocol: names and signatures.
//!
//! From "Authorize with Shared Key" and "Naming and referencing containers, blobs, and metadata" of the
//! Azure Storage REST API.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// The well-known account of emulators. **Everybody has its key.**
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The key of [`DEVELOPMENT_ACCOUNT`], in base64.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// How many characters the name of a container may have.
pub const CONTAINER_NAME: RangeInclusive<usize> = 3..=63;

/// Longest name of a blob, in characters.
pub const MAX_BLOB_NAME: usize = 1024;

/// The header with a request's date: it stands for `Date`, which not every client may set.
pub const DATE_HEADER: &str = "x-ms-date";

/// The headers that are signed before those of the service, in this order.
pub const SIGNED_HEADERS: [&str; 11] = [
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
const VERSION: &str = "x-ms-version";

/// Before this version of the service a `Content-Length` of 0 is signed as `0`, and from it on as nothing.
const LENGTH_CHANGED: &[u8] = b"2015-02-21";

/// Whether an account may have this name: 3 to 24 lower-case letters and digits.
#[must_use]
pub fn is_account(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=24).contains(&name.len()) && name.bytes().all(allowed)
}

/// Whether a container may have this name: 3 to 63 lower-case letters, digits and single hyphens between
/// them, or one of the service's own.
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

/// Whether a blob may have this name: 1 to [`MAX_BLOB_NAME`] characters.
#[must_use]
pub fn is_blob(name: &str) -> bool {
    (1..=MAX_BLOB_NAME).contains(&name.chars().count())
}

/// The signed parts of a request, as they are on the wire, without normalisation.
#[derive(Clone, Copy, Debug)]
pub struct SignedParts<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The account that signs.
    pub account: &'a str,
    /// The path of the URL, with its escapes.
    pub path: &'a str,
    /// The values of [`SIGNED_HEADERS`], in their order.
    pub headers: [Option<&'a [u8]>; SIGNED_HEADERS.len()],
}

/// The text that a Shared Key signs. `service` are all `x-ms-*` headers, in the order of [`collate`]; what
/// stands there several times is joined by commas. `query` are the query's names, in lower case, and
/// values, both decoded.
#[must_use]
pub fn text_to_sign<'a>(
    parts: &SignedParts<'_>,
    service: &[(&str, Vec<u8>)],
    query: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(parts.method.as_bytes());
    text.push(b'\n');
    let has_own_date = service.iter().any(|(name, _)| *name == DATE_HEADER);
    // Dates compare as text.
    let signs_no_length = service
        .iter()
        .any(|(name, version)| *name == VERSION && version.as_slice() < LENGTH_CHANGED);
    for (name, value) in SIGNED_HEADERS.into_iter().zip(parts.headers) {
        let value = value.unwrap_or_default().trim_ascii();
        let is_left_out = match name {
            CONTENT_LENGTH => value == b"0" && !signs_no_length,
            DATE => has_own_date,
            _ => false,
        };
        if !is_left_out {
            text.extend_from_slice(value);
        }
        text.push(b'\n');
    }
    for (name, value) in service {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text.push(b'/');
    text.extend_from_slice(parts.account.as_bytes());
    text.extend_from_slice(parts.path.as_bytes());
    let mut pairs: Vec<(&str, &str)> = query.collect();
    pairs.sort_unstable();
    for (name, value) in pairs {
        for part in ["\n", name, ":", value] {
            text.extend_from_slice(part.as_bytes());
        }
    }
    text
}

/// The service's order of names: hyphens count only where nothing else differs, and `_` comes before
/// digits, digits before letters.
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

    #[test]
    fn hyphens_count_only_where_nothing_else_differs() {
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
    fn a_date_of_the_service_s_own_stands_for_the_other_and_no_length_is_none() {
        let mut headers = [None; SIGNED_HEADERS.len()];
        headers[2] = Some(&b"0"[..]);
        headers[5] = Some(b"yesterday");
        headers[8] = Some(b" * ");
        let parts = SignedParts {
            method: "PUT",
            account: "acct",
            path: "/c/b%20",
            headers,
        };
        let query = [("comp", "lease"), ("a", "x y")];
        let dated = text_to_sign(
            &parts,
            &[(DATE_HEADER, b"today".to_vec())],
            query.into_iter(),
        );
        assert_eq!(
            dated,
            b"PUT\n\n\n\n\n\n\n\n\n*\n\n\nx-ms-date:today\n/acct/c/b%20\na:x y\ncomp:lease"
        );
        let undated = text_to_sign(&parts, &[], std::iter::empty());
        assert_eq!(
            undated,
            b"PUT\n\n\n\n\n\nyesterday\n\n\n*\n\n\n/acct/c/b%20"
        );
        for (version, length) in [("2014-02-14", "0"), ("2015-02-21", "")] {
            let version = [(VERSION, version.as_bytes().to_vec())];
            let text = text_to_sign(&parts, &version, std::iter::empty());
            let start = std::format!("PUT\n\n\n{length}\n\n\nyesterday\n");
            assert!(text.starts_with(start.as_bytes()), "{version:?}");
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
