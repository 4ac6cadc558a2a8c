//! The exporter, which warns of spans that the collector did not take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as Export};
use tracing::warn;

/// The time between two warnings.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Sends batches of spans to the collector. Without this type, the SDK logs an error for each batch
/// that fails.
#[derive(Debug)]
pub(super) struct Exporter {
    to: SpanExporter,
    /// The number of spans since the last warning, and its time.
    failed: Mutex<(usize, Option<Instant>)>,
}

impl Exporter {
    pub(super) fn new(to: SpanExporter) -> Self {
        let failed = Mutex::default();
        Self { to, failed }
    }

    fn count(&self, spans: usize, error: Option<&str>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (dropped, reported) = &mut *failed;
        *dropped += spans;
        let is_early = reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL);
        let is_last = error.is_none();
        if *dropped > 0 && (is_last || !is_early) {
            let message = "spans were dropped: the collector did not take them";
            warn!(dropped = std::mem::take(dropped), error, "{message}");
            *reported = Some(Instant::now());
        }
    }
}

impl Export for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        if let Err(error) = self.to.export(batch).await {
            self.count(spans, Some(&error.to_string()));
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.count(0, None);
        self.to.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.to.set_resource(resource);
    }
}
