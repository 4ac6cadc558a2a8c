//! The routes of a member.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Serialize;
use tenure_core::wire::check_json;
use tokio::time::Instant;

use super::caller::Caller;
use super::endpoint::PeerEndpoint;
use super::path::PATH_HEADER;
use super::relay::{Delivered, Relay};
use crate::peers::wire::envelope::{Answer, MAX_REQUEST_BYTES, Payload};
use crate::peers::wire::mac::{MAC_HEADER, RequestMac};
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};

/// The shortest time for a body. Over a bad connection it arrives in pieces.
const MIN_BODY_TIME: Duration = Duration::from_secs(1);

const PROBLEM: &str = "application/problem+json";

pub(super) fn router(relay: Arc<Relay>) -> Router {
    let endpoint = relay.endpoint.clone();
    let for_others = Router::new()
        .route("/v1/peers/{cluster}/relay", post(pass_on))
        .with_state(relay);
    Router::new()
        .route("/v1/peers/{cluster}/message", post(message))
        .route("/v1/peers/{cluster}/status", get(show))
        .with_state(endpoint)
        .merge(for_others)
}

async fn show(State(endpoint): State<Arc<PeerEndpoint>>, Path(cluster): Path<String>) -> Response {
    if let Err(refusal) = endpoint.check_cluster(&cluster) {
        return refuse(&endpoint, refusal, None);
    }
    let headers = [(CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let mut view = endpoint.view().clone();
    if let Some(store) = endpoint.group_store() {
        view.status.store = store.known_or_pending();
        view.status.settings = Some(endpoint.setup.fingerprint.short().into());
    }
    (headers, Json(view)).into_response()
}

async fn message(
    State(endpoint): State<Arc<PeerEndpoint>>,
    Path(cluster): Path<String>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let endpoint = &*endpoint;
    // The MAC of the request, after it was checked.
    let mut mac = None;
    let take = async {
        endpoint.check_cluster(&cluster)?;
        let body = read(&headers, body, body_time(endpoint)).await?;
        // This check is the first one, because nothing is parsed for a caller without a key.
        mac = Some(check_mac(endpoint, &headers, &body)?);
        let (from, reply) = endpoint.admit(&body)?;
        if let Some(caller) = &caller {
            if headers.contains_key(PATH_HEADER) {
                caller.authenticate_relay();
            } else {
                caller.authenticate(from, &headers);
            }
        }
        // If the driver takes longer than a message's lifetime, it sends its answer in a request.
        let reply = tokio::time::timeout(endpoint.setup.message_lifetime, reply).await;
        Ok(reply.ok().and_then(Result::ok).unwrap_or_default())
    };
    let taken: Result<Vec<Payload>, PeerProblem> = take.await;
    match taken {
        Ok(payloads) => {
            let member = endpoint.answerer();
            let body = json(&Answer { member, payloads });
            respond(200, "application/json", body, mac.as_ref())
        }
        Err(refusal) => refuse(endpoint, refusal, mac.as_ref()),
    }
}

/// Passes a request on to another member, and its answer back.
async fn pass_on(
    State(relay): State<Arc<Relay>>,
    Path(cluster): Path<String>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let arrived = Instant::now();
    let endpoint = &*relay.endpoint;
    let mut mac = None;
    let pass = async {
        endpoint.check_cluster(&cluster)?;
        let body = read(&headers, body, body_time(endpoint)).await?;
        // Nothing is passed on for a caller without a key.
        let checked = check_mac(endpoint, &headers, &body)?;
        mac = Some(checked.clone());
        let passage = relay.accept(body, checked, &headers, arrived)?;
        if let Some(caller) = &caller {
            caller.authenticate_relay();
        }
        relay.pass_on(passage).await
    };
    let delivered: Result<Delivered, PeerProblem> = pass.await;
    let Delivered { answer, path } = match delivered {
        Ok(delivered) => delivered,
        Err(refusal) => return refuse(endpoint, refusal, mac.as_ref()),
    };
    let kind = match answer.status {
        200 => "application/json",
        _ => PROBLEM,
    };
    let mut response = respond_with(answer.status, kind, answer.body, answer.mac);
    // A path consists of digits and commas.
    if let Ok(path) = HeaderValue::try_from(path.to_string()) {
        response.headers_mut().insert(PATH_HEADER, path);
    }
    response
}

/// Returns the time that a body may take.
pub(super) fn body_time(endpoint: &PeerEndpoint) -> Duration {
    endpoint.setup.message_lifetime.max(MIN_BODY_TIME)
}

/// Reads a body, which must be declared as JSON: a browser sends any other body for a page of another
/// site without asking the member.
async fn read(headers: &HeaderMap, body: Body, time: Duration) -> Result<Bytes, PeerProblem> {
    check_json(headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes))
        .map_err(|detail| PeerProblem::new(PeerErrorCode::NotJson, detail))?;
    match tokio::time::timeout(time, to_bytes(body, MAX_REQUEST_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(PeerProblem::new(
            PeerErrorCode::TooLarge,
            format!("the message has more than {MAX_REQUEST_BYTES} bytes, or was cut off"),
        )),
        Err(_) => Err(PeerProblem::new(
            PeerErrorCode::Malformed,
            format!("the message did not arrive within {time:?}"),
        )),
    }
}

/// Returns the MAC of a request if it is valid.
fn check_mac(
    endpoint: &PeerEndpoint,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<RequestMac, PeerProblem> {
    let mut macs = headers.get_all(MAC_HEADER).iter();
    let given = macs.next().map(|mac| mac.to_str().unwrap_or_default());
    let mac = &endpoint.setup.mac;
    let checked = mac.check_request(&endpoint.message_path(), body, given);
    if let (Some(checked), None) = (checked, macs.next()) {
        return Ok(checked);
    }
    let detail = match (mac.is_keyed(), given) {
        (false, _) => "the message has a MAC, and this member has no key".into(),
        (_, None) => format!("the message has no MAC (header {MAC_HEADER})"),
        _ => "the MAC is wrong: another key, or the message was changed on its way".into(),
    };
    Err(PeerProblem::new(PeerErrorCode::Unauthenticated, detail))
}

fn refuse(endpoint: &PeerEndpoint, mut refusal: PeerProblem, mac: Option<&RequestMac>) -> Response {
    endpoint.count_refusal(refusal.code);
    tracing::debug!(code = refusal.code.as_str(), "refused: {}", refusal.detail);
    refusal.member = mac.map(|_| endpoint.answerer());
    respond(refusal.status, PROBLEM, json(&refusal), mac)
}

/// Serialises a body. Text and numbers always result in JSON.
fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

fn respond(
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    request: Option<&RequestMac>,
) -> Response {
    let mac = request.and_then(|request| request.of_answer(status, &body));
    respond_with(status, kind, body, mac)
}

fn respond_with(status: u16, kind: &'static str, body: Vec<u8>, mac: Option<String>) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A MAC consists of hexadecimal digits.
    if let Some(Ok(mac)) = mac.map(HeaderValue::try_from) {
        headers.insert(MAC_HEADER, mac);
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, headers, body).into_response()
}
