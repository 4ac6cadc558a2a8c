//! "Lease Blob" and "Lease Container".

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use tenure_core::CandidateId;
use tenure_core::lease::{Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Rules};

use super::{LEASE_ID, LEASE_TIME, answer, insert_epoch, insert_number, seconds};
use crate::server::blobs::Version;
use crate::server::call::Call;
use crate::server::clock;
use crate::server::conditions::Conditions;
use crate::server::error::{
    BLOB_NOT_FOUND, CONTAINER_NOT_FOUND, Error, INTERNAL_ERROR, MISSING_REQUIRED_HEADER, Result,
};
use crate::server::headers::{invalid, lease_id, required, text};
use crate::server::names::{blob_key, container_key};
use crate::server::random;
use crate::server::target::Resource;
use tenure_server::LeaseKey;

const ACTION: &str = "x-ms-lease-action";
const DURATION: &str = "x-ms-lease-duration";
const BREAK_PERIOD: &str = "x-ms-lease-break-period";
const PROPOSED_ID: &str = "x-ms-proposed-lease-id";
const ID: &str = "x-ms-lease-id";

/// Longest part of a client request id in the name of a holder.
const MAX_REQUEST_ID: usize = 200;

pub(in crate::server) fn is_renewal(headers: &HeaderMap) -> bool {
    let action = headers.get(ACTION);
    action.is_some_and(|action| action.as_bytes().eq_ignore_ascii_case(b"renew"))
}

pub(in crate::server) async fn lease(call: Call) -> Result<Response> {
    let request = LeaseRequest::of(&call)?;
    let service = &call.service;
    let (key, conditions) = match &call.resource {
        Resource::Blob { container, blob } => (
            blob_key(&call.account, container, blob)?,
            Conditions::of(&call.headers)?,
        ),
        _ => (
            container_key(&call.account, call.container())?,
            Conditions::of_container(&call.headers)?,
        ),
    };
    // A write that was allowed before must not finish under a new holder. A renewal does not change
    // who may write, so it does not wait.
    let _lock = match request.operation {
        Operation::Renew(..) => None,
        _ => Some(service.blobs.read_lock().await),
    };
    let version = version(&call)?;
    let stamp = version.stamp;
    conditions.check_write(&stamp.etag(), stamp.time())?;
    request.execute(&call, &key, &version).await
}

/// The blob or container as it is.
fn version(call: &Call) -> Result<Version> {
    let catalog = call.service.blobs.catalog();
    let container = catalog
        .container(&call.account, call.container())
        .ok_or(CONTAINER_NOT_FOUND)?;
    match &call.resource {
        Resource::Blob { blob, .. } => {
            let blob = container.blob(blob).ok_or(BLOB_NOT_FOUND)?;
            Ok(blob.version.clone())
        }
        _ => Ok(container.version.clone()),
    }
}

/// A checked operation on a lease.
struct LeaseRequest {
    operation: Operation,
    status: StatusCode,
    /// The lease id that holds afterwards.
    id: Option<LeaseId>,
}

impl LeaseRequest {
    fn of(call: &Call) -> Result<Self> {
        let headers = &call.headers;
        let given = || lease_id(headers, ID)?.ok_or_else(|| MISSING_REQUIRED_HEADER.because(ID));
        let proposed = lease_id(headers, PROPOSED_ID)?;
        let (operation, status, id) = match required(headers, ACTION)?.to_ascii_lowercase().as_str()
        {
            "acquire" => {
                let id = proposed.unwrap_or_else(new_id);
                let request = Acquire {
                    lease_id: id,
                    holder: holder(call),
                    duration: duration(required(headers, DURATION)?)?,
                    lock_delay: Duration::ZERO,
                    metadata: Metadata::new(),
                    min_epoch: None,
                };
                let operation = Operation::Acquire(request, clock::unix());
                (operation, StatusCode::CREATED, Some(id))
            }
            "renew" => {
                let id = given()?;
                (Operation::Renew(id, None), StatusCode::OK, Some(id))
            }
            "change" => {
                let lease_id = given()?;
                let proposed =
                    proposed.ok_or_else(|| MISSING_REQUIRED_HEADER.because(PROPOSED_ID))?;
                let operation = Operation::Change { lease_id, proposed };
                (operation, StatusCode::OK, Some(proposed))
            }
            "release" => (Operation::Release(given()?), StatusCode::OK, None),
            "break" => {
                let period = text(headers, BREAK_PERIOD)?.map(break_period).transpose()?;
                (Operation::Break(period), StatusCode::ACCEPTED, None)
            }
            _ => {
                let actions = "it must be acquire, renew, change, release or break";
                return Err(invalid(ACTION, actions));
            }
        };
        Ok(Self {
            operation,
            status,
            id,
        })
    }

    /// Executes it. Neither the ETag nor the date changes.
    async fn execute(&self, call: &Call, key: &LeaseKey, version: &Version) -> Result<Response> {
        let reason = match self.operation {
            Operation::Release(_) | Operation::Break(_) => call
                .client_request_id()
                .map(|id| format!("client request id {id:.MAX_REQUEST_ID$}")),
            _ => None,
        };
        let store = &call.service.store;
        let done = store.operate_by(&Rules::AZURE, key, &self.operation, reason);
        let (change, epoch) = done
            .await?
            .map_err(|rejection| Error::of_rejection(&self.operation, &rejection))?;
        let mut response = answer(self.status, version);
        let headers = response.headers_mut();
        insert_epoch(headers, epoch);
        if let Some(id) = self.id {
            let id = HeaderValue::try_from(id.to_wire().to_string());
            headers.insert(LEASE_ID, id.map_err(|_| INTERNAL_ERROR)?);
        }
        match change {
            Change::Breaking(left) => insert_number(headers, LEASE_TIME, seconds(left)),
            Change::Broken => insert_number(headers, LEASE_TIME, 0),
            _ => {}
        }
        Ok(response)
    }
}

fn new_id() -> LeaseId {
    let (high, low) = random::bits();
    LeaseId::from_random_bits(high, low)
}

/// Azure's clients have no names, so the client's id of the request stands for one.
fn holder(call: &Call) -> CandidateId {
    let id = call.client_request_id().unwrap_or_default();
    let id: String = id
        .chars()
        .filter(char::is_ascii_graphic)
        .take(MAX_REQUEST_ID)
        .collect();
    let holder = if id.is_empty() {
        "azure".to_owned()
    } else {
        format!("azure/{id}")
    };
    holder.parse().expect("it is visible ASCII, and short")
}

fn duration(text: &str) -> Result<LeaseDuration> {
    let range = "it must be -1 or from 15 to 60";
    let duration = match text.parse::<i64>() {
        Ok(-1) => LeaseDuration::Infinite,
        Ok(seconds) => {
            let seconds = u64::try_from(seconds).map_err(|_| invalid(DURATION, range))?;
            LeaseDuration::Fixed(Duration::from_secs(seconds))
        }
        Err(_) => return Err(invalid(DURATION, range)),
    };
    if Rules::AZURE.allows(duration) {
        Ok(duration)
    } else {
        Err(invalid(DURATION, range))
    }
}

fn break_period(text: &str) -> Result<Duration> {
    let period = text.parse().ok().map(Duration::from_secs);
    let period = period.filter(|period| *period <= Rules::AZURE.max_break_period);
    period.ok_or_else(|| invalid(BREAK_PERIOD, "it must be from 0 to 60"))
}
