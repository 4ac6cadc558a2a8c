//! Requests by route and status, with their durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::counters::Striped;
use super::histogram::Histogram;
use super::{Exposition, Sample};

/// The upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0,
];

/// The least status, and the number of statuses.
const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;

/// The status of most requests.
const OK: u16 = 200;

/// The requests of a server. A request costs three additions to counters that it finds by the
/// position of its route.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    /// The label of each route.
    labels: Box<[&'static str]>,
    routes: Striped<Box<[RouteCounts]>>,
    /// The requests with another status than 200, by route and status.
    others: Box<[AtomicU64]>,
}

/// The requests of a route.
#[derive(Debug)]
#[repr(align(128))]
struct RouteCounts {
    /// The number of requests with the status 200.
    ok: AtomicU64,
    durations: Histogram,
}

impl Default for RouteCounts {
    fn default() -> Self {
        Self {
            ok: AtomicU64::default(),
            durations: Histogram::new(&BOUNDS),
        }
    }
}

impl RequestMetrics {
    /// Creates the counters of the routes with these labels.
    pub(crate) fn new(labels: impl IntoIterator<Item = &'static str>) -> Self {
        let labels: Box<[&'static str]> = labels.into_iter().collect();
        let routes = || labels.iter().map(|_| RouteCounts::default()).collect();
        let others = labels.len() * STATUSES;
        Self {
            routes: Striped::new(routes),
            others: (0..others).map(|_| AtomicU64::default()).collect(),
            labels,
        }
    }

    /// Counts a request of the route at this position.
    pub(crate) fn count(&self, route: usize, status: u16, duration: Duration) {
        let Some(counts) = self.routes.own().get(route) else {
            return;
        };
        counts.durations.observe(duration.as_secs_f64());
        if status == OK {
            return add(&counts.ok, 1);
        }
        let of_route = route * STATUSES;
        let place = status.checked_sub(FIRST_STATUS).map(usize::from);
        let place = place.filter(|place| *place < STATUSES);
        if let Some(counter) = place.and_then(|place| self.others.get(of_route + place)) {
            add(counter, 1);
        }
    }

    pub(crate) fn expose(&self, out: &mut Exposition) {
        let routes = self.labels.iter().enumerate();
        let counts = routes.clone().flat_map(|(route, label)| {
            let others = &self.others[route * STATUSES..][..STATUSES];
            let others = others.iter().map(get);
            let ok = self
                .routes
                .iter()
                .map(|routes| get(&routes[route].ok))
                .sum();
            let counts = (FIRST_STATUS..).zip(others);
            let counts = counts.chain([(OK, ok)]).filter(|(_, count)| *count > 0);
            counts.map(|(status, count)| {
                let sample = Sample::count(count).with("route", label);
                sample.with("status", &status.to_string())
            })
        });
        out.counter(
            "tenure_http_requests_total",
            "Answered requests, by route and status.",
            counts,
        );
        let histograms = routes.flat_map(|(route, label)| {
            let all = Histogram::new(&BOUNDS);
            let of_route = self.routes.iter().map(|routes| &routes[route].durations);
            of_route.for_each(|durations| all.add(durations));
            all.samples(Some(("route", label)))
        });
        out.family(
            "histogram",
            "tenure_http_request_duration_seconds",
            "The time from the head of a request to its answer, without the time that it asked to wait.",
            histograms,
        );
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_the_bucket_and_the_status_of_its_route() {
        let requests = RequestMetrics::new(["get", "put"]);
        for (route, status, micros) in [
            (0, 200, 100),
            (0, 200, 101),
            (0, 404, 20_000_000),
            (0, 599, 0),
            (1, 100, 0),
            // These do not happen, and must not panic.
            (1, 600, 0),
            (1, 0, 0),
            (2, 200, 0),
        ] {
            requests.count(route, status, Duration::from_micros(micros));
        }
        let mut out = Exposition::default();
        requests.expose(&mut out);
        let text = out.into_text();
        for line in [
            "tenure_http_requests_total{route=\"get\",status=\"200\"} 2",
            "tenure_http_requests_total{route=\"get\",status=\"404\"} 1",
            "tenure_http_requests_total{route=\"get\",status=\"599\"} 1",
            "tenure_http_requests_total{route=\"put\",status=\"100\"} 1",
            "tenure_http_request_duration_seconds_bucket{route=\"get\",le=\"0.0001\"} 2",
            "tenure_http_request_duration_seconds_bucket{route=\"get\",le=\"0.00025\"} 3",
            "tenure_http_request_duration_seconds_bucket{route=\"get\",le=\"10\"} 3",
            "tenure_http_request_duration_seconds_bucket{route=\"get\",le=\"+Inf\"} 4",
            "tenure_http_request_duration_seconds_sum{route=\"get\"} 20.000201",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let count = text.matches("tenure_http_requests_total{").count();
        assert_eq!(count, 4, "{text}");
    }
}
