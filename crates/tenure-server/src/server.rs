//! The listener, and a graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::Store;
use crate::access::{Access, TrustedProxies};
use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::cluster::ClusterMember;
use crate::connections::{Connections, limit_buffers};
use crate::http::{HttpService, Protocol, ServiceConfig};
use crate::metrics::MetricsConfig;
use crate::store::ServedStore;
use crate::tls::Tls;

/// The time that running requests have after the shutdown began.
const DRAIN: Duration = Duration::from_secs(5);

/// The number of new connections that the kernel keeps until the server accepts them. The standard
/// library's 128 are too few: if a thousand clients connect at the same time, the kernel drops the
/// excess, and leaders that reconnect wait for a second or more.
const BACKLOG: i32 = 4096;

/// The pause after a connection could not be accepted, for example because the process has no file
/// descriptor left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Listens on this address. The address `[::]` stands for those of IPv4, too.
fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // The standard library sets this option, too: a restart must not wait for the connections of
    // the previous run.
    #[cfg(unix)]
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

/// Runs work that blocks.
async fn blocking(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)
}

/// Serves the connections of the listener for metrics. When this future is dropped, its connections
/// end.
async fn accept(listener: &TcpListener, server: &Arc<Connections>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    connections.spawn(Arc::clone(server).serve(stream, client));
                }
                Err(_) => sleep(ACCEPT_RETRY).await,
            },
        }
    }
}

/// Records a restore or a recovery of the log of a cluster, at the first server that owns the log
/// after it.
fn record_restore(store: &Store, audit: &Audit) {
    if let Some(note) = store.take_restored() {
        audit.record(AuditEntry::new(AuditKind::Restore, "done").with_reason(Some(note)));
    }
}

/// A store behind a TCP listener.
#[derive(Debug)]
pub struct Server {
    stores: ServedStore,
    cluster: Option<ClusterMember>,
    access: Access,
    audit: Audit,
    proxies: TrustedProxies,
    protocol: Option<Arc<dyn Protocol>>,
    tls: Option<Tls>,
    metrics: MetricsConfig,
    metrics_listener: Option<std::net::TcpListener>,
    listener: std::net::TcpListener,
}

/// The reason why a server ended, other than the caller's request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The engine failed for good (an I/O error or a failed fsync), or a thread of the store
    /// panicked; the log has the reason. Every acknowledged change is durable. If the engine
    /// failed, check the disk before the next start.
    #[error("the store failed, see the log for the reason")]
    EngineFailed,
    /// The listener could not be used.
    #[error("can't serve: {0}")]
    Io(#[from] io::Error),
}

impl Server {
    /// Listens on `address`; with port 0 the operating system chooses the port. Every client that
    /// reaches the address may send every request, if the request names the store by an IP address
    /// or as `localhost`; [`Server::with_access`] changes that.
    ///
    /// # Errors
    ///
    /// The address is in use, or does not belong to this machine.
    pub fn bind(store: Store, address: SocketAddr) -> io::Result<Self> {
        Self::with_listener(store, listen(address)?)
    }

    /// Like [`Server::bind`], on a socket that listens already.
    ///
    /// # Errors
    ///
    /// The socket can't be used without blocking.
    pub fn with_listener(store: Store, listener: std::net::TcpListener) -> io::Result<Self> {
        Self::new(store.into(), None, listener)
    }

    /// Like [`Server::bind`], for a server of a cluster.
    ///
    /// # Errors
    ///
    /// The address is in use, or does not belong to this machine.
    pub fn bind_cluster(cluster: ClusterMember, address: SocketAddr) -> io::Result<Self> {
        Self::cluster_with_listener(cluster, listen(address)?)
    }

    /// Like [`Server::bind_cluster`], on a socket that listens already.
    ///
    /// # Errors
    ///
    /// The socket can't be used without blocking.
    pub fn cluster_with_listener(
        cluster: ClusterMember,
        listener: std::net::TcpListener,
    ) -> io::Result<Self> {
        Self::new(cluster.served(), Some(cluster), listener)
    }

    fn new(
        stores: ServedStore,
        cluster: Option<ClusterMember>,
        listener: std::net::TcpListener,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        limit_buffers(&listener)?;
        Ok(Self {
            listener,
            stores,
            cluster,
            access: Access::anonymous_at([]),
            audit: Audit::none(),
            proxies: TrustedProxies::default(),
            protocol: None,
            tls: None,
            metrics: MetricsConfig::default(),
            metrics_listener: None,
        })
    }

    /// Sets the rules for access.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the audit log. If a store has several servers, the changes of its leases are recorded
    /// in the log of the first server.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// Sets the proxies that the server trusts. The audit log and the limit of wrong credentials
    /// then use the addresses of the clients that the proxies name, and the connections of a proxy
    /// are not limited by address.
    #[must_use]
    pub fn with_trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Adds another protocol, on all paths that do not belong to the native API.
    #[must_use]
    pub fn with_protocol(mut self, protocol: impl Protocol) -> Self {
        self.protocol = Some(Arc::new(protocol));
        self
    }

    /// Serves over TLS only. A handshake may take as long as a body
    /// ([`Limits::request_time`](crate::Limits::request_time)). A connection counts towards the
    /// limit even before its handshake.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets which metrics the route `/metrics` shows. The overview shows a lease that it expects to
    /// be held, and that is not, as one that needs a look.
    #[must_use]
    pub fn with_metrics(mut self, metrics: MetricsConfig) -> Self {
        self.stores.current().expect_leaders(metrics.expected());
        self.metrics = metrics;
        self
    }

    /// Also serves `/metrics` and the probes on this address, without TLS, and nothing else. On a
    /// loopback address a scrape needs no credential; beyond, it needs the same credential as
    /// `/metrics` of the server.
    ///
    /// # Errors
    ///
    /// The address is in use, or does not belong to this machine.
    pub fn with_metrics_listener(mut self, address: SocketAddr) -> io::Result<Self> {
        let listener = listen(address)?;
        limit_buffers(&listener)?;
        self.metrics_listener = Some(listener);
        Ok(self)
    }

    /// Returns the address of the listener for metrics, if there is one.
    ///
    /// # Errors
    ///
    /// The operating system does not know the address.
    pub fn metrics_addr(&self) -> io::Result<Option<SocketAddr>> {
        let listener = self.metrics_listener.as_ref();
        listener.map(std::net::TcpListener::local_addr).transpose()
    }

    /// Returns the address that clients connect to.
    ///
    /// # Errors
    ///
    /// The operating system does not know the address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` completes, and then ends gracefully: waiters get a response at once,
    /// running requests may finish, all changes are committed and the engine is closed.
    ///
    /// # Errors
    ///
    /// [`ServeError`], also if the engine fails for good: then the process should end with an
    /// error. A [`Protocol`] that needs TLS is not served without it.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let needs_tls = self
            .protocol
            .as_ref()
            .is_some_and(|protocol| protocol.needs_tls());
        if needs_tls && self.tls.is_none() {
            let reason = "a protocol beside the native API needs TLS, and the server has none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason).into());
        }
        let (mut stores, listener) = (self.stores, TcpListener::from_std(self.listener)?);
        let mut store = stores.current();
        let metrics_listener = self.metrics_listener.map(TcpListener::from_std);
        let metrics_listener = metrics_listener.transpose()?;
        store.record_changes(&self.audit);
        record_restore(&store, &self.audit);
        let audit = self.audit.clone();
        let http = HttpService::new(ServiceConfig {
            stores: stores.clone(),
            access: self.access.clone(),
            audit: self.audit,
            proxies: self.proxies,
            protocol: self.protocol,
            tls: self.tls.clone(),
            metrics: self.metrics,
        });
        let mut connections = JoinSet::new();
        if let Some(listener) = metrics_listener {
            let is_local = listener.local_addr()?.ip().is_loopback();
            let access = match is_local {
                true => Access::anonymous_at([]),
                false => self.access,
            };
            let server = Arc::new(Connections::for_metrics(http.for_metrics(access)));
            let stopping = store.stopping().clone();
            connections.spawn(async move {
                let accept = accept(&listener, &server);
                stopping.run_until_cancelled(accept).await;
            });
        }
        let server = Arc::new(Connections::new(http, self.tls));
        tokio::pin!(shutdown);
        let failed = loop {
            tokio::select! {
                biased;
                () = store.failed().cancelled() => break true,
                () = stores.changed() => {
                    store = stores.current();
                    record_restore(&store, &audit);
                }
                () = &mut shutdown => break false,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, client)) => {
                        connections.spawn(Arc::clone(&server).serve(stream, client));
                    }
                    Err(_) => sleep(ACCEPT_RETRY).await,
                },
            }
        };
        info!("stopping");
        drop(listener);
        match self.cluster {
            // Another server can take over at once, while this one answers the last requests.
            Some(cluster) => blocking(move || cluster.stop()).await?,
            None => store.stop(),
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(DRAIN, drained).await;
        connections.shutdown().await;
        // The last commit and the last upkeep block.
        let closing = store.clone();
        blocking(move || closing.close()).await?;
        if failed || store.failed().is_cancelled() {
            return Err(ServeError::EngineFailed);
        }
        info!("stopped");
        Ok(())
    }
}
