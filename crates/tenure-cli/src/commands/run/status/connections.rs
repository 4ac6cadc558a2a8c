//! The connections of the status listener.

use std::collections::VecDeque;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tenure::listener::AcceptedStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

/// The greatest number of connections: enough for some monitoring systems and load balancers, and
/// few compared to the files that a process may open. The candidate needs files for its own
/// connections.
const MAX_CONNECTIONS: usize = 64;

/// The time that a connection may take for its only request and the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// The greatest size of a head.
const BUFFER_BYTES: usize = 16 * 1024;

/// The pause after the operating system had no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until the future is dropped. It never waits for a connection: a new one
/// replaces the oldest one if there are too many.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut open = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "no connection was accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection: &AbortOnDropHandle<()>| !connection.is_finished());
        if open.len() >= MAX_CONNECTIONS {
            drop(open.pop_front());
        }
        let connection = tokio::spawn(attend(stream, router.clone()));
        open.push_back(AbortOnDropHandle::new(connection));
    }
}

/// Serves one request.
async fn attend(stream: TcpStream, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(
            TokioIo::new(AcceptedStream::new(stream)),
            TowerToHyperService::new(router),
        );
    match timeout(CONNECTION_TIME, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection to the status listener failed"),
        Err(_) => debug!("a connection to the status listener took too long"),
    }
}
