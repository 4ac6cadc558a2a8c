//! Verdicts: a measured value compared with the printed one, at one point.
//!
//! A verdict follows from the values. Its reasons are formulas as well, and it names them only where
//! they add up to the difference.

use std::fmt;

use serde::{Serialize, Serializer};

use super::claim::Value;

/// The verdict about a printed value. As text, and in data, it is one sentence for each algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimVerdict {
    /// By the algorithm that the paper describes.
    pub described: Option<Judgement>,
    /// By the algorithm of the figure.
    pub figure: Option<Judgement>,
}

/// The verdict by one algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The measured value minus the printed one: 0 if the formula is right at this point, and
    /// infinite if the election never ends.
    pub difference: f64,
    /// The parts of the difference; they add up to it. Empty if T_o is too short for the formula of
    /// the algorithm.
    pub reasons: Vec<Reason>,
    /// The measured gain, if the claim is that Bully_FD is faster.
    pub gain: Option<f64>,
    /// The deviation from the formula of the algorithm, if T_o is too short for it.
    pub short_timeout: Option<ShortTimeout>,
}

/// A part of a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// The part, with its sign; infinite if the election never ends for this reason.
    pub by: f64,
    /// The reason in words.
    pub about: &'static str,
}

/// The deviation from the formula of an algorithm, because T_o ends before answers arrive, or, where
/// the election of the figure would hang, before the last of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortTimeout {
    /// T_o, in T_m.
    pub t_o: f64,
    /// The value by the formula of the algorithm, which supposes that all answers come in time.
    pub otherwise: Value,
    /// The number of members that announced themselves as leader.
    pub named: u32,
}

/// The values that a verdict compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) printed: f64,
    pub(super) measured: Value,
    /// The value of the formula of the algorithm.
    pub(super) correct: Value,
    pub(super) is_gain: bool,
    pub(super) named: u32,
    pub(super) t_o: f64,
}

impl Reason {
    pub(super) const fn new(by: f64, about: &'static str) -> Self {
        Self { by, about }
    }
}

impl ClaimVerdict {
    /// Returns a sentence for each algorithm.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let described = self.described.iter().map(|it| format!("described: {it}"));
        let figure = self.figure.iter().map(|it| format!("figure: {it}"));
        described.chain(figure)
    }
}

impl fmt::Display for ClaimVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().collect::<Vec<_>>().join("; "))
    }
}

impl Serialize for ClaimVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Judgement {
    /// Compares the values. The reasons are left out if they do not add up to the difference.
    pub(super) fn new(of: Compared, mut reasons: Vec<Reason>) -> Self {
        let measured = of.measured.number();
        let difference = measured.map_or(f64::INFINITY, |it| rounded(it - of.printed));
        let infinite = |value: Value| value.number().unwrap_or(f64::INFINITY);
        let is_regular = same(infinite(of.measured), infinite(of.correct)) && of.named <= 1;
        reasons.retain(|it| rounded(it.by) != 0.0);
        if !is_regular || !same(reasons.iter().map(|it| it.by).sum(), difference) {
            reasons.clear();
        }
        let is_same = same(difference, 0.0);
        Self {
            difference: if is_same { 0.0 } else { difference },
            reasons,
            gain: measured.filter(|_| of.is_gain),
            short_timeout: (!is_regular).then_some(ShortTimeout {
                t_o: of.t_o,
                otherwise: of.correct,
                named: of.named,
            }),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(gain) = self.gain {
            let faster = match rounded(gain) {
                gain if gain > 0.0 => "faster",
                gain if gain < 0.0 => "slower",
                _ => "not faster",
            };
            write!(f, "Bully_FD is {faster}; the gain is ")?;
        }
        match self.difference {
            f64::INFINITY => write!(f, "never ends")?,
            0.0 => write!(f, "as printed")?,
            more if more > 0.0 => write!(f, "{} more than printed", rounded(more))?,
            less => write!(f, "{} less than printed", rounded(-less))?,
        }
        match &self.reasons[..] {
            [] => {}
            [reason] => write!(f, ", because {}", reason.about)?,
            [first, others @ ..] => {
                write!(f, ": {first}")?;
                for reason in others {
                    write!(f, "; {reason}")?;
                }
            }
        }
        self.short_timeout.map_or(Ok(()), |it| write!(f, "; {it}"))
    }
}

/// Such as "+0.6 because the asker takes T_p".
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+} because {}", rounded(self.by), self.about)
    }
}

impl fmt::Display for ShortTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T_o = {} is short here: ", rounded(self.t_o))?;
        match self.otherwise.number() {
            Some(it) => write!(
                f,
                "if all answers came in time, it would be {}",
                rounded(it)
            )?,
            None => write!(f, "with a longer one, the election would never end")?,
        }
        if self.named > 1 {
            write!(f, "; {} members announced themselves", self.named)?;
        }
        Ok(())
    }
}

/// Rounds to a millionth. Times are whole nanoseconds and fractions of T_m need not be.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Returns whether two values differ by rounding only.
pub(super) fn same(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() < 1e-5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(measured: Value, correct: Value, reasons: &[Reason]) -> String {
        let compared = Compared {
            printed: 44.7,
            measured,
            correct,
            is_gain: false,
            named: 1,
            t_o: 10.0,
        };
        Judgement::new(compared, reasons.to_vec()).to_string()
    }

    #[test]
    fn a_verdict_names_its_reasons_only_if_they_add_up_to_the_difference() {
        let value = Value::Is(43.2);
        let winner = Reason::new(-2.1, "the winner does not call itself");
        let asker = Reason::new(0.6, "the asker takes T_p");
        let nothing = Reason::new(0.0, "nobody is listed");
        assert_eq!(
            judged(value, value, &[winner, nothing, asker]),
            "1.5 less than printed: -2.1 because the winner does not call itself; +0.6 because the \
             asker takes T_p"
        );
        assert_eq!(judged(value, value, &[winner]), "1.5 less than printed");
    }

    #[test]
    fn a_value_that_equals_the_printed_one_is_as_printed() {
        let value = Value::Is(44.7);
        assert_eq!(judged(value, value, &[]), "as printed");
        let cancel = [3.0, -3.0].map(|by| Reason::new(by, "of this"));
        assert_eq!(
            judged(value, value, &cancel),
            "as printed: +3 because of this; -3 because of this"
        );
    }

    #[test]
    fn a_value_that_a_short_timeout_causes_has_no_other_reason() {
        let reason = Reason::new(10.0, "of this");
        assert_eq!(
            judged(Value::Is(54.7), Value::Is(56.0), &[reason]),
            "10 more than printed; T_o = 10 is short here: if all answers came in time, it would be 56"
        );
        assert_eq!(
            judged(Value::Is(54.7), Value::Never, &[reason]),
            "10 more than printed; T_o = 10 is short here: with a longer one, the election would never end"
        );
    }

    #[test]
    fn an_election_that_never_ends_has_its_reason() {
        let reason = Reason::new(f64::INFINITY, "nobody sends an Ack");
        assert_eq!(
            judged(Value::Never, Value::Never, &[reason]),
            "never ends, because nobody sends an Ack"
        );
    }
}
