//! What open pages cost a store, and what a busy store costs a page. It prints measurements and
//! asserts no speed: `cargo test --release -p tenure-tests --test browser load -- --ignored
//! --nocapture`, after `cargo build --release --bin tenure`.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::page::Page;
use crate::states::wait_for_view;
use crate::store::{TestStore, lease};

const ELECTIONS: u32 = 1_000;
const CHANGES_A_SECOND: u32 = 50;
const PAGES: u32 = 50;
/// The time of each measurement.
const SPAN: Duration = Duration::from_secs(20);
const DURATION_MS: u32 = 15_000;

/// The load of a store, which lasts as long as its runtime.
struct Load {
    origin: String,
    http: Client,
    times: Arc<Mutex<Vec<Duration>>>,
    changes: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Load {
    async fn acquire(&self, election: &str) -> Value {
        let body = json!({ "holder": "worker-1", "duration_ms": DURATION_MS });
        let url = format!("{}{}/acquire", self.origin, lease(election));
        let answer = self.http.post(url).json(&body).send().await;
        let answer: Value = answer.expect("an answer").json().await.expect("JSON");
        answer["lease_id"].clone()
    }

    async fn post(&self, election: &str, action: &str, lease_id: &Value) -> Response {
        let url = format!("{}{}/{action}", self.origin, lease(election));
        let body = json!({ "lease_id": lease_id });
        let answer = self.http.post(url).json(&body).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200, "{action} of {election}");
        answer
    }

    /// A leader that renews at a third of its duration.
    async fn lead(&self, number: u32) {
        let election = format!("jobs/job-{number:04}");
        let lease_id = self.acquire(&election).await;
        let interval = Duration::from_millis(u64::from(DURATION_MS) / 3);
        sleep(interval * number / ELECTIONS).await;
        loop {
            let start = Instant::now();
            self.post(&election, "renew", &lease_id).await;
            let took = start.elapsed();
            self.record(took);
            sleep(interval.saturating_sub(took)).await;
        }
    }

    fn record(&self, took: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push(took);
    }

    /// Terms that begin and end, each of which is two changes.
    async fn change(&self, number: u32) {
        let interval = Duration::from_secs(20) / CHANGES_A_SECOND;
        sleep(interval * number / 10).await;
        let election = format!("changes/job-{number:04}");
        loop {
            let start = Instant::now();
            let lease_id = self.acquire(&election).await;
            sleep(interval / 2).await;
            self.post(&election, "release", &lease_id).await;
            self.changes.fetch_add(2, Ordering::Relaxed);
            sleep(interval.saturating_sub(start.elapsed())).await;
        }
    }

    /// The requests of an open page: the stream of changes, and the overview every 5 s.
    async fn view(&self, number: u32) {
        let stream = async {
            let url = format!("{}/v1/events", self.origin);
            let request = self.http.get(url).header("accept", "text/event-stream");
            let mut answer = request.send().await.expect("a stream");
            // The end of the store ends the stream.
            while let Ok(Some(bytes)) = answer.chunk().await {
                self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            }
        };
        let overview = async {
            sleep(Duration::from_secs(5) * number / PAGES).await;
            loop {
                let url = format!("{}/v1/overview?limit=200", self.origin);
                let answer = self.http.get(url).send().await.expect("an answer");
                let bytes = answer.bytes().await.expect("an overview");
                self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
                sleep(Duration::from_secs(5)).await;
            }
        };
        tokio::join!(stream, overview);
    }
}

/// The processor time of a process so far, in seconds.
fn processor_time(store: &TestStore) -> f64 {
    let path = format!("/proc/{}/stat", store.process().pid());
    let stat = fs::read_to_string(path).expect("a process");
    let rest = stat.rsplit(')').next().expect("fields");
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<f64>);
    let ticks = [fields.next(), fields.next()].map(|field| field.expect("ticks"));
    let [user, system] = ticks.map(|ticks| ticks.expect("a number"));
    (user + system) / 100.0
}

/// Measures the store for a while: its share of a core, and the times of renewals.
fn measure(what: &str, store: &TestStore, load: &Load) {
    let renewals = || {
        let mut times = load.times.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *times)
    };
    renewals();
    load.changes.store(0, Ordering::Relaxed);
    load.bytes.store(0, Ordering::Relaxed);
    let (before, start) = (processor_time(store), Instant::now());
    thread::sleep(SPAN);
    let used = processor_time(store) - before;
    let seconds = start.elapsed().as_secs_f64();
    let mut times = renewals();
    times.sort();
    let quantile = |share: usize| times[(times.len() * share / 1_000).min(times.len() - 1)];
    println!(
        "{what}: the store used {:.1} % of a core; {:.0} changes/s, {:.0} renewals/s, \
         p50 {:?}, p99 {:?}, p99.9 {:?}; {:.0} KiB/s to pages",
        100.0 * used / seconds,
        load.changes.load(Ordering::Relaxed) as f64 / seconds,
        times.len() as f64 / seconds,
        quantile(500),
        quantile(990),
        quantile(999),
        load.bytes.load(Ordering::Relaxed) as f64 / seconds / 1_024.0,
    );
}

/// The metrics of the page's process, in seconds.
fn page_time(page: &Page, name: &str) -> f64 {
    let metrics = page.cdp("Performance.getMetrics", json!({}));
    let mut metrics = metrics["metrics"].as_array().expect("metrics").iter();
    let found = metrics.find(|metric| metric["name"] == name);
    found.expect("the metric")["value"]
        .as_f64()
        .expect("a number")
}

#[test]
#[ignore = "prints measurements of two minutes; needs release builds"]
fn load_of_open_pages() {
    let Some(page) = Page::start("load_of_open_pages") else {
        return;
    };
    let store = TestStore::open();
    let load = Arc::new(Load {
        origin: store.origin(),
        http: Client::builder().no_proxy().build().expect("a client"),
        times: Arc::default(),
        changes: Arc::default(),
        bytes: Arc::default(),
    });
    for number in 0..ELECTIONS {
        let load = load.clone();
        store
            .runtime()
            .spawn(async move { load.lead(number).await });
    }
    for number in 0..10 {
        let load = load.clone();
        store
            .runtime()
            .spawn(async move { load.change(number).await });
    }
    thread::sleep(Duration::from_secs(6));
    measure("without pages", &store, &load);

    for number in 1..PAGES {
        let load = load.clone();
        store
            .runtime()
            .spawn(async move { load.view(number).await });
    }
    page.cdp("Performance.enable", json!({}));
    page.open(&store.origin(), "/");
    wait_for_view(&page, "overview");
    let paint = page.wait(
        "the first paint",
        "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime",
    );
    let rows = page.wait(
        "the rows",
        "return document.querySelectorAll('#rows tr').length && performance.now()",
    );
    println!("first paint after {paint} ms, rows after {rows} ms");
    thread::sleep(Duration::from_secs(5));
    let names = [
        "ScriptDuration",
        "LayoutDuration",
        "RecalcStyleDuration",
        "TaskDuration",
    ];
    let before = names.map(|name| page_time(&page, name));
    measure("with 50 pages", &store, &load);
    for (name, before) in names.into_iter().zip(before) {
        let used = page_time(&page, name) - before;
        let share = 100.0 * used / SPAN.as_secs_f64();
        println!("page: {name} {share:.1} % of a core");
    }
    page.finish();
}
