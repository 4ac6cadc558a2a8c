//! The listener of a member that serves its own routes.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::accepted_stream::AcceptedStream;
use super::caller::Caller;
use super::endpoint::PeerEndpoint;
use super::inbox::PeerEvent;
use super::routes::body_time;

/// The greatest number of connections. A member has one connection to each other member, and
/// briefly a second one while it replaces the first; the rest is for clients of the status route.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// The time for which an authenticated connection may be idle, or may take to send a head.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The time that a connection may take, besides the time for a body, until a member has
/// authenticated on it. Members authenticate at once, and a request for the status takes no longer.
const UNAUTHENTICATED_TIME: Duration = Duration::from_secs(2);

/// The approximate size of the largest head. Bodies are read in pieces.
const BUFFER_BYTES: usize = 32 * 1024;

/// The number of new connections that the kernel keeps until the member accepts them.
const BACKLOG: i32 = 1024;

/// The pause after the operating system had no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on this address. The address `[::]` stands for those of IPv4, too.
///
/// # Errors
///
/// The address is in use, or does not belong to this machine.
pub fn bind(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As the standard library does: a restart must not wait for the connections of the previous run.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Linux has a setting that would leave the addresses of IPv4 out.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Serves connections until the future is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, endpoint: Arc<PeerEndpoint>) {
    // All connections, the oldest first. A connection closes when it is removed.
    let mut open = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "no connection was accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let stream = AcceptedStream::new(stream);
        let caller = Caller::default();
        make_room(&mut open);
        let served = attend(stream, router.clone(), endpoint.clone(), caller.clone());
        open.push((caller, AbortOnDropHandle::new(tokio::spawn(served))));
    }
}

/// Serves one connection until it ends.
async fn attend(
    stream: AcceptedStream,
    router: Router,
    endpoint: Arc<PeerEndpoint>,
    caller: Caller,
) {
    let service = TowerToHyperService::new(router.layer(Extension(caller.clone())));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let unauthenticated = async {
        tokio::time::sleep(UNAUTHENTICATED_TIME + body_time(&endpoint)).await;
        if !caller.is_unauthenticated() {
            std::future::pending().await
        }
    };
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection failed");
            }
        }
        () = unauthenticated => tracing::debug!("no member has authenticated on a connection"),
    }
    if let Some(node) = caller.gone() {
        endpoint.notify(PeerEvent::Refused(node));
    }
}

/// Makes room for one more connection. This function must never wait: callers without a key could
/// open all connections, and the new connection may belong to a member. It closes the oldest
/// unauthenticated connection, which has had the most time to authenticate. If all connections are
/// authenticated, it closes the oldest one, because a member opens another connection when it needs
/// one.
fn make_room(open: &mut Vec<(Caller, AbortOnDropHandle<()>)>) {
    open.retain(|(_, task)| !task.is_finished());
    if open.len() >= MAX_CONNECTIONS {
        let unauthenticated = |(caller, _): &(Caller, _)| caller.is_unauthenticated();
        let oldest = open.iter().position(unauthenticated).unwrap_or(0);
        drop(open.remove(oldest));
    }
}
