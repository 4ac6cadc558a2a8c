//! Blobs.

use std::error::Error as _;
use std::sync::Arc;

use axum::body::{Body as Stream, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::LengthLimitError;
use tenure_core::lease::Usage;

use super::{answer, insert_lease, insert_metadata, insert_number};
use crate::azure::auth::{Grant, Kind, Need};
use crate::azure::blobs::{Blob, Body, Change, ContentHeaders, Stamp, Turn, Version};
use crate::azure::call::Call;
use crate::azure::conditions::Conditions;
use crate::azure::error::{
    BLOB_ALREADY_EXISTS, BLOB_NOT_FOUND, CONTAINER_NOT_FOUND, Error, INVALID_MD5, INVALID_RANGE,
    MD5_MISMATCH, MISSING_CONTENT_LENGTH_HEADER, OPERATION_TIMED_OUT, On, REQUEST_BODY_TOO_LARGE,
    Result, UNSUPPORTED_HEADER,
};
use crate::azure::headers::{http_date, invalid, lease_id, metadata, required, text};
use crate::azure::names::blob_key;
use crate::store::{Look, Then};

const LEASE_ID: &str = "x-ms-lease-id";
const DEFAULT_TYPE: &str = "application/octet-stream";

/// What is told with a body: the header of an answer, and what stands before it when it is set.
const CONTENT: [&str; 6] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "content-md5",
    "cache-control",
];

/// What a service SAS may say in their place.
const OVERRIDES: [(&str, &str); 5] = [
    ("rscc", "cache-control"),
    ("rscd", "content-disposition"),
    ("rsce", "content-encoding"),
    ("rscl", "content-language"),
    ("rsct", "content-type"),
];

/// "Put Blob".
pub(in crate::azure) async fn put(call: Call, body: Stream) -> Result<Response> {
    let headers = &call.headers;
    let conditions = Conditions::of(headers)?;
    let metadata = metadata(headers)?;
    let mut content = content_headers(headers)?;
    for name in CONTENT {
        // What was not said of the blob was perhaps said of the body.
        if let (false, Some(value)) = (content.0.contains_key(name), text(headers, name)?) {
            content.0.insert(name.into(), value.into());
        }
    }
    content
        .0
        .entry("content-type".into())
        .or_insert_with(|| DEFAULT_TYPE.into());
    let kind = required(headers, "x-ms-blob-type")?.to_owned();
    let sent = read(&call, body).await?;
    let md5 = match kind.as_str() {
        // What is kept of a blob goes before what was said of the body.
        "BlockBlob" => content.0.get("content-md5").map(String::as_str),
        // It is made without a body, and what is kept is about what will be written.
        _ => text(headers, "content-md5")?,
    };
    check_md5(md5, &sent)?;
    let body = match kind.as_str() {
        "BlockBlob" => Body::Block(sent),
        "PageBlob" => Body::Page(page_length(&call, &sent)?),
        _ => {
            let reason = "it must be BlockBlob or PageBlob";
            return Err(invalid("x-ms-blob-type", reason));
        }
    };

    let turn = call.face.blobs.turn().await;
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
    // The service tells of the lease before it tells that the blob is there.
    let then = if is_there && only_new {
        Then::Stays
    } else {
        Then::Changes
    };
    call.use_blob(Usage::Write, then).await?;
    if is_there && only_new {
        return Err(BLOB_ALREADY_EXISTS.into());
    }
    if is_there {
        // To create is not to overwrite.
        call.grant.check(Need {
            kind: Kind::Object,
            one_of: "w",
        })?;
    }
    let blob = |stamp| Blob {
        version: Version::new(stamp),
        created: known.as_ref().map_or(stamp, |known| known.created),
        body,
        content,
        metadata,
    };
    let stamp = write(&call, &turn, blob).await?;
    Ok(answer(StatusCode::CREATED, &Version::new(stamp)))
}

/// "Set Blob Metadata": all of them at once.
pub(in crate::azure) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.headers)?;
    alter(&call, |blob| Blob { metadata, ..blob }).await
}

/// "Set Blob Properties": all content headers at once.
pub(in crate::azure) async fn set_properties(call: Call) -> Result<Response> {
    for name in ["x-ms-blob-content-length", "x-ms-sequence-number-action"] {
        if call.headers.contains_key(name) {
            return Err(UNSUPPORTED_HEADER.because(name));
        }
    }
    let content = content_headers(&call.headers)?;
    alter(&call, |blob| Blob { content, ..blob }).await
}

/// "Get Blob".
pub(in crate::azure) async fn get(call: Call) -> Result<Response> {
    let (blob, look) = look_at(&call).await?;
    let range = range(&call.headers)?;
    let len = blob.body.len();
    let (first, count) = match range {
        None => (0, len),
        Some((first, _)) if first >= len => return Err(INVALID_RANGE.into()),
        Some((first, last)) => (first, last.map_or(len, |last| len.min(last + 1)) - first),
    };
    let mut response = described(&call, &blob, look);
    let headers = response.headers_mut();
    insert_number(headers, header::CONTENT_LENGTH, count);
    if range.is_some() {
        let range = format!("bytes {first}-{}/{len}", first + count - 1);
        if let Ok(range) = HeaderValue::try_from(range) {
            headers.insert(header::CONTENT_RANGE, range);
        }
        // That of the whole is not the part's.
        if let Some(md5) = headers.remove("content-md5") {
            headers.insert(HeaderName::from_static("x-ms-blob-content-md5"), md5);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let to = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    *response.body_mut() = match &blob.body {
        Body::Block(bytes) => bytes.slice(to(first)..to(first + count)).into(),
        Body::Page(_) => Stream::from(vec![0; to(count)]),
    };
    Ok(response)
}

/// "Get Blob Properties" and "Get Blob Metadata".
pub(in crate::azure) async fn properties(call: Call) -> Result<Response> {
    let (blob, look) = look_at(&call).await?;
    let mut response = described(&call, &blob, look);
    if call.method == axum::http::Method::HEAD {
        insert_number(
            response.headers_mut(),
            header::CONTENT_LENGTH,
            blob.body.len(),
        );
    }
    Ok(response)
}

/// "Delete Blob". Its lease ends before it is gone: if the store's process ends in between, there is a
/// blob without a lease, and not a lease without a blob.
pub(in crate::azure) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of(&call.headers)?;
    if text(&call.headers, "x-ms-delete-snapshots")?.is_some_and(|what| what == "only") {
        return Err(invalid("x-ms-delete-snapshots", "there are no snapshots"));
    }
    let turn = call.face.blobs.turn().await;
    let known = call.known_blob()?.ok_or(BLOB_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.use_blob(Usage::Write, Then::Goes).await?;
    let change = |_| Change::DeleteBlob {
        account: call.account.clone(),
        container: call.container().to_owned(),
        name: call.blob().to_owned(),
    };
    let face = &call.face;
    face.blobs.change(&face.store, &turn, change).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

async fn alter(call: &Call, new: impl FnOnce(Blob) -> Blob) -> Result<Response> {
    let conditions = Conditions::of(&call.headers)?;
    let turn = call.face.blobs.turn().await;
    let known = call.known_blob()?.ok_or(BLOB_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.use_blob(Usage::Write, Then::Changes).await?;
    let blob = |stamp| Blob {
        version: Version::new(stamp),
        ..new(Blob::clone(&known))
    };
    let stamp = write(call, &turn, blob).await?;
    Ok(answer(StatusCode::OK, &Version::new(stamp)))
}

async fn write(call: &Call, turn: &Turn, blob: impl FnOnce(Stamp) -> Blob) -> Result<Stamp> {
    let change = |stamp| Change::PutBlob {
        account: call.account.clone(),
        container: call.container().to_owned(),
        name: call.blob().to_owned(),
        blob: Arc::new(blob(stamp)),
    };
    let face = &call.face;
    face.blobs.change(&face.store, turn, change).await
}

async fn look_at(call: &Call) -> Result<(Arc<Blob>, Look)> {
    let conditions = Conditions::of(&call.headers)?;
    let blob = call.known_blob()?.ok_or(BLOB_NOT_FOUND)?;
    let stamp = blob.version.stamp;
    conditions.check_read(&stamp.etag(), stamp.time())?;
    let look = call.use_blob(Usage::Read, Then::Stays).await?;
    Ok((blob, look))
}

/// All headers that describe the blob.
fn described(call: &Call, blob: &Blob, look: Look) -> Response {
    let mut response = answer(StatusCode::OK, &blob.version);
    let headers = response.headers_mut();
    let insert = |headers: &mut HeaderMap, name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    for name in CONTENT {
        if let Some(value) = blob.content.0.get(name) {
            insert(headers, name, value);
        }
    }
    if matches!(call.grant, Grant::Service { .. }) {
        // They are signed with the rest of it.
        for (parameter, name) in OVERRIDES {
            if let Some(value) = call.query.get(parameter) {
                insert(headers, name, value);
            }
        }
    }
    insert(headers, "accept-ranges", "bytes");
    let created = http_date(blob.created.time());
    insert(headers, "x-ms-creation-time", &created);
    insert(headers, "x-ms-blob-type", blob.body.kind());
    if matches!(blob.body, Body::Page(_)) {
        insert(headers, "x-ms-blob-sequence-number", "0");
    }
    insert_metadata(headers, &blob.metadata);
    insert_lease(headers, look);
    response
}

/// What is said of the blob's body by `x-ms-blob-*`.
fn content_headers(headers: &HeaderMap) -> Result<ContentHeaders> {
    let mut content = ContentHeaders::default();
    for name in CONTENT {
        if let Some(value) = text(headers, &format!("x-ms-blob-{name}"))? {
            content.0.insert(name.into(), value.into());
        }
    }
    Ok(content)
}

/// The length of a page blob, which has no body.
fn page_length(call: &Call, body: &Bytes) -> Result<u64> {
    let name = "x-ms-blob-content-length";
    let most = call.face.max_blob_bytes;
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

fn too_large(size: impl std::fmt::Display, most: usize) -> Error {
    REQUEST_BODY_TOO_LARGE.because(format!(
        "the blob would have {size} bytes, at most {most} are taken"
    ))
}

/// The body is the one that was hashed, if one was.
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

/// The whole body, if it is small enough and comes in time.
async fn read(call: &Call, body: Stream) -> Result<Bytes> {
    let most = call.face.max_blob_bytes;
    let size = body.size_hint();
    if size.exact().is_none() {
        return Err(MISSING_CONTENT_LENGTH_HEADER.into());
    }
    if size.lower() > most as u64 {
        return Err(too_large(size.lower(), most));
    }
    let time = call.face.store.limits().request_time;
    match tokio::time::timeout(time, to_bytes(body, most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error))
            if error
                .source()
                .is_some_and(|error| error.is::<LengthLimitError>()) =>
        {
            Err(too_large(format!("more than {most}"), most))
        }
        // The client will hardly hear of it.
        Ok(Err(_)) | Err(_) => Err(OPERATION_TIMED_OUT.into()),
    }
}

/// `bytes=FIRST-LAST` or `bytes=FIRST-`.
fn range(headers: &HeaderMap) -> Result<Option<(u64, Option<u64>)>> {
    let name = ["x-ms-range", "range"]
        .into_iter()
        .find(|name| headers.contains_key(*name));
    let Some(name) = name else {
        return Ok(None);
    };
    for hashed in ["x-ms-range-get-content-md5", "x-ms-range-get-content-crc64"] {
        if headers.contains_key(hashed) {
            return Err(UNSUPPORTED_HEADER.because(hashed));
        }
    }
    let range = text(headers, name)?.unwrap_or_default();
    let parsed = || {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first = first.parse::<u64>().ok()?;
        let last = match last {
            "" => None,
            last => Some(last.parse::<u64>().ok().filter(|last| *last >= first)?),
        };
        // So that one more never overflows.
        Some((first, last.map(|last| last.min(u64::MAX - 1))))
    };
    match parsed() {
        Some(range) => Ok(Some(range)),
        None => Err(invalid(name, "it must be bytes=FIRST-LAST or bytes=FIRST-")),
    }
}

impl Call {
    /// The blob as it is; its container must be there.
    fn known_blob(&self) -> Result<Option<Arc<Blob>>> {
        let catalog = self.face.blobs.look();
        let container = catalog.container(&self.account, self.container());
        Ok(container
            .ok_or(CONTAINER_NOT_FOUND)?
            .blob(self.blob())
            .cloned())
    }

    async fn use_blob(&self, usage: Usage, then: Then) -> Result<Look> {
        let key = blob_key(&self.account, self.container(), self.blob())?;
        let lease_id = lease_id(&self.headers, LEASE_ID)?;
        let used = self.face.store.use_it(&key, Some((usage, lease_id)), then);
        used.await?
            .map_err(|refusal| Error::of_usage(On::Blob, refusal))
    }
}

impl Body {
    /// Its type in the service's words.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Block(_) => "BlockBlob",
            Self::Page(_) => "PageBlob",
        }
    }
}
