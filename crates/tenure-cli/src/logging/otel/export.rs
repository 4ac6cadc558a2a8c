//! The queue of ended spans, and the count of those that are dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter as Export, SpanProcessor,
};
use tracing::warn;

use super::variable;

/// The time between two warnings about dropped spans.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The number of spans in the queue, and of those that were dropped.
#[derive(Debug, Default)]
struct Counts {
    queued: AtomicUsize,
    dropped: AtomicUsize,
    reported: Mutex<Option<Instant>>,
}

impl Counts {
    /// Logs the number of spans that were dropped since the last warning, at most once a minute.
    fn report(&self, error: Option<&str>, is_last: bool) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL);
        if is_early && !is_last {
            return;
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            *reported = Some(Instant::now());
            warn!(
                dropped,
                error, "spans were dropped: the collector did not take them"
            );
        }
    }
}

/// Sends batches of spans to the collector.
#[derive(Debug)]
pub(super) struct Exporter {
    to: SpanExporter,
    counts: Arc<Counts>,
}

impl Exporter {
    /// Creates the queue whose spans `to` exports.
    pub(super) fn processor(to: SpanExporter) -> anyhow::Result<impl SpanProcessor> {
        let name = opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE;
        let most = match variable(name) {
            Some(value) => value
                .parse()
                .map_err(|_| anyhow!("{name} is {value:?}; it must be a number of spans"))?,
            None => opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE_DEFAULT,
        };
        let counts = Arc::<Counts>::default();
        let exporter = Self {
            to,
            counts: counts.clone(),
        };
        let config = BatchConfigBuilder::default().with_max_queue_size(most);
        Ok(Queue {
            batches: BatchSpanProcessor::new(exporter, config.build()),
            counts,
            most,
        })
    }
}

impl Export for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.to.export(batch).await;
        self.counts.queued.fetch_sub(count, Ordering::Relaxed);
        let error = result.as_ref().err().map(ToString::to_string);
        if error.is_some() {
            self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        }
        self.counts.report(error.as_deref(), false);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.to.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.to.set_resource(resource);
    }
}

/// A bounded queue that never blocks. [`BatchSpanProcessor`] has the same limit, but does not tell
/// how many spans it drops before it ends.
#[derive(Debug)]
struct Queue {
    batches: BatchSpanProcessor,
    counts: Arc<Counts>,
    most: usize,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.counts.queued.fetch_add(1, Ordering::Relaxed) < self.most {
            self.batches.on_end(span);
        } else {
            self.counts.queued.fetch_sub(1, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        let result = self.batches.shutdown_with_timeout(timeout);
        if result.is_err() {
            // The thread still tries to export these spans, and this process ends now.
            let queued = self.counts.queued.load(Ordering::Relaxed);
            self.counts.dropped.fetch_add(queued, Ordering::Relaxed);
        }
        let error = result.as_ref().err().map(ToString::to_string);
        self.counts.report(error.as_deref(), true);
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}
