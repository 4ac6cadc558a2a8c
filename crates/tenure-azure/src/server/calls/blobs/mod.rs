//! Blobs.

mod blocks;
mod read;
mod write;

use std::collections::BTreeMap;
use std::error::Error as _;

use axum::body::{Body as Stream, Bytes, HttpBody, to_bytes};
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::LengthLimitError;

use crate::server::call::Call;
use crate::server::error::{
    Error, INVALID_MD5, MD5_MISMATCH, MISSING_CONTENT_LENGTH_HEADER, OPERATION_TIMED_OUT,
    REQUEST_BODY_TOO_LARGE, Result,
};
use crate::server::headers::text;

pub(in crate::server) use self::blocks::{block_list, put_block, put_block_list};
pub(in crate::server) use self::read::{get, properties};
pub(in crate::server) use self::write::{delete, put, set_metadata, set_properties};

/// The names of the content headers in responses. Requests set them with the prefix `x-ms-blob-`.
const CONTENT: [&str; 6] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "content-md5",
    "cache-control",
];

/// Reads the content headers `x-ms-blob-*`.
fn content_headers(headers: &HeaderMap) -> Result<BTreeMap<String, String>> {
    let mut content = BTreeMap::new();
    for name in CONTENT {
        if let Some(value) = text(headers, &format!("x-ms-blob-{name}"))? {
            content.insert(name.into(), value.into());
        }
    }
    Ok(content)
}

fn too_large(size: impl std::fmt::Display, most: usize) -> Error {
    REQUEST_BODY_TOO_LARGE.because(format!(
        "it would have {size} bytes, at most {most} are allowed"
    ))
}

/// Checks the body against the client's hash, if the request has one.
fn check_md5(said: Option<&str>, body: &Bytes) -> Result<()> {
    let Some(said) = said else {
        return Ok(());
    };
    match BASE64_STANDARD.decode(said) {
        Ok(said) if said == md5::compute(body).0 => Ok(()),
        Ok(said) if said.len() == 16 => Err(MD5_MISMATCH.into()),
        _ => Err(INVALID_MD5.into()),
    }
}

/// Reads the complete body if it is small enough and arrives in time.
pub(in crate::server) async fn read(call: &Call, body: Stream, most: usize) -> Result<Bytes> {
    let size = body.size_hint();
    if size.exact().is_none() {
        return Err(MISSING_CONTENT_LENGTH_HEADER.into());
    }
    if size.lower() > most as u64 {
        return Err(too_large(size.lower(), most));
    }
    let time = call.service.store.limits().request_time;
    match tokio::time::timeout(time, to_bytes(body, most)).await {
        // A slice would keep the whole buffer of the connection in memory.
        Ok(Ok(body)) => Ok(Bytes::copy_from_slice(&body)),
        Ok(Err(error))
            if error
                .source()
                .is_some_and(|error| error.is::<LengthLimitError>()) =>
        {
            Err(too_large(format!("more than {most}"), most))
        }
        // The client probably does not receive this response.
        Ok(Err(_)) | Err(_) => Err(OPERATION_TIMED_OUT.into()),
    }
}
