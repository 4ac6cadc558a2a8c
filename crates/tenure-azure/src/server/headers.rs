//! The headers of requests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::HeaderMap;
use chrono::{DateTime, Utc};
use tenure_core::lease::LeaseId;

use crate::protocol::METADATA_PREFIX;

use super::error::{
    Error, INVALID_HEADER_VALUE, INVALID_METADATA, METADATA_TOO_LARGE, MISSING_REQUIRED_HEADER,
    Result, UNSUPPORTED_HEADER,
};

/// The metadata of a blob or a container, by name.
pub(super) type Metadata = BTreeMap<String, String>;

/// The greatest size of all names and values of metadata, in bytes, which is the service's limit.
const MAX_METADATA: usize = 8 * 1024;

/// Headers that are not supported and would change the meaning of a request.
const UNSUPPORTED: &[&str] = &[
    "x-ms-if-tags",
    "x-ms-source-if-match",
    "x-ms-copy-source",
    "x-ms-encryption-key",
    "x-ms-encryption-scope",
    "x-ms-immutability-policy-until-date",
    "x-ms-legal-hold",
    "x-ms-tags",
    "x-ms-structured-body",
];

/// Returns the value if the header exists. Refuses a duplicate header, because it is ambiguous.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid(name, "it is given twice"));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim())),
        Err(_) => Err(invalid(name, "it must be visible ASCII")),
    }
}

pub(super) fn required<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str> {
    text(headers, name)?.ok_or_else(|| MISSING_REQUIRED_HEADER.because(name))
}

pub(super) fn invalid(name: &str, reason: &str) -> Error {
    INVALID_HEADER_VALUE.because(format!("{name}: {reason}"))
}

/// Refuses headers that would otherwise be ignored silently.
pub(super) fn check_supported(headers: &HeaderMap) -> Result<()> {
    match UNSUPPORTED.iter().find(|name| headers.contains_key(**name)) {
        Some(name) => Err(UNSUPPORTED_HEADER.because(*name)),
        None => Ok(()),
    }
}

/// Returns the value if it exists and is not empty, because some clients send empty headers for
/// leases and conditions.
pub(super) fn given<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    Ok(text(headers, name)?.filter(|text| !text.is_empty()))
}

/// Returns the lease id in this header, if there is one.
pub(super) fn lease_id(headers: &HeaderMap, name: &str) -> Result<Option<LeaseId>> {
    let Some(text) = given(headers, name)? else {
        return Ok(None);
    };
    match guid(text) {
        Some(id) => Ok(Some(id)),
        // The error omits the value, because it may be a mistyped secret.
        None => Err(invalid(name, "it must be a GUID, and not the nil one")),
    }
}

/// Parses a GUID in one of the formats of .NET: D, N, B, P or X.
fn guid(text: &str) -> Option<LeaseId> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_hexdigit() || c == '{');
    if text.starts_with("{0x") || text.starts_with("{0X") {
        return of_parts(text);
    }
    if let Some(inner) = text.strip_prefix('(') {
        // The format D has 36 characters.
        let inner = inner.strip_suffix(')').filter(|inner| inner.len() == 36)?;
        return inner.parse().ok();
    }
    text.parse().ok().filter(|_| is_plain)
}

/// Parses the format `{0x00000000,0x0000,0x0000,{0x00,0x00,0x00,0x00,0x00,0x00,0x00,0x00}}`.
fn of_parts(text: &str) -> Option<LeaseId> {
    let text = text.strip_prefix('{')?.strip_suffix("}}")?;
    let (first, last) = text.split_once(",{")?;
    let parts: Vec<&str> = first.split(',').chain(last.split(',')).collect();
    let widths = [8, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2];
    if first.split(',').count() != 3 || parts.len() != widths.len() {
        return None;
    }
    let mut digits = String::with_capacity(32);
    for (part, width) in parts.into_iter().zip(widths) {
        let part = part.trim().to_ascii_lowercase();
        let hex = part.strip_prefix("0x").filter(|hex| hex.len() <= width)?;
        let number = u32::from_str_radix(hex, 16).ok()?;
        let _ = write!(digits, "{number:0width$x}");
    }
    digits.parse().ok()
}

/// Returns all headers `x-ms-meta-*`, with names in lower case.
pub(super) fn metadata(headers: &HeaderMap) -> Result<Metadata> {
    let mut metadata = Metadata::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(METADATA_PREFIX) else {
            continue;
        };
        let is_identifier = name.bytes().enumerate().all(|(at, byte)| {
            byte.is_ascii_alphabetic() || byte == b'_' || (at > 0 && byte.is_ascii_digit())
        });
        let value = value.to_str().map_err(|_| INVALID_METADATA)?.trim();
        if name.is_empty() || !is_identifier {
            return Err(INVALID_METADATA.because(format!("{name:?} is not a C# identifier")));
        }
        bytes += name.len() + value.len();
        let value = match metadata.remove(name) {
            Some(earlier) => format!("{earlier},{value}"),
            None => value.to_owned(),
        };
        metadata.insert(name.to_owned(), value);
    }
    if bytes > MAX_METADATA {
        return Err(METADATA_TOO_LARGE.because(format!(
            "it has {bytes} bytes, at most {MAX_METADATA} are allowed"
        )));
    }
    Ok(metadata)
}

/// Parses a date in the format of HTTP.
pub(super) fn date(text: &str) -> Option<DateTime<Utc>> {
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(date.with_timezone(&Utc))
}

/// Formats a date for HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_date(date: DateTime<Utc>) -> String {
    date.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_of_a_guid_are_the_same_id() {
        let id = guid("6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10");
        assert!(id.is_some());
        for format in [
            "6F1C9A64-3A52-4C0E-9D43-0D7F5B1F2A10",
            "6f1c9a643a524c0e9d430d7f5b1f2a10",
            "{6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10}",
            "(6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10)",
            "{0x6f1c9a64,0x3a52,0x4c0e,{0x9d,0x43,0xd,0x7f,0x5b,0x1f,0x2a,0x10}}",
        ] {
            assert_eq!(guid(format), id, "{format}");
        }
        for bad in [
            "",
            "x",
            "(6f1c9a643a524c0e9d430d7f5b1f2a10)",
            "urn:uuid:6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10",
            "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a1",
            "{0x6f1c9a64,0x3a52,0x4c0e,{0x9d,0x43,0xd,0x7f,0x5b,0x1f,0x2a}}",
            "{0x6f1c9a64,0x3a52,0x4c0e,{0x9d,0x43,0xdd1,0x7f,0x5b,0x1f,0x2a,0x10}}",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(guid(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_written_date_is_read_back() {
        let text = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(http_date(date(text).unwrap()), text);
        assert_eq!(date("yesterday"), None);
    }
}
