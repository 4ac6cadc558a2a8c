//! How much a store takes of everything.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::name::MAX_NAME_LEN;
use tenure_core::time::millis;
use tenure_core::wire::MAX_METADATA_BYTES;

/// Fewest connections over the limit that are let in.
const LEAST_OVER: usize = 16;

/// Files of a process that are no connections: some 30 of standard streams, runtime, listener, lock,
/// databases with their logs, `RUNNING`, and certificates that are read again; and as many for
/// connections that are about to be closed.
const OTHER_FILES: usize = 64;

/// How much a store takes of everything, so that one client too many, or one gone mad, can't take
/// the others' leases away.
///
/// What is over a limit is refused with a status, a code and both numbers; what is at it is taken.
/// **A renewal is refused for no limit but the size of its body**: who holds a lease keeps it
/// however busy the store is. Most headers (64) and most renewals (1,000) in a request are not
/// configurable.
///
/// As settings these are flat keys with the names of the fields; times are durations such as `10s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a body, but for renewals of many leases, which have 256 KiB. Default 16 KiB:
    /// four times the largest metadata. 1 KiB to 1 MiB. Over it: 413 `too_large`.
    pub max_body_bytes: usize,
    /// Most bytes of a request's line and headers. Default 16 KiB; 8 KiB to 64 KiB, and a connection
    /// may hold twice as much. Over it: 431 `too_large`. A head that does not even fit into that is
    /// told 431 without a body, and its connection is closed.
    pub max_header_bytes: usize,
    /// Most bytes of the name of a namespace and of a lease. Default and most 128; at least 1. Over it
    /// a lease that was never acquired is not made: 400 `invalid_name`.
    pub max_name_bytes: usize,
    /// Most leases of one namespace, held or not. Default 100,000, some 50 MB of memory; at least 1.
    /// Over it a lease that was never acquired is not made: 429 `over_limit`.
    pub max_leases_per_namespace: usize,
    /// Most namespaces that have leases. Default 10,000; at least 1. Over it no lease is made in another
    /// namespace: 429 `over_limit`. A namespace is gone with its last lease. Together with
    /// `max_leases_per_namespace` this bounds the store's leases, and so its memory and its disk.
    pub max_namespaces: usize,
    /// Most acquires that wait for one lease. Default 10,000: each end of a term looks at them in
    /// order under a lock, for below a millisecond. At least 0. Over it: 429 `over_limit`.
    pub max_waiters_per_lease: usize,
    /// Most acquires and long polls that wait in all. Default 50,000: each has a connection and some
    /// kilobytes. At least 0. Over it: 429 `over_limit`.
    pub max_waiting: usize,
    /// Most connections. Default 60,000, more than may wait, for each of these has one; at least 1.
    /// Over it a connection is served renewals and signs of life, is told 429 `over_limit` for all
    /// else, and is closed after its first request, for which it has two seconds. A tenth over it (at
    /// least 16), the oldest of these whose request has not come yet is closed for a newcomer.
    pub max_connections: usize,
    /// Most streams of events. Default 10,000: each has a connection and some kilobytes, and what is told
    /// is kept once for all of them. At least 0. Over it: 429 `over_limit`.
    pub max_watchers: usize,
    /// Most bytes of all keys and values of a lease's metadata. Default and most 4 KiB. Over it: 413
    /// `too_large`.
    pub max_metadata_bytes: usize,
    /// Most terms of a lease that are remembered, the running one with them. Default 100, some 10 KB on
    /// disk; 1 to 10,000. Older ones are forgotten. On disk up to 2,000 more, in all, may stand for a
    /// while. All are read at a start.
    pub max_history: usize,
    /// How long a connection may be idle and its next request's head may then take, in all: there is
    /// one clock for both. Default 75 s: clients that renew once a minute keep their connections, and
    /// those that say nothing don't pile up. 10 ms to 5 min. Over it the connection is closed. On Linux
    /// also how long an answer, or an event, may go without any of it being taken: for so long a
    /// watcher may pause, and so long one that is gone without a word keeps its place.
    pub header_time: Duration,
    /// How long a body may take, and then what is asked for, apart from the time that a request asks
    /// to wait. Default 10 s, 10 ms to 5 min. Over it: 408 `request_timeout`, after which nothing is
    /// known of what the store did.
    pub request_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 16 * 1024,
            max_header_bytes: 16 * 1024,
            max_name_bytes: MAX_NAME_LEN,
            max_leases_per_namespace: 100_000,
            max_namespaces: 10_000,
            max_waiters_per_lease: 10_000,
            max_waiting: 50_000,
            max_connections: 60_000,
            max_watchers: 10_000,
            max_metadata_bytes: MAX_METADATA_BYTES,
            max_history: 100,
            header_time: Duration::from_secs(75),
            request_time: Duration::from_secs(10),
        }
    }
}

/// A limit that makes no sense. Nothing was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value} and must be from {least} to {most}")]
pub struct LimitError {
    name: &'static str,
    value: String,
    least: String,
    most: String,
}

impl LimitError {
    /// The field of [`Limits`], which is also the setting's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl Limits {
    /// How many connections over [`max_connections`](Self::max_connections) are let in to renew, or
    /// to be told that they are too many: a tenth, and more than a few, so that a store with a low
    /// limit is not mute.
    pub(crate) fn connections_over(&self) -> usize {
        (self.max_connections / 10).max(LEAST_OVER)
    }

    /// How many files a process with such a store may have open: its connections, and 64 others.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.max_connections + self.connections_over() + OTHER_FILES
    }

    /// The same limits, but for [`max_connections`](Self::max_connections): so many that they fit into
    /// this number of open files, and at least one. Otherwise the process could run out of files, and
    /// a renewal over a new connection would not even be accepted.
    #[must_use]
    pub fn within_open_files(self, files: usize) -> Self {
        let places = files.saturating_sub(OTHER_FILES);
        // Of eleven places one is over the limit.
        let over = ((places + 1) / 11).max(LEAST_OVER);
        let fitting = places.saturating_sub(over).max(1);
        Self {
            max_connections: self.max_connections.min(fitting),
            ..self
        }
    }

    /// All of them, by the names of the settings; times in milliseconds, with `_ms`.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let Self {
            header_time,
            request_time,
            ..
        } = *self;
        let times = [
            ("header_time_ms", header_time),
            ("request_time_ms", request_time),
        ];
        let counts = self.counts().map(|(name, count)| (name, count as u64));
        let times = times.map(|(name, time)| (name, millis(time)));
        counts.into_iter().chain(times).collect()
    }

    /// Those that are numbers, by their names.
    const fn counts(&self) -> [(&'static str, usize); 11] {
        let Self {
            max_body_bytes,
            max_header_bytes,
            max_name_bytes,
            max_leases_per_namespace,
            max_namespaces,
            max_waiters_per_lease,
            max_waiting,
            max_connections,
            max_watchers,
            max_metadata_bytes,
            max_history,
            header_time: _,
            request_time: _,
        } = *self;
        [
            ("max_body_bytes", max_body_bytes),
            ("max_header_bytes", max_header_bytes),
            ("max_name_bytes", max_name_bytes),
            ("max_leases_per_namespace", max_leases_per_namespace),
            ("max_namespaces", max_namespaces),
            ("max_waiters_per_lease", max_waiters_per_lease),
            ("max_waiting", max_waiting),
            ("max_connections", max_connections),
            ("max_watchers", max_watchers),
            ("max_metadata_bytes", max_metadata_bytes),
            ("max_history", max_history),
        ]
    }

    /// Which of them are possible, but not together.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        /// The shortest request that changes metadata, without the metadata.
        const REQUEST: &str =
            r#"{"lease_id":"00000000-0000-0000-0000-000000000000","metadata":{"":""}}"#;
        let mut warnings = Vec::new();
        if self.max_connections <= self.max_waiting {
            warnings.push(format!(
                "max_connections = {} is not above max_waiting = {}: each who waits has a connection, \
                 so all may be taken by those",
                self.max_connections, self.max_waiting
            ));
        }
        let needed = self.max_metadata_bytes + REQUEST.len();
        if self.max_metadata_bytes > 0 && self.max_body_bytes < needed {
            warnings.push(format!(
                "max_metadata_bytes = {} does not fit into max_body_bytes = {}: a request with as much \
                 has {needed} bytes at least",
                self.max_metadata_bytes, self.max_body_bytes
            ));
        }
        warnings
    }

    /// What a limit may be that is a number, by its name; `None` for others.
    #[must_use]
    pub fn range(name: &str) -> Option<RangeInclusive<usize>> {
        // So that no sum or product of limits overflows anywhere.
        const MANY: usize = 1_000_000_000;
        Some(match name {
            "max_body_bytes" => 1024..=1024 * 1024,
            "max_header_bytes" => 8 * 1024..=64 * 1024,
            "max_name_bytes" => 1..=MAX_NAME_LEN,
            "max_leases_per_namespace" | "max_namespaces" | "max_connections" => 1..=MANY,
            "max_waiters_per_lease" | "max_waiting" | "max_watchers" => 0..=MANY,
            "max_metadata_bytes" => 0..=MAX_METADATA_BYTES,
            "max_history" => 1..=10_000,
            _ => return None,
        })
    }

    /// Whether each is within its range.
    ///
    /// # Errors
    ///
    /// [`LimitError`] names the first that is not, and its range.
    pub fn check(&self) -> Result<(), LimitError> {
        for (name, value) in self.counts() {
            let range = Self::range(name).expect("it is a number");
            within(name, &value, range.start(), range.end())?;
        }
        let least = Duration::from_millis(10);
        let most = Duration::from_secs(5 * 60);
        within_time("header_time", self.header_time, least, most)?;
        within_time("request_time", self.request_time, least, most)
    }
}

fn within<T: PartialOrd + fmt::Display>(
    name: &'static str,
    value: &T,
    least: &T,
    most: &T,
) -> Result<(), LimitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LimitError {
        name,
        value: value.to_string(),
        least: least.to_string(),
        most: most.to_string(),
    })
}

fn within_time(
    name: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), LimitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LimitError {
        name,
        value: format!("{value:?}"),
        least: format!("{least:?}"),
        most: format!("{most:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limits_are_possible() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn connections_are_as_many_as_fit_into_the_open_files() {
        for files in 81..3_000 {
            let fitting = Limits::default().within_open_files(files);
            assert!(fitting.open_files() <= files, "{files}");
            let one_more = Limits {
                max_connections: fitting.max_connections + 1,
                ..fitting
            };
            assert!(one_more.open_files() > files, "{files}");
        }
        let usual = Limits::default();
        assert_eq!(usual.clone().within_open_files(usual.open_files()), usual);
        assert_eq!(usual.within_open_files(0).max_connections, 1);
    }

    #[test]
    fn limits_that_contradict_each_other_are_told() {
        let usual = Limits::default();
        assert!(usual.warnings().is_empty());
        for (limits, told) in [
            (
                Limits {
                    max_connections: 50_000,
                    ..usual.clone()
                },
                ["max_connections = 50000", "max_waiting = 50000"],
            ),
            (
                Limits {
                    max_body_bytes: 4165,
                    ..usual.clone()
                },
                ["max_metadata_bytes = 4096", "max_body_bytes = 4165"],
            ),
        ] {
            let warnings = limits.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(
                told.iter().all(|part| warnings[0].contains(part)),
                "{warnings:?}"
            );
        }
        let enough = Limits {
            max_connections: 50_001,
            max_body_bytes: 4166,
            ..usual
        };
        assert!(enough.warnings().is_empty());
    }

    #[test]
    fn an_impossible_limit_is_named_with_its_range() {
        type Change = fn(&mut Limits);
        let change: [(&str, Change); 13] = [
            ("max_body_bytes", |limits| limits.max_body_bytes = 1023),
            ("max_header_bytes", |limits| limits.max_header_bytes = 8191),
            ("max_name_bytes", |limits| limits.max_name_bytes = 129),
            ("max_connections", |limits| limits.max_connections = 0),
            ("header_time", |limits| limits.header_time = Duration::ZERO),
            ("max_leases_per_namespace", |limits| {
                limits.max_leases_per_namespace = 0;
            }),
            ("max_namespaces", |limits| limits.max_namespaces = 0),
            ("max_waiters_per_lease", |limits| {
                limits.max_waiters_per_lease = usize::MAX;
            }),
            ("max_waiting", |limits| limits.max_waiting = usize::MAX),
            ("max_watchers", |limits| limits.max_watchers = usize::MAX),
            ("max_metadata_bytes", |limits| {
                limits.max_metadata_bytes = 4097;
            }),
            ("max_history", |limits| limits.max_history = 0),
            ("request_time", |limits| limits.request_time = Duration::MAX),
        ];
        for (name, change) in change {
            let mut limits = Limits::default();
            change(&mut limits);
            let error = limits.check().unwrap_err();
            assert_eq!(error.name(), name);
            let text = error.to_string();
            assert!(text.contains("must be from"), "{text}");
        }
    }
}
