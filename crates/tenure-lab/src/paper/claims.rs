//! The claims of the papers, each measured with several settings.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::formula::Case;
use super::setup::{ElectionOutcome, ElectionSetup};
use crate::contestant::Algorithm;
use crate::sim::Sending;

/// One claim of a paper.
#[derive(Debug)]
pub struct Claim {
    /// Its name in data.
    pub name: &'static str,
    /// The place in the paper, and the text of the claim.
    pub about: &'static str,
    quantity: Quantity,
    /// The algorithm of the measured election. The next fields are the members that begin it, and
    /// how members send.
    pub(crate) algorithm: Algorithm,
    starters: Starters,
    sending: Sending,
    settings: fn() -> Vec<Setting>,
    /// The printed formula. The next field is the correct formula for the printed algorithm.
    formula: fn(&Case) -> f64,
    holds: fn(&Case) -> f64,
}

/// The quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    ElectionMessages,
    /// The election messages and those of the failure detector.
    AllMessages,
    /// The response time.
    Time,
    /// How much shorter the response time is than that of Garcia-Molina's algorithm.
    TimeSaved,
}

/// The members that find the leader down at the same time.
#[derive(Clone, Copy, Debug)]
enum Starters {
    /// The best running member.
    Best,
    /// The worst member.
    Last,
    /// All running members.
    All,
}

/// T_m: the time of a message.
const MESSAGE: Duration = Duration::from_millis(10);

/// The template of the claims about the messages of the textbook algorithm.
const BULLY: Claim = Claim {
    name: "",
    about: "",
    quantity: Quantity::ElectionMessages,
    algorithm: Algorithm::Textbook,
    starters: Starters::Best,
    sending: Sending::AtOnce,
    settings: Vec::new,
    formula: Case::bully_best,
    holds: Case::bully_best,
};

/// The template of the claims about Bully_FD as published.
const DETECTOR: Claim = Claim {
    quantity: Quantity::AllMessages,
    algorithm: Algorithm::Published,
    settings: || sizes().flat_map(lists).collect(),
    ..BULLY
};

impl Claim {
    /// All claims, in the order of the papers.
    pub const ALL: &[Self] = &[
        Self {
            name: "table-1-bully-best",
            about: "2004, Table 1: Bully, best case, n-1 messages",
            // In the best case, the next best member finds the leader down.
            settings: || counts(2).collect(),
            ..BULLY
        },
        Self {
            name: "table-1-bully-worst",
            about: "2004, Table 1: Bully, worst case, (n-f)n messages",
            starters: Starters::All,
            settings: || sizes().collect(),
            formula: |it| (it.members - it.failed) * it.members,
            // One message fewer: the best running member needs no `Coordinator` itself.
            holds: |it| (it.members - it.failed) * it.members - 1.0,
            ..BULLY
        },
        Self {
            name: "table-1-detector-best",
            about: "2004, Table 1: Bully_FD, best case, n-1-pf messages",
            formula: |it| it.members - 1.0 - it.listed,
            // A question, an answer, `Halt`, `Ack` and `Ldr` for each worse member, and a question
            // for each better member that is not listed.
            holds: |it| 5.0 * it.worse() + it.unlisted(),
            ..DETECTOR
        },
        Self {
            name: "table-1-detector-worst",
            about: "2004, Table 1: Bully_FD, worst case, (n-f)(n-1-pf) messages",
            starters: Starters::All,
            formula: |it| (it.members - it.failed) * (it.members - 1.0 - it.listed),
            holds: Case::published_worst,
            ..DETECTOR
        },
        Self {
            name: "ring-worst",
            about: "Chang and Roberts, worst case, n(n+1)/2+n messages",
            algorithm: Algorithm::Ring,
            starters: Starters::All,
            // The timeout allows one round before an election counts as stuck.
            settings: || counts(1).map(|it| it.with_timeout(it.n)).collect(),
            formula: Case::ring_worst,
            holds: Case::ring_worst,
            ..BULLY
        },
        Self {
            name: "formula-2",
            about: "2004, (2): Bully, (2n-k)T_m + T_o",
            quantity: Quantity::Time,
            starters: Starters::Last,
            sending: Sending::OneByOne(MESSAGE),
            // The last timeout is too short for many members, because a busy sender answers too
            // late.
            settings: || sizes().flat_map(|it| timeouts(it, [200, 50, 10])).collect(),
            formula: Case::bully_one_by_one,
            holds: Case::bully_one_by_one,
            ..BULLY
        },
        Self {
            name: "formula-3",
            about: "2004, (3): Bully_FD, (2n-k-l)T_m + T_o",
            quantity: Quantity::Time,
            sending: Sending::OneByOne(MESSAGE),
            settings: || {
                let all = sizes().flat_map(|it| {
                    let long = it.with_timeout(200);
                    let last_is_down = Setting {
                        last_is_down: true,
                        ..long
                    };
                    lists(long).chain([last_is_down])
                });
                all.collect()
            },
            formula: |it| it.bully_one_by_one() - it.listed,
            holds: Case::published_one_by_one,
            ..DETECTOR
        },
        Self {
            name: "formula-4",
            about: "2004, (4): Bully, multicast, 4T_m",
            quantity: Quantity::Time,
            starters: Starters::Last,
            sending: Sending::Multicast(MESSAGE),
            settings: || sizes().flat_map(|it| timeouts(it, [10, 50])).collect(),
            formula: |_| 4.0,
            // `Election`, `Answer`, `Election`, the timeout that formula (4) omits, and
            // `Coordinator`.
            holds: |it| 4.0 + it.timeout,
            ..BULLY
        },
        Self {
            name: "formula-3.2",
            about: "2008, (3.2): question and answer, T_e = 2T_m + T_p",
            quantity: Quantity::Time,
            starters: Starters::Last,
            settings: || {
                let pair = Setting::new(2, 1);
                [0, 1, 10].map(|tenths| pair.with_processing(tenths)).into()
            },
            formula: Case::printed_exchange,
            holds: Case::exchange,
            ..BULLY
        },
        Self {
            name: "formula-3.3",
            about: "2008, (3.3): Bully, N_f T_o + (N-N_f)T_e",
            quantity: Quantity::Time,
            algorithm: Algorithm::Classic,
            settings: || sizes().map(|it| it.with_processing(1)).collect(),
            formula: |it| it.failed * it.timeout + (it.members - it.failed) * it.printed_exchange(),
            holds: Case::classic_at_once,
            ..BULLY
        },
        Self {
            name: "formula-3.4",
            about: "2008, (3.4): Bully_FD, 2N T_s + p N_f T_p + (1-p)N_f T_o + (N-N_f)T_e",
            quantity: Quantity::Time,
            settings: lists_with_processing,
            formula: Case::detector_2008,
            holds: Case::published_at_once,
            ..DETECTOR
        },
        Self {
            name: "formula-3.5",
            about: "2008, (3.5): the gain of Bully_FD, p N_f (T_o-T_p) - 2N T_s",
            quantity: Quantity::TimeSaved,
            settings: lists_with_processing,
            // T_s is zero in this measurement.
            formula: |it| it.p() * it.failed * (it.timeout - it.processing),
            // The time that the down list saves: T_o or nothing.
            holds: |it| it.classic_at_once() - it.published_at_once(),
            ..DETECTOR
        },
    ];
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// One measurement and the value of the formula.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The claim.
    pub claim: &'static Claim,
    /// The unit: messages, or T_m.
    pub unit: &'static str,
    /// n: the number of members.
    pub n: u32,
    /// k: the best running member.
    pub k: u32,
    /// f: the number of members that are down.
    pub f: u32,
    /// l: the number of failed members better than k that are on the down lists.
    pub l: u32,
    /// p: l as a fraction of f.
    pub p: f64,
    /// T_o: the timeout, in T_m.
    pub t_o: f64,
    /// T_p: the processing time, in T_m.
    pub t_p: f64,
    /// T_s: the time of a question to the own detector, in T_m. The question is a call and takes no
    /// time.
    pub t_s: f64,
    /// The formula's value.
    pub formula: f64,
    /// The measured value; `None` if no election ended.
    pub measured: Option<f64>,
    /// The deviation of the measured value from the formula's value, in percent of the latter.
    pub deviation_percent: Option<f64>,
    /// The correct value for the algorithm as published; `None` if its election does not end.
    pub holds: Option<f64>,
    /// The number of members that announced themselves as leader.
    pub named: u32,
}

/// Measures all claims.
#[must_use]
pub fn measure() -> Vec<Point> {
    Claim::ALL.iter().flat_map(points).collect()
}

fn points(claim: &'static Claim) -> impl Iterator<Item = Point> {
    let settings = (claim.settings)().into_iter();
    settings.map(move |setting| setting.point(claim))
}

/// The sizes (n, k) of the measurements.
const SIZES: &[(u32, u32)] = &[(5, 2), (10, 2), (10, 4), (20, 2), (20, 10), (50, 2)];

fn sizes() -> impl Iterator<Item = Setting> {
    SIZES.iter().map(|&(n, k)| Setting::new(n, k))
}

/// Returns settings for each different n of the sizes, with this k.
fn counts(k: u32) -> impl Iterator<Item = Setting> {
    let counts = BTreeSet::from_iter(SIZES.iter().map(|&(n, _)| n));
    counts.into_iter().map(move |n| Setting::new(n, k))
}

/// Returns settings with none, half and all of the members better than k on the down lists.
fn lists(setting: Setting) -> impl Iterator<Item = Setting> {
    let better = setting.k - 1;
    let lists = BTreeSet::from([0, better / 2, better]);
    lists.into_iter().map(move |l| Setting { l, ..setting })
}

fn lists_with_processing() -> Vec<Setting> {
    let all = sizes().flat_map(lists);
    all.map(|it| it.with_processing(1)).collect()
}

fn timeouts<const N: usize>(setting: Setting, timeouts: [u32; N]) -> [Setting; N] {
    timeouts.map(|timeout| setting.with_timeout(timeout))
}

/// The parameters of one measurement. All members better than k are down.
#[derive(Clone, Copy, Debug)]
struct Setting {
    n: u32,
    k: u32,
    l: u32,
    /// Whether the worst member is also down, and on no list.
    last_is_down: bool,
    /// T_o, in T_m.
    timeout: u32,
    /// T_p, in tenths of T_m.
    processing: u32,
}

impl Setting {
    const fn new(n: u32, k: u32) -> Self {
        Self {
            n,
            k,
            l: 0,
            last_is_down: false,
            timeout: 10,
            processing: 0,
        }
    }

    const fn with_timeout(self, timeout: u32) -> Self {
        Self { timeout, ..self }
    }

    const fn with_processing(self, processing: u32) -> Self {
        Self { processing, ..self }
    }

    fn down(&self) -> BTreeSet<u32> {
        let last = self.last_is_down.then_some(self.n);
        (1..self.k).chain(last).collect()
    }

    /// Returns whether the election ends. In the published algorithm only an `Ack` makes a leader,
    /// so it does not end if the detector reports the worst member as down after the last `Ack`.
    const fn ends(&self) -> bool {
        !self.last_is_down
    }

    fn case(&self) -> Case {
        Case {
            members: self.n.into(),
            failed: self.down().len() as f64,
            winner: self.k.into(),
            listed: self.l.into(),
            timeout: self.timeout.into(),
            processing: f64::from(self.processing) / 10.0,
        }
    }

    fn run(&self, algorithm: Algorithm, starters: Starters, sending: Sending) -> ElectionOutcome {
        let processing = MESSAGE * self.processing / 10;
        let uplink_takes_it = sending != Sending::AtOnce;
        let message = if uplink_takes_it {
            Duration::ZERO
        } else {
            MESSAGE
        };
        let setup = ElectionSetup {
            algorithm,
            members: self.n,
            down: self.down(),
            listed: (1..=self.l).collect(),
            starters: match starters {
                Starters::Best => BTreeSet::from([self.k]),
                Starters::Last => BTreeSet::from([self.n]),
                Starters::All => (self.k..=self.n).collect(),
            },
            sending,
            latency: message + processing,
            timeout: MESSAGE * self.timeout,
        };
        setup.run()
    }

    fn point(self, claim: &'static Claim) -> Point {
        let case = self.case();
        let outcome = self.run(claim.algorithm, claim.starters, claim.sending);
        let time = |outcome: &ElectionOutcome| {
            let response = outcome.response?;
            Some(response.as_secs_f64() / MESSAGE.as_secs_f64())
        };
        let messages = |count: u64| outcome.response.map(|_| count as f64);
        let (unit, measured) = match claim.quantity {
            Quantity::ElectionMessages => ("messages", messages(outcome.election)),
            Quantity::AllMessages => ("messages", messages(outcome.election + outcome.detection)),
            Quantity::Time => ("T_m", time(&outcome)),
            Quantity::TimeSaved => {
                let classic = self.run(Algorithm::Classic, claim.starters, claim.sending);
                let times = time(&classic).zip(time(&outcome));
                ("T_m", times.map(|(classic, other)| classic - other))
            }
        };
        // Times are whole nanoseconds and fractions of T_m need not be, so the value is rounded to
        // a millionth.
        let measured = measured.map(|it| (it * 1e6).round() / 1e6);
        let formula = (claim.formula)(&case);
        let deviation = |it: f64| (formula != 0.0).then(|| (it - formula) / formula * 100.0);
        Point {
            claim,
            unit,
            n: self.n,
            k: self.k,
            f: self.down().len() as u32,
            l: self.l,
            p: case.p(),
            t_o: case.timeout,
            t_p: case.processing,
            t_s: 0.0,
            formula,
            measured,
            deviation_percent: measured.and_then(deviation),
            holds: self.ends().then(|| (claim.holds)(&case)),
            named: outcome.named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the timeout is so short that the formula does not apply.
    fn is_too_short(point: &Point) -> bool {
        point.claim.name == "formula-2" && point.t_o < f64::from(2 * point.n)
    }

    #[test]
    fn the_measured_value_equals_the_correct_formula() {
        for point in measure().iter().filter(|it| !is_too_short(it)) {
            let close = |(measured, holds): (f64, f64)| (measured - holds).abs() < 1e-3;
            let both = point.measured.zip(point.holds);
            assert!(both.is_none_or(close), "{point:?}");
            assert_eq!(point.measured.is_none(), point.holds.is_none(), "{point:?}");
            assert!(point.named <= 1, "{point:?}");
        }
    }

    #[test]
    fn measurements_equal_the_exact_formulas() {
        let exact = ["table-1-bully-best", "ring-worst", "formula-2"];
        for name in exact {
            let claim = Claim::ALL.iter().find(|it| it.name == name).unwrap();
            for point in points(claim).filter(|it| !is_too_short(it)) {
                assert_eq!(point.measured, Some(point.formula), "{point:?}");
                assert_eq!(point.deviation_percent, Some(0.0));
            }
        }
    }
}
