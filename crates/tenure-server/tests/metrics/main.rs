//! Tests of the metrics of a server: each metric changes when its event happens.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod leases;
mod limits;
mod listener;
mod requests;
mod terms;

use std::time::Duration;

use common::{Api, Running, SOON, assert_ok, assert_refused, id, minute, served};
use serde_json::json;
use tenure_server::access::Access;
use tenure_server::{Limits, MetricsConfig, Server, Store, StoreConfig};
use tokio::time::{Instant, sleep};

/// The metrics of one scrape.
struct Metrics(String);

impl Metrics {
    async fn of(api: &Api) -> Self {
        Self::at(&format!("{}/metrics", api.origin), api).await
    }

    async fn at(url: &str, api: &Api) -> Self {
        let response = api.http.get(url).send().await.unwrap();
        assert_eq!(response.status(), 200, "{url}");
        let content_type = &response.headers()["content-type"];
        assert_eq!(content_type, "text/plain; version=0.0.4");
        Self(response.text().await.unwrap())
    }

    /// Returns the value of a series, which is named with all its labels.
    fn find(&self, series: &str) -> Option<f64> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// Returns the value of a series, or 0 if it does not exist.
    fn get(&self, series: &str) -> f64 {
        self.find(series).unwrap_or(0.0)
    }

    /// Returns the number of series whose names begin with this text.
    fn count(&self, start: &str) -> usize {
        let lines = self.0.lines();
        lines.filter(|line| line.starts_with(start)).count()
    }

    #[track_caller]
    fn assert(&self, series: &str, expected: f64) {
        assert_eq!(self.find(series), Some(expected), "{series}\n{}", self.0);
    }
}

fn bind(store: &Store) -> Server {
    let server = Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    server.with_access(Access::anonymous())
}

fn limited(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    common::start(StoreConfig::memory().with_limits(limits))
}

/// Returns the metrics of a store through a new server, which has not walked over its leases yet.
async fn scrape_with(store: &Store, config: MetricsConfig) -> Metrics {
    Metrics::of(&served(bind(store).with_metrics(config)).api).await
}

/// Waits until a series has this value.
async fn until(api: &Api, series: &str, expected: f64) {
    let end = Instant::now() + SOON;
    loop {
        let metrics = Metrics::of(api).await;
        if metrics.get(series) == expected {
            return;
        }
        assert!(
            Instant::now() < end,
            "no {series} {expected}\n{}",
            metrics.0
        );
        sleep(Duration::from_millis(10)).await;
    }
}
