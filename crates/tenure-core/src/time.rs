//! Time as an argument.

use core::fmt;
use core::ops::Add;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Declares timings, each with its meaning and its type: the options of a user, the timings themselves,
/// and what maps the one to the other. The function after `=>` makes an option of a timing.
macro_rules! timings {
    (
        $(#[$options_doc:meta])* $options:ident,
        $(#[$timings_doc:meta])* $timings:ident { $($of:ident: $of_type:ty,)* },
        $($(#[$doc:meta])* $name:ident: $type:ty => $option:expr,)*
    ) => {
        $(#[$options_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $options {
            $($(#[$doc])* pub $name: Option<Duration>,)*
        }

        $(#[$timings_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $timings {
            $($of: $of_type,)*
            $($name: $type,)*
        }

        impl $options {
            /// Returns all options with their names, which are also those of their settings.
            pub fn by_name(&mut self) -> impl Iterator<Item = (&'static str, &mut Option<Duration>)> {
                [$((stringify!($name), &mut self.$name)),*].into_iter()
            }
        }

        impl $timings {
            /// Returns the options of these timings, with all derived values filled in.
            #[must_use]
            pub const fn options(&self) -> $options {
                $options { $($name: $option(self.$name),)* }
            }

            $($(#[$doc])* #[must_use] pub const fn $name(&self) -> $type { self.$name })*
        }
    };
}
pub(crate) use timings;

/// A reading of a monotonic clock, in nanoseconds since an origin that the owner of the clock
/// chose.
///
/// Readings of different clocks (of two processes, or of two starts of one process) cannot be
/// compared. A candidate must read a clock that also counts while the machine is suspended. For a
/// store, any monotonic clock is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Returns the reading `nanos` nanoseconds after the origin of the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the origin of the clock.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this reading; zero if this reading is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the reading `duration` before this one, but not before the origin.
    #[must_use]
    pub fn earlier_by(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// Saturates: no clock reaches the end of its range (584 years).
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

/// Returns a duration in whole nanoseconds, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a duration in whole milliseconds, saturating.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Wall-clock time in milliseconds since 1970. It is the source of epochs and of displayed times;
/// it never affects the end of a lease.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct UnixMillis(u64);

impl UnixMillis {
    /// Returns the wall-clock time `millis` milliseconds after the beginning of 1970.
    #[must_use]
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the beginning of 1970.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
