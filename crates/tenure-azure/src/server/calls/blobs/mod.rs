//! Blobs.

mod blocks;
mod read;
mod write;

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::server::error::{Error, INVALID_MD5, MD5_MISMATCH, REQUEST_BODY_TOO_LARGE, Result};
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

pub(in crate::server) fn too_large(size: impl std::fmt::Display, most: usize) -> Error {
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
