//! The choice of a member's detector, from a name and a few numbers.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;

use super::options::{self, OptionsError, ensure};
use super::push::{RENEWALS, subscription_lifetime};
use super::{
    AskOptions, Chen, Detector, FixedTimeout, Group, OnDemand, PhiAccrual, PhiOptions, Pull, Push,
};
use crate::{Incarnation, NodeId};

/// The kind of a detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectBy {
    /// `push`: heartbeats, and a deadline that adapts to the delays of the network ([`Chen`]).
    #[default]
    Push,
    /// `push-fixed`: heartbeats, and a fixed timeout ([`FixedTimeout`]).
    PushFixed,
    /// `phi`: heartbeats, and a deadline that adapts to their jitter ([`PhiAccrual`]).
    Phi,
    /// `pull`: a ping per interval ([`Pull`]). It sends twice the messages of a heartbeat.
    Pull,
    /// `on-demand`: a question at a (longer) interval ([`OnDemand`]). It sends the fewest messages,
    /// has the latest detection, and makes the most mistakes.
    OnDemand,
}

impl DetectBy {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Push,
        Self::PushFixed,
        Self::Phi,
        Self::Pull,
        Self::OnDemand,
    ];

    /// Returns the name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::PushFixed => "push-fixed",
            Self::Phi => "phi",
            Self::Pull => "pull",
            Self::OnDemand => "on-demand",
        }
    }
}

impl FromStr for DetectBy {
    /// The error is the list of the allowed values.
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|by| by.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(|by| alloc::format!("{:?}", by.name()));
            alloc::format!("must be one of {}", names.join(", "))
        })
    }
}

/// The settings of failure detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetectionOptions {
    /// The kind of detector.
    pub by: DetectBy,
    /// The interval of heartbeats or questions. Default: 300 ms; for `on-demand`, the ask timeout,
    /// at least 1 s. A shorter interval means earlier detection and more messages.
    pub interval: Option<Duration>,
    /// The time after which a member is suspected if an expected heartbeat does not arrive. For
    /// `on-demand`, the time that a member has to answer a question. Default: 4 intervals (for
    /// `phi` 2, since it adds the margin that the link needs; for `on-demand` 5/2 of the message
    /// lifetime), and at least the least time that [`Detection::new`] allows: the message lifetime,
    /// for `pull` twice and for `on-demand` 5/2 of it. A longer time means fewer mistakes and later
    /// detection.
    pub suspect_after: Option<Duration>,
    /// For `phi`: the threshold, 1 to 100. A threshold of 8 means one mistake in 10^8. Default: 8.
    pub phi_threshold: Option<u32>,
}

impl DetectionOptions {
    /// The allowed values of [`phi_threshold`](Self::phi_threshold).
    pub const PHI_THRESHOLD: RangeInclusive<u32> = 1..=100;
}

/// The failure detection of a member: a detector with all its parameters. Each member of a group
/// may have another one.
///
/// Every value is valid: [`Detection::new`] refuses other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    by: DetectBy,
    interval: Duration,
    suspect_after: Duration,
    phi_threshold: u32,
    ask: AskOptions,
}

impl Detection {
    /// Creates the detection with these options, and derives the options that are not set.
    /// Receivers drop messages that are older than `message_lifetime`.
    ///
    /// **No message outlives the detection of its sender's crash**: an election without a quorum
    /// depends on this. So a node never counts as down within a message lifetime of its crash, if
    /// no message is lost:
    ///
    /// - Heartbeats: a node crashes before its next heartbeat is due, and is suspected at the
    ///   earliest `suspect_after` after that time. So `suspect_after` is at least one message
    ///   lifetime.
    /// - Pings and questions: a node that is up when a ping arrives has answered within two message
    ///   lifetimes. If there is no answer, it crashed within the first one, and the second one ends
    ///   its messages. So `pull` and every question wait for two message lifetimes or more.
    /// - The short question after a hint: the crash came before the hint, so more than one message
    ///   lifetime is enough.
    ///
    /// This holds at each watcher by its own parameters alone, since all members have the same
    /// message lifetime, and a node sends heartbeats at the interval for which the watcher asks. So
    /// each member checks its own detection here, and members may have different ones.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the parameters contradict each other; it contains both numbers.
    pub fn new(
        options: &DetectionOptions,
        message_lifetime: Duration,
    ) -> Result<Self, OptionsError> {
        let by = options.by;
        let asks = by == DetectBy::OnDemand;
        let (least, limit) = match by {
            // The last ping of a question has half of the time, which must be longer than a message
            // lifetime.
            DetectBy::OnDemand => (message_lifetime * 5 / 2, "5/2 of the message lifetime,"),
            DetectBy::Pull => (message_lifetime * 2, "twice the message lifetime,"),
            _ => (message_lifetime, "the message lifetime"),
        };
        let default_interval = if asks {
            let timeout = options.suspect_after.unwrap_or(least);
            timeout.max(Duration::from_secs(1))
        } else {
            Push::<Chen>::INTERVAL
        };
        let interval = options.interval.unwrap_or(default_interval);
        options::duration("heartbeat_interval", interval)?;
        let default_margin = match by {
            DetectBy::OnDemand => least,
            DetectBy::Phi => interval * 2,
            _ => interval * 4,
        };
        let suspect_after = options.suspect_after;
        let suspect_after = suspect_after.unwrap_or_else(|| default_margin.max(least));
        options::duration("suspect_after", suspect_after)?;
        ensure(
            suspect_after >= least,
            format_args!("suspect_after {suspect_after:?} must be at least {limit} {least:?}"),
        )?;
        let phi_threshold = options.phi_threshold.unwrap_or(8);
        let detection = Self {
            by,
            interval,
            suspect_after,
            phi_threshold,
            ask: AskOptions {
                timeout: if asks {
                    suspect_after
                } else {
                    message_lifetime * 5 / 2
                },
                confirm: message_lifetime * 5 / 4,
                ..AskOptions::default()
            },
        };
        if let DetectBy::Push | DetectBy::PushFixed | DetectBy::Phi = by {
            options::duration("subscription lifetime", subscription_lifetime(interval))?;
        }
        match by {
            DetectBy::Push => {}
            DetectBy::PushFixed => options::duration("heartbeat timeout", detection.timeout())?,
            DetectBy::Phi => {
                let range = DetectionOptions::PHI_THRESHOLD;
                let (least, most) = range.clone().into_inner();
                ensure(
                    range.contains(&phi_threshold),
                    format_args!("phi threshold {phi_threshold} must be {least} to {most}"),
                )?;
            }
            DetectBy::Pull => {
                let misses = detection.misses();
                ensure(
                    misses <= 100,
                    format_args!("misses {misses} must be 1 to 100"),
                )?;
            }
            DetectBy::OnDemand => ensure(
                interval >= suspect_after,
                format_args!(
                    "poll {interval:?} must be at least the ask timeout {suspect_after:?}"
                ),
            )?,
        }
        Ok(detection)
    }

    /// Returns the time without a message after which `push-fixed` suspects a node. It counts from
    /// the last heartbeat, and the next heartbeat is due an interval later.
    fn timeout(&self) -> Duration {
        self.interval.saturating_add(self.suspect_after)
    }

    /// Returns the number of unanswered pings after which `pull` suspects a node.
    fn misses(&self) -> u128 {
        self.suspect_after
            .as_nanos()
            .div_ceil(self.interval.as_nanos())
    }

    /// Returns the kind of detector.
    #[must_use]
    pub const fn by(&self) -> DetectBy {
        self.by
    }

    /// Returns the options of this detection, with all derived values filled in.
    #[must_use]
    pub const fn options(&self) -> DetectionOptions {
        DetectionOptions {
            by: self.by,
            interval: Some(self.interval),
            suspect_after: Some(self.suspect_after),
            phi_threshold: Some(self.phi_threshold),
        }
    }

    /// Returns the longest duration of a question, after which a node without an answer counts as
    /// down.
    #[must_use]
    pub const fn ask_timeout(&self) -> Duration {
        self.ask.timeout
    }

    /// Returns the time that a node has to answer after a hint that it is gone.
    #[must_use]
    pub const fn confirm_timeout(&self) -> Duration {
        self.ask.confirm
    }

    /// Creates the detector of a node.
    #[must_use]
    pub fn detector(&self, group: &Group) -> Box<dyn Detector + Send> {
        let (ask, interval) = (self.ask, self.interval);
        match self.by {
            DetectBy::Push => {
                let chen = Chen::new(interval, self.suspect_after, Chen::WINDOW);
                Box::new(Push::new(group, ask, interval, chen))
            }
            DetectBy::PushFixed => {
                let fixed = FixedTimeout::new(interval, self.timeout());
                Box::new(Push::new(group, ask, interval, fixed))
            }
            DetectBy::Phi => {
                let options = PhiOptions {
                    threshold: f64::from(self.phi_threshold),
                    window: PhiAccrual::WINDOW,
                    min_deviation: interval / 10,
                    pause: self.suspect_after,
                };
                let phi = PhiAccrual::new(interval, options);
                Box::new(Push::new(group, ask, interval, phi))
            }
            DetectBy::Pull => {
                let misses = u32::try_from(self.misses()).unwrap_or(u32::MAX);
                Box::new(Pull::new(group, ask, interval, misses))
            }
            DetectBy::OnDemand => Box::new(OnDemand::new(group, ask, interval)),
        }
    }

    /// Returns the longest time from a crash until the detector suspects a node under watch, if
    /// messages take at most `delay`, no message is lost, and timers are punctual.
    #[must_use]
    pub fn detection_bound(&self, delay: Duration) -> Duration {
        // The members do not affect the bound.
        let empty = Group::new(NodeId(0), Incarnation(0), []);
        self.detector(&empty).detection_bound(delay)
    }

    /// Returns the number of messages per second for a watch of a node that is up, answers
    /// included.
    #[must_use]
    pub fn messages_per_second(&self) -> f64 {
        let every = |interval: Duration| 1.0 / interval.as_secs_f64();
        match self.by {
            DetectBy::Push | DetectBy::PushFixed | DetectBy::Phi => {
                let subscriptions =
                    f64::from(RENEWALS) * every(subscription_lifetime(self.interval));
                every(self.interval) + subscriptions
            }
            DetectBy::Pull | DetectBy::OnDemand => 2.0 * every(self.interval),
        }
    }
}

/// Writes the parameters, for the log and `tenure config check`.
impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, interval, suspect_after) = (self.by, self.interval, self.suspect_after);
        let name = by.name();
        write!(
            f,
            "{name} every {interval:?}, suspected after {suspect_after:?}"
        )?;
        if by == DetectBy::Phi {
            write!(f, ", threshold {}", self.phi_threshold)?;
        }
        Ok(())
    }
}
