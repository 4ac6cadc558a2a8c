//! The status listener: metrics and probes of the candidate over HTTP.
//!
//! It has a thread of its own. The thread of the candidate continues to renew, and the thread that
//! supervises the command continues to send deadlines to the watchdogs, while clients keep this
//! thread busy.

mod connections;
mod text_format;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use tenure::Candidate;
use tenure::listener::guard;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::runtime;

/// A running status listener. When it is dropped, it has closed its port and its connections.
pub(super) struct StatusListener {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl StatusListener {
    /// Starts to serve the status of this candidate.
    ///
    /// `hosts` are names under which clients reach it.
    pub(super) fn start(
        listener: TcpListener,
        hosts: Vec<String>,
        candidate: Arc<Candidate>,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        info!(election = %candidate.election(), candidate = %candidate.id(), %address,
            "serving the status");
        listener.set_nonblocking(true)?;
        let runtime = runtime::current_thread()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let router = guard(router(candidate), hosts, "the status listener", is_probe);
            tokio::select! {
                () = connections::serve(listener, router) => {}
                () = stopped.cancelled() => {}
            }
            anyhow::Ok(())
        };
        let thread = thread::Builder::new()
            .name("tenure-status".into())
            .spawn(move || {
                if let Err(error) = runtime.block_on(serve) {
                    tracing::error!(%error, "can't serve the status");
                }
                // A pending look-up of a name must not delay the end of this process.
                runtime.shutdown_background();
            })
            .context("can't start the thread of the status listener")?;
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for StatusListener {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The only routes of the listener. None of them needs a credential.
fn router(candidate: Arc<Candidate>) -> Router {
    let routes = candidate.router();
    let metrics = Router::new().route("/metrics", get(metrics));
    routes.merge(metrics.with_state(candidate))
}

/// Returns whether a request is a probe, which may name any host: its answer tells nothing.
fn is_probe(request: &Request) -> bool {
    ["/livez", "/readyz"].contains(&request.uri().path())
}

async fn metrics(State(candidate): State<Arc<Candidate>>) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, text_format::CONTENT_TYPE),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, text_format::encode(candidate.metrics().families()))
}
