//! The claims, each measured over a sweep.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::formula::Case;
use super::setup::{ElectionOutcome, ElectionSetup, PaperAlgorithm};
use crate::sim::Sending;

/// One claim of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// 2004, formula (2): Bully's response time, one message after the other.
    Formula2,
    /// 2004, formula (3): that of Bully_FD.
    Formula3,
    /// 2004, formula (4): Bully's response time with multicast.
    Formula4,
    /// 2008, formula (3.2): a question and its answer.
    Formula32,
    /// 2008, formula (3.3): Garcia-Molina's response time.
    Formula33,
    /// 2008, formula (3.4): that of Bully_FD.
    Formula34,
    /// 2008, formula (3.5): the difference.
    Formula35,
    /// 2004, Table 1: Bully's messages, best case.
    Table1BullyBest,
    /// 2004, Table 1: Bully's messages, worst case.
    Table1BullyWorst,
    /// 2004, Table 1: Bully_FD's messages, best case.
    Table1DetectorBest,
    /// 2004, Table 1: Bully_FD's messages, worst case.
    Table1DetectorWorst,
    /// The messages of Chang and Roberts, worst case and news.
    RingWorst,
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One measurement beside the formula's value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Which claim.
    pub claim: Claim,
    /// Of what: messages, or times in T_m.
    pub unit: &'static str,
    /// n.
    pub n: u32,
    /// k: the best member that is up.
    pub k: u32,
    /// f: how many are down.
    pub f: u32,
    /// l: how many of those that are down and better than k are on the down lists.
    pub l: u32,
    /// p: the same as a fraction of f.
    pub p: f64,
    /// T_o, in T_m.
    pub t_o: f64,
    /// T_p, in T_m.
    pub t_p: f64,
    /// T_s, in T_m: to ask the own detector is a call, and takes no time.
    pub t_s: f64,
    /// The formula's value.
    pub formula: f64,
    /// The measured value; `None` if no election ended.
    pub measured: Option<f64>,
    /// By how many per cent of the formula's value it is more.
    pub deviation_percent: Option<f64>,
    /// The value for the algorithm as it was published; `None` if it does not end.
    pub holds: Option<f64>,
    /// How many named themselves.
    pub named: u32,
}

/// T_m.
const MESSAGE: Duration = Duration::from_millis(10);

impl Claim {
    /// All of them, in the papers' order.
    pub const ALL: [Self; 12] = [
        Self::Table1BullyBest,
        Self::Table1BullyWorst,
        Self::Table1DetectorBest,
        Self::Table1DetectorWorst,
        Self::RingWorst,
        Self::Formula2,
        Self::Formula3,
        Self::Formula4,
        Self::Formula32,
        Self::Formula33,
        Self::Formula34,
        Self::Formula35,
    ];

    /// Its name in data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formula2 => "formula-2",
            Self::Formula3 => "formula-3",
            Self::Formula4 => "formula-4",
            Self::Formula32 => "formula-3.2",
            Self::Formula33 => "formula-3.3",
            Self::Formula34 => "formula-3.4",
            Self::Formula35 => "formula-3.5",
            Self::Table1BullyBest => "table-1-bully-best",
            Self::Table1BullyWorst => "table-1-bully-worst",
            Self::Table1DetectorBest => "table-1-detector-best",
            Self::Table1DetectorWorst => "table-1-detector-worst",
            Self::RingWorst => "ring-worst",
        }
    }

    /// Where it stands and what it says.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Table1BullyBest => "2004, Table 1: Bully, best case, n-1 messages",
            Self::Table1BullyWorst => "2004, Table 1: Bully, worst case, (n-f)n messages",
            Self::Table1DetectorBest => "2004, Table 1: Bully_FD, best case, n-1-pf messages",
            Self::Table1DetectorWorst => {
                "2004, Table 1: Bully_FD, worst case, (n-f)(n-1-pf) messages"
            }
            Self::RingWorst => "Chang and Roberts, worst case, n(n+1)/2+n messages",
            Self::Formula2 => "2004, (2): Bully, (2n-k)T_m + T_o",
            Self::Formula3 => "2004, (3): Bully_FD, (2n-k-l)T_m + T_o",
            Self::Formula4 => "2004, (4): Bully, multicast, 4T_m",
            Self::Formula32 => "2008, (3.2): question and answer, T_e = 2T_m + T_p",
            Self::Formula33 => "2008, (3.3): Bully, N_f T_o + (N-N_f)T_e",
            Self::Formula34 => {
                "2008, (3.4): Bully_FD, 2N T_s + p N_f T_p + (1-p)N_f T_o + (N-N_f)T_e"
            }
            Self::Formula35 => "2008, (3.5): what Bully_FD gains, p N_f (T_o-T_p) - 2N T_s",
        }
    }
}

/// Measures all claims.
#[must_use]
pub fn measure() -> Vec<Point> {
    let points = Claim::ALL.into_iter().map(points);
    points.flatten().collect()
}

/// The sizes (n, k) of a sweep.
const SIZES: &[(u32, u32)] = &[(5, 2), (10, 2), (10, 4), (20, 2), (20, 10), (50, 2)];

fn points(claim: Claim) -> Vec<Point> {
    let sweep = |of: &dyn Fn(u32, u32) -> Vec<Point>| {
        let sizes = SIZES.iter().flat_map(|&(n, k)| of(n, k));
        sizes.collect::<Vec<_>>()
    };
    match claim {
        // The best case is that the next best one finds the leader gone.
        Claim::Table1BullyBest => {
            let sizes = counts().map(|n| Setting::new(claim, n, 2).point());
            sizes.collect()
        }
        Claim::Table1BullyWorst => sweep(&|n, k| vec![Setting::new(claim, n, k).point()]),
        Claim::Table1DetectorBest | Claim::Table1DetectorWorst => sweep(&|n, k| {
            lists(k)
                .map(|l| Setting::new(claim, n, k).with_listed(l).point())
                .collect()
        }),
        // An election is not taken for stuck before it was once round.
        Claim::RingWorst => {
            let sizes = counts().map(|n| Setting::new(claim, n, 1).with_timeout(n).point());
            sizes.collect()
        }
        // The last one is too short for many members: a busy sender answers too late.
        Claim::Formula2 => sweep(&|n, k| {
            let timeouts = [200, 50, 10].into_iter();
            timeouts
                .map(|it| Setting::new(claim, n, k).with_timeout(it).point())
                .collect()
        }),
        Claim::Formula3 => sweep(&|n, k| {
            let setting = |l| Setting::new(claim, n, k).with_listed(l).with_timeout(200);
            let mut all: Vec<_> = lists(k).map(setting).collect();
            all.push(setting(0).with_last_down());
            all.into_iter().map(Setting::point).collect()
        }),
        Claim::Formula4 => sweep(&|n, k| {
            let timeouts = [10, 50].into_iter();
            timeouts
                .map(|it| Setting::new(claim, n, k).with_timeout(it).point())
                .collect()
        }),
        Claim::Formula32 => {
            let all = [0, 1, 10].into_iter();
            all.map(|tenths| Setting::new(claim, 2, 1).with_processing(tenths).point())
                .collect()
        }
        Claim::Formula33 => {
            sweep(&|n, k| vec![Setting::new(claim, n, k).with_processing(1).point()])
        }
        Claim::Formula34 | Claim::Formula35 => sweep(&|n, k| {
            let setting = |l| Setting::new(claim, n, k).with_listed(l).with_processing(1);
            lists(k).map(|l| setting(l).point()).collect()
        }),
    }
}

/// The different n of them.
fn counts() -> impl Iterator<Item = u32> {
    BTreeSet::from_iter(SIZES.iter().map(|&(n, _)| n)).into_iter()
}

/// None, half and all of those that are better than k.
fn lists(k: u32) -> impl Iterator<Item = u32> {
    BTreeSet::from([0, (k - 1) / 2, k - 1]).into_iter()
}

/// One point that is to be measured: all members better than k are down.
#[derive(Clone, Copy, Debug)]
struct Setting {
    claim: Claim,
    n: u32,
    k: u32,
    l: u32,
    /// Whether the worst one is down, too, and on no list.
    last_is_down: bool,
    /// T_o, in T_m.
    timeout: u32,
    /// T_p, in tenths of T_m.
    processing: u32,
}

impl Setting {
    const fn new(claim: Claim, n: u32, k: u32) -> Self {
        let (l, timeout, processing) = (0, 10, 0);
        Self {
            claim,
            n,
            k,
            l,
            last_is_down: false,
            timeout,
            processing,
        }
    }

    const fn with_listed(self, l: u32) -> Self {
        Self { l, ..self }
    }

    const fn with_last_down(self) -> Self {
        Self {
            last_is_down: true,
            ..self
        }
    }

    fn down(&self) -> BTreeSet<u32> {
        let last = self.last_is_down.then_some(self.n);
        (1..self.k).chain(last).collect()
    }

    /// Only an `Ack` makes a leader, and the one that is down is found to be so after the last of them.
    const fn ends(&self) -> bool {
        !self.last_is_down
    }

    const fn with_timeout(self, timeout: u32) -> Self {
        Self { timeout, ..self }
    }

    const fn with_processing(self, processing: u32) -> Self {
        Self { processing, ..self }
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

    /// The election to measure: the algorithm, the starters, and how members send.
    fn run(
        &self,
        algorithm: PaperAlgorithm,
        starters: BTreeSet<u32>,
        sending: Sending,
    ) -> ElectionOutcome {
        let processing = MESSAGE * self.processing / 10;
        let line_takes_it = sending != Sending::AtOnce;
        let message = if line_takes_it {
            Duration::ZERO
        } else {
            MESSAGE
        };
        let stage = ElectionSetup {
            algorithm,
            members: self.n,
            down: self.down(),
            listed: (1..=self.l).collect(),
            starters,
            sending,
            latency: message + processing,
            timeout: MESSAGE * self.timeout,
        };
        stage.run()
    }

    fn point(self) -> Point {
        let (case, at_once) = (self.case(), Sending::AtOnce);
        let (best, last) = (BTreeSet::from([self.k]), BTreeSet::from([self.n]));
        let all: BTreeSet<u32> = (self.k..=self.n).collect();
        let (line, multicast) = (Sending::OneByOne(MESSAGE), Sending::Multicast(MESSAGE));
        let bully = |starters, sending| self.run(PaperAlgorithm::Textbook, starters, sending);
        let published = |starters, sending| self.run(PaperAlgorithm::Published, starters, sending);
        let classic = || self.run(PaperAlgorithm::Classic, best.clone(), at_once);
        let time = |outcome: &ElectionOutcome| {
            let response = outcome.response?;
            Some(response.as_secs_f64() / MESSAGE.as_secs_f64())
        };
        let messages = |outcome: &ElectionOutcome| {
            outcome.response?;
            Some((outcome.election + outcome.detection) as f64)
        };
        let elections = |outcome: &ElectionOutcome| {
            outcome.response?;
            Some(outcome.election as f64)
        };
        let timed =
            |outcome: ElectionOutcome, formula, holds| (outcome, time(&outcome), formula, holds);
        let (outcome, measured, formula, holds) = match self.claim {
            Claim::Table1BullyBest => {
                let outcome = bully(best, at_once);
                let formula = case.bully_best();
                (outcome, elections(&outcome), formula, formula)
            }
            Claim::Table1BullyWorst => {
                let outcome = bully(all, at_once);
                let (formula, holds) = (case.bully_worst(), case.textbook_worst());
                (outcome, elections(&outcome), formula, holds)
            }
            Claim::Table1DetectorBest => {
                let outcome = published(best, at_once);
                let (formula, holds) = (case.detector_best(), case.published_best());
                (outcome, messages(&outcome), formula, holds)
            }
            Claim::Table1DetectorWorst => {
                let outcome = published(all, at_once);
                let (formula, holds) = (case.detector_worst(), case.published_worst());
                (outcome, messages(&outcome), formula, holds)
            }
            Claim::RingWorst => {
                let outcome = self.run(PaperAlgorithm::Ring, all, at_once);
                let formula = case.ring_worst();
                (outcome, elections(&outcome), formula, formula)
            }
            Claim::Formula2 => {
                let formula = case.bully_one_by_one();
                timed(bully(last, line), formula, formula)
            }
            Claim::Formula3 => timed(
                published(best, line),
                case.detector_one_by_one(),
                case.published_one_by_one(),
            ),
            Claim::Formula4 => timed(
                bully(last, multicast),
                Case::bully_multicast(),
                case.textbook_multicast(),
            ),
            Claim::Formula32 => timed(
                bully(last, at_once),
                case.printed_exchange(),
                case.exchange(),
            ),
            Claim::Formula33 => timed(classic(), case.bully_2008(), case.classic_at_once()),
            Claim::Formula34 => timed(
                published(best, at_once),
                case.detector_2008(),
                case.published_at_once(),
            ),
            Claim::Formula35 => {
                let (outcome, classic) = (published(best.clone(), at_once), classic());
                let gain = time(&classic).zip(time(&outcome));
                let gain = gain.map(|(classic, published)| classic - published);
                (outcome, gain, case.gain_2008(), case.gain())
            }
        };
        // Nanoseconds are whole, and fractions of T_m need not be: one in a million is none.
        let measured = measured.map(|it| (it * 1e6).round() / 1e6);
        let counts = matches!(
            self.claim,
            Claim::Table1BullyBest
                | Claim::Table1BullyWorst
                | Claim::Table1DetectorBest
                | Claim::Table1DetectorWorst
                | Claim::RingWorst
        );
        let deviation = |it: f64| (formula != 0.0).then(|| (it - formula) / formula * 100.0);
        Point {
            claim: self.claim,
            unit: if counts { "messages" } else { "T_m" },
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
            holds: self.ends().then_some(holds),
            named: outcome.named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_what_is_measured() {
        for point in measure() {
            // With a timeout that is too short the formula is about nothing.
            let short = point.claim == Claim::Formula2 && point.t_o < f64::from(2 * point.n);
            if !short {
                let close = |(measured, holds): (f64, f64)| (measured - holds).abs() < 1e-3;
                let both = point.measured.zip(point.holds);
                assert!(both.is_none_or(close), "{point:?}");
                assert_eq!(point.measured.is_none(), point.holds.is_none(), "{point:?}");
                assert!(point.named <= 1, "{point:?}");
            }
        }
    }

    #[test]
    fn formulas_that_are_exact_are_met_to_the_unit() {
        let exact = [Claim::Table1BullyBest, Claim::RingWorst, Claim::Formula2];
        for point in exact.into_iter().flat_map(points) {
            let short = point.claim == Claim::Formula2 && point.t_o < f64::from(2 * point.n);
            if !short {
                assert_eq!(point.measured, Some(point.formula), "{point:?}");
                assert_eq!(point.deviation_percent, Some(0.0));
            }
        }
    }
}
