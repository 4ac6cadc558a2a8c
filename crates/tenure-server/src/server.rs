//! The listener, and an orderly end.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use hyper_util::rt::TokioTimer;
use tracing::info;

use crate::Store;
use crate::http::router;

/// How long a request's headers may take, and a connection may be idle: hyper has one timer for
/// both. Above a minute, so that clients which renew once a minute keep their connections; low
/// enough that connections which say nothing don't pile up.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// Most headers of a request, and most bytes of buffer for reading them.
const MAX_HEADERS: usize = 64;
const MAX_BUFFER: usize = 16 * 1024;

/// How long requests that are under way may take after the shutdown began.
const DRAIN: Duration = Duration::from_secs(5);

/// A store behind a TCP listener.
#[derive(Debug)]
pub struct Server {
    store: Store,
    listener: TcpListener,
}

/// Why a server ended, other than by the caller's will.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The engine failed for good (an I/O error, a failed fsync). Nothing was acknowledged that is
    /// not durable. Look at the disk before starting again.
    #[error("the store's engine failed, see the log for the reason")]
    EngineFailed,
    /// The listener could not be used.
    #[error("can't serve: {0}")]
    Io(#[from] io::Error),
}

impl Server {
    /// Listens on `address`; with port 0 the operating system chooses one.
    ///
    /// # Errors
    ///
    /// The address is in use, or not one of this machine's.
    pub fn bind(store: Store, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { store, listener })
    }

    /// The address that clients connect to.
    ///
    /// # Errors
    ///
    /// The operating system's, if it can't tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is done, then ends in order: those who wait are answered at once,
    /// requests under way may end, everything is committed and the engine is closed.
    ///
    /// # Errors
    ///
    /// [`ServeError`], also if the engine fails for good: then the process should end with an error.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self { store, listener } = self;
        let handle = Handle::new();
        let mut server = axum_server::from_tcp(listener)?
            .acceptor(NoDelayAcceptor::new())
            .http1_only()
            .handle(handle.clone());
        server
            .http_builder()
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_BUFFER);
        let serving = server.serve(router(store.clone()).into_make_service());
        tokio::pin!(serving);

        let engine_failed = tokio::select! {
            result = &mut serving => return Ok(result?),
            () = store.engine_failed() => true,
            () = shutdown => false,
        };
        info!("stopping");
        store.stop();
        handle.graceful_shutdown(Some(DRAIN));
        serving.await?;
        // The last commit and the checkpoint block.
        let closed = tokio::task::spawn_blocking({
            let store = store.clone();
            move || store.close()
        });
        closed.await.map_err(io::Error::other)?;
        if engine_failed || store.has_failed() {
            return Err(ServeError::EngineFailed);
        }
        info!("stopped");
        Ok(())
    }
}
