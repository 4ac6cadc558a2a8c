//! Numbers of requests, before they are checked.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Code, Problem};
use crate::lease::LeaseDuration;
use crate::time::millis;

/// A whole number of any size. Its range is checked where its meaning is known, so that the error
/// for `-5` names the range instead of quoting the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(i128);

impl Number {
    /// The number, if it is within `least..=most`.
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

    /// The number as milliseconds, if these are at most `most`.
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
        deserializer.deserialize_any(NumberVisitor).map(Self)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<i128, E> {
        // JSON readers give integers that are too big for 64 bits as floating point. Saturates.
        if value.abs() >= 9.0e18 {
            Ok(value as i128)
        } else {
            Err(E::custom(format_args!("{value} is not a whole number")))
        }
    }
}

/// A lease duration: a whole number of milliseconds, or `"infinite"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationMs {
    /// A number of milliseconds.
    Fixed(Number),
    /// Until it is released or broken.
    Infinite,
}

const INFINITE: &str = "infinite";

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
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationMs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of milliseconds, or \"infinite\"")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<DurationMs, E> {
        NumberVisitor
            .visit_u64(value)
            .map(Number)
            .map(DurationMs::Fixed)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<DurationMs, E> {
        NumberVisitor
            .visit_i64(value)
            .map(Number)
            .map(DurationMs::Fixed)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<DurationMs, E> {
        NumberVisitor
            .visit_f64(value)
            .map(Number)
            .map(DurationMs::Fixed)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<DurationMs, E> {
        if value == INFINITE {
            Ok(DurationMs::Infinite)
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Str(value), &self))
        }
    }

    fn visit_string<E: Error>(self, value: String) -> Result<DurationMs, E> {
        self.visit_str(&value)
    }
}
