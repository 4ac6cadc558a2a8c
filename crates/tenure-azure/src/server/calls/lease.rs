//! "Lease Blob" and "Lease Container".

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tenure_core::lease::{Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Rules};
use tenure_core::{CandidateId, UnixMillis};

use super::{answer, set, set_epoch};
use crate::protocol::{LEASE_ACTION, LEASE_DURATION, LEASE_ID, PROPOSED_LEASE_ID};
use crate::server::call::Call;
use crate::server::clock;
use crate::server::conditions::Conditions;
use crate::server::error::{Error, MISSING_REQUIRED_HEADER, Result};
use crate::server::headers::{invalid, lease_id, required, text};
use crate::server::names::lease_key;
use crate::server::random;
use crate::server::target::Level;

const BREAK_PERIOD: &str = "x-ms-lease-break-period";
const TIME: &str = "x-ms-lease-time";

/// The length of the longest part of a client request id in the name of a holder.
const MAX_REQUEST_ID: usize = 200;

pub(in crate::server) fn is_renewal(headers: &HeaderMap) -> bool {
    let action = headers.get(LEASE_ACTION);
    action.is_some_and(|action| action.as_bytes().eq_ignore_ascii_case(b"renew"))
}

pub(in crate::server) async fn lease(call: Call) -> Result<Response> {
    let (operation, status, id) = operation(&call)?;
    let key = lease_key(&call.target)?;
    let conditions = match call.target.level() {
        Level::Blob => Conditions::of(&call.head.headers)?,
        Level::Container | Level::Account => Conditions::of_container(&call.head.headers)?,
    };
    // A write that was permitted earlier must not end under a new holder. A renewal does not change
    // the holder, so it does not wait.
    let _lock = match operation {
        Operation::Renew(..) => None,
        _ => Some(call.service.blobs.read_lock().await),
    };
    let item = call.existing()?;
    conditions.check_write(&item)?;
    let reason = match operation {
        Operation::Release(_) | Operation::Break(_) => call
            .client_request_id()
            .map(|id| format!("client request id {id:.MAX_REQUEST_ID$}")),
        _ => None,
    };
    let store = &call.service.store;
    let done = store.operate_by(&Rules::AZURE, &key, call.owner(), &operation, reason);
    let (change, epoch) = done
        .await?
        .map_err(|rejection| Error::of_rejection(&operation, &rejection))?;
    // A lease operation changes neither the ETag nor the date.
    let mut response = answer(status, &item);
    let headers = response.headers_mut();
    set_epoch(headers, epoch);
    if let Some(id) = id {
        set(headers, LEASE_ID, id.to_wire());
    }
    match change {
        // The remaining time is in whole seconds, rounded half up.
        Change::Breaking(left) => {
            let left = left + Duration::from_millis(500);
            set(headers, TIME, left.as_secs());
        }
        Change::Broken => set(headers, TIME, 0),
        _ => {}
    }
    Ok(response)
}

/// Parses the operation. Returns it with the status of its success and the lease id that holds the
/// lease afterwards.
fn operation(call: &Call) -> Result<(Operation, StatusCode, Option<LeaseId>)> {
    let headers = &call.head.headers;
    let missing = |name| move || MISSING_REQUIRED_HEADER.because(name);
    let given = || lease_id(headers, LEASE_ID)?.ok_or_else(missing(LEASE_ID));
    let proposed = lease_id(headers, PROPOSED_LEASE_ID)?;
    let action = required(headers, LEASE_ACTION)?.to_ascii_lowercase();
    Ok(match action.as_str() {
        "acquire" => {
            let id = proposed.unwrap_or_else(new_id);
            let request = Acquire {
                lease_id: id,
                holder: holder(call),
                duration: duration(required(headers, LEASE_DURATION)?)?,
                lock_delay: Duration::ZERO,
                metadata: Metadata::new(),
                min_epoch: None,
                by_operator: false,
            };
            let now = UnixMillis::new(clock::unix_ms().unsigned_abs());
            let operation = Operation::Acquire(request, now);
            (operation, StatusCode::CREATED, Some(id))
        }
        "renew" => {
            let id = given()?;
            (Operation::Renew(id, None), StatusCode::OK, Some(id))
        }
        "change" => {
            let lease_id = given()?;
            let proposed = proposed.ok_or_else(missing(PROPOSED_LEASE_ID))?;
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
            return Err(invalid(LEASE_ACTION, actions));
        }
    })
}

fn new_id() -> LeaseId {
    let (high, low) = random::bits();
    LeaseId::from_random_bits(high, low)
}

/// Returns the name of the holder. Azure's clients have no names, so the client's id of the request
/// is used instead.
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
    let fixed = |seconds| LeaseDuration::Fixed(Duration::from_secs(seconds));
    let duration = match text {
        "-1" => Some(LeaseDuration::Infinite),
        text => text.parse().ok().map(fixed),
    };
    duration
        .filter(|duration| Rules::AZURE.allows(*duration))
        .ok_or_else(|| invalid(LEASE_DURATION, "it must be -1 or from 15 to 60"))
}

fn break_period(text: &str) -> Result<Duration> {
    let period = text.parse().ok().map(Duration::from_secs);
    let period = period.filter(|period| *period <= Rules::AZURE.max_break_period);
    period.ok_or_else(|| invalid(BREAK_PERIOD, "it must be from 0 to 60"))
}
