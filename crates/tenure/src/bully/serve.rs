//! The listener of a member that serves its routes by itself.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::caller::Caller;
use super::inbox::Event;
use super::local::Local;

/// Most connections at a time. A member has one to each other one, and a second one for a moment
/// when it takes a fresh one; the rest is for those who look at the status.
const MAX_CONNECTIONS: usize = 256;

/// How long a connection may be idle, or take for a head.
const HEAD_TIME: Duration = Duration::from_secs(30);

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
pub(super) async fn serve(listener: TcpListener, router: Router, local: Arc<Local>) {
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // The semaphore is never closed.
        let seat = seats.clone().acquire_owned().await;
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
        let router = router.clone().layer(Extension(caller.clone()));
        let service = TowerToHyperService::new(router);
        let local = local.clone();
        connections.spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(BUFFER_BYTES)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke");
            }
            if let Some(node) = caller.gone() {
                local.tell(Event::Refused(node));
            }
            drop(seat);
        });
    }
}
