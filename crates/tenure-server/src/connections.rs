//! Connections: the limit on their number, and how each of them is served.
//!
//! New connections never harm existing ones. A connection over the limit gets an answer to its
//! first request and is then closed. A renewal on such a connection succeeds, so a leader that has
//! lost its connection keeps its lease although the store is full.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Store;
use crate::access::PresentedCertificate;
use crate::head_deadline::{ConnectionState, HeadDeadline, IdleTimer, LONG_HEADS, TimedStream};
use crate::http::{HttpService, Source};
use crate::metrics::{ConnectionPlace, ConnectionRefusal};
use crate::overflow::Overflow;
use crate::shares::{Network, Shares};
use crate::tls::Tls;

/// The maximum number of connections to the listener for metrics.
const METRICS_CONNECTIONS: usize = 16;

/// The first bytes of a client that speaks HTTP/2 without asking (RFC 9113, section 3.4).
const HTTP_2_PREFACE: &[u8] = b"PRI * HTTP/2.0";

const NO_HTTP_2: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                         content-length: 48\r\n\r\nthe store speaks HTTP/1.1 and does not speak h2\n";

/// The time for which a refused client of HTTP/2 may send more. If the store closed the connection
/// while bytes arrive, the client would lose the answer.
const HTTP_2_DRAIN: Duration = Duration::from_secs(1);

/// The size of each of the buffers that the kernel has for a connection. It keeps about twice as
/// much, and without a limit several megabytes, for a client that takes nothing or that is not read.
/// A client whose packets take 100 ms there and back still gets half a megabyte in a second.
const KERNEL_BUFFER: usize = 64 * 1024;

/// Limits the buffers of the connections that this listener accepts: they inherit the sizes.
pub(crate) fn limit_buffers(listener: &std::net::TcpListener) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(KERNEL_BUFFER)?;
    socket.set_recv_buffer_size(KERNEL_BUFFER)
}

/// Serves connections, up to the limit and some over it.
#[derive(Debug)]
pub(crate) struct Connections {
    http: HttpService,
    tls: Option<Tls>,
    http1: http1::Builder,
    permits: Arc<Semaphore>,
    overflow: Overflow,
    long_heads: Arc<Overflow>,
    /// The connections of each address; `None` without a limit.
    per_address: Option<Shares<Network>>,
    /// The time for which a connection may be idle.
    idle_time: Duration,
}

impl Connections {
    pub(crate) fn new(http: HttpService, tls: Option<Tls>) -> Self {
        let store = http.stores.current();
        let limits = store.limits();
        let mut http1 = http1::Builder::new();
        http1
            .header_read_timeout(limits.header_time)
            // A head over the limit must fit into the buffer, so that the refusal can name both
            // numbers.
            .max_buf_size(2 * limits.max_header_bytes);
        Self {
            permits: Arc::new(Semaphore::new(limits.max_connections)),
            overflow: Overflow::new(limits.connections_over()),
            long_heads: Arc::new(Overflow::new(LONG_HEADS)),
            per_address: match limits.max_connections_per_address {
                0 => None,
                each => Some(Shares::with_limit(usize::MAX, each)),
            },
            idle_time: limits.header_time,
            http,
            tls,
            http1,
        }
    }

    /// Serves the listener for metrics. Its connections have their own limit, so that scrapes work
    /// while the store has too many connections.
    pub(crate) fn for_metrics(http: HttpService) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(METRICS_CONNECTIONS)),
            overflow: Overflow::new(0),
            per_address: None,
            ..Self::new(http, None)
        }
    }

    /// Serves a connection until its end. When the store stops, the connection ends after the
    /// running request.
    pub(crate) async fn serve(self: Arc<Self>, stream: TcpStream, client: SocketAddr) {
        if self.prepare(&stream).is_err() {
            return;
        }
        let metrics = &self.http.scrape.connections;
        // A trusted proxy has the connections of many clients, and the client of a connection is
        // not known before its requests. The proxy must limit the connections of each client.
        let is_proxy = self.http.is_trusted_proxy(client.ip());
        let per_address = self.per_address.as_ref().filter(|_| !is_proxy);
        let counted = per_address.map(|shares| shares.take(&Network::of(client.ip())));
        let is_over_for_address = matches!(counted, Some(Err(_)));
        let within = match is_over_for_address {
            true => None,
            false => Arc::clone(&self.permits).try_acquire_owned().ok(),
        };
        let over = match &within {
            Some(_) => None,
            None => match self.overflow.enter() {
                Some(permit) => Some(permit),
                // The overflow is full too, so the connection is closed without an answer.
                None => return metrics.refused.add(ConnectionRefusal::Full),
            },
        };
        let _counted = metrics.open(match over {
            Some(_) => ConnectionPlace::Standing,
            None => ConnectionPlace::Seat,
        });
        let client = Some(client.ip());
        let source = Source {
            client,
            certificate: None,
            credential: Arc::default(),
            over,
            is_over_for_address,
        };
        // Boxed, because most connections are within the limit.
        let over = source.over.as_deref();
        let expired = over.map(|permit| Box::pin(permit.expired()));
        tokio::select! {
            Some(()) = OptionFuture::from(expired) => {}
            () = self.serve_from(&source, stream) => {}
        }
    }

    async fn serve_from(&self, source: &Source, stream: TcpStream) {
        let store = self.http.stores.current();
        let state = Arc::<ConnectionState>::default();
        let limits = store.limits();
        if source.over.is_some() {
            // Its answer is small, and others need its permit.
            state.end_at_once();
        }
        let long_heads = Arc::clone(&self.long_heads);
        let deadline = HeadDeadline::new(Arc::clone(&state), limits.head_time, long_heads);
        let stream = TimedStream::new(stream, deadline, limits.request_time);
        let Some(tls) = &self.tls else {
            return self.serve_http(&store, source, &state, stream).await;
        };
        let acceptor = tls.acceptor(self.http.client_authorities().as_ref());
        let handshake = timeout(store.limits().request_time, acceptor.accept(stream));
        let handshake = store.stopping().run_until_cancelled(handshake).await;
        if let Some(Ok(Err(_)) | Err(_)) = handshake {
            let failed = &self.http.scrape.connections.failed_handshakes;
            failed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(Ok(Ok(mut stream))) = handshake {
            stream.get_mut().0.handshake_done();
            let certificate = stream.get_ref().1.peer_certificates();
            let source = Source {
                certificate: certificate.map(PresentedCertificate::new),
                ..source.clone()
            };
            self.serve_http(&store, &source, &state, stream).await;
        }
    }

    /// Serves requests until the client closes the connection, or until `store` stops.
    async fn serve_http(
        &self,
        store: &Store,
        source: &Source,
        state: &Arc<ConnectionState>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
    ) {
        // Boxed, so that an idle connection uses no memory for a request.
        let service = service_fn(|request| {
            state.head_received();
            let answer = self
                .http
                .serve_request(source, Request::map(request, Body::new));
            Box::pin(answer.map(|response| {
                state.answered(response.body().size_hint().exact().is_none());
                Ok::<_, Infallible>(response)
            }))
        });
        let mut http1 = self.http1.clone();
        http1.timer(IdleTimer(Arc::clone(state)));
        let mut serving = http1.serve_connection(TokioIo::new(stream), service);
        // An error ends only this connection, and its client notices it.
        tokio::select! {
            served = &mut serving => {
                if served.is_err() {
                    let end = Box::pin(end_early(serving.into_parts()));
                    store.stopping().run_until_cancelled(end).await;
                }
                return;
            }
            () = store.stopping().cancelled() => state.end_at_once(),
        }
        Pin::new(&mut serving).graceful_shutdown();
        let _ = serving.await;
    }

    fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        // The kernel closes a connection whose client takes no responses or has vanished, so that
        // its permit is free again (RFC 5482; supported by Linux and related systems). Data may
        // stay unacknowledged for as long as a connection may be idle. A watcher may pause for that
        // long, and costs one connection of the limit.
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
        SockRef::from(stream).set_tcp_user_timeout(Some(self.idle_time))?;
        Ok(())
    }
}

/// Ends a connection whose request was wrong or did not arrive.
async fn end_early<S>(ended: http1::Parts<TokioIo<impl AsyncRead + AsyncWrite + Unpin>, S>) {
    let mut stream = ended.io.into_inner();
    if ended.read_buf.starts_with(HTTP_2_PREFACE) {
        return refuse_http_2(stream).await;
    }
    let _ = stream.shutdown().await;
}

/// Answers a client that speaks HTTP/2: otherwise it would report a broken connection.
async fn refuse_http_2(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let refuse = async {
        stream.write_all(NO_HTTP_2.as_bytes()).await?;
        stream.shutdown().await?;
        copy(&mut stream, &mut sink()).await
    };
    let _ = timeout(HTTP_2_DRAIN, refuse).await;
}
