//! Containers.

use std::sync::Arc;

use crate::server::access::BlobAccess;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::future::try_join_all;

use super::{answer, insert_lease, insert_metadata};
use crate::server::blobs::{BlobChange, Container, Version};
use crate::server::call::Call;
use crate::server::conditions::Conditions;
use crate::server::error::{
    CONTAINER_ALREADY_EXISTS, CONTAINER_NOT_FOUND, On, PUBLIC_ACCESS_NOT_PERMITTED, Result,
};
use crate::server::headers::{metadata, text};
use crate::server::names::{blob_key, container_key};
use tenure_server::LeaseKey;
use tenure_server::{AccessEffect, LeaseSnapshot};

/// "Create Container".
pub(in crate::server) async fn create(call: Call) -> Result<Response> {
    if text(&call.headers, "x-ms-blob-public-access")?.is_some_and(|access| !access.is_empty()) {
        return Err(PUBLIC_ACCESS_NOT_PERMITTED.into());
    }
    let metadata = metadata(&call.headers)?;
    let lock = call.service.blobs.write_lock().await;
    if call.known_container().is_some() {
        return Err(CONTAINER_ALREADY_EXISTS.into());
    }
    put(&call, &lock, metadata, StatusCode::CREATED).await
}

/// "Get Container Properties" and "Get Container Metadata".
pub(in crate::server) async fn properties(call: Call) -> Result<Response> {
    let known = call.known_container().ok_or(CONTAINER_NOT_FOUND)?;
    let snapshot = call
        .check_container_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    let mut response = answer(StatusCode::OK, &known.version);
    let headers = response.headers_mut();
    insert_metadata(headers, &known.metadata);
    insert_lease(headers, snapshot);
    for absent in [
        "x-ms-has-immutability-policy",
        "x-ms-has-legal-hold",
        "x-ms-immutable-storage-with-versioning-enabled",
    ] {
        let absent = HeaderName::from_static(absent);
        headers.insert(absent, HeaderValue::from_static("false"));
    }
    Ok(response)
}

/// "Set Container Metadata".
pub(in crate::server) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.headers)?;
    let conditions = Conditions::of_container(&call.headers)?;
    let lock = call.service.blobs.write_lock().await;
    let stamp = call
        .known_container()
        .ok_or(CONTAINER_NOT_FOUND)?
        .version
        .stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    // The lease of a container protects it only from deletion.
    call.check_container_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    put(&call, &lock, metadata, StatusCode::OK).await
}

/// "Delete Container", with all blobs, leased or not. Their leases are deleted first: if the
/// process of the store ends in between, there are blobs without leases, but no leases without
/// blobs.
pub(in crate::server) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of_container(&call.headers)?;
    let lock = call.service.blobs.write_lock().await;
    let known = call.known_container().ok_or(CONTAINER_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.check_container_access(BlobAccess::Write, AccessEffect::Delete)
        .await?;
    let keys = blob_keys(&call)?;
    try_join_all(keys.iter().map(|key| call.service.delete_lease(key))).await?;
    let (account, container) = (call.account.clone(), call.container().to_owned());
    let change = |_| BlobChange::DeleteContainer { account, container };
    let blobs = &call.service.blobs;
    blobs.change(&call.service.store, &lock, change).await?;
    blobs
        .staged()
        .discard_container(&call.account, call.container());
    let mut response = Response::default();
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// The leases of all blobs in the container.
fn blob_keys(call: &Call) -> Result<Vec<LeaseKey>> {
    let catalog = call.service.blobs.catalog();
    let container = catalog
        .container(&call.account, call.container())
        .ok_or(CONTAINER_NOT_FOUND)?;
    let names = container.blobs_from("").map(|(name, _)| name);
    names
        .map(|name| blob_key(&call.account, call.container(), name))
        .collect()
}

async fn put(
    call: &Call,
    lock: &crate::server::blobs::WriteLock,
    metadata: crate::server::headers::Metadata,
    status: StatusCode,
) -> Result<Response> {
    let change = |_| BlobChange::PutContainer {
        account: call.account.clone(),
        container: call.container().to_owned(),
        metadata,
    };
    let blobs = Arc::clone(&call.service.blobs);
    let stamp = blobs.change(&call.service.store, lock, change).await?;
    Ok(answer(status, &Version::new(stamp)))
}

impl Call {
    /// The container as it is, without its blobs.
    fn known_container(&self) -> Option<Container> {
        let catalog = self.service.blobs.catalog();
        let known = catalog.container(&self.account, self.container());
        known.map(Container::without_blobs)
    }

    pub(super) async fn check_container_access(
        &self,
        access: BlobAccess,
        effect: AccessEffect,
    ) -> Result<LeaseSnapshot> {
        let key = container_key(&self.account, self.container())?;
        self.check_access(&key, On::Container, access, effect).await
    }
}
