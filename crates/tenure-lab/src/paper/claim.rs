//! The claims of the papers as data: a paper has claims, and a claim has one or more rows.

use std::fmt;

use serde::{Serialize, Serializer};

use super::formula::Case;
use super::parameters::Parameters;
use super::verdict::{ClaimVerdict, Reason};
use crate::baseline::OlderAlgorithm;

/// A paper.
#[derive(Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its name on the command line and in data.
    pub name: &'static str,
    /// The authors.
    pub authors: &'static str,
    /// The title.
    pub title: &'static str,
    /// The year.
    pub year: u32,
}

/// A table, a formula or a statement of a paper.
#[derive(Debug)]
pub struct Claim {
    /// The paper.
    pub paper: &'static Paper,
    /// Its name on the command line and in data, such as `table-1` or `formula-3.3`.
    pub name: &'static str,
    /// The place in the paper, such as `Table 1`.
    pub place: &'static str,
    /// The subject of the claim, such as "messages in one election".
    pub about: &'static str,
    /// The cells of a table. A formula has one row, or a row for each reading of it.
    pub rows: &'static [ClaimRow],
}

/// One formula, and the algorithms by which it is judged.
#[derive(Debug)]
pub struct ClaimRow {
    /// Its name in data, such as `bully-best`.
    pub name: &'static str,
    /// The case in words, such as "Bully, best case".
    pub about: &'static str,
    /// The formula as printed.
    pub formula: &'static str,
    /// The value of the formula.
    pub(super) printed: fn(&Case) -> f64,
    /// The measured quantity.
    pub quantity: Quantity,
    /// The algorithm that the paper describes in the text of the claim.
    pub described: Option<Subject>,
    /// The algorithm of Figure 1 (2004) and Figure 3.1 (2008), if the claim is about Bully_FD.
    pub figure: Option<Subject>,
    /// The parameters of the examples in the documentation.
    pub examples: &'static [Parameters],
    /// The parameters of the tests and the report, in addition to the examples.
    pub(super) sweep: fn() -> Vec<Parameters>,
    /// Sets the parameters that the claim fixes: the time T_m of 2004 includes T_p, and some claims
    /// are about members that are all up.
    pub(super) fixed: fn(Parameters) -> Parameters,
}

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// All messages of an election, including those of the failure detector.
    Messages,
    /// The time until the last running member knows the new leader.
    Response,
    /// The time until the new leader knows that it is the leader: Garcia-Molina's election point.
    ElectionPoint,
    /// How much shorter the response time is than that of this algorithm.
    GainOver(OlderAlgorithm),
}

/// An algorithm under the assumptions of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The algorithm.
    pub algorithm: OlderAlgorithm,
    /// Whether the members know the down list. The algorithm of the figure does; the textbook's
    /// algorithm does if its members skip all listed members.
    pub has_list: bool,
    pub(super) starters: Starters,
    pub(super) sending: Transmission,
    /// The correct value; `None` if the election never ends.
    pub(super) holds: fn(&Case) -> Option<f64>,
    /// The parts of the difference between the correct and the printed value.
    pub(super) reasons: fn(&Case) -> Vec<Reason>,
}

/// The members that find the leader down at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starters {
    /// The best running member.
    Best,
    /// The worst running member.
    Last,
    /// All running members.
    All,
}

/// How members send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transmission {
    /// All messages leave at once, and each takes T_m and T_p.
    AtOnce,
    /// All messages leave at once. Each takes T_m, and a question also T_p.
    AtOnceToTheAsker,
    /// Messages leave one after the other, and each takes T_m.
    OneByOne,
    /// A message to many leaves at once. Different messages leave one after the other, and each
    /// takes T_m.
    Multicast,
}

/// The measurement of a row, and the value of its formula.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The name of the paper.
    pub paper: &'static str,
    /// The name of the claim.
    pub claim: &'static str,
    /// The name of the row.
    pub row: &'static str,
    /// The formula as printed.
    pub formula: &'static str,
    /// The unit: messages, or T_m.
    pub unit: &'static str,
    /// n: the number of members.
    pub n: u32,
    /// k: the best running member.
    pub k: u32,
    /// f: the number of failed members.
    pub f: u32,
    /// The number of failed members worse than k.
    pub f_worse: u32,
    /// l: the number of failed members better than k that are on the down lists.
    pub l: u32,
    /// The number of failed members worse than k that are on the down lists.
    pub l_worse: u32,
    /// p: the fraction of the failed members that are listed.
    pub p: f64,
    /// T_o: the timeout, in T_m.
    pub t_o: f64,
    /// T_p: the processing time, in T_m.
    pub t_p: f64,
    /// T_s: the time of a question to the own detector, in T_m. The question is a call and takes no
    /// time.
    pub t_s: f64,
    /// The value of the printed formula.
    pub printed: f64,
    /// The value of the algorithm that the paper describes, if it is not that of the figure.
    pub described: Option<Value>,
    /// The correct value for this algorithm.
    pub described_holds: Option<Value>,
    /// The value of the algorithm of the figure, if the claim is about Bully_FD.
    pub figure: Option<Value>,
    /// The correct value for the figure.
    pub figure_holds: Option<Value>,
    /// The largest number of members that announced themselves as leader in one of the elections.
    pub named: u32,
    /// What the measured values say about the printed one.
    pub verdict: ClaimVerdict,
}

/// A value of an election: a number of messages, or a time in T_m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The election ended.
    Is(f64),
    /// The election never ended.
    Never,
}

impl Paper {
    /// All papers.
    pub const ALL: &[&Self] = &[
        &Self::PARK_2004,
        &Self::PARK_2008,
        &Self::BULLY,
        &Self::RING,
    ];

    pub(super) const PARK_2004: Self = Self {
        name: "2004",
        authors: "S.-H. Park",
        title: "An Efficient Coordinator Election Algorithm in Synchronous Distributed Systems",
        year: 2004,
    };

    pub(super) const PARK_2008: Self = Self {
        name: "2008",
        authors: "S.-H. Park",
        title: "An Election Algorithm with Failure Detectors in Distributed Systems",
        year: 2008,
    };

    /// The article describes the algorithm as textbooks do, after the book by Coulouris, Dollimore
    /// and Kindberg.
    pub(super) const BULLY: Self = Self {
        name: "bully",
        authors: "Wikipedia, after Coulouris and others",
        title: "Bully algorithm",
        year: 2000,
    };

    pub(super) const RING: Self = Self {
        name: "ring",
        authors: "E. Chang, R. Roberts",
        title: "An Improved Algorithm for Decentralized Extrema-Finding in Circular Configurations of \
                Processes",
        year: 1979,
    };
}

impl Quantity {
    /// Returns the unit.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Response | Self::ElectionPoint | Self::GainOver(_) => "T_m",
        }
    }
}

impl Point {
    /// Describes the parameters, such as `n=10 f=3 l=0 T_o=10`. Times are left out where they do not
    /// matter.
    #[must_use]
    pub fn parameters(&self) -> String {
        let mut text = format!("n={} f={}", self.n, self.f);
        if self.f_worse > 0 {
            text += &format!(" ({} worse)", self.f_worse);
        }
        text += &format!(" l={}", self.l + self.l_worse);
        if self.unit != "messages" {
            text += &format!(" T_o={}", self.t_o);
        }
        if self.t_p > 0.0 {
            text += &format!(" T_p={}", self.t_p);
        }
        text
    }
}

impl Value {
    /// Returns the number, if the election ended.
    #[must_use]
    pub const fn number(self) -> Option<f64> {
        match self {
            Self::Is(number) => Some(number),
            Self::Never => None,
        }
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Never, Self::Is)
    }
}

/// Writes "never", or the number as [`short`] does.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.number().map_or_else(|| "never".into(), short))
    }
}

/// Returns a number with two decimal places at most.
#[must_use]
pub fn short(number: f64) -> String {
    ((number * 100.0).round() / 100.0).to_string()
}

/// A number, or "never".
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Is(number) => serializer.serialize_f64(*number),
            Self::Never => serializer.serialize_str("never"),
        }
    }
}
