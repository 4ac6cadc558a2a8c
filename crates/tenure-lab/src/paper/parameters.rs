//! The parameters of an election.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use thiserror::Error;

/// The parameters of an election. Members are numbered from 1, the best one first. The failed
/// members are those better than the winner k, and the worst ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// n: the number of members.
    pub n: u32,
    /// k - 1: the number of failed members better than the winner. The first one was the leader.
    pub better_failed: u32,
    /// The number of failed members worse than the winner.
    pub worse_failed: u32,
    /// l: how many of the failed members better than the winner are on the down list of every
    /// member.
    pub better_listed: u32,
    /// How many of the failed members worse than the winner are on the down list of every member.
    pub worse_listed: u32,
    /// T_o: the timeout, in T_m.
    pub t_o: f64,
    /// T_p: the processing time, in T_m.
    pub t_p: f64,
}

/// Parameters that no measurement can use.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// The number of members is too small or too large.
    #[error("{0} members: the number must be from {min} to {max}", min = Parameters::MEMBERS.start(), max = Parameters::MEMBERS.end())]
    Members(u32),
    /// No member is up.
    #[error("{failed} of {members} members failed: at least one must be up")]
    NobodyUp {
        /// The number of failed members.
        failed: u32,
        /// The number of members.
        members: u32,
    },
    /// More members are listed than failed.
    #[error("{listed} members are listed, but only {failed} failed")]
    Listed {
        /// The number of listed members.
        listed: u32,
        /// The number of failed members on the same side of the winner.
        failed: u32,
    },
    /// A time is too short, too long or no number.
    #[error("{name} = {value} T_m: it must be from {least} to {most}")]
    Time {
        /// The name of the time.
        name: &'static str,
        /// The value.
        value: f64,
        /// The least possible value.
        least: f64,
        /// The greatest possible value.
        most: f64,
    },
}

impl Parameters {
    /// The possible numbers of members. A larger group takes too long to measure.
    pub const MEMBERS: RangeInclusive<u32> = 2..=200;

    /// The longest time, in T_m: elections must end within the time of a measurement.
    pub const LONGEST: f64 = 1_000.0;

    /// Creates parameters of `n` members, of which the best ones failed. None is listed, T_o is 10,
    /// and T_p is 0.
    #[must_use]
    pub const fn new(n: u32, failed: u32) -> Self {
        Self {
            n,
            better_failed: failed,
            worse_failed: 0,
            better_listed: 0,
            worse_listed: 0,
            t_o: 10.0,
            t_p: 0.0,
        }
    }

    /// Returns the same parameters with this number of listed members, all better than the winner.
    #[must_use]
    pub const fn with_listed(self, better_listed: u32) -> Self {
        Self {
            better_listed,
            ..self
        }
    }

    /// Returns the same parameters in which also this number of the worst members failed, some of
    /// which are listed.
    #[must_use]
    pub const fn with_worse(self, worse_failed: u32, worse_listed: u32) -> Self {
        Self {
            worse_failed,
            worse_listed,
            ..self
        }
    }

    /// Returns the same parameters with these times, in T_m.
    #[must_use]
    pub const fn with_times(self, t_o: f64, t_p: f64) -> Self {
        Self { t_o, t_p, ..self }
    }

    /// Returns the same parameters with empty down lists.
    #[must_use]
    pub const fn without_lists(self) -> Self {
        Self {
            better_listed: 0,
            worse_listed: 0,
            ..self
        }
    }

    /// Checks that a measurement with these parameters is possible.
    ///
    /// # Errors
    ///
    /// [`ParametersError`].
    pub fn check(&self) -> Result<(), ParametersError> {
        if !Self::MEMBERS.contains(&self.n) {
            return Err(ParametersError::Members(self.n));
        }
        let failed = self.better_failed.saturating_add(self.worse_failed);
        if failed >= self.n {
            return Err(ParametersError::NobodyUp {
                failed,
                members: self.n,
            });
        }
        for (listed, failed) in [
            (self.better_listed, self.better_failed),
            (self.worse_listed, self.worse_failed),
        ] {
            if listed > failed {
                return Err(ParametersError::Listed { listed, failed });
            }
        }
        // A timeout below the time of a question and its answer finds every member down.
        let times = [("T_o", self.t_o, 2.0), ("T_p", self.t_p, 0.0)];
        for (name, value, least) in times {
            let most = Self::LONGEST;
            if !(least..=most).contains(&value) {
                return Err(ParametersError::Time {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }

    /// k: the best running member.
    #[must_use]
    pub const fn winner(&self) -> u32 {
        self.better_failed + 1
    }

    /// f: the number of failed members.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.better_failed + self.worse_failed
    }

    /// p: the fraction of the failed members that are listed.
    #[must_use]
    pub fn listed_share(&self) -> f64 {
        let listed = self.better_listed + self.worse_listed;
        f64::from(listed) / f64::from(self.failed().max(1))
    }

    /// The running members, the best one first.
    pub(super) const fn running(&self) -> RangeInclusive<u32> {
        self.winner()..=self.n - self.worse_failed
    }

    pub(super) fn down(&self) -> BTreeSet<u32> {
        let running = self.running();
        (1..=self.n).filter(|it| !running.contains(it)).collect()
    }

    pub(super) fn listed(&self) -> BTreeSet<u32> {
        let worst = self.n - self.worse_listed + 1..=self.n;
        (1..=self.better_listed).chain(worst).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_members_are_on_both_sides_of_the_winner() {
        let some = Parameters::new(10, 3).with_listed(1).with_worse(2, 1);
        assert_eq!(some.check(), Ok(()));
        assert_eq!((some.winner(), some.failed()), (4, 5));
        assert_eq!(some.down(), BTreeSet::from([1, 2, 3, 9, 10]));
        assert_eq!(some.listed(), BTreeSet::from([1, 10]));
        assert!((some.listed_share() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn impossible_parameters_are_refused_with_their_values() {
        let refused = |it: Parameters| it.check().unwrap_err().to_string();
        let some = Parameters::new(10, 3);
        assert_eq!(
            refused(some.with_worse(7, 0)),
            "10 of 10 members failed: at least one must be up"
        );
        assert_eq!(
            refused(some.with_listed(4)),
            "4 members are listed, but only 3 failed"
        );
        assert_eq!(
            refused(Parameters::new(1, 0)),
            "1 members: the number must be from 2 to 200"
        );
        assert_eq!(
            refused(some.with_times(1.0, 0.0)),
            "T_o = 1 T_m: it must be from 2 to 1000"
        );
        assert_eq!(
            refused(some.with_times(10.0, f64::NAN)),
            "T_p = NaN T_m: it must be from 0 to 1000"
        );
    }
}
