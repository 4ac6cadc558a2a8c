//! The numbers of requests, before the check of their range.

use core::fmt;
use core::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Code, Problem};
use crate::lease::LeaseDuration;
use crate::time::millis;

/// A whole number of any size. Its range is checked where its meaning is known, so that the error
/// for `-5` names the range instead of quoting the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(i128);

impl Number {
    /// Returns the number if it is within `least..=most`.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfRange`], with the field, the value and both limits.
    pub fn within(self, field: &str, least: u64, most: u64) -> Result<u64, Problem> {
        u64::try_from(self.0)
            .ok()
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| {
                Problem::new(
                    Code::OutOfRange,
                    alloc::format!("{field} is {} and must be {least} to {most}", self.0),
                )
            })
    }

    /// Returns the number as milliseconds if it is at most `most`.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfRange`], with the field, the value and both limits.
    pub fn millis_up_to(self, field: &str, most: Duration) -> Result<Duration, Problem> {
        self.within(field, 0, millis(most))
            .map(Duration::from_millis)
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<Duration> for Number {
    fn from(duration: Duration) -> Self {
        millis(duration).into()
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i128(self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = DurationVisitor { or_infinite: false };
        match deserializer.deserialize_any(visitor)? {
            DurationMs::Fixed(number) => Ok(number),
            DurationMs::Infinite => Err(D::Error::custom("a number can't be infinite")),
        }
    }
}

/// A lease duration: a whole number of milliseconds, or `"infinite"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationMs {
    /// A number of milliseconds.
    Fixed(Number),
    /// No limit: the lease lasts until it is released or broken.
    Infinite,
}

pub(super) const INFINITE: &str = "infinite";

impl From<LeaseDuration> for DurationMs {
    fn from(duration: LeaseDuration) -> Self {
        match duration {
            LeaseDuration::Fixed(duration) => Self::Fixed(duration.into()),
            LeaseDuration::Infinite => Self::Infinite,
        }
    }
}

impl Serialize for DurationMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(number) => number.serialize(serializer),
            Self::Infinite => serializer.serialize_str(INFINITE),
        }
    }
}

impl<'de> Deserialize<'de> for DurationMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor { or_infinite: true })
    }
}

/// Reads a whole number, or `"infinite"` if that is allowed.
struct DurationVisitor {
    or_infinite: bool,
}

impl Visitor<'_> for DurationVisitor {
    type Value = DurationMs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.or_infinite {
            "a whole number of milliseconds, or \"infinite\""
        } else {
            "a whole number"
        })
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<DurationMs, E> {
        Ok(DurationMs::Fixed(Number(value.into())))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<DurationMs, E> {
        Ok(DurationMs::Fixed(Number(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<DurationMs, E> {
        // JSON readers return integers that exceed 64 bits as floating point, and some clients write
        // each number so (`15000.0`). The conversion saturates.
        let whole = value as i128;
        if value.abs() >= 9.0e18 || whole as f64 == value {
            Ok(DurationMs::Fixed(Number(whole)))
        } else {
            Err(E::custom(format_args!("{value} is not a whole number")))
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<DurationMs, E> {
        match value {
            INFINITE if self.or_infinite => Ok(DurationMs::Infinite),
            _ if self.or_infinite => Err(E::invalid_value(Unexpected::Str(value), &self)),
            _ => Err(E::invalid_type(Unexpected::Str(value), &self)),
        }
    }
}
