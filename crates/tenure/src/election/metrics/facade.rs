//! Publishes the metrics through the facade `metrics`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::metrics::{Key, KeyName, Label, Level, Metadata, Unit, with_recorder};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::families::{RENEWAL_DURATION, STOP_DURATION};
use super::{MetricFamily, MetricValue, Metrics, Recorder};
use crate::election::term::TermState;

/// The longest time between two publications.
const INTERVAL: Duration = Duration::from_secs(2);

const METADATA: Metadata<'static> = Metadata::new("tenure", Level::INFO, Some(module_path!()));

/// The name of a histogram, and a duration for it.
type NamedDuration = (&'static str, Duration);

/// A queue of durations from the thread that renews to the task that publishes: the facade needs
/// each duration, and not only the counts of the buckets.
#[derive(Debug)]
pub(super) struct Durations {
    queue: mpsc::UnboundedSender<NamedDuration>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<NamedDuration>>>,
}

impl Default for Durations {
    fn default() -> Self {
        let (queue, receiver) = mpsc::unbounded_channel();
        let receiver = Mutex::new(Some(receiver));
        Self { queue, receiver }
    }
}

impl Durations {
    pub(super) fn add_renewal(&self, duration: Duration) {
        self.add((RENEWAL_DURATION, duration));
    }

    pub(super) fn add_stop(&self, duration: Duration) {
        self.add((STOP_DURATION, duration));
    }

    fn add(&self, duration: NamedDuration) {
        // Without a receiver, nothing is published.
        let _ = self.queue.send(duration);
    }

    fn receiver(&self) -> Option<mpsc::UnboundedReceiver<NamedDuration>> {
        let receiver = self.receiver.lock();
        receiver.unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Publishes the metrics of a candidate on the current runtime until the candidate has ended.
/// Outside of a runtime it publishes nothing.
pub(crate) fn publish(recorder: Arc<Recorder>, terms: watch::Receiver<Option<Arc<TermState>>>) {
    let durations = recorder.durations.receiver();
    if let (Some(durations), Ok(runtime)) = (durations, tokio::runtime::Handle::try_current()) {
        runtime.spawn(run(recorder, terms, durations));
    }
}

async fn run(
    recorder: Arc<Recorder>,
    mut terms: watch::Receiver<Option<Arc<TermState>>>,
    mut durations: mpsc::UnboundedReceiver<NamedDuration>,
) {
    let snapshot = recorder.snapshot(&terms);
    describe(&snapshot);
    let labels = labels(snapshot.own_labels());
    let mut published = Published::default();
    let mut interval = interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_over = tokio::select! {
            // The candidate's thread closes this channel when the candidate has ended.
            changed = terms.changed() => changed.is_err(),
            Some((name, duration)) = durations.recv() => {
                record(name, &labels, duration);
                false
            }
            _ = interval.tick() => false,
        };
        published.publish(&recorder.snapshot(&terms));
        if is_over {
            while let Ok((name, duration)) = durations.try_recv() {
                record(name, &labels, duration);
            }
            return;
        }
    }
}

/// The last values of the counters, because the facade counts increments.
#[derive(Default)]
struct Published(HashMap<Key, u64>);

impl Published {
    fn publish(&mut self, snapshot: &Metrics) {
        for MetricFamily { name, samples, .. } in snapshot.families() {
            for sample in samples {
                let key = Key::from_parts(name, labels(sample.labels));
                with_recorder(|exporter| match sample.value {
                    MetricValue::Counter(count) => {
                        let counter = exporter.register_counter(&key, &METADATA);
                        let before = self.0.insert(key, count).unwrap_or(0);
                        counter.increment(count.saturating_sub(before));
                    }
                    MetricValue::Gauge(value) => {
                        exporter.register_gauge(&key, &METADATA).set(value)
                    }
                    // Each duration is published once, when it arrives.
                    MetricValue::Durations(_) => drop(exporter.register_histogram(&key, &METADATA)),
                });
            }
        }
    }
}

fn record(name: &'static str, labels: &[Label], duration: Duration) {
    let key = Key::from_parts(name, labels.to_vec());
    with_recorder(|exporter| {
        exporter
            .register_histogram(&key, &METADATA)
            .record(duration.as_secs_f64());
    });
}

fn describe(snapshot: &Metrics) {
    for MetricFamily {
        name,
        help,
        samples,
    } in snapshot.families()
    {
        let key = KeyName::from_const_str(name);
        let seconds = name.ends_with("_seconds").then_some(Unit::Seconds);
        with_recorder(
            |exporter| match samples.first().map(|sample| &sample.value) {
                Some(MetricValue::Counter(_)) => {
                    exporter.describe_counter(key, Some(Unit::Count), help.into())
                }
                Some(MetricValue::Gauge(_)) => exporter.describe_gauge(key, seconds, help.into()),
                Some(MetricValue::Durations(_)) => {
                    exporter.describe_histogram(key, seconds, help.into())
                }
                None => {}
            },
        );
    }
}

fn labels(pairs: Vec<(&'static str, String)>) -> Vec<Label> {
    let label = |(name, value)| Label::new(name, value);
    pairs.into_iter().map(label).collect()
}
