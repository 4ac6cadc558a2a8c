//! The routes of a member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use tenure_core::bully::ElectionId;
use tenure_core::{Epoch, Incarnation, NodeId};
use tokio::sync::watch;

use super::caller::Caller;
use super::counters::Counters;
use super::endpoint::PeerEndpoint;
use super::envelope::{Answer, MAX_REQUEST_BYTES, Payload};
use super::mac::{MAC_HEADER, RequestMac};
use super::problem::{PeerErrorCode, PeerProblem, Refusal};

/// Shortest time for a body: over a bad line it comes in pieces.
const MIN_BODY_TIME: Duration = Duration::from_secs(1);

/// The status that a member shows. The driver replaces it when something has changed.
///
/// A newer member may show more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The member.
    pub node: NodeId,
    /// Which start of the member this is.
    pub incarnation: Incarnation,
    /// Its strategy, as in its configuration.
    pub strategy: String,
    /// The name of the machine's state; `elected` if the member leads among the peers and waits for
    /// the lease, `ending` if it leads no more and its task is not gone yet.
    pub role: String,
    /// The leader that it knows.
    pub leader: Option<NodeId>,
    /// The leader's epoch.
    pub epoch: Option<Epoch>,
    /// Without a quorum: the election that it has accepted or organises.
    pub election: Option<ElectionId>,
    /// The members that it takes for down.
    pub suspects: Vec<NodeId>,
    /// With a quorum: whether it follows a leader, or reached a majority when it last tried.
    pub quorum: Option<bool>,
    /// The leader's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// The body of the status route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeerView {
    /// The state of the member.
    #[serde(flatten)]
    pub status: Status,
    /// Its counters.
    pub counters: Counters,
}

impl Status {
    /// The status of a member that has just started.
    pub(crate) fn of(node: NodeId, incarnation: Incarnation) -> Self {
        Self {
            node,
            incarnation,
            strategy: "bully".into(),
            role: "starting".into(),
            leader: None,
            epoch: None,
            election: None,
            suspects: Vec::new(),
            quorum: None,
            metadata: BTreeMap::new(),
        }
    }
}

#[derive(Clone)]
struct Shared {
    endpoint: Arc<PeerEndpoint>,
    status: watch::Receiver<Status>,
}

pub(super) fn router(endpoint: Arc<PeerEndpoint>, status: watch::Receiver<Status>) -> Router {
    Router::new()
        .route("/v1/peers/{cluster}/message", post(message))
        .route("/v1/peers/{cluster}/status", get(show))
        .with_state(Shared { endpoint, status })
}

async fn show(State(shared): State<Shared>, Path(cluster): Path<String>) -> Response {
    let endpoint = &shared.endpoint;
    if cluster != endpoint.cluster.as_str() {
        return refuse(endpoint, endpoint.unknown_cluster(&cluster), None);
    }
    let shown = PeerView {
        status: shared.status.borrow().clone(),
        counters: endpoint.counters.read(),
    };
    let headers = [(CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (headers, Json(shown)).into_response()
}

async fn message(
    State(shared): State<Shared>,
    Path(cluster): Path<String>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let endpoint = &shared.endpoint;
    if cluster != endpoint.cluster.as_str() {
        return refuse(endpoint, endpoint.unknown_cluster(&cluster), None);
    }
    let body = match read(body, body_time(endpoint)).await {
        Ok(body) => body,
        Err(refusal) => return refuse(endpoint, refusal, None),
    };
    // First of all: nothing is read from a caller without a key.
    let mac = match check_mac(endpoint, &headers, &body) {
        Ok(mac) => mac,
        Err(refusal) => return refuse(endpoint, refusal, None),
    };
    match endpoint.admit(&body) {
        Ok((from, reply)) => {
            if let Some(caller) = &caller {
                caller.authenticate(from, &headers);
            }
            answer(
                endpoint,
                wait_for_reply(reply, endpoint.lifetime).await,
                &mac,
            )
        }
        Err(refusal) => refuse(endpoint, refusal, Some(&mac)),
    }
}

/// How long a body may take.
pub(super) fn body_time(endpoint: &PeerEndpoint) -> Duration {
    endpoint.lifetime.max(MIN_BODY_TIME)
}

async fn read(body: Body, time: Duration) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(time, to_bytes(body, MAX_REQUEST_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(Refusal::new(
            PeerErrorCode::TooLarge,
            format!("the message has more than {MAX_REQUEST_BYTES} bytes, or was cut off"),
        )),
        Err(_) => Err(Refusal::new(
            PeerErrorCode::Malformed,
            format!("the message did not arrive within {time:?}"),
        )),
    }
}

/// The MAC of a request, if it is good.
fn check_mac(
    endpoint: &PeerEndpoint,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<RequestMac, Refusal> {
    let mut macs = headers.get_all(MAC_HEADER).iter();
    let given = macs.next().map(|mac| mac.to_str().unwrap_or_default());
    let path = endpoint.message_path();
    let checked = endpoint.mac.check_request(&path, body, given);
    if let (Some(checked), None) = (checked, macs.next()) {
        return Ok(checked);
    }
    let detail = match (endpoint.mac.is_keyed(), given) {
        (false, _) => "the message has a MAC, and this member has no key".into(),
        (_, None) => format!("the message has no MAC (header {MAC_HEADER})"),
        _ => "the MAC is wrong: another key, or the message was changed on its way".into(),
    };
    Err(Refusal::new(PeerErrorCode::Unauthenticated, detail))
}

/// The driver's reply. If it takes longer than a lifetime, the driver sends a request of its own.
async fn wait_for_reply(
    reply: tokio::sync::oneshot::Receiver<Vec<Payload>>,
    lifetime: Duration,
) -> Vec<Payload> {
    match tokio::time::timeout(lifetime, reply).await {
        Ok(Ok(payloads)) => payloads,
        _ => Vec::new(),
    }
}

fn answer(endpoint: &PeerEndpoint, payloads: Vec<Payload>, mac: &RequestMac) -> Response {
    let member = endpoint.answerer();
    let body = serde_json::to_vec(&Answer { member, payloads }).unwrap_or_default();
    respond(StatusCode::OK, "application/json", body, Some(mac))
}

fn refuse(endpoint: &PeerEndpoint, refusal: Refusal, mac: Option<&RequestMac>) -> Response {
    endpoint.counters.refused(refusal.code);
    tracing::debug!(code = refusal.code.as_str(), "refused: {}", refusal.detail);
    let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let problem = PeerProblem::new(refusal, mac.map(|_| endpoint.answerer()));
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    respond(status, "application/problem+json", body, mac)
}

fn respond(
    status: StatusCode,
    kind: &'static str,
    body: Vec<u8>,
    request: Option<&RequestMac>,
) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let mac = request.and_then(|request| request.of_answer(status.as_u16(), &body));
    // A MAC is made of hexadecimal digits.
    if let Some(Ok(mac)) = mac.map(HeaderValue::try_from) {
        headers.insert(MAC_HEADER, mac);
    }
    (status, headers, body).into_response()
}
