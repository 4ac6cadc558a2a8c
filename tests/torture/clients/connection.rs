//! A connection to the store.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tenure_core::lease::LeaseId;
use tenure_core::wire;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::NAMESPACE;
use crate::history::{Answer, Ask};

/// The longest time to connect.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection. Dropping it closes it, even with a request in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The number of the connection in the round.
    pub(crate) number: u64,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr, number: u64) -> io::Result<Self> {
        let stream = timeout(CONNECT, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let handshake = http1::handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            number,
            sender,
            driver,
        })
    }

    /// Whether the connection accepts another request.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) async fn ask(
        &mut self,
        credential: &str,
        lease: &str,
        holder: Option<&str>,
        ask: &Ask,
    ) -> io::Result<Answer> {
        let response = self.send(request(credential, lease, holder, ask)).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes();
        Ok(answer(ask, status, &body))
    }

    /// Requests a stream of events.
    pub(crate) async fn watch(
        &mut self,
        credential: &str,
        lease: Option<&str>,
        renewed: bool,
        after: Option<u64>,
    ) -> io::Result<Response<Incoming>> {
        let lease = lease.map_or(String::new(), |lease| format!("{lease}/"));
        let uri = format!("/v1/namespaces/{NAMESPACE}/leases/{lease}events?renewed={renewed}");
        let mut request = Request::get(uri).header("host", "localhost");
        request = request.header("accept", "text/event-stream");
        request = request.header("authorization", format!("Bearer {credential}"));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let request = request.body(Full::default()).map_err(io::Error::other)?;
        self.send(request).await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        self.sender.ready().await.map_err(io::Error::other)?;
        let sent = self.sender.send_request(request).await;
        sent.map_err(io::Error::other)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn request(credential: &str, lease: &str, holder: Option<&str>, ask: &Ask) -> Request<Full<Bytes>> {
    let get = |path: &str| (Method::GET, path.to_owned(), None);
    let post = |verb: &str, body: Value| (Method::POST, format!("/{lease}/{verb}"), Some(body));
    let id = |id: &LeaseId| id.to_wire().to_string();
    let (method, path, body) = match ask {
        Ask::Acquire {
            id: lease_id,
            duration_ms,
            wait_ms,
            lock_delay_ms,
            min_epoch,
        } => post(
            "acquire",
            json!({"lease_id": id(lease_id), "holder": holder, "duration_ms": duration_ms, "wait_ms": wait_ms,
                "lock_delay_ms": lock_delay_ms, "min_epoch": min_epoch}),
        ),
        Ask::Renew {
            id: lease_id,
            duration_ms,
        } => post(
            "renew",
            json!({"lease_id": id(lease_id), "duration_ms": duration_ms}),
        ),
        Ask::Change {
            id: lease_id,
            proposed,
        } => post(
            "change",
            json!({"lease_id": id(lease_id), "proposed_lease_id": id(proposed)}),
        ),
        Ask::Metadata { id: lease_id } => {
            let body = json!({"lease_id": id(lease_id), "metadata": {"of": holder}});
            (Method::PUT, format!("/{lease}/metadata"), Some(body))
        }
        Ask::Release { id: lease_id } => post("release", json!({"lease_id": id(lease_id)})),
        Ask::HandOver {
            id: lease_id,
            to,
            within_ms,
            force,
        } => post(
            "handover",
            json!({"lease_id": lease_id.as_ref().map(id), "to": to, "within_ms": within_ms, "force": force}),
        ),
        Ask::Break { period_ms } => post("break", json!({"break_period_ms": period_ms})),
        Ask::Delete => (Method::DELETE, format!("/{lease}"), None),
        Ask::Verify { epoch } => post("verify", json!({"epoch": epoch})),
        Ask::View => get(&format!("/{lease}")),
        Ask::Poll { after, wait_ms } => get(&format!("/{lease}?after={after}&wait_ms={wait_ms}")),
        Ask::Terms => get(&format!("/{lease}/history")),
        Ask::List => get(""),
        Ask::SignIn => (Method::POST, String::new(), Some(json!({}))),
    };
    let uri = match ask {
        Ask::SignIn => "/v1/session".into(),
        _ => format!("/v1/namespaces/{NAMESPACE}/leases{path}"),
    };
    let mut request = Request::builder().method(method).uri(uri);
    request = request.header("host", "localhost");
    request = request.header("authorization", format!("Bearer {credential}"));
    let body = match body {
        Some(body) => {
            request = request.header("content-type", "application/json");
            Full::from(body.to_string())
        }
        None => Full::default(),
    };
    request
        .body(body)
        .expect("the parts of a request are well-formed")
}

/// Parses the answer to this request.
fn answer(ask: &Ask, status: u16, body: &[u8]) -> Answer {
    let parsed = match (status, ask) {
        (200, Ask::List) => serde_json::from_slice(body).map(Answer::List),
        (200, Ask::Terms) => {
            serde_json::from_slice(body).map(|wire::History { terms, .. }| Answer::Terms(terms))
        }
        (200, Ask::Verify { .. }) => serde_json::from_slice(body).map(|body: Value| {
            let (current, epoch) = (body["current"] == true, body["epoch"].as_u64());
            Answer::Verified { current, epoch }
        }),
        (204, Ask::Delete) => Ok(Answer::Deleted),
        (200, Ask::SignIn) => serde_json::from_slice(body)
            .map(|wire::SessionReply { session, .. }| Answer::SignedIn(session)),
        (200, _) => serde_json::from_slice(body).map(Answer::View),
        _ => serde_json::from_slice(body).map(Answer::Refused),
    };
    parsed.unwrap_or_else(|_| Answer::Unexpected {
        status,
        body: String::from_utf8_lossy(body).into_owned(),
    })
}
