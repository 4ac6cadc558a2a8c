//! The leases, as one walk over the table finds them.

use std::collections::BTreeMap;

use tenure_core::lease::State;
use tenure_core::{Epoch, UnixMillis};

use super::{Exposition, MetricsConfig, Sample};
use crate::model::LeaseKey;

/// One lease at the time of the walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseSample {
    /// The state; `None` if the lease was never acquired.
    pub(crate) state: Option<State>,
    /// The greatest epoch that may not be granted again.
    pub(crate) last_epoch: Option<Epoch>,
    /// The epoch of the last term.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) waiters: u64,
    /// The beginning of the running term.
    pub(crate) granted_at: Option<UnixMillis>,
    /// The time since the last renewal, divided by the lease duration.
    pub(crate) renewal_age_ratio: Option<f64>,
    /// The number of terms since the start of the store.
    pub(crate) terms: u64,
}

/// The metrics of all leases.
#[derive(Debug)]
pub(crate) struct LeaseSurvey {
    states: [u64; STATES.len()],
    /// The leases that match a pattern and are not expected: the leases themselves, or if they are
    /// too many, only their number.
    matching: BTreeMap<LeaseKey, LeaseSample>,
    count: usize,
    expected: BTreeMap<LeaseKey, LeaseSample>,
    last_epoch: Option<Epoch>,
    max_leases: usize,
}

/// The states, with their names.
const STATES: [(State, &str); 5] = [
    (State::Available, "available"),
    (State::Leased, "leased"),
    (State::Breaking, "breaking"),
    (State::Broken, "broken"),
    (State::Expired, "expired"),
];

impl LeaseSurvey {
    /// Creates the survey of a store without leases.
    pub(crate) fn new(config: &MetricsConfig, floor: Option<Epoch>) -> Self {
        let expected = config.expected().iter();
        Self {
            states: [0; STATES.len()],
            matching: BTreeMap::new(),
            count: 0,
            expected: expected
                .map(|key| (key.clone(), LeaseSample::default()))
                .collect(),
            last_epoch: floor,
            max_leases: config.max_leases(),
        }
    }

    pub(crate) fn add(&mut self, config: &MetricsConfig, key: &LeaseKey, lease: LeaseSample) {
        let Some(state) = lease.state else {
            // Only waiters know the lease, and expected leases show their number.
            if let Some(expected) = self.expected.get_mut(key) {
                *expected = lease;
            }
            return;
        };
        self.last_epoch = self.last_epoch.max(lease.last_epoch);
        let position = STATES.iter().position(|(known, _)| *known == state);
        if let Some(count) = position.and_then(|position| self.states.get_mut(position)) {
            *count += 1;
        }
        if let Some(expected) = self.expected.get_mut(key) {
            *expected = lease;
        } else if config.matches(key) {
            self.count += 1;
            if self.count <= self.max_leases {
                self.matching.insert(key.clone(), lease);
            } else {
                self.matching.clear();
            }
        }
    }

    /// `wall` is the present time.
    pub(crate) fn expose(&self, out: &mut Exposition, wall: UnixMillis) {
        let states = STATES.iter().zip(self.states);
        out.gauge(
            "tenure_leases",
            "Leases by state.",
            states.map(|((_, name), count)| Sample::count(count).with("state", name)),
        );
        let left_out = self.count - self.matching.len();
        out.gauge(
            "tenure_lease_series_left_out",
            "Leases without series of their own, because more than metrics.max_leases match.",
            [Sample::count(left_out as u64)],
        );
        let last = self.last_epoch.map_or(0, Epoch::get);
        let ahead = last.saturating_sub(wall.get());
        out.gauge(
            "tenure_epoch_ahead_seconds",
            "The time by which the last epoch is ahead of the wall clock; 0 if it is not.",
            [Sample::of(float(ahead) / 1e3)],
        );
        self.expose_series(out);
    }

    fn expose_series(&self, out: &mut Exposition) {
        let all = || {
            let expected = self.expected.iter().map(|(key, lease)| (key, lease, true));
            let matching = self.matching.iter().map(|(key, lease)| (key, lease, false));
            expected.chain(matching)
        };
        let mut gauge =
            |name: &str, help: &str, value: &dyn Fn(&LeaseSample, bool) -> Option<f64>| {
                let samples = all().filter_map(|(key, lease, is_expected)| {
                    let sample = Sample::of(value(lease, is_expected)?);
                    Some(of_lease(sample, key))
                });
                out.gauge(name, help, samples);
            };
        gauge(
            "tenure_lease_held",
            "Whether a candidate holds the lease.",
            &|lease, _| Some(f64::from(u8::from(lease.is_held()))),
        );
        gauge(
            "tenure_lease_expected",
            "Whether the lease must always be held, by metrics.expected.",
            &|_, is_expected| Some(f64::from(u8::from(is_expected))),
        );
        gauge(
            "tenure_lease_epoch",
            "The epoch of the last term.",
            &|lease, _| lease.epoch.map(|epoch| float(epoch.get())),
        );
        gauge(
            "tenure_lease_waiters",
            "Acquires that wait for the lease.",
            &|lease, _| Some(float(lease.waiters)),
        );
        gauge(
            "tenure_lease_granted_timestamp_seconds",
            "The time at which the running term began, in seconds since 1970.",
            &|lease, _| lease.granted_at.map(|at| float(at.get()) / 1e3),
        );
        gauge(
            "tenure_lease_renewal_age_ratio",
            "The time since the last renewal, divided by the lease duration.",
            &|lease, _| lease.renewal_age_ratio,
        );
        out.counter(
            "tenure_lease_terms_total",
            "Terms of the lease that began since the store started.",
            all().map(|(key, lease, _)| of_lease(Sample::count(lease.terms), key)),
        );
    }
}

impl LeaseSample {
    const fn is_held(&self) -> bool {
        matches!(self.state, Some(State::Leased | State::Breaking))
    }
}

fn of_lease(sample: Sample, key: &LeaseKey) -> Sample {
    let sample = sample.with("namespace", key.namespace());
    sample.with("lease", key.lease())
}

#[allow(clippy::cast_precision_loss)] // Milliseconds since 1970 are far below 2^52.
const fn float(number: u64) -> f64 {
    number as f64
}
