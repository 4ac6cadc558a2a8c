//! The feature `metrics`: an exporter of the application receives the same numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tenure::Config;
use tenure::testing::TestStore;
use tenure_tests::{Limit, wait_until};

/// An exporter that keeps numbers by their names and labels, and the units by names.
#[derive(Clone, Default)]
struct Exporter(Arc<Mutex<Exported>>);

#[derive(Default)]
struct Exported {
    numbers: BTreeMap<String, f64>,
    units: BTreeMap<String, Option<Unit>>,
}

/// One number of an exporter.
struct Number {
    exporter: Exporter,
    name: String,
}

impl Exporter {
    fn change(&self, name: &str, change: impl FnOnce(f64) -> f64) {
        let mut exported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = exported.numbers.entry(name.to_owned()).or_default();
        *number = change(*number);
    }

    fn number(&self, key: &Key) -> Arc<Number> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.change(&name, |number| number);
        let exporter = self.clone();
        Arc::new(Number { exporter, name })
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>) {
        let mut exported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        exported.units.insert(name.as_str().to_owned(), unit);
    }

    /// Lets every call of the exporter wait until the result is dropped.
    fn block(&self) -> mpsc::Sender<()> {
        let exporter = self.clone();
        let (blocked, is_blocked) = mpsc::channel();
        let (release, released) = mpsc::channel();
        thread::spawn(move || {
            let _exported = exporter.0.lock().unwrap_or_else(PoisonError::into_inner);
            blocked.send(()).expect("a test that waits");
            // The end of the channel is an error.
            let _ = released.recv();
        });
        is_blocked.recv().expect("a thread that has the lock");
        release
    }

    /// Waits until a number of the candidate satisfies this condition.
    async fn wait_for(&self, name: &str, is_right: impl Fn(f64) -> bool) {
        let name = name.replace("OWN", "election=tests/published,candidate=one");
        wait_until(&name, async || {
            let exported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let number = *exported.numbers.get(&name)?;
            is_right(number).then_some(())
        })
        .await;
    }
}

impl Recorder for Exporter {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&key, unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&key, unit);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&key, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.number(key))
    }
}

impl CounterFn for Number {
    fn increment(&self, value: u64) {
        let value = u32::try_from(value).expect("a small number");
        self.exporter
            .change(&self.name, |number| number + f64::from(value));
    }

    fn absolute(&self, _: u64) {
        unreachable!("the candidates of a process may have the same labels")
    }
}

impl GaugeFn for Number {
    fn increment(&self, value: f64) {
        self.exporter.change(&self.name, |number| number + value);
    }

    fn decrement(&self, value: f64) {
        self.exporter.change(&self.name, |number| number - value);
    }

    fn set(&self, value: f64) {
        self.exporter.change(&self.name, |_| value);
    }
}

/// Counts the values.
impl HistogramFn for Number {
    fn record(&self, _: f64) {
        self.exporter.change(&self.name, |count| count + 1.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exporter_receives_the_numbers_of_a_candidate_and_does_not_delay_its_renewals() {
    // A candidate that waits for its exporter would never end.
    let _limit = Limit::start();
    let exporter = Exporter::default();
    metrics::set_global_recorder(exporter.clone()).expect("the only exporter");
    let store = TestStore::start().expect("a store");
    let config = Config::new("tests/published".parse().expect("a name"))
        .with_candidate("one".parse().expect("an id"));
    let candidate = store.candidate(config.clone());
    exporter
        .wait_for("tenure_candidate_leads{OWN}", |leads| leads == 0.0)
        .await;
    exporter
        .wait_for("tenure_candidate_terms_total{OWN,end=resigned}", |terms| {
            terms == 0.0
        })
        .await;

    let term = candidate.campaign().await.expect("a term");
    exporter
        .wait_for("tenure_candidate_leads{OWN}", |leads| leads == 1.0)
        .await;
    let epoch = candidate.metrics().epoch.expect("an epoch").to_string();
    exporter
        .wait_for("tenure_candidate_epoch{OWN}", |seen| {
            seen.to_string() == epoch
        })
        .await;
    exporter
        .wait_for("tenure_candidate_deadline_timestamp_seconds{OWN}", |at| {
            at > 1_000.0
        })
        .await;
    let blocked = exporter.block();
    let before = candidate.metrics().renewals.ok;
    store.advance(Duration::from_secs(30)).await;
    let renewals = candidate.metrics().renewals.ok;
    assert!(renewals >= before + 4 && term.is_valid(), "{renewals}");
    drop(blocked);
    let renewals = renewals.to_string();
    for name in [
        "tenure_candidate_renewals_total{OWN,result=ok}",
        "tenure_candidate_renewal_duration_seconds{OWN}",
    ] {
        exporter
            .wait_for(name, |count| count.to_string() == renewals)
            .await;
    }
    // The renew deadline is 10 s after the last renewal.
    let before = candidate.metrics().renewals.ok;
    while candidate.metrics().renewals.ok == before {
        store.advance(Duration::from_millis(100)).await;
    }
    store.set_reachable(false);
    store.advance(Duration::from_secs(8)).await;
    exporter
        .wait_for(
            "tenure_candidate_renewals_total{OWN,result=no_answer}",
            |count| count > 0.0,
        )
        .await;
    exporter
        .wait_for("tenure_candidate_at_risk_total{OWN}", |count| count == 1.0)
        .await;
    store.set_reachable(true);

    tenure::Leadership::resign(&term);
    store.advance(Duration::from_secs(1)).await;
    drop(term);
    exporter
        .wait_for("tenure_candidate_leads{OWN}", |leads| leads == 0.0)
        .await;
    let ended = "tenure_candidate_terms_total{OWN,end=resigned}";
    exporter.wait_for(ended, |terms| terms == 1.0).await;
    exporter
        .wait_for("tenure_candidate_stop_duration_seconds{OWN}", |stops| {
            stops == 1.0
        })
        .await;
    drop(candidate);

    // The counters of another candidate with the same labels are added.
    let candidate = store.candidate(config);
    let term = store
        .advance_until(candidate.campaign())
        .await
        .expect("a term");
    drop(term);
    exporter.wait_for(ended, |terms| terms == 2.0).await;

    let exported = exporter.0.lock().unwrap_or_else(PoisonError::into_inner);
    let unit = |name: &str| exported.units[name];
    let duration = unit("tenure_candidate_renewal_duration_seconds");
    assert_eq!(duration, Some(Unit::Seconds));
    assert_eq!(unit("tenure_candidate_renewals_total"), Some(Unit::Count));
    assert_eq!(unit("tenure_candidate_leads"), None);
}
