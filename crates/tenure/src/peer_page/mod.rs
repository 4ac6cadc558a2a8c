//! The page of a group: the status of each member, for people with a browser.
//!
//! Each member serves the page. The page only shows: it has no button that changes anything, and
//! needs no key, like the status route. All viewers share one snapshot of at most a second, so
//! viewers do not multiply the requests between members.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tenure_core::{Name, NodeId};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::peers::client::{GroupView, PeersClient};

/// The greatest age of a snapshot.
const FRESH: Duration = Duration::from_secs(1);

/// The time that one member may take to answer. A member closes the connection of a browser soon
/// after two seconds, so the answer must be complete by then.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The page loads files of this member only, contains no script or style of its own, and cannot be
/// embedded into another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// The last answers of all members, and their time.
#[derive(Debug)]
struct Group {
    client: PeersClient,
    cluster: Name,
    me: NodeId,
    snapshot: Mutex<Option<(Instant, Bytes)>>,
}

/// Returns the page of a group below `/v1/peers/{cluster}/`. `client` asks the members.
pub(crate) fn router(client: PeersClient, cluster: &Name, me: NodeId) -> Router {
    let group = Arc::new(Group {
        client: client.with_timeout(TIMEOUT),
        cluster: cluster.clone(),
        me,
        snapshot: Mutex::default(),
    });
    let path = |file: &str| format!("{}{file}", path(cluster));
    let html = include_str!("index.html");
    let css = include_str!("style.css");
    let script = include_str!("page.js");
    let icon = include_str!("icon.svg");
    Router::new()
        .route(
            &path(""),
            get(async || file("text/html; charset=utf-8", html)),
        )
        .route(
            &path("style.css"),
            get(async || file("text/css; charset=utf-8", css)),
        )
        .route(
            &path("page.js"),
            get(async || file("text/javascript; charset=utf-8", script)),
        )
        .route(&path("icon.svg"), get(async || file("image/svg+xml", icon)))
        .route(&path("members"), get(async move || group.members().await))
}

fn path(cluster: &Name) -> String {
    format!("/v1/peers/{cluster}/")
}

impl Group {
    async fn members(&self) -> Response {
        // Requests that arrive while the members are asked wait for the same answers.
        let mut snapshot = self.snapshot.lock().await;
        let body = match &*snapshot {
            Some((at, body)) if at.elapsed() < FRESH => body.clone(),
            _ => {
                let body = self.ask().await;
                *snapshot = Some((Instant::now(), body.clone()));
                body
            }
        };
        respond("application/json", body)
    }

    async fn ask(&self) -> Bytes {
        let group = GroupView::of(&self.client.ask_all().await);
        let body = serde_json::json!({
            "cluster": self.cluster.as_str(),
            "asked_by": self.me,
            "leader": group.leader,
            "epoch": group.epoch,
            "members": group.members,
        });
        body.to_string().into()
    }
}

fn file(kind: &'static str, content: &'static str) -> Response {
    respond(kind, Bytes::from_static(content.as_bytes()))
}

fn respond(kind: &'static str, body: Bytes) -> Response {
    let header = |name: &'static str, value| (HeaderName::from_static(name), value);
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        header("x-content-type-options", "nosniff"),
        header("referrer-policy", "no-referrer"),
        header("cross-origin-opener-policy", "same-origin"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, body).into_response()
}
