//! The listener of a member that serves its routes by itself.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::caller::Caller;
use super::endpoint::PeerEndpoint;
use super::inbox::PeerEvent;
use super::routes::body_time;

/// Most connections at a time. A member has one to each other one, and a second one for a moment
/// when it takes a fresh one; the rest is for those who look at the status.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// How long a connection on which a member has spoken may be idle, or take for a head.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a connection may take, besides the time for a body, until a member has spoken on it.
/// Members speak at once, and looking at the status takes no longer.
const STRANGER_TIME: Duration = Duration::from_secs(2);

/// Largest head, about; bodies are read in pieces.
const BUFFER_BYTES: usize = 32 * 1024;

/// How long to wait when the operating system has no file handle for another connection.
const BREATH: Duration = Duration::from_millis(100);

pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = StdListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, endpoint: Arc<PeerEndpoint>) {
    let mut connections = JoinSet::new();
    let mut seats = Seats::default();
    loop {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "no connection was accepted");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        // Without it an answer waits for more to be sent.
        let _ = stream.set_nodelay(true);
        let caller = Caller::default();
        seats.make_room();
        let task = connections.spawn(attend(
            stream,
            router.clone(),
            endpoint.clone(),
            caller.clone(),
        ));
        seats.0.push(Seat { caller, task });
    }
}

/// Serves one connection to its end.
async fn attend(stream: TcpStream, router: Router, endpoint: Arc<PeerEndpoint>, caller: Caller) {
    let service = TowerToHyperService::new(router.layer(Extension(caller.clone())));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let strange = async {
        tokio::time::sleep(STRANGER_TIME + body_time(&endpoint)).await;
        if !caller.is_stranger() {
            std::future::pending().await
        }
    };
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = strange => tracing::debug!("no member has spoken on a connection"),
    }
    if let Some(node) = caller.gone() {
        endpoint.tell(PeerEvent::Refused(node));
    }
}

/// The connections there are, the oldest first.
#[derive(Default)]
struct Seats(Vec<Seat>);

struct Seat {
    caller: Caller,
    task: AbortHandle,
}

impl Seats {
    /// Makes room for one more. It must never wait: who has no key could take all seats, and the
    /// newcomer may be a member. So the oldest stranger goes, who has had the longest time to show a
    /// key; if all are members, the oldest of them, who opens another one when it needs it.
    fn make_room(&mut self) {
        self.0.retain(|seat| !seat.task.is_finished());
        if self.0.len() >= MAX_CONNECTIONS {
            let strange = self.0.iter().position(|seat| seat.caller.is_stranger());
            self.0.remove(strange.unwrap_or(0)).task.abort();
        }
    }
}
