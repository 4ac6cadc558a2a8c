//! The claims of the papers.

mod park_2004;
mod park_2008;

use super::claim::{Claim, ClaimRow, Paper, Quantity, Starters, Subject, Transmission};
use super::formula::Case;
use super::parameters::Parameters;
use crate::baseline::OlderAlgorithm;

impl Claim {
    /// All claims, in the order of the papers.
    pub const ALL: &[Self] = &[
        park_2004::TABLE_1,
        park_2004::FORMULA_2,
        park_2004::FORMULA_3,
        park_2004::FORMULA_4,
        park_2004::TABLE_2,
        park_2008::FORMULA_3_2,
        park_2008::FORMULA_3_3,
        park_2008::FORMULA_3_4,
        park_2008::FORMULA_3_5,
        WORST_CASE,
        RING_WORST,
    ];
}

const WORST_CASE: Claim = Claim {
    paper: &Paper::BULLY,
    name: "worst-case",
    place: "Network bandwidth utilization",
    about: "messages in one election if the worst member begins and all are up",
    rows: &[ClaimRow {
        name: "worst-case",
        about: "the worst case",
        formula: "N(N-1)/2 + N(N-1)/2 + N-1 = N^2-1",
        printed: Case::bully_square,
        described: Some(Subject {
            starters: Starters::Last,
            holds: |it| Some(it.textbook_worst()),
            ..TEXTBOOK
        }),
        examples: &[Parameters::new(10, 0)],
        sweep: || [2, 5, 20, 50].map(|n| Parameters::new(n, 0)).into(),
        fixed: |it| Parameters::new(it.n, 0).with_times(it.t_o, 0.0),
        ..MESSAGES
    }],
};

const RING_WORST: Claim = Claim {
    paper: &Paper::RING,
    name: "ring-worst",
    place: "the worst case",
    about: "messages in one election on a ring, with the announcement",
    rows: &[ClaimRow {
        name: "worst",
        about: "the worst case",
        formula: "n(n+1)/2 + n",
        printed: Case::ring_worst,
        described: Some(Subject {
            algorithm: OlderAlgorithm::Ring,
            starters: Starters::All,
            holds: |it| Some(it.ring_worst()),
            ..TEXTBOOK
        }),
        examples: &[Parameters::new(10, 0)],
        sweep: || [5, 20, 50].map(|n| Parameters::new(n, 0)).into(),
        // The timeout allows one round before an election counts as stuck.
        fixed: |it| Parameters::new(it.n, 0).with_times(f64::from(2 * it.n), 0.0),
        ..MESSAGES
    }],
};

const TEN: Parameters = Parameters::new(10, 3);

/// The textbook's algorithm, which the best running member begins.
const TEXTBOOK: Subject = Subject {
    algorithm: OlderAlgorithm::Textbook,
    has_list: false,
    starters: Starters::Best,
    sending: Transmission::AtOnce,
    holds: |_| None,
    reasons: |_| Vec::new(),
};

const FIGURE: Subject = Subject {
    algorithm: OlderAlgorithm::Published,
    has_list: true,
    ..TEXTBOOK
};

const MESSAGES: ClaimRow = ClaimRow {
    name: "",
    about: "",
    formula: "",
    printed: Case::bully_best,
    quantity: Quantity::Messages,
    described: None,
    figure: None,
    examples: &[TEN],
    sweep: Vec::new,
    fixed: |it| it.with_times(it.t_o, 0.0),
};

const RESPONSE: ClaimRow = ClaimRow {
    quantity: Quantity::Response,
    ..MESSAGES
};

/// The sizes (n, k-1) of the measurements.
const SIZES: &[(u32, u32)] = &[(5, 1), (10, 1), (10, 3), (20, 1), (20, 9), (50, 1)];

fn sizes() -> Vec<Parameters> {
    let sizes = SIZES.iter();
    sizes
        .map(|&(n, failed)| Parameters::new(n, failed))
        .collect()
}

/// Returns each of these with none, half and all of the better members on the down lists, and with
/// one of the worse members down, listed or not.
fn with_lists(of: Vec<Parameters>, t_o: f64) -> Vec<Parameters> {
    let lists = |it: Parameters| {
        let better = it.better_failed;
        let mut lists = vec![0, better / 2, better];
        lists.dedup();
        lists.into_iter().map(move |listed| it.with_listed(listed))
    };
    let worse = |it: Parameters| [it, it.with_worse(1, 0), it.with_worse(1, 1)];
    let all = of.into_iter().flat_map(lists).flat_map(worse);
    all.map(|it| it.with_times(t_o, it.t_p)).collect()
}
