//! The metrics of access control.

use std::time::SystemTime;

use super::{Access, Mode};
use crate::metrics::{CounterSet, Exposition, ReloadStatus, Sample, unix_seconds};

impl Access {
    /// Adds the numbers of refused credentials.
    pub(crate) fn expose_failures(&self, out: &mut Exposition) {
        let none = CounterSet::default();
        let counts = match &*self.0 {
            Mode::Open { .. } => &none,
            Mode::Guarded(guarded) => &guarded.failures.counts,
        };
        out.counters(
            "tenure_auth_failures_total",
            "Requests without a valid credential, by the reason, which only the store knows.",
            "why",
            counts,
        );
    }

    /// Returns the last reloads: of the access file, and of the keys of its authorities.
    pub(crate) fn reloads(&self) -> Vec<(&'static str, ReloadStatus)> {
        let Mode::Guarded(guarded) = &*self.0 else {
            return Vec::new();
        };
        let table = guarded.table();
        let fetches = table.authorities().iter().map(|authority| &authority.fetch);
        // The keys of the authority whose last fetch failed, or of the oldest fetch.
        let keys = fetches.min_by_key(|fetch| (!fetch.has_failed(), fetch.succeeded_at()));
        let keys = keys.map(|fetch| ("keys", fetch.clone()));
        let access = ("access", guarded.reload.clone());
        [access].into_iter().chain(keys).collect()
    }

    /// Adds the ends of tokens, and the ages of keys.
    pub(crate) fn expose_ends(&self, out: &mut Exposition) {
        let Mode::Guarded(guarded) = &*self.0 else {
            return;
        };
        let table = guarded.table();
        let next = table.ends(SystemTime::now()).min();
        out.gauge(
            "tenure_secret_expiry_timestamp_seconds",
            "The time at which the next token of the access file expires, in seconds since 1970.",
            next.map(|at| Sample::of(unix_seconds(at))),
        );
        let fetches = table.authorities().iter().filter_map(|authority| {
            let at = unix_seconds(authority.fetch.succeeded_at()?);
            Some(Sample::of(at).with("issuer", &authority.issuer.name))
        });
        out.gauge(
            "tenure_key_set_timestamp_seconds",
            "The time of the last successful fetch of the keys of an authority, in seconds since 1970.",
            fetches,
        );
    }
}
