//! The limits of a store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::lease::{Operation, Rules};
use tenure_core::name::MAX_NAME_LEN;
use tenure_core::time::millis;
use tenure_core::wire::{Code, MAX_METADATA_BYTES, Problem, check_metadata};

use crate::model::HistoryLimits;

/// The smallest number of connections over the limit.
const LEAST_OVER: usize = 16;

/// The number of open files of a process other than its connections. About 30 are for standard
/// streams, runtime, listener, lock, files of the log and of a snapshot, and certificates while they
/// are read again. The rest are for connections that are about to be closed.
const OTHER_FILES: usize = 64;

// The largest configurable count. With it, no sum or product of limits overflows.
const MANY: usize = 1_000_000_000;
const KIB: usize = 1024;
const TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(5 * 60);

/// The default limit of the time for which a request may bar candidates from a free lease. It is
/// enough for work of the last term to end, and a wrong unit does not cost hours without a leader.
const BAR_TIME: Duration = Duration::from_secs(10 * 60);
const FORGET_TIMES: RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(3_650 * 24 * 60 * 60);
const BAR_TIMES: RangeInclusive<Duration> = Duration::ZERO..=Rules::NATIVE.max_break_period;

/// The type and range of a limit.
#[derive(Debug)]
pub enum LimitSetting<'a> {
    /// A number and its range.
    Count(&'a mut usize, RangeInclusive<usize>),
    /// A duration and its range.
    Time(&'a mut Duration, RangeInclusive<Duration>),
}

impl LimitSetting<'_> {
    /// Checks that the limit with this name is within its range.
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

/// Declares the limits, each with its type, its default and its range.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $type:ty = $default:expr, $range:expr;)*) => {
        /// Resource limits that keep one misbehaving client from costing others their leases.
        ///
        /// The store refuses a request over a limit with a status, a code and both numbers. **The
        /// only limit that refuses a renewal is the limit on the size of its body**: a holder keeps
        /// its lease however busy the store is. Two limits are not configurable: a request has at
        /// most 64 headers and at most 1,000 renewals.
        ///
        /// # Shares
        ///
        /// One principal, or one address if the store has no access control, may use no more of
        /// [`max_waiting`](Self::max_waiting),
        /// [`max_waiters_per_lease`](Self::max_waiters_per_lease),
        /// [`max_watchers`](Self::max_watchers) and [`max_answers`](Self::max_answers) than is free
        /// for others: half of the total if others use nothing.
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
            /// Returns all limits with their names as settings.
            pub fn settings(&mut self) -> Vec<(&'static str, LimitSetting<'_>)> {
                vec![$((stringify!($name), LimitSetting::$kind(&mut self.$name, $range)),)*]
            }
        }
    };
}

limits! {
    /// Maximum size of a body, in bytes. A request with many renewals may have 256 KiB instead.
    /// Default 16 KiB: four times the largest metadata. 1 KiB to 1 MiB. Over it: 413 `too_large`.
    max_body_bytes: Count usize = 16 * KIB, KIB..=KIB * KIB;
    /// Maximum size of the request line and headers, in bytes. Default 16 KiB; 8 KiB to 64 KiB. A
    /// connection may buffer twice as much. Over it: 431 `too_large`. A head over twice the limit
    /// gets 431 without a body, and its connection is closed.
    max_header_bytes: Count usize = 16 * KIB, 8 * KIB..=64 * KIB;
    /// Maximum length of the name of a namespace and of a lease, in bytes. Default and maximum 128;
    /// at least 1. Over it the store does not create a lease: 400 `invalid_name`.
    max_name_bytes: Count usize = MAX_NAME_LEN, 1..=MAX_NAME_LEN;
    /// Maximum number of leases in one namespace, held or not. Default 100,000, which take some 50
    /// MB of memory; at least 1. Over it the store does not create a lease: 429 `over_limit`.
    max_leases_per_namespace: Count usize = 100_000, 1..=MANY;
    /// Maximum number of namespaces that have leases. Default 10,000; at least 1. Over it the store
    /// creates no lease in another namespace: 429 `over_limit`. A namespace ends with its last
    /// lease. Together with `max_leases_per_namespace` this limits the number of leases in the
    /// store, its memory and its disk space.
    max_namespaces: Count usize = 10_000, 1..=MANY;
    /// Time after which the store deletes a lease that nobody holds, waits for or watches, so that its
    /// name no longer counts as one of `max_leases_per_namespace`. Default zero: never, because the
    /// deletion also ends the history of the lease, and a holder of the Azure protocol may renew an
    /// expired lease. At most ten years. The time counts from the end of the last term, or from the
    /// start of the store. As after every deletion, a new lease of that name gets greater epochs.
    forget_leases_after: Time Duration = Duration::ZERO, FORGET_TIMES;
    /// Maximum number of acquires that wait for one lease. Default 10,000: each end of a term
    /// visits them in order under a lock, for less than a millisecond. At least 0. Over it, and over
    /// the [share](Self#shares) of a principal: 429 `over_limit`.
    max_waiters_per_lease: Count usize = 10_000, 0..=MANY;
    /// Maximum number of acquires and long polls that wait, over all leases. Default 50,000: each
    /// has a connection and takes some kilobytes. At least 0. Over it, and over the
    /// [share](Self#shares) of a principal: 429 `over_limit`.
    max_waiting: Count usize = 50_000, 0..=MANY;
    /// Maximum number of connections. Default 60,000, which is more than `max_waiting`, because
    /// each waiter has a connection; at least 1. Over a connection beyond the limit, a client may
    /// renew leases and check that the store is alive. Any other request gets 429 `over_limit`.
    /// Such a connection is closed after its first request, which must arrive within two seconds.
    /// Beyond the limit the store accepts a tenth more connections (at least 16). If all of these
    /// are open, a new connection closes the oldest one whose request has not arrived yet.
    max_connections: Count usize = 60_000, 1..=MANY;
    /// Maximum number of connections of one address, or of one IPv6 network of 64 bits. Default
    /// 1,000, so that one address takes less than 100 MB of memory before its first request; zero
    /// means no limit. A connection over it is treated as over `max_connections`:
    /// other addresses can still connect, and a renewal from this address is still served.
    max_connections_per_address: Count usize = 1_000, 0..=MANY;
    /// Maximum number of event streams. Default 10,000: each has a connection and takes some
    /// kilobytes; all of them share one copy of the events. At least 0. Over it, and over the
    /// [share](Self#shares) of a principal: 429 `over_limit`.
    max_watchers: Count usize = 10_000, 0..=MANY;
    /// Maximum number of large answers that are built, or that clients have not taken completely, at
    /// the same time: lists, overviews, histories, metrics, and large uploads of Azure clients.
    /// Default 64: each takes up to 256 KiB of memory, or up to 1 MiB for an Azure list.
    /// At least 1. Over it, and over the [share](Self#shares) of a principal: 429 `over_limit`.
    /// Requests with many renewals are not refused: a quarter of this number runs at a time, and
    /// the others wait.
    max_answers: Count usize = 64, 1..=MANY;
    /// Maximum size of all keys and values of a lease's metadata, in bytes. Default and maximum 4
    /// KiB. Over it: 413 `too_large`.
    max_metadata_bytes: Count usize = MAX_METADATA_BYTES, 0..=MAX_METADATA_BYTES;
    /// Maximum `lock_delay_ms` of an acquire: nobody leads for this time after an expiry or a break,
    /// until an operator ends the lock delay. Default 10 min; at most 24 h. Over it: 422
    /// `out_of_range`.
    max_lock_delay: Time Duration = BAR_TIME, BAR_TIMES;
    /// Maximum `within_ms` of a hand-over: for this time only the named candidate can be granted the
    /// lease, until an operator ends the reservation. Default 10 min; at most 24 h. Over it: 422
    /// `out_of_range`.
    max_hand_over: Time Duration = BAR_TIME, BAR_TIMES;
    /// Maximum number of terms in the history of a lease, including the running one. Default 100; 1
    /// to 10,000. The store forgets older terms.
    max_history: Count usize = 100, 1..=10_000;
    /// Maximum number of past terms of all leases. Default 200,000, which take some 25 MB of memory;
    /// 0 to 10,000,000. The store forgets the oldest ones beyond it, and
    /// `tenure_past_terms_forgotten_total` counts them.
    max_terms: Count usize = 200_000, 0..=10_000_000;
    /// Time limit for the head of a request from its first byte to its end, and for a new
    /// connection from its accept to the end of its first head. Default 15 s; 10 ms to 5 min. Over
    /// it the connection is closed.
    head_time: Time Duration = Duration::from_secs(15), TIMES;
    /// Time limit for the next head of a connection, in which the connection may first be idle: one
    /// clock covers both. Default 75 s: clients that renew once a minute keep their connections,
    /// and silent connections do not accumulate. 10 ms to 5 min. Over it the connection is closed.
    /// On Linux this is also the time limit for the acknowledgement of a response or an event. A
    /// watcher may pause for this long, and a watcher that vanished keeps its connection for this
    /// long.
    header_time: Time Duration = Duration::from_secs(75), TIMES;
    /// Time limit for the body of a request, then for the work on the request, apart from the time
    /// that the request asks to wait, and then for the client to take the answer. Default 10 s, 10
    /// ms to 5 min. Over it: 408 `request_timeout`; the store may or may not have done the work. If
    /// the client has not taken the whole answer, the connection is closed; streams have no such
    /// limit.
    request_time: Time Duration = Duration::from_secs(10), TIMES;
}

/// A limit is outside its range. Nothing was opened.
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
    /// Returns the limits of the past terms.
    pub(crate) const fn of_history(&self) -> HistoryLimits {
        HistoryLimits {
            of_lease: self.max_history,
            in_all: self.max_terms,
        }
    }

    /// Returns how many connections over [`max_connections`](Self::max_connections) are accepted,
    /// for renewals and refusals: a tenth, and at least a few, so that a store with a low limit
    /// also answers.
    pub(crate) fn connections_over(&self) -> usize {
        (self.max_connections / 10).max(LEAST_OVER)
    }

    /// Returns the number of open files that a process with such a store needs: its connections,
    /// and 64 others.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.max_connections + self.connections_over() + OTHER_FILES
    }

    /// Lowers [`max_connections`](Self::max_connections) to the number that fits into this number
    /// of open files, but to no less than one. Otherwise the process could run out of files and
    /// could not accept even a new connection for a renewal.
    #[must_use]
    pub fn within_open_files(self, files: usize) -> Self {
        let connections = files.saturating_sub(OTHER_FILES);
        // A tenth over the limit is one of eleven connections in all.
        let over = ((connections + 1) / 11).max(LEAST_OVER);
        let fitting = connections.saturating_sub(over).max(1);
        Self {
            max_connections: self.max_connections.min(fitting),
            ..self
        }
    }

    /// Returns all limits by the names of their settings; times are in milliseconds, under names
    /// that end in `_ms`.
    pub(crate) fn by_name(&self) -> BTreeMap<String, u64> {
        let mut limits = self.clone();
        let settings = limits.settings().into_iter();
        let by_name = settings.map(|(name, setting)| match setting {
            LimitSetting::Count(count, _) => (name.to_owned(), *count as u64),
            LimitSetting::Time(time, _) => (format!("{name}_ms"), millis(*time)),
        });
        by_name.collect()
    }

    /// Checks an operation against the limits that an operation may exceed.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfRange`] and [`Code::TooLarge`]; they name the field, and the limit for a time.
    pub(crate) fn check_operation(&self, operation: &Operation) -> Result<(), Problem> {
        let most = self.max_metadata_bytes;
        match operation {
            Operation::Acquire(request, _) | Operation::Resume(request, ..) => {
                check_metadata(&request.metadata, most)?;
                let limit = ("max_lock_delay", self.max_lock_delay);
                check_time("lock_delay_ms", request.lock_delay, limit)
            }
            Operation::SetMetadata(_, metadata) => check_metadata(metadata, most),
            Operation::HandOver { within, .. }
            | Operation::SwitchOver {
                within: Some(within),
                ..
            } => check_time("within_ms", *within, ("max_hand_over", self.max_hand_over)),
            _ => Ok(()),
        }
    }

    /// Returns a warning for each pair of limits that contradict each other.
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
                 at least {needed} bytes",
                self.max_metadata_bytes, self.max_body_bytes
            ));
        }
        warnings
    }

    /// Checks that each limit is within its range.
    ///
    /// # Errors
    ///
    /// [`LimitError`] names the first limit that is not, and its range.
    pub fn check(&self) -> Result<(), LimitError> {
        let mut limits = self.clone();
        let mut settings = limits.settings().into_iter();
        settings.try_for_each(|(name, setting)| setting.check(name))
    }
}

/// Checks a time in a request against a limit of the store.
fn check_time(field: &str, time: Duration, (name, most): (&str, Duration)) -> Result<(), Problem> {
    if time <= most {
        return Ok(());
    }
    let (time, most) = (millis(time), millis(most));
    let detail =
        format!("{field} is {time} and must be at most {most}, the limit {name} of this store");
    Err(Problem::new(Code::OutOfRange, detail))
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
        for place in 0..Limits::default().settings().len() {
            let mut limits = Limits::default();
            let (name, setting) = limits.settings().swap_remove(place);
            match setting {
                LimitSetting::Count(count, _) => *count = usize::MAX,
                LimitSetting::Time(time, _) => *time = Duration::MAX,
            }
            let error = limits.check().unwrap_err();
            assert_eq!(error.name, name);
            let text = error.to_string();
            assert!(text.contains("must be from"), "{text}");
        }
    }
}
