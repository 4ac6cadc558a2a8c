//! "Put Blob", "Set Blob Metadata", "Set Blob Properties" and "Delete Blob".

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;

use super::{CONTENT, check_md5, content_headers, too_large};
use crate::protocol::{BLOB_TYPE, LEASE_ID};
use crate::server::access::BlobAccess;
use crate::server::auth::Kind;
use crate::server::blobs::{Body, Item};
use crate::server::call::Call;
use crate::server::calls::{answer, empty, set};
use crate::server::clock;
use crate::server::conditions::Conditions;
use crate::server::error::{BLOB_ALREADY_EXISTS, Result, UNSUPPORTED_HEADER};
use crate::server::headers::{given, invalid, metadata, required, text};
use tenure_server::AccessEffect;

/// The header that shows whether the service encrypted a write.
pub(super) const WRITTEN: &str = "x-ms-request-server-encrypted";

const DEFAULT_TYPE: &str = "application/octet-stream";

/// "Put Blob".
pub(in crate::server) async fn put(call: Call) -> Result<Response> {
    let headers = &call.head.headers;
    let conditions = Conditions::of(headers)?;
    let mut blob = Item {
        metadata: metadata(headers)?,
        content: content_headers(headers)?,
        ..Item::default()
    };
    for name in CONTENT {
        // A content header of the request counts only if the blob's content header is absent.
        if let (false, Some(value)) = (blob.content.contains_key(name), text(headers, name)?) {
            blob.content.insert(name.into(), value.into());
        }
    }
    let kind = required(headers, BLOB_TYPE)?;
    let sent = call.body(call.service.max_blob_bytes).await?;
    let md5 = match kind {
        // The content header of the blob has precedence over the header of the request.
        "BlockBlob" => blob.content.get("content-md5").map(String::as_str),
        // A page blob is created without a body, and the headers describe later writes.
        _ => text(headers, "content-md5")?,
    };
    check_md5(md5, &sent)?;
    blob.body = match kind {
        "BlockBlob" => Body::Block(sent),
        "PageBlob" => Body::Page(page_length(&call, &sent)?),
        "AppendBlob" => {
            return Err(UNSUPPORTED_HEADER.because("x-ms-blob-type: there are no append blobs"));
        }
        _ => {
            let reason = "it must be BlockBlob or PageBlob";
            return Err(invalid(BLOB_TYPE, reason));
        }
    };
    commit(&call, conditions, blob, |_, _| Ok(())).await
}

/// Writes the complete blob, for "Put Blob" and "Put Block List". After all checks, `fill` may add
/// data from the existing blob.
pub(super) async fn commit(
    call: &Call,
    mut conditions: Conditions,
    mut blob: Item,
    fill: impl FnOnce(&mut Item, Option<&Item>) -> Result<()>,
) -> Result<Response> {
    blob.content
        .entry("content-type".into())
        .or_insert_with(|| DEFAULT_TYPE.into());
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    let known = call.known()?;
    let only_new = conditions.take_only_new();
    match &known {
        Some(known) => conditions.check_write(known)?,
        None => conditions.check_absent()?,
    }
    // The service checks the lease before the condition that the blob does not exist, and the
    // holder of the lease may write an existing blob.
    call.check_access(BlobAccess::Write, AccessEffect::Keep)
        .await?;
    if known.is_some() {
        let is_holder = given(&call.head.headers, LEASE_ID)?.is_some();
        if only_new && !is_holder {
            return Err(BLOB_ALREADY_EXISTS.into());
        }
        // A permission to create does not allow an overwrite.
        call.grant.check(Kind::Object, "w")?;
    }
    let known = known.as_deref();
    fill(&mut blob, known)?;
    // This must come after the checks: if the write is refused, the last holder can still renew an
    // expired lease.
    call.check_access(BlobAccess::Write, AccessEffect::EndIfOver)
        .await?;
    blob.created_ms = known.map_or_else(clock::unix_ms, |known| known.created_ms);
    let blob = blobs.put(&lock, call.target.clone(), blob).await?;
    blobs.staged().discard(&call.target);
    let mut response = answer(StatusCode::CREATED, &blob);
    set(response.headers_mut(), WRITTEN, false);
    Ok(response)
}

/// "Set Blob Metadata": replaces all metadata.
pub(in crate::server) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.head.headers)?;
    let mut response = alter(&call, |blob| blob.metadata = metadata).await?;
    set(response.headers_mut(), WRITTEN, false);
    Ok(response)
}

/// "Set Blob Properties": replaces all content headers.
pub(in crate::server) async fn set_properties(call: Call) -> Result<Response> {
    for name in ["x-ms-blob-content-length", "x-ms-sequence-number-action"] {
        if call.head.headers.contains_key(name) {
            return Err(UNSUPPORTED_HEADER.because(name));
        }
    }
    let content = content_headers(&call.head.headers)?;
    alter(&call, |blob| blob.content = content).await
}

async fn alter(call: &Call, change: impl FnOnce(&mut Item)) -> Result<Response> {
    let conditions = Conditions::of(&call.head.headers)?;
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    let mut blob = Item::clone(&*call.existing()?);
    conditions.check_write(&blob)?;
    call.check_access(BlobAccess::Write, AccessEffect::EndIfOver)
        .await?;
    change(&mut blob);
    let blob = blobs.put(&lock, call.target.clone(), blob).await?;
    Ok(answer(StatusCode::OK, &blob))
}

/// "Delete Blob". Its lease is deleted first: if the store's process ends between the two
/// deletions, a blob without a lease remains, and never a lease without a blob.
pub(in crate::server) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of(&call.head.headers)?;
    if text(&call.head.headers, "x-ms-delete-snapshots")? == Some("only") {
        return Err(invalid("x-ms-delete-snapshots", "there are no snapshots"));
    }
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    conditions.check_write(&*call.existing()?)?;
    call.check_access(BlobAccess::Write, AccessEffect::Delete)
        .await?;
    blobs
        .delete(&lock, std::slice::from_ref(&call.target))
        .await?;
    blobs.staged().discard(&call.target);
    let mut response = empty(StatusCode::ACCEPTED);
    set(response.headers_mut(), "x-ms-delete-type-permanent", true);
    Ok(response)
}

/// Returns the length of a page blob, which has no body.
fn page_length(call: &Call, body: &Bytes) -> Result<u64> {
    let name = "x-ms-blob-content-length";
    let most = call.service.max_blob_bytes;
    let length = required(&call.head.headers, name)?.parse::<u64>();
    let length = length.map_err(|_| invalid(name, "it must be a whole number"))?;
    if length % 512 != 0 {
        return Err(invalid(name, "it must be a multiple of 512"));
    }
    if !body.is_empty() {
        return Err(invalid(
            "content-length",
            "a page blob is created without a body",
        ));
    }
    if length > most as u64 {
        return Err(too_large(length, most));
    }
    Ok(length)
}
