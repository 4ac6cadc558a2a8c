//! "Get Blob", "Get Blob Properties" and "Get Blob Metadata".

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::CONTENT;
use crate::protocol::BLOB_TYPE;
use crate::server::access::BlobAccess;
use crate::server::auth::Grant;
use crate::server::blobs::{Body, Item};
use crate::server::call::Call;
use crate::server::calls::{answer, set, set_lease, set_metadata};
use crate::server::conditions::Conditions;
use crate::server::error::{INVALID_RANGE, Result, UNSUPPORTED_HEADER};
use crate::server::headers::{given, http_date, invalid, text};
use tenure_server::{AccessEffect, LeaseSnapshot};

const HASHED: &str = "x-ms-range-get-content-md5";

/// The greatest size of a range with a hash, in bytes, which is the service's limit.
const MAX_HASHED: u64 = 4 << 20;

/// The parameters of a service SAS that override content headers.
const OVERRIDES: [(&str, &str); 5] = [
    ("rscc", "cache-control"),
    ("rscd", "content-disposition"),
    ("rsce", "content-encoding"),
    ("rscl", "content-language"),
    ("rsct", "content-type"),
];

/// "Get Blob".
pub(in crate::server) async fn get(call: Call) -> Result<Response> {
    let (blob, snapshot) = read_blob(&call).await?;
    let range = range(&call.head.headers)?;
    let len = blob.body.len();
    let (first, count) = match range {
        None => (0, len),
        Some((first, _)) if first >= len => return Err(INVALID_RANGE.of_size(len)),
        Some((first, last)) => (first, last.map_or(len, |last| len.min(last + 1)) - first),
    };
    let is_hashed = asks_for_hash(&call.head.headers)?;
    if is_hashed && (range.is_none() || count > MAX_HASHED) {
        let reason = format!("it needs a range of at most {MAX_HASHED} bytes");
        return Err(invalid(HASHED, &reason));
    }
    let to = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let bytes = match &blob.body {
        Body::Block(bytes) => bytes.slice(to(first)..to(first + count)),
        Body::Page(_) => Bytes::from(vec![0; to(count)]),
    };
    let mut response = described(&call, &blob, snapshot);
    let headers = response.headers_mut();
    set(headers, "content-length", count);
    if range.is_some() {
        let last = first + count - 1;
        set(
            headers,
            "content-range",
            format_args!("bytes {first}-{last}/{len}"),
        );
        // The hash of the complete blob is not the hash of the range.
        if let Some(md5) = headers.remove("content-md5") {
            headers.insert("x-ms-blob-content-md5", md5);
        }
        if is_hashed {
            let md5 = BASE64_STANDARD.encode(md5::compute(&bytes).0);
            set(headers, "content-md5", md5);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    *response.body_mut() = bytes.into();
    Ok(response)
}

/// "Get Blob Properties" and "Get Blob Metadata".
pub(in crate::server) async fn properties(call: Call) -> Result<Response> {
    let (blob, snapshot) = read_blob(&call).await?;
    let mut response = described(&call, &blob, snapshot);
    if call.head.method == Method::HEAD {
        set(response.headers_mut(), "content-length", blob.body.len());
    }
    Ok(response)
}

async fn read_blob(call: &Call) -> Result<(Arc<Item>, LeaseSnapshot)> {
    let conditions = Conditions::of(&call.head.headers)?;
    let blob = call.existing()?;
    conditions.check_read(&blob)?;
    let access = call.check_access(BlobAccess::Read, AccessEffect::Keep);
    Ok((blob, access.await?))
}

/// Returns a response with all headers that describe the blob.
fn described(call: &Call, blob: &Item, snapshot: LeaseSnapshot) -> Response {
    let mut response = answer(StatusCode::OK, blob);
    let headers = response.headers_mut();
    for name in CONTENT {
        if let Some(value) = blob.content.get(name) {
            set(headers, name, value);
        }
    }
    if matches!(call.grant, Grant::Service { .. }) {
        // These parameters are part of the signature.
        for (parameter, name) in OVERRIDES {
            if let Some(value) = call.query.get(parameter) {
                set(headers, name, value);
            }
        }
    }
    set(headers, "accept-ranges", "bytes");
    set(headers, "x-ms-creation-time", http_date(blob.created()));
    set(headers, BLOB_TYPE, blob.body.kind());
    if matches!(blob.body, Body::Page(_)) {
        set(headers, "x-ms-blob-sequence-number", 0);
    }
    // The store encrypts no data.
    set(headers, "x-ms-server-encrypted", false);
    set_metadata(headers, &blob.metadata);
    set_lease(headers, snapshot);
    response
}

/// Returns whether the response must contain the MD5 hash of the range.
fn asks_for_hash(headers: &HeaderMap) -> Result<bool> {
    let other = "x-ms-range-get-content-crc64";
    if headers.contains_key(other) {
        return Err(UNSUPPORTED_HEADER.because(other));
    }
    match given(headers, HASHED)? {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(_) => Err(invalid(HASHED, "it must be true or false")),
    }
}

/// Parses the header `bytes=FIRST-LAST` or `bytes=FIRST-`.
fn range(headers: &HeaderMap) -> Result<Option<(u64, Option<u64>)>> {
    let name = ["x-ms-range", "range"]
        .into_iter()
        .find(|name| headers.contains_key(*name));
    let Some(name) = name else {
        return Ok(None);
    };
    let range = text(headers, name)?.unwrap_or_default();
    let parsed = || {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first = first.parse::<u64>().ok()?;
        let last = match last {
            "" => None,
            last => Some(last.parse::<u64>().ok().filter(|last| *last >= first)?),
        };
        // The end of the range is this number plus 1, which must not overflow.
        Some((first, last.map(|last| last.min(u64::MAX - 1))))
    };
    match parsed() {
        Some(range) => Ok(Some(range)),
        None => Err(invalid(name, "it must be bytes=FIRST-LAST or bytes=FIRST-")),
    }
}
