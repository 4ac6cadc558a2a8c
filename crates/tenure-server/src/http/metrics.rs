//! The route of metrics: it puts together the metrics of all modules.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tenure_core::wire::{Code, Problem};
use tracing::error;

use super::call::Call;
use super::routes;
use crate::Store;
use crate::access::Access;
use crate::audit::Audit;
use crate::clock;
use crate::metrics::{
    ConnectionMetrics, CounterSet, Exposition, LeaseSurvey, MetricsConfig, RequestMetrics, Sample,
    expose_process, unix_seconds,
};
use crate::store::ServedStore;
use crate::tls::Tls;

/// The time for which the result of a walk over all leases is used again. A walk reads each lease,
/// and the store may have a million.
const SURVEY_INTERVAL: Duration = Duration::from_secs(10);

/// The sources of metrics.
#[derive(Debug)]
pub(crate) struct Scrape {
    config: MetricsConfig,
    stores: ServedStore,
    access: Access,
    audit: Audit,
    tls: Option<Tls>,
    pub(super) requests: Option<RequestMetrics>,
    pub(super) refusals: CounterSet<Code>,
    pub(crate) connections: ConnectionMetrics,
    survey: Mutex<Option<(Instant, Arc<LeaseSurvey>)>>,
    /// One scrape at a time, so that scrapes do not take all threads that may block.
    turn: tokio::sync::Mutex<()>,
}

impl Scrape {
    pub(super) fn new(
        config: MetricsConfig,
        stores: &ServedStore,
        access: &Access,
        audit: &Audit,
        tls: Option<Tls>,
        protocol: Option<&'static str>,
    ) -> Self {
        let requests = config.counts_requests();
        Self {
            requests: requests.then(|| RequestMetrics::new(routes::labels(protocol))),
            config,
            stores: stores.clone(),
            access: access.clone(),
            audit: audit.clone(),
            tls,
            refusals: CounterSet::default(),
            connections: ConnectionMetrics::default(),
            survey: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Returns all metrics as text. The call blocks.
    fn text(&self) -> String {
        let mut out = Exposition::default();
        let store = self.stores.current();
        self.expose_build(&store, &mut out);
        // A standby would show the expected leases without a holder.
        if !store.has_no_leases() {
            self.survey(&store).expose(&mut out, clock::wall());
        }
        store.expose(&mut out);
        out.counters(
            "tenure_refusals_total",
            "Refused requests, and refused renewals in requests for many leases, by the code of the \
             problem.",
            "code",
            &self.refusals,
        );
        if let Some(requests) = &self.requests {
            requests.expose(&mut out);
        }
        let limits = store.limits();
        let places = [limits.max_connections, limits.connections_over()];
        self.connections.expose(&mut out, places);
        self.access.expose_failures(&mut out);
        self.expose_files(&mut out);
        self.audit.expose(&mut out);
        out.counter(
            "tenure_log_dropped_lines_total",
            "Log lines that were dropped because stderr was not read.",
            [Sample::count(self.config.dropped_log_lines())],
        );
        expose_process(&mut out);
        out.into_text()
    }

    fn expose_build(&self, store: &Store, out: &mut Exposition) {
        let access = match self.access.is_guarded() {
            true => "file",
            false => "anonymous",
        };
        let tls = match self.tls {
            Some(_) => "true",
            None => "false",
        };
        let build = Sample::of(1.0)
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("home", store.home_name())
            .with("tls", tls)
            .with("access", access);
        out.gauge(
            "tenure_build_info",
            "The version and the configuration of the store; always 1.",
            [build],
        );
    }

    /// Adds the metrics of the files that the store reads again.
    fn expose_files(&self, out: &mut Exposition) {
        let tls = self.tls.as_ref().map(Tls::reload_status);
        let reloads = self.access.reloads().into_iter();
        let reloads: Vec<_> = reloads
            .chain(tls.map(|status| ("certificate", status)))
            .collect();
        let successful = reloads
            .iter()
            .map(|(what, status)| Sample::flag(!status.has_failed()).with("what", what));
        out.gauge(
            "tenure_reload_successful",
            "Whether the last reload succeeded.",
            successful,
        );
        let times = reloads.iter().filter_map(|(what, status)| {
            let at = unix_seconds(status.succeeded_at()?);
            Some(Sample::of(at).with("what", what))
        });
        out.gauge(
            "tenure_reload_timestamp_seconds",
            "The time of the last successful reload, in seconds since 1970.",
            times,
        );
        let expiry = self.tls.as_ref().and_then(Tls::expires);
        out.gauge(
            "tenure_certificate_expiry_timestamp_seconds",
            "The end of the store's certificate, in seconds since 1970.",
            expiry.map(|at| Sample::of(unix_seconds(at))),
        );
        self.access.expose_ends(out);
    }

    /// Returns the result of a walk that is at most [`SURVEY_INTERVAL`] old.
    fn survey(&self, store: &Store) -> Arc<LeaseSurvey> {
        let mut last = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = last.as_ref();
        if let Some((_, survey)) = recent.filter(|(at, _)| at.elapsed() < SURVEY_INTERVAL) {
            return Arc::clone(survey);
        }
        let survey = Arc::new(store.survey(&self.config));
        *last = Some((Instant::now(), Arc::clone(&survey)));
        survey
    }
}

/// Answers a scrape.
pub(super) async fn text(call: Call<'_>) -> Result<Response, Problem> {
    let _turn = call.scrape.turn.lock().await;
    let source = Arc::clone(call.scrape);
    let text = tokio::task::spawn_blocking(move || source.text());
    match text.await {
        Ok(text) => Ok(([(CONTENT_TYPE, Exposition::CONTENT_TYPE)], text).into_response()),
        Err(error) => {
            error!(%error, "can't write the metrics");
            Err(Problem::new(Code::Internal, "see the store's log"))
        }
    }
}
