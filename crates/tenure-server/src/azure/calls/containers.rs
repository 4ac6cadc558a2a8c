//! Containers.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::future::try_join_all;
use tenure_core::lease::Usage;

use super::{answer, insert_lease, insert_metadata};
use crate::azure::blobs::{Change, Container, Version};
use crate::azure::call::Call;
use crate::azure::conditions::Conditions;
use crate::azure::error::{
    CONTAINER_ALREADY_EXISTS, CONTAINER_NOT_FOUND, Error, On, PUBLIC_ACCESS_NOT_PERMITTED, Result,
};
use crate::azure::headers::{lease_id, metadata, text};
use crate::azure::names::{blob_key, container_key};
use crate::store::{Look, Then};
use crate::table::Key;

const LEASE_ID: &str = "x-ms-lease-id";

/// "Create Container".
pub(in crate::azure) async fn create(call: Call) -> Result<Response> {
    if text(&call.headers, "x-ms-blob-public-access")?.is_some_and(|access| !access.is_empty()) {
        return Err(PUBLIC_ACCESS_NOT_PERMITTED.into());
    }
    let metadata = metadata(&call.headers)?;
    let turn = call.face.blobs.turn().await;
    if call.known_container().is_some() {
        return Err(CONTAINER_ALREADY_EXISTS.into());
    }
    put(&call, &turn, metadata, StatusCode::CREATED).await
}

/// "Get Container Properties" and "Get Container Metadata".
pub(in crate::azure) async fn properties(call: Call) -> Result<Response> {
    let known = call.known_container().ok_or(CONTAINER_NOT_FOUND)?;
    let look = call.use_container(Usage::Read, Then::Stays).await?;
    let mut response = answer(StatusCode::OK, &known.version);
    let headers = response.headers_mut();
    insert_metadata(headers, &known.metadata);
    insert_lease(headers, look);
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
pub(in crate::azure) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.headers)?;
    let conditions = Conditions::of_container(&call.headers)?;
    let turn = call.face.blobs.turn().await;
    let stamp = call
        .known_container()
        .ok_or(CONTAINER_NOT_FOUND)?
        .version
        .stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    // A container's lease guards its deletion only.
    call.use_container(Usage::Read, Then::Stays).await?;
    put(&call, &turn, metadata, StatusCode::OK).await
}

/// "Delete Container", with all blobs, leased or not. Their leases end before they are gone: if the
/// store's process ends in between, there are blobs without leases and not leases without blobs.
pub(in crate::azure) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of_container(&call.headers)?;
    let turn = call.face.blobs.turn().await;
    let known = call.known_container().ok_or(CONTAINER_NOT_FOUND)?;
    let stamp = known.version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    call.use_container(Usage::Write, Then::Goes).await?;
    let keys = blob_keys(&call)?;
    let store = &call.face.store;
    let end = |key| async move { store.use_it(key, None, Then::Goes).await.map(|_| ()) };
    try_join_all(keys.iter().map(end)).await?;
    let (account, container) = (call.account.clone(), call.container().to_owned());
    let change = |_| Change::DeleteContainer { account, container };
    let blobs = &call.face.blobs;
    blobs.change(store, &turn, change).await?;
    blobs
        .staged()
        .discard_container(&call.account, call.container());
    let mut response = Response::default();
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// The leases of all blobs in the container.
fn blob_keys(call: &Call) -> Result<Vec<Key>> {
    let catalog = call.face.blobs.look();
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
    turn: &crate::azure::blobs::Turn,
    metadata: crate::azure::headers::Metadata,
    status: StatusCode,
) -> Result<Response> {
    let change = |_| Change::PutContainer {
        account: call.account.clone(),
        container: call.container().to_owned(),
        metadata,
    };
    let blobs = Arc::clone(&call.face.blobs);
    let stamp = blobs.change(&call.face.store, turn, change).await?;
    Ok(answer(status, &Version::new(stamp)))
}

impl Call {
    /// The container as it is, without its blobs.
    fn known_container(&self) -> Option<Container> {
        let catalog = self.face.blobs.look();
        let known = catalog.container(&self.account, self.container());
        known.map(Container::without_blobs)
    }

    pub(super) async fn use_container(&self, usage: Usage, then: Then) -> Result<Look> {
        let key = container_key(&self.account, self.container())?;
        let lease_id = lease_id(&self.headers, LEASE_ID)?;
        let used = self.face.store.use_it(&key, Some((usage, lease_id)), then);
        used.await?
            .map_err(|refusal| Error::of_usage(On::Container, refusal))
    }
}
