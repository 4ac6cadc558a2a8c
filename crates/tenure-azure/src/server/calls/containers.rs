//! Containers.

use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::try_join_all;

use super::{answer, empty, set, set_lease};
use crate::server::access::BlobAccess;
use crate::server::blobs::Item;
use crate::server::call::Call;
use crate::server::clock;
use crate::server::conditions::Conditions;
use crate::server::error::{CONTAINER_ALREADY_EXISTS, PUBLIC_ACCESS_NOT_PERMITTED, Result};
use crate::server::headers::{given, metadata};
use crate::server::names::lease_key;
use crate::server::target::Target;
use tenure_server::AccessEffect;

/// "Create Container".
pub(in crate::server) async fn create(call: Call) -> Result<Response> {
    if given(&call.head.headers, "x-ms-blob-public-access")?.is_some() {
        return Err(PUBLIC_ACCESS_NOT_PERMITTED.into());
    }
    let container = Item {
        created_ms: clock::unix_ms(),
        metadata: metadata(&call.head.headers)?,
        ..Item::default()
    };
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    if call.known()?.is_some() {
        return Err(CONTAINER_ALREADY_EXISTS.into());
    }
    let container = blobs.put(&lock, call.target.clone(), container).await?;
    Ok(answer(StatusCode::CREATED, &container))
}

/// "Get Container Properties" and "Get Container Metadata".
pub(in crate::server) async fn properties(call: Call) -> Result<Response> {
    let container = call.existing()?;
    let snapshot = call
        .check_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    let mut response = answer(StatusCode::OK, &container);
    let headers = response.headers_mut();
    super::set_metadata(headers, &container.metadata);
    set_lease(headers, snapshot);
    for absent in [
        "x-ms-has-immutability-policy",
        "x-ms-has-legal-hold",
        "x-ms-immutable-storage-with-versioning-enabled",
    ] {
        set(headers, absent, false);
    }
    Ok(response)
}

/// "Set Container Metadata".
pub(in crate::server) async fn set_metadata(call: Call) -> Result<Response> {
    let metadata = metadata(&call.head.headers)?;
    let conditions = Conditions::of_container(&call.head.headers)?;
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    let container = call.existing()?;
    conditions.check_write(&container)?;
    // The lease of a container protects the container only from deletion.
    call.check_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    let container = Item {
        metadata,
        ..Item::clone(&container)
    };
    let container = blobs.put(&lock, call.target.clone(), container).await?;
    Ok(answer(StatusCode::OK, &container))
}

/// "Delete Container": deletes the container with all its blobs, even leased ones. Their leases are
/// deleted first: if the store's process ends between the deletions, blobs without leases remain,
/// and never leases without blobs.
pub(in crate::server) async fn delete(call: Call) -> Result<Response> {
    let conditions = Conditions::of_container(&call.head.headers)?;
    let blobs = &call.service.blobs;
    let lock = blobs.write_lock().await;
    conditions.check_write(&*call.existing()?)?;
    call.check_access(BlobAccess::Write, AccessEffect::Delete)
        .await?;
    let container = &call.target;
    let mut targets: Vec<Target> = {
        let catalog = blobs.catalog();
        let names = catalog.blobs_from(container, "").map(|(name, _)| name);
        let target = |name| Target::new(&container.account, &container.container, name);
        names.map(target).collect()
    };
    let keys = targets.iter().map(lease_key).collect::<Result<Vec<_>>>()?;
    try_join_all(keys.iter().map(|key| call.service.delete_lease(key))).await?;
    targets.push(container.clone());
    blobs.delete(&lock, &targets).await?;
    blobs.staged().discard_container(container);
    Ok(empty(StatusCode::ACCEPTED))
}
