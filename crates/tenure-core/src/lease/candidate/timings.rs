//! The timeline of a term. Every value is valid.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::lease::{LeaseDuration, Rules};
use crate::time::timings;

/// The shortest renew interval. Below it, the scheduling delays of a busy machine matter more than
/// the setting.
pub const MIN_RENEW_INTERVAL: Duration = Duration::from_millis(100);

/// The interval at which a leading candidate reads the clock. A timer that was suspended with the
/// machine would end the term too late after the machine resumes.
pub const TICK_INTERVAL: Duration = Duration::from_millis(200);

timings! {
    /// The options of a user. The default of an omitted option follows from the lease duration.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tenure_core::lease::candidate::{Timings, TimingsOptions};
    ///
    /// let mut options = TimingsOptions::default();
    /// options.lease_duration = Some(Duration::from_secs(6));
    /// assert_eq!(Timings::new(&options)?.renew_interval(), Duration::from_secs(2));
    /// # Ok::<(), tenure_core::lease::candidate::TimingsError>(())
    /// ```
    #[non_exhaustive]
    TimingsOptions,

    /// The timeline of a term. It counts from the time at which the last successful request was *sent*:
    ///
    /// ```text
    /// 0        renew interval        renew deadline        hard stop          lease duration
    /// |--renew ok--|--renew, retry, retry-----|--cancel the task--|--abort--|--others may lead-->
    ///    5 s ±10%                          10 s                14 s       15 s
    /// ```
    ///
    /// The hard stop is the renew deadline plus the stop grace. The time from the hard stop to the end
    /// of the lease is the **margin**. It covers the drift between the clocks of the candidate and the
    /// store over one term. A quarter of it is the time that an aborted task has to end before it
    /// counts as overrunning.
    ///
    /// Every value is consistent: [`TimingsError`] lists the refused combinations.
    Timings {},

    /// How long the store keeps the lease without a renewal. Default: 15 s. A longer duration means
    /// fewer requests, and tolerates longer outages of the store; a shorter one means a new leader
    /// sooner after a crash.
    lease_duration: Duration => Some,
    /// The time from the sending of a successful renewal to the sending of the next one, plus or minus
    /// a tenth. Default: half of the renew deadline.
    renew_interval: Duration => Some,
    /// The time after the sending of the last successful renewal at which the leader gives up its
    /// term. Default: the lease duration less the stop grace and the margin.
    renew_deadline: Duration => Some,
    /// How long the task has to stop by itself before it is aborted. Default: 4/15 of the lease
    /// duration, which is 4 s of 15 s.
    stop_grace: Duration => Some,
    /// How long the candidate waits after a term that its task ended. Default: 5 s.
    cool_down: Duration => Some,
    /// How long a leader's task may show no progress before its term ends as unhealthy. Default: no
    /// limit, because only the task knows what progress is.
    progress_deadline: Option<Duration> => core::convert::identity,
}

/// The default lease duration.
const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);

/// The default cool-down. Another candidate acquires the lease well within it.
const DEFAULT_COOL_DOWN: Duration = Duration::from_secs(5);

impl Default for Timings {
    /// Returns the defaults: a lease of 15 s, renewed every 5 s, given up after 10 s, the task
    /// stopped after 14 s.
    fn default() -> Self {
        Self::new(&TimingsOptions::default()).expect("the defaults are consistent")
    }
}

impl Timings {
    /// Creates the timings with these options. Omitted options follow from the lease duration.
    ///
    /// # Errors
    ///
    /// [`TimingsError`] if the options contradict each other. The message names both numbers.
    pub fn new(options: &TimingsOptions) -> Result<Self, TimingsError> {
        let lease = options.lease_duration.unwrap_or(DEFAULT_LEASE_DURATION);
        if !Rules::NATIVE.allows(LeaseDuration::Fixed(lease)) {
            let error = format!("lease duration {lease:?} must be 1s to 24h");
            return Err(TimingsError::LeaseDuration(error));
        }
        let grace = options.stop_grace.unwrap_or(lease * 4 / 15);
        let deadline = options
            .renew_deadline
            .unwrap_or_else(|| (lease - lease / 15).saturating_sub(grace));
        let interval = options.renew_interval.unwrap_or(deadline / 2);

        let hard_stop = deadline.saturating_add(grace);
        let latest = lease - lease / 50;
        if grace >= latest {
            return Err(TimingsError::StopGrace(format!(
                "stop grace {grace:?} must be below the lease duration {lease:?} by more than 2 %"
            )));
        }
        if hard_stop > latest {
            return Err(TimingsError::HardStop(format!(
                "renew deadline {deadline:?} plus stop grace {grace:?} is {hard_stop:?} and must be at \
                 most {latest:?}, the lease duration {lease:?} less 2 % for clocks that drift"
            )));
        }
        if interval < MIN_RENEW_INTERVAL {
            return Err(TimingsError::RenewInterval(format!(
                "renew interval {interval:?} must be at least {MIN_RENEW_INTERVAL:?} (renew deadline \
                 {deadline:?}, stop grace {grace:?})"
            )));
        }
        // The limit leaves room for a jitter of a tenth, and for another attempt after a lost one.
        if interval.saturating_mul(3) / 2 > deadline {
            return Err(TimingsError::RenewDeadline(format!(
                "renew interval {interval:?} must be at most two thirds of the renew deadline {deadline:?}"
            )));
        }
        if let Some(progress) = options.progress_deadline
            && progress < TICK_INTERVAL
        {
            return Err(TimingsError::ProgressDeadline(format!(
                "progress deadline {progress:?} must be at least {TICK_INTERVAL:?}"
            )));
        }
        let cool_down = options.cool_down.unwrap_or(DEFAULT_COOL_DOWN);
        Ok(Self {
            lease_duration: lease,
            renew_interval: interval,
            renew_deadline: deadline,
            stop_grace: grace,
            cool_down,
            progress_deadline: options.progress_deadline,
        })
    }

    /// Returns the time between two requests of a candidate that waits at a service without a
    /// waiting queue, plus or minus a tenth: a fifth of the renew interval.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.renew_interval / 5
    }

    /// Returns the latest time, after the sending of the last successful renewal, at which the task
    /// is aborted.
    #[must_use]
    pub fn hard_stop(&self) -> Duration {
        self.renew_deadline + self.stop_grace
    }

    /// Returns a warning if a leader could lose its term while another server of the store's cluster
    /// takes over: after a crash that takes up to 5/4 of the ownership duration, because a standby waits
    /// for the ownership duration and looks at the log at intervals.
    #[must_use]
    pub fn take_over_warning(&self, ownership: Duration) -> Option<String> {
        let needed = ownership * 5 / 4;
        let room = self.renew_deadline - self.renew_interval;
        (room <= needed).then(|| {
            format!(
                "another server of the store takes over up to {needed:.1?} after a crash, and a leader has \
                 {room:.1?} between renew interval and renew deadline: choose a lease_duration of at least \
                 {:?}, or a shorter cluster.ownership",
                Duration::from_secs((needed * 3).as_secs() + 1)
            )
        })
    }

    /// Returns the time from the hard stop to the end of the lease.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.hard_stop())
    }

    /// Returns how long an aborted task has to end before it counts as overrunning.
    #[must_use]
    pub fn abort_allowance(&self) -> Duration {
        self.margin() / 4
    }

    /// Returns by how much the candidate's clock may run slower than the store's, in per cent,
    /// before another candidate could be granted the lease while an aborted task still runs.
    #[must_use]
    pub fn tolerated_drift_percent(&self) -> f64 {
        let last_moment = self.hard_stop() + self.abort_allowance();
        let room = self.lease_duration - last_moment;
        100.0 * room.as_secs_f64() / last_moment.as_secs_f64()
    }

    /// Returns the longest time without a leader if the leader dies right after a renewal, while
    /// the store runs and a candidate waits. The transmission time of one answer must be added.
    #[must_use]
    pub const fn worst_without_leader(&self) -> Duration {
        self.lease_duration
    }
}

/// Formats the timings and the bounds that follow from them, for the log at start.
impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lease {:?}, renewed every {:?}, given up {:?} and stopped {:?} after the last renewal; \
             at worst {:?} without a leader after a crash; clock drift tolerated {:.1} %",
            self.lease_duration,
            self.renew_interval,
            self.renew_deadline,
            self.hard_stop(),
            self.worst_without_leader(),
            self.tolerated_drift_percent(),
        )
    }
}

/// The reason why timings contradict each other. The message contains the numbers; the user must
/// change one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub enum TimingsError {
    /// The store would refuse the lease duration.
    LeaseDuration(String),
    /// The task might take longer to stop than the lease lasts.
    StopGrace(String),
    /// The task would be aborted only after another candidate may lead.
    HardStop(String),
    /// Renewals would follow each other faster than a busy machine schedules its threads.
    RenewInterval(String),
    /// The task would have to show progress faster than the candidate checks it.
    ProgressDeadline(String),
    /// One lost renewal would end the term.
    RenewDeadline(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const fn s(secs: u64) -> Option<Duration> {
        Some(Duration::from_secs(secs))
    }

    #[test]
    fn the_defaults_equal_the_derived_values() {
        assert_eq!(
            Timings::new(&TimingsOptions::default()).unwrap(),
            Timings::default()
        );
        let shown = Timings::default().to_string();
        assert!(
            shown.contains("lease 15s, renewed every 5s, given up 10s and stopped 14s"),
            "{shown}"
        );
    }

    #[test]
    fn a_shorter_lease_shortens_everything_in_proportion() {
        let timings = Timings::new(&TimingsOptions {
            lease_duration: s(3),
            ..Default::default()
        });
        let timings = timings.unwrap();
        assert_eq!(timings.renew_interval(), Duration::from_secs(1));
        assert_eq!(timings.renew_deadline(), Duration::from_secs(2));
        assert_eq!(timings.stop_grace(), Duration::from_millis(800));
    }

    #[test]
    fn impossible_timings_are_refused_with_both_numbers() {
        let base = TimingsOptions {
            lease_duration: s(10),
            ..Default::default()
        };
        for (options, numbers) in [
            (
                TimingsOptions {
                    lease_duration: s(0),
                    ..base
                },
                ["0ns", "1s"],
            ),
            (
                TimingsOptions {
                    lease_duration: s(90_000),
                    ..base
                },
                ["90000s", "24h"],
            ),
            (
                TimingsOptions {
                    stop_grace: s(10),
                    ..base
                },
                ["10s", "10s"],
            ),
            (
                TimingsOptions {
                    renew_deadline: s(12),
                    ..base
                },
                ["12s", "10s"],
            ),
            (
                TimingsOptions {
                    renew_deadline: s(7),
                    stop_grace: s(4),
                    ..base
                },
                ["7s", "4s"],
            ),
            (
                TimingsOptions {
                    renew_deadline: s(6),
                    renew_interval: s(5),
                    ..base
                },
                ["5s", "6s"],
            ),
            (
                TimingsOptions {
                    renew_interval: s(0),
                    ..base
                },
                ["0ns", "100ms"],
            ),
        ] {
            let error = Timings::new(&options).unwrap_err().to_string();
            assert!(
                numbers.iter().all(|number| error.contains(number)),
                "{error}"
            );
        }
    }

    impl Timings {
        /// Returns timings that need not be possible, for models in which time has only a few
        /// ticks.
        pub(crate) const fn unchecked(lease_duration: Duration, renew_deadline: Duration) -> Self {
            Self {
                lease_duration,
                renew_interval: Duration::ZERO,
                renew_deadline,
                stop_grace: Duration::ZERO,
                cool_down: Duration::ZERO,
                progress_deadline: None,
            }
        }

        pub(crate) const fn with_renew_interval(self, renew_interval: Duration) -> Self {
            Self {
                renew_interval,
                ..self
            }
        }
    }

    proptest! {
        #[test]
        fn timings_that_exist_stop_before_the_lease_ends(
            lease in 0..100_000_u64,
            grace in proptest::option::of(0..100_000_u64),
            deadline in proptest::option::of(0..100_000_u64),
            interval in proptest::option::of(0..100_000_u64),
        ) {
            let options = TimingsOptions {
                lease_duration: Some(Duration::from_millis(lease)),
                stop_grace: grace.map(Duration::from_millis),
                renew_deadline: deadline.map(Duration::from_millis),
                renew_interval: interval.map(Duration::from_millis),
                cool_down: None,
                progress_deadline: None,
            };
            if let Ok(timings) = Timings::new(&options) {
                prop_assert!(timings.renew_interval().mul_f64(1.1) < timings.renew_deadline());
                prop_assert!(timings.renew_deadline() <= timings.hard_stop());
                prop_assert!(timings.hard_stop() + timings.abort_allowance() < timings.lease_duration());
                prop_assert!(timings.tolerated_drift_percent() > 0.0);
            }
        }
    }
}
