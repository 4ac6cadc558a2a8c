//! "Put Blob", "Set Blob Metadata", "Set Blob Properties" and "Delete Blob".

use std::sync::Arc;

use crate::server::access::BlobAccess;
use axum::body::{Body as Stream, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use super::{CONTENT, check_md5, content_headers, read, too_large};
use crate::server::auth::{Kind, Need};
use crate::server::blobs::{
    Blob, BlobChange, Block, Body, ContentHeaders, Stamp, Version, WriteLock,
};
use crate::server::call::Call;
use crate::server::calls::{answer, mark_unencrypted};
use crate::server::conditions::Conditions;
use crate::server::error::{BLOB_ALREADY_EXISTS, BLOB_NOT_FOUND, Result, UNSUPPORTED_HEADER};
use crate::server::headers::{Metadata, given, invalid, metadata, required, text};
use tenure_server::AccessEffect;

/// The header that says whether the service encrypted a write.
pub(super) const WRITTEN: &str = "x-ms-request-server-encrypted";

const DEFAULT_TYPE: &str = "application/octet-stream";

/// "Put Blob".
pub(in crate::server) async fn put(call: Call, body: Stream) -> Result<Response> {
    let headers = &call.headers;
    let conditions = Conditions::of(headers)?;
    let metadata = metadata(headers)?;
    let mut content = content_headers(headers)?;
    for name in CONTENT {
        // A content header of the request counts if there is none of the blob.
        if let (false, Some(value)) = (content.0.contains_key(name), text(headers, name)?) {
            content.0.insert(name.into(), value.into());
        }
    }
    let kind = required(headers, "x-ms-blob-type")?.to_owned();
    let sent = read(&call, body, call.service.max_blob_bytes).await?;
    let md5 = match kind.as_str() {
        // A content header of the blob has precedence over one of the request.
        "BlockBlob" => content.0.get("content-md5").map(String::as_str),
        // A page blob is created without a body: the headers describe later writes.
        _ => text(headers, "content-md5")?,
    };
    check_md5(md5, &sent)?;
    let body = match kind.as_str() {
        "BlockBlob" => Body::Block(sent),
        "PageBlob" => Body::Page(page_length(&call, &sent)?),
        "AppendBlob" => {
            return Err(UNSUPPORTED_HEADER.because("x-ms-blob-type: there are no append blobs"));
        }
        _ => {
            let reason = "it must be BlockBlob or PageBlob";
            return Err(invalid("x-ms-blob-type", reason));
        }
    };
    let parts = Parts {
        content,
        metadata,
        conditions,
    };
    commit(&call, parts, |_| Ok((body, Arc::default()))).await
}

/// A write of a blob apart from its bytes, with its conditions.
pub(super) struct Parts {
    pub(super) content: ContentHeaders,
    pub(super) metadata: Metadata,
    pub(super) conditions: Conditions,
}

/// Writes the whole blob, for "Put Blob" and "Put Block List". After all checks `body` makes its
/// bytes from the existing blob.
pub(super) async fn commit(
    call: &Call,
    parts: Parts,
    body: impl FnOnce(Option<&Blob>) -> Result<(Body, Arc<[Block]>)>,
) -> Result<Response> {
    let Parts {
        mut content,
        metadata,
        conditions,
    } = parts;
    content
        .0
        .entry("content-type".into())
        .or_insert_with(|| DEFAULT_TYPE.into());
    let lock = call.service.blobs.write_lock().await;
    let known = call.known_blob()?;
    let is_there = known.is_some();
    let only_new = conditions.only_new();
    let conditions = conditions.without_only_new();
    match &known {
        Some(known) => {
            let stamp = known.version.stamp;
            conditions.check_write(&stamp.etag(), stamp.time())?;
        }
        None => conditions.check_absent()?,
    }
    // The service checks the lease before it checks that the blob is new, and the holder of the
    // lease may write an existing blob.
    call.check_blob_access(BlobAccess::Write, AccessEffect::Keep)
        .await?;
    let is_holder = given(&call.headers, "x-ms-lease-id")?.is_some();
    if is_there && only_new && !is_holder {
        return Err(BLOB_ALREADY_EXISTS.into());
    }
    if is_there {
        // A permission to create does not allow an overwrite.
        call.grant.check(Need {
            kind: Kind::Object,
            one_of: "w",
        })?;
    }
    let (body, blocks) = body(known.as_deref())?;
    // Only now: after a refused write the last holder can still renew an expired lease.
    call.check_blob_access(BlobAccess::Write, AccessEffect::EndIfOver)
        .await?;
    let blob = |stamp| Blob {
        version: Version::new(stamp),
        created: known.as_ref().map_or(stamp, |known| known.created),
        body,
        blocks,
        content,
        metadata,
    };
    let stamp = write(call, &lock, blob).await?;
    call.service.blobs.staged().discard(&call.target());
    let mut response = answer(StatusCode::CREATED, &Version::new(stamp));
    mark_unencrypted(response.headers_mut(), WRITTEN);
    Ok(response)
}

/// "Set Blob Metadata": replaces all of them.
pub(in crate::server) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.headers)?;
    let mut response = alter(&call, |blob| Blob { metadata, ..blob }).await?;
    mark_unencrypted(response.headers_mut(), WRITTEN);
    Ok(response)
}

/// "Set Blob Properties": replaces all content headers.
pub(in crate::server) async fn set_properties(call: Call) -> Result<Response> {
    for name in ["x-ms-blob-content-length", "x-ms-sequence-number-action"] {
        if call.headers.contains_key(name) {
            return Err(UNSUPPORTED_HEADER.because(name));
        }
    }
    let content = content_headers(&call.headers)?;
    alter(&call, |blob| Blob { content, ..blob }).await
}

/// "Delete Blob". Its lease is deleted first: if the process of the store ends in between, there is
/// a blob without a lease, but no lease without a blob.
pub(in crate::server) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of(&call.headers)?;
    if text(&call.headers, "x-ms-delete-snapshots")?.is_some_and(|what| what == "only") {
        return Err(invalid("x-ms-delete-snapshots", "there are no snapshots"));
    }
    let lock = call.service.blobs.write_lock().await;
    let known = call.known_blob()?.ok_or(BLOB_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.check_blob_access(BlobAccess::Write, AccessEffect::Delete)
        .await?;
    let change = |_| BlobChange::DeleteBlob {
        account: call.account.clone(),
        container: call.container().to_owned(),
        name: call.blob().to_owned(),
    };
    let service = &call.service;
    service.blobs.change(&service.store, &lock, change).await?;
    service.blobs.staged().discard(&call.target());
    let mut response = Response::default();
    *response.status_mut() = StatusCode::ACCEPTED;
    let permanent = HeaderName::from_static("x-ms-delete-type-permanent");
    let headers = response.headers_mut();
    headers.insert(permanent, HeaderValue::from_static("true"));
    Ok(response)
}

async fn alter(call: &Call, new: impl FnOnce(Blob) -> Blob) -> Result<Response> {
    let conditions = Conditions::of(&call.headers)?;
    let lock = call.service.blobs.write_lock().await;
    let known = call.known_blob()?.ok_or(BLOB_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.check_blob_access(BlobAccess::Write, AccessEffect::EndIfOver)
        .await?;
    let blob = |stamp| Blob {
        version: Version::new(stamp),
        ..new(Blob::clone(&known))
    };
    let stamp = write(call, &lock, blob).await?;
    Ok(answer(StatusCode::OK, &Version::new(stamp)))
}

async fn write(call: &Call, lock: &WriteLock, blob: impl FnOnce(Stamp) -> Blob) -> Result<Stamp> {
    let change = |stamp| BlobChange::PutBlob {
        account: call.account.clone(),
        container: call.container().to_owned(),
        name: call.blob().to_owned(),
        blob: Arc::new(blob(stamp)),
    };
    let service = &call.service;
    service.blobs.change(&service.store, lock, change).await
}

/// The length of a page blob, which has no body.
fn page_length(call: &Call, body: &Bytes) -> Result<u64> {
    let name = "x-ms-blob-content-length";
    let most = call.service.max_blob_bytes;
    let length = required(&call.headers, name)?.parse::<u64>();
    let length = length.map_err(|_| invalid(name, "it must be a whole number"))?;
    if length % 512 != 0 {
        return Err(invalid(name, "it must be a multiple of 512"));
    }
    if !body.is_empty() {
        return Err(invalid(
            "content-length",
            "a page blob is made without a body",
        ));
    }
    if length > most as u64 {
        return Err(too_large(length, most));
    }
    Ok(length)
}
