//! The listener, and a graceful shutdown.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use futures_util::FutureExt;
use hyper_util::rt::TokioTimer;
use tracing::info;

use crate::Store;
use crate::connections::Acceptor;
use crate::http::{HttpService, Protocol};
use crate::tls::Tls;

/// How long running requests may take after the shutdown began.
const DRAIN: Duration = Duration::from_secs(5);

/// A store behind a TCP listener.
#[derive(Debug)]
pub struct Server {
    store: Store,
    protocol: Option<Arc<dyn Protocol>>,
    tls: Option<Tls>,
    listener: TcpListener,
}

/// Why a server ended, other than by the caller's request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The engine failed for good (an I/O error, a failed fsync), or a thread of the store
    /// panicked; the log says which. Everything acknowledged is durable. If the engine failed,
    /// check the disk before the next start.
    #[error("the store failed, see the log for the reason")]
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
    /// The address is in use, or does not belong to this machine.
    pub fn bind(store: Store, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            store,
            protocol: None,
            tls: None,
            listener,
        })
    }

    /// The same, with another protocol on all paths that are not the native API's.
    #[must_use]
    pub fn with_protocol(self, protocol: impl Protocol) -> Self {
        Self {
            protocol: Some(Arc::new(protocol)),
            ..self
        }
    }

    /// The same over TLS only. A handshake may take as long as a body
    /// ([`Limits::request_time`](crate::Limits::request_time)). A connection counts towards the
    /// limit from before its handshake.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// The address that clients connect to.
    ///
    /// # Errors
    ///
    /// The operating system does not know the address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` completes, then ends in order: waiters get a response at once,
    /// running requests may end, everything is committed and the engine is closed.
    ///
    /// # Errors
    ///
    /// [`ServeError`], also if the engine fails for good: then the process should end with an
    /// error. A [`Protocol`] that needs TLS is not served without it.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self {
            store,
            protocol,
            tls,
            listener,
        } = self;
        if tls.is_none()
            && protocol
                .as_ref()
                .is_some_and(|protocol| protocol.needs_tls())
        {
            let reason = "a protocol beside the native API needs TLS, and the server has none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason).into());
        }
        let handle = Handle::new();
        let limits = store.limits();
        let acceptor = Acceptor::new(HttpService::new(store.clone(), protocol));
        let mut server = axum_server::from_tcp(listener)?.handle(handle.clone());
        server
            .http_builder()
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            // A head over the limit must fit in, so that the refusal can name both numbers.
            .max_buf_size(2 * limits.max_header_bytes);
        // The acceptor makes the service of each connection.
        let service = Router::new().into_make_service();
        // Two services, so that connections without TLS do not pay for it.
        let serving = match tls {
            None => server
                .acceptor(acceptor)
                .http1_only()
                .serve(service)
                .boxed(),
            Some(tls) => {
                let acceptor =
                    tls.acceptor(acceptor, limits.request_time, store.stopping().clone());
                server
                    .acceptor(acceptor)
                    .http1_only()
                    .serve(service)
                    .boxed()
            }
        };
        tokio::pin!(serving);

        let failed = tokio::select! {
            result = &mut serving => return Ok(result?),
            () = store.failed().cancelled() => true,
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
        if failed || store.failed().is_cancelled() {
            return Err(ServeError::EngineFailed);
        }
        info!("stopped");
        Ok(())
    }
}
