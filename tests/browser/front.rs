//! A proxy between the browser and a store. It can hold requests back, serve the store under a path
//! prefix, and add to the page what an attacker would like to add.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Headers that belong to a connection, and not to a request or an answer.
const OF_A_CONNECTION: &[HeaderName] = &[CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// What this proxy changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The path under which the store is served, such as `/tenure`.
    pub(crate) prefix: &'static str,
    /// Markup that is added to the end of the page.
    pub(crate) added: String,
}

/// The proxy. It ends with its runtime.
#[derive(Debug)]
pub(crate) struct Front {
    address: SocketAddr,
    held: watch::Sender<&'static str>,
}

impl Front {
    /// Starts a proxy in front of this store.
    pub(crate) fn start(runtime: &Runtime, store: SocketAddr, change: Change) -> Self {
        let (held, holds) = watch::channel("");
        let http = tenure_tests::client::plain_http().build();
        let shared = Arc::new((http.expect("a client"), store, change, holds));
        let router = axum::Router::new().fallback(move |request: Request| {
            let shared = shared.clone();
            async move {
                let (http, store, change, holds) = &*shared;
                // The part of the path is held until another one is.
                let path = request.uri().path().to_owned();
                let mut holds = holds.clone();
                let is_free = |part: &&str| part.is_empty() || !path.contains(*part);
                let _ = holds.wait_for(is_free).await;
                forward(http, *store, change, request).await
            }
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, held }
    }

    /// The origin of the page behind this proxy.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Holds requests whose path contains this text, from now on. An empty text lets all pass.
    pub(crate) fn hold(&self, part: &'static str) {
        self.held.send_replace(part);
    }
}

async fn forward(
    http: &reqwest::Client,
    store: SocketAddr,
    change: &Change,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Some(target) = target.strip_prefix(change.prefix) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let body = body.collect().await.expect("a body").to_bytes();
    let url = format!("http://{store}{target}");
    let mut headers = parts.headers;
    without_connection(&mut headers);
    let sent = http.request(parts.method, url).headers(headers).body(body);
    let Ok(answer) = sent.send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (mut parts, body) = Response::<reqwest::Body>::from(answer).into_parts();
    let is_page = target.split('?').next() == Some("/") && parts.status == 200;
    without_connection(&mut parts.headers);
    if !is_page || change.added.is_empty() {
        return Response::from_parts(parts, Body::new(body));
    }
    let page = body.collect().await.expect("the page").to_bytes();
    let changed = Bytes::from([&page, change.added.as_bytes()].concat());
    Response::from_parts(parts, Body::from(changed))
}

fn without_connection(headers: &mut HeaderMap) {
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
}
