//! The choice of a group's detector, from a name and a few numbers.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;

use super::push::RENEWALS;
use super::{
    AskOptions, Chen, ChenOptions, Detector, FixedTimeout, Group, OnDemand, OnDemandOptions,
    OptionsError, PhiAccrual, PhiOptions, Pull, PullOptions, Push, PushOptions, options,
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
    /// `on-demand`: a question per (longer) interval ([`OnDemand`]). It sends the fewest messages,
    /// detects latest, and makes the most mistakes.
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

    /// The name in the configuration.
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
    /// The values that are allowed.
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|by| by.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(|by| alloc::format!("{:?}", by.name()));
            alloc::format!("must be one of {}", names.join(", "))
        })
    }
}

/// The settings of the failure detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetectionOptions {
    /// The kind of detector.
    pub by: DetectBy,
    /// The interval of heartbeats or questions. Default 300 ms; for `on-demand` the ask timeout, at
    /// least 1 s. A shorter interval means earlier detection and more messages.
    pub interval: Option<Duration>,
    /// The time after which a member is suspected if an expected heartbeat does not arrive; for
    /// `on-demand`, the time that a member has to answer a question. Default 4 intervals (for `phi`
    /// 2, since it adds the margin that the link needs; for `on-demand` 5/2 of the message
    /// lifetime), and at least the message lifetime. A longer time means fewer mistakes and later
    /// detection.
    pub suspect_after: Option<Duration>,
    /// For `phi`: the threshold, 1 to 100. 8 means one mistake in 10^8. Default 8.
    pub phi_threshold: Option<u32>,
}

impl DetectionOptions {
    /// The allowed values of [`phi_threshold`](Self::phi_threshold).
    pub const PHI_THRESHOLD: RangeInclusive<u32> = 1..=100;
}

/// The failure detection of a group: a detector with all its parameters. They must be equal on all
/// members.
///
/// Every value is valid: [`Detection::new`] refuses the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    by: DetectBy,
    interval: Duration,
    suspect_after: Duration,
    phi_threshold: u32,
    ask: AskOptions,
}

impl Detection {
    /// The detection with these options; it derives the options that are not set. Receivers drop
    /// messages that are older than `message_lifetime`.
    ///
    /// **No message outlives the detection of its sender's end**: an election without a quorum
    /// depends on this. So neither a silence nor a question, not even the short question after a
    /// hint, makes a node count as down within a message lifetime.
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
        // The last ping of a question has half of the time, which must exceed a message lifetime.
        let (least, limit) = if asks {
            (message_lifetime * 5 / 2, "5/2 of the message lifetime, ")
        } else {
            (message_lifetime, "the message lifetime ")
        };
        let default_interval = if asks {
            let timeout = options.suspect_after.unwrap_or(least);
            timeout.max(Duration::from_secs(1))
        } else {
            PushOptions::default().interval
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
        options::at_least("suspect_after", suspect_after, limit, least)?;
        let detection = Self {
            by,
            interval,
            suspect_after,
            phi_threshold: options.phi_threshold.unwrap_or(8),
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
        detection.build(&Self::empty_group())?;
        Ok(detection)
    }

    /// The kind of detector.
    #[must_use]
    pub const fn by(&self) -> DetectBy {
        self.by
    }

    /// The options of this detection, with all derived values filled in.
    #[must_use]
    pub const fn options(&self) -> DetectionOptions {
        DetectionOptions {
            by: self.by,
            interval: Some(self.interval),
            suspect_after: Some(self.suspect_after),
            phi_threshold: Some(self.phi_threshold),
        }
    }

    /// The longest time of a question until a node that does not answer counts as down.
    #[must_use]
    pub const fn ask_timeout(&self) -> Duration {
        self.ask.timeout
    }

    /// The time that a node has to answer after a hint that it is gone.
    #[must_use]
    pub const fn confirm_timeout(&self) -> Duration {
        self.ask.confirm
    }

    /// The detector of a node.
    #[must_use]
    pub fn detector(&self, group: &Group) -> Box<dyn Detector + Send> {
        self.build(group)
            .expect("these parameters were possible when they were made")
    }

    /// The longest time from a crash until the detector suspects a node under watch, if messages
    /// take at most `delay`, none is lost, and timers are punctual.
    #[must_use]
    pub fn detection_bound(&self, delay: Duration) -> Duration {
        let detector = self.detector(&Self::empty_group());
        detector.detection_bound(delay)
    }

    /// The messages per second for a watch of a node that is up, answers included.
    #[must_use]
    pub fn messages_per_second(&self) -> f64 {
        let every = |interval: Duration| 1.0 / interval.as_secs_f64();
        match self.by {
            DetectBy::Push | DetectBy::PushFixed | DetectBy::Phi => {
                let subscriptions = f64::from(RENEWALS) * every(self.push().lifetime);
                every(self.interval) + subscriptions
            }
            DetectBy::Pull | DetectBy::OnDemand => 2.0 * every(self.interval),
        }
    }

    /// An empty group: the members do not affect a detector's bound.
    fn empty_group() -> Group {
        Group::new(NodeId(0), Incarnation(0), [])
    }

    fn push(&self) -> PushOptions {
        let PushOptions { lifetime, .. } = PushOptions::default();
        PushOptions {
            interval: self.interval,
            lifetime: lifetime.max(self.interval.saturating_mul(10)),
        }
    }

    fn build(&self, group: &Group) -> Result<Box<dyn Detector + Send>, OptionsError> {
        let (ask, interval, push) = (self.ask, self.interval, self.push());
        Ok(match self.by {
            DetectBy::Push => {
                let chen = ChenOptions {
                    alpha: self.suspect_after,
                    ..ChenOptions::default()
                };
                Box::new(Push::<Chen>::new(group, ask, push, chen)?)
            }
            DetectBy::PushFixed => {
                // The timeout counts from the last heartbeat, and the next one is due an interval
                // later.
                let timeout = interval.saturating_add(self.suspect_after);
                Box::new(Push::<FixedTimeout>::new(group, ask, push, timeout)?)
            }
            DetectBy::Phi => {
                let phi = PhiOptions {
                    threshold: f64::from(self.phi_threshold),
                    min_deviation: interval / 10,
                    pause: self.suspect_after,
                    ..PhiOptions::default()
                };
                Box::new(Push::<PhiAccrual>::new(group, ask, push, phi)?)
            }
            DetectBy::Pull => {
                let misses = self.suspect_after.as_nanos().div_ceil(interval.as_nanos());
                let pull = PullOptions {
                    interval,
                    timeout: interval,
                    misses: u32::try_from(misses).unwrap_or(u32::MAX),
                };
                Box::new(Pull::new(group, ask, pull)?)
            }
            DetectBy::OnDemand => {
                let options = OnDemandOptions { poll: interval };
                Box::new(OnDemand::new(group, ask, options)?)
            }
        })
    }
}

/// Exactly the parameters that must be equal on all members.
impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            by,
            interval,
            suspect_after,
            phi_threshold,
            ..
        } = self;
        write!(
            f,
            "{} every {interval:?}, suspected after {suspect_after:?}",
            by.name()
        )?;
        if *by == DetectBy::Phi {
            write!(f, ", threshold {phi_threshold}")?;
        }
        Ok(())
    }
}
