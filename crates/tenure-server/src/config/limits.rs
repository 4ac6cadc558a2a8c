//! The limits of a store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::name::MAX_NAME_LEN;
use tenure_core::time::millis;
use tenure_core::wire::MAX_METADATA_BYTES;

/// The least number of connections over the limit.
const LEAST_OVER: usize = 16;

/// Open files of a process other than connections: some 30 for standard streams, runtime, listener,
/// lock, databases with their logs, `RUNNING` and certificates that are read again; and as many for
/// connections that are about to be closed.
const OTHER_FILES: usize = 64;

// So that no sum or product of limits overflows anywhere.
const MANY: usize = 1_000_000_000;
const KIB: usize = 1024;
const TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(5 * 60);

/// A limit as a setting.
#[derive(Debug)]
pub enum LimitSetting<'a> {
    /// A number, and its range.
    Count(&'a mut usize, RangeInclusive<usize>),
    /// A time, and its range.
    Time(&'a mut Duration, RangeInclusive<Duration>),
}

impl LimitSetting<'_> {
    /// Checks that the limit of this name is within its range.
    ///
    /// # Errors
    ///
    /// [`LimitError`] names the limit and its range.
    pub fn check(&self, name: &'static str) -> Result<(), LimitError> {
        match self {
            Self::Count(count, range) => within(name, *count, range),
            Self::Time(time, range) => within(name, *time, range),
        }
    }
}

/// Declares the limits: each with its kind, its default and its range.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $type:ty = $default:expr, $range:expr;)*) => {
        /// Resource limits that keep one misbehaving client from costing others their leases.
        ///
        /// The store refuses a request over a limit with a status, a code and both numbers. **A
        /// renewal is refused for no limit but the size of its body**: a holder keeps its lease
        /// however busy the store is. Most headers (64) and most renewals (1,000) in a request are
        /// not configurable.
        ///
        /// As settings these are flat keys with the names of the fields; times are durations such
        /// as `10s`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Limits {
            /// All limits, by their names as settings.
            pub fn settings(&mut self) -> Vec<(&'static str, LimitSetting<'_>)> {
                vec![$((stringify!($name), LimitSetting::$kind(&mut self.$name, $range)),)*]
            }
        }
    };
}

limits! {
    /// Most bytes of a body, except for renewals of many leases, which have 256 KiB. Default 16
    /// KiB: four times the largest metadata. 1 KiB to 1 MiB. Over it: 413 `too_large`.
    max_body_bytes: Count usize = 16 * KIB, KIB..=KIB * KIB;
    /// Most bytes of a request's line and headers. Default 16 KiB; 8 KiB to 64 KiB, and a
    /// connection may hold twice as much. Over it: 431 `too_large`. A head that does not fit into
    /// twice the limit gets 431 without a body, and its connection is closed.
    max_header_bytes: Count usize = 16 * KIB, 8 * KIB..=64 * KIB;
    /// Most bytes of the name of a namespace and of a lease. Default and most 128; at least 1. Over
    /// it the store does not create a lease: 400 `invalid_name`.
    max_name_bytes: Count usize = MAX_NAME_LEN, 1..=MAX_NAME_LEN;
    /// Most leases of one namespace, held or not. Default 100,000, some 50 MB of memory; at least
    /// 1. Over it the store does not create a lease: 429 `over_limit`.
    max_leases_per_namespace: Count usize = 100_000, 1..=MANY;
    /// Most namespaces that have leases. Default 10,000; at least 1. Over it the store creates no
    /// lease in another namespace: 429 `over_limit`. A namespace ends with its last lease. Together
    /// with `max_leases_per_namespace` this bounds the leases of the store, its memory and its
    /// disk.
    max_namespaces: Count usize = 10_000, 1..=MANY;
    /// Most acquires that wait for one lease. Default 10,000: each end of a term walks them in
    /// order under a lock, for less than a millisecond. At least 0. Over it: 429 `over_limit`.
    max_waiters_per_lease: Count usize = 10_000, 0..=MANY;
    /// Most acquires and long polls that wait in all. Default 50,000: each has a connection and
    /// some kilobytes. At least 0. Over it: 429 `over_limit`.
    max_waiting: Count usize = 50_000, 0..=MANY;
    /// Most connections. Default 60,000, more than may wait, because each waiter has one; at least
    /// 1. A connection over it may renew leases and ask for signs of life. Any other request gets
    /// 429 `over_limit`. The connection is closed after its first request, for which it has two
    /// seconds. If a tenth over the limit (at least 16) are open, a new connection closes the
    /// oldest of them whose request has not come yet.
    max_connections: Count usize = 60_000, 1..=MANY;
    /// Most connections of one address, or of one IPv6 network of 64 bits. Default 10,000; zero is no
    /// limit. Over it a connection is treated as over `max_connections`: others still connect, and a
    /// renewal from this address is still served.
    max_connections_per_address: Count usize = 10_000, 0..=MANY;
    /// Most streams of events. Default 10,000: each has a connection and some kilobytes; the events
    /// are kept once for all of them. At least 0. Over it: 429 `over_limit`.
    max_watchers: Count usize = 10_000, 0..=MANY;
    /// Most bytes of all keys and values of a lease's metadata. Default and most 4 KiB. Over it:
    /// 413 `too_large`.
    max_metadata_bytes: Count usize = MAX_METADATA_BYTES, 0..=MAX_METADATA_BYTES;
    /// Most terms in the history of a lease, with the running one. Default 100, some 10 KB on disk;
    /// 1 to 10,000. Older ones are forgotten. On disk up to 2,000 more, in all, may stay for a
    /// while. A start reads all of them.
    max_history: Count usize = 100, 1..=10_000;
    /// How long the head of a request may take from its first byte to its end, and a new connection
    /// from its accept to the end of its first head. Default 15 s; 10 ms to 5 min. Over it the
    /// connection is closed.
    head_time: Time Duration = Duration::from_secs(15), TIMES;
    /// How long a connection may be idle and then take for the head of its next request: there is
    /// one clock for both. Default 75 s: clients that renew once a minute keep their connections,
    /// and silent ones do not pile up. 10 ms to 5 min. Over it the connection is closed. On Linux
    /// this is also how long a client may leave a response or an event unacknowledged: a watcher
    /// may pause for so long, and a watcher that is gone without a word keeps its connection for so
    /// long.
    header_time: Time Duration = Duration::from_secs(75), TIMES;
    /// How long a body may take, and then the work for the request, apart from the time that the
    /// request asks to wait. Default 10 s, 10 ms to 5 min. Over it: 408 `request_timeout`; the
    /// store may or may not have done the work.
    request_time: Time Duration = Duration::from_secs(10), TIMES;
}

/// A limit is outside of its range. Nothing was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value} and must be from {least} to {most}")]
#[non_exhaustive]
pub struct LimitError {
    /// The field of [`Limits`], which is also the setting's name.
    pub name: &'static str,
    value: String,
    least: String,
    most: String,
}

impl Limits {
    /// How many connections over [`max_connections`](Self::max_connections) are accepted, to renew
    /// or to get a refusal: a tenth, and at least a few, so that a store with a low limit answers,
    /// too.
    pub(crate) fn connections_over(&self) -> usize {
        (self.max_connections / 10).max(LEAST_OVER)
    }

    /// How many files a process with such a store needs: its connections, and 64 others.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.max_connections + self.connections_over() + OTHER_FILES
    }

    /// The same limits with as many [`max_connections`](Self::max_connections) as fit into this
    /// number of open files, and at least one. Otherwise the process could run out of files, and
    /// could not even accept a new connection for a renewal.
    #[must_use]
    pub fn within_open_files(self, files: usize) -> Self {
        let connections = files.saturating_sub(OTHER_FILES);
        // One of eleven connections is over the limit.
        let over = ((connections + 1) / 11).max(LEAST_OVER);
        let fitting = connections.saturating_sub(over).max(1);
        Self {
            max_connections: self.max_connections.min(fitting),
            ..self
        }
    }

    /// All limits by the names of their settings; times in milliseconds, with `_ms`.
    pub(crate) fn by_name(&self) -> BTreeMap<String, u64> {
        let mut limits = self.clone();
        let settings = limits.settings().into_iter();
        let by_name = settings.map(|(name, setting)| match setting {
            LimitSetting::Count(count, _) => (name.to_owned(), *count as u64),
            LimitSetting::Time(time, _) => (format!("{name}_ms"), millis(*time)),
        });
        by_name.collect()
    }

    /// Limits that contradict each other.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        /// The shortest request that changes metadata, without the metadata.
        const REQUEST: &str =
            r#"{"lease_id":"00000000-0000-0000-0000-000000000000","metadata":{"":""}}"#;
        let mut warnings = Vec::new();
        if self.max_connections <= self.max_waiting {
            warnings.push(format!(
                "max_connections = {} is not above max_waiting = {}: each waiter has a connection, so \
                 waiters may take all of them",
                self.max_connections, self.max_waiting
            ));
        }
        if self.max_connections_per_address >= self.max_connections {
            warnings.push(format!(
                "max_connections_per_address = {} is not below max_connections = {}: one address may \
                 take all of them; use 0 if a proxy is in front of the store",
                self.max_connections_per_address, self.max_connections
            ));
        }
        let needed = self.max_metadata_bytes + REQUEST.len();
        if self.max_metadata_bytes > 0 && self.max_body_bytes < needed {
            warnings.push(format!(
                "max_metadata_bytes = {} does not fit into max_body_bytes = {}: such a request has \
                 {needed} bytes at least",
                self.max_metadata_bytes, self.max_body_bytes
            ));
        }
        warnings
    }

    /// Checks that each is within its range.
    ///
    /// # Errors
    ///
    /// [`LimitError`] names the first that is not, and its range.
    pub fn check(&self) -> Result<(), LimitError> {
        let mut limits = self.clone();
        let mut settings = limits.settings().into_iter();
        settings.try_for_each(|(name, setting)| setting.check(name))
    }
}

fn within<T: PartialOrd + fmt::Debug>(
    name: &'static str,
    value: &T,
    range: &RangeInclusive<T>,
) -> Result<(), LimitError> {
    if range.contains(value) {
        return Ok(());
    }
    Err(LimitError {
        name,
        value: format!("{value:?}"),
        least: format!("{:?}", range.start()),
        most: format!("{:?}", range.end()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limits_are_in_their_ranges() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn connections_are_limited_to_the_open_files() {
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
    fn limits_that_contradict_each_other_cause_warnings() {
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
            (
                Limits {
                    max_connections_per_address: 60_000,
                    ..usual.clone()
                },
                [
                    "max_connections_per_address = 60000",
                    "max_connections = 60000",
                ],
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
            max_connections_per_address: 50_000,
            max_body_bytes: 4166,
            ..usual
        };
        assert!(enough.warnings().is_empty());
    }

    #[test]
    fn an_error_names_the_limit_and_its_range() {
        type Edit = fn(&mut Limits);
        let edits: [(&str, Edit); 15] = [
            ("max_body_bytes", |limits| limits.max_body_bytes = 1023),
            ("max_header_bytes", |limits| limits.max_header_bytes = 8191),
            ("max_name_bytes", |limits| limits.max_name_bytes = 129),
            ("max_connections", |limits| limits.max_connections = 0),
            ("max_connections_per_address", |limits| {
                limits.max_connections_per_address = usize::MAX;
            }),
            ("head_time", |limits| limits.head_time = Duration::ZERO),
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
        assert_eq!(edits.len(), Limits::default().settings().len());
        for (name, edit) in edits {
            let mut limits = Limits::default();
            edit(&mut limits);
            let error = limits.check().unwrap_err();
            assert_eq!(error.name, name);
            let text = error.to_string();
            assert!(text.contains("must be from"), "{text}");
        }
    }
}
