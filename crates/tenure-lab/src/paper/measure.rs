//! The measurements of the claims.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_sim::sim::Sending;

use super::claim::{Claim, ClaimRow, Point, Quantity, Starters, Subject, Transmission, Value};
use super::formula::Case;
use super::parameters::Parameters;
use super::setup::{ElectionOutcome, ElectionSetup};
use super::verdict::{ClaimVerdict, Compared, Judgement, rounded};

/// T_m: the time of a message.
const MESSAGE: Duration = Duration::from_millis(10);

/// Measures all claims with the parameters of the examples and of the tests.
#[must_use]
pub fn measure() -> Vec<Point> {
    let points = Claim::ALL.iter().flat_map(Claim::points);
    points.collect()
}

impl Claim {
    /// Returns the claim with this name, or whose place in the paper is this one: `3.3` and
    /// `formula-3.3` are the same.
    #[must_use]
    pub fn of_name(name: &str) -> Option<&'static Self> {
        let mut all = Self::ALL.iter();
        all.find(|it| it.name == name || it.name.strip_prefix("formula-") == Some(name))
    }

    /// Measures the claim with the parameters of the examples.
    pub fn examples(&'static self) -> impl Iterator<Item = Point> {
        let rows = self.rows.iter();
        rows.flat_map(move |row| row.examples.iter().map(move |it| self.measure(row, *it)))
    }

    fn points(&'static self) -> impl Iterator<Item = Point> {
        self.rows.iter().flat_map(move |row| {
            let all = row.all_parameters().into_iter();
            all.map(move |it| self.measure(row, it))
        })
    }

    /// Measures a row of the claim with these parameters, which must be
    /// [possible](Parameters::check), as far as the row [uses](ClaimRow::used) them.
    #[must_use]
    pub fn measure(&'static self, row: &'static ClaimRow, parameters: Parameters) -> Point {
        let it = row.used(parameters);
        let printed = rounded((row.printed)(&Case::from(&it)));
        let measured = [&row.described, &row.figure].map(|subject| {
            let subject = subject.as_ref()?;
            Some(subject.measure(row.quantity, it, printed))
        });
        let named = measured.iter().flatten().map(|it| it.named).max();
        let [described, figure] = measured;
        let value = |of: &Option<Measured>| of.as_ref().map(|it| it.value);
        let holds = |of: &Option<Measured>| of.as_ref().map(|it| it.holds);
        Point {
            paper: self.paper.name,
            claim: self.name,
            row: row.name,
            formula: row.formula,
            unit: row.quantity.unit(),
            n: it.n,
            k: it.winner(),
            f: it.failed(),
            f_worse: it.worse_failed,
            l: it.better_listed,
            l_worse: it.worse_listed,
            p: it.listed_share(),
            t_o: it.t_o,
            t_p: it.t_p,
            t_s: 0.0,
            printed,
            described: value(&described),
            described_holds: holds(&described),
            figure: value(&figure),
            figure_holds: holds(&figure),
            named: named.unwrap_or_default(),
            verdict: ClaimVerdict {
                described: described.map(|it| it.judgement),
                figure: figure.map(|it| it.judgement),
            },
        }
    }
}

impl ClaimRow {
    /// Returns the parameters that the row uses in place of these: some claims fix a number or a
    /// time, only algorithms with a down list have listed members, and times are whole nanoseconds.
    #[must_use]
    pub fn used(&self, parameters: Parameters) -> Parameters {
        let fixed = (self.fixed)(parameters);
        let mut subjects = [&self.described, &self.figure].into_iter().flatten();
        let it = if subjects.any(|it| it.has_list) {
            fixed
        } else {
            fixed.without_lists()
        };
        let whole = |time| rounded(in_messages(MESSAGE.mul_f64(time)));
        it.with_times(whole(it.t_o), whole(it.t_p))
    }

    /// Returns the parameters of the examples, and then those of the tests and the report.
    #[must_use]
    pub fn all_parameters(&self) -> Vec<Parameters> {
        let mut all = self.examples.to_vec();
        let sweep = (self.sweep)();
        all.extend(sweep.iter().filter(|it| !self.examples.contains(it)));
        all
    }
}

/// The measurement of one algorithm.
#[derive(Clone, Debug)]
struct Measured {
    value: Value,
    holds: Value,
    named: u32,
    judgement: Judgement,
}

impl Subject {
    /// Measures the algorithm, and compares the result with the printed value.
    fn measure(&self, quantity: Quantity, parameters: Parameters, printed: f64) -> Measured {
        let without_lists = parameters.without_lists();
        let parameters = if self.has_list {
            parameters
        } else {
            without_lists
        };
        let outcome = self.setup(parameters).run();
        let response = |it: &ElectionOutcome| it.response.map(in_messages);
        let value = match quantity {
            Quantity::Messages => {
                let sent = outcome.election + outcome.detection;
                outcome.response.map(|_| sent as f64)
            }
            Quantity::Response => response(&outcome),
            Quantity::ElectionPoint => outcome.won.map(in_messages),
            Quantity::GainOver(algorithm) => {
                let other = Self { algorithm, ..*self };
                let other = other.setup(without_lists).run();
                let times = response(&other).zip(response(&outcome));
                times.map(|(other, own)| other - own)
            }
        };
        let case = Case::from(&parameters);
        let compared = Compared {
            printed,
            measured: value.map(rounded).into(),
            correct: (self.holds)(&case).map(rounded).into(),
            is_gain: matches!(quantity, Quantity::GainOver(_)),
            named: outcome.named,
            t_o: parameters.t_o,
        };
        Measured {
            value: compared.measured,
            holds: compared.correct,
            named: compared.named,
            judgement: Judgement::new(compared, (self.reasons)(&case)),
        }
    }

    fn setup(&self, parameters: Parameters) -> ElectionSetup {
        let processing = MESSAGE.mul_f64(parameters.t_p);
        let (sending, latency) = match self.sending {
            Transmission::OneByOne => (Sending::OneByOne(MESSAGE), Duration::ZERO),
            Transmission::Multicast => (Sending::Multicast(MESSAGE), Duration::ZERO),
            _ => (Sending::AtOnce, MESSAGE),
        };
        let answer = match self.sending {
            Transmission::AtOnceToTheAsker => latency,
            _ => latency + processing,
        };
        let running = parameters.running();
        ElectionSetup {
            algorithm: self.algorithm,
            members: parameters.n,
            down: parameters.down(),
            listed: if self.has_list {
                parameters.listed()
            } else {
                BTreeSet::new()
            },
            starters: match self.starters {
                Starters::Best => BTreeSet::from([*running.start()]),
                Starters::Last => BTreeSet::from([*running.end()]),
                Starters::All => running.collect(),
            },
            sending,
            latency: latency + processing,
            answer,
            timeout: MESSAGE.mul_f64(parameters.t_o),
            faults: Vec::new(),
        }
    }
}

/// Returns a time in T_m.
fn in_messages(time: Duration) -> f64 {
    time.as_secs_f64() / MESSAGE.as_secs_f64()
}
