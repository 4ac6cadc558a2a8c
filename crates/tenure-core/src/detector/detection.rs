//! Which detector a group runs, from a name and a few numbers.

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

/// Which detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectBy {
    /// `push`: heartbeats, and a deadline that follows the delays of the network ([`Chen`]).
    #[default]
    Push,
    /// `push-fixed`: heartbeats, and a fixed timeout ([`FixedTimeout`]).
    PushFixed,
    /// `phi`: heartbeats, and a deadline that follows how irregular they are ([`PhiAccrual`]).
    Phi,
    /// `pull`: a ping at an interval ([`Pull`]). Twice the messages of a heartbeat.
    Pull,
    /// `on-demand`: a question at a longer interval ([`OnDemand`]). The fewest messages, the latest
    /// detection, the most mistakes.
    OnDemand,
}

impl DetectBy {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Push,
        Self::PushFixed,
        Self::Phi,
        Self::Pull,
        Self::OnDemand,
    ];

    /// Its name.
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
    /// What would be right.
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|by| by.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(|by| alloc::format!("{:?}", by.name()));
            alloc::format!("must be one of {}", names.join(", "))
        })
    }
}

/// What a user may set of the failure detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectionOptions {
    /// Which detector.
    pub by: DetectBy,
    /// How often a member shows that it is alive, or is asked. Default 300 ms; on demand the ask
    /// timeout, at least 1 s. Shorter: a crash is noticed sooner, by more messages.
    pub interval: Option<Duration>,
    /// How long after a sign of life was due a member is suspected; on demand, how long it has to
    /// answer a question. Default 4 intervals (with `phi` 2, since it adds what the link needs), on
    /// demand 5/2 of the message lifetime; at least the message lifetime. Longer: fewer mistakes,
    /// later detection.
    pub suspect_after: Option<Duration>,
    /// With `phi`: how rare a silence must be, 1 to 100: 8 for one in 10^8. Default 8.
    pub phi_threshold: Option<u32>,
}

impl DetectionOptions {
    /// What [`phi_threshold`](Self::phi_threshold) may be.
    pub const PHI_THRESHOLD: RangeInclusive<u32> = 1..=100;
}

/// How the members of a group notice that one of them is gone: a detector with all its parameters.
/// All members must have it alike.
///
/// A value that exists is possible: see [`Detection::new`] for what is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    by: DetectBy,
    interval: Duration,
    suspect_after: Duration,
    phi_threshold: u32,
    ask: AskOptions,
}

impl Detection {
    /// The detection with these options, the rest derived, where a message is dropped when it is
    /// older than `message_lifetime`.
    ///
    /// **No message outlives the detection of its sender's end**: an election without a quorum rests
    /// on that. So nothing takes a node for down within a message's lifetime: not a silence, not a
    /// question, and not even the short one after a hint.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters can't hold together; it names both numbers.
    pub fn new(
        options: &DetectionOptions,
        message_lifetime: Duration,
    ) -> Result<Self, OptionsError> {
        let by = options.by;
        let asks = by == DetectBy::OnDemand;
        // The last ping of a question has a half of its time, and that is longer than a lifetime.
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
        detection.build(&Self::nobody())?;
        Ok(detection)
    }

    /// Which detector.
    #[must_use]
    pub const fn by(&self) -> DetectBy {
        self.by
    }

    /// The options that give this detection, with nothing left to be derived.
    #[must_use]
    pub const fn options(&self) -> DetectionOptions {
        DetectionOptions {
            by: self.by,
            interval: Some(self.interval),
            suspect_after: Some(self.suspect_after),
            phi_threshold: Some(self.phi_threshold),
        }
    }

    /// How long a question takes at most until a node that says nothing is told down.
    #[must_use]
    pub const fn ask_timeout(&self) -> Duration {
        self.ask.timeout
    }

    /// How long a node has to answer after a hint that it is gone.
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

    /// The longest time from a crash until a watch says so, while messages take at most `delay`, none
    /// is lost, and timers are punctual.
    #[must_use]
    pub fn detection_bound(&self, delay: Duration) -> Duration {
        let detector = self.detector(&Self::nobody());
        detector.detection_bound(delay)
    }

    /// How many messages a watch of a node that is up costs in a second, answers included.
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

    /// No detector depends on who is in the group, as far as its bound goes.
    fn nobody() -> Group {
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
                // It counts from the last heartbeat, and the next one is due an interval later.
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

/// All that members must have alike, and nothing else.
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
