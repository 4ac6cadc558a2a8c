//! The listener, and an orderly end.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum_server::Handle;
use hyper_util::rt::TokioTimer;
use tracing::info;

use crate::Store;
use crate::connections::Door;
use crate::http::router;

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
        let limits = store.limits();
        let mut server = axum_server::from_tcp(listener)?
            .acceptor(Door::new(&store))
            .http1_only()
            .handle(handle.clone());
        server
            .http_builder()
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            // A head that is over the limit must fit in, to be told so with both numbers.
            .max_buf_size(2 * limits.max_header_bytes);
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
