//! The claims of the paper of 2004.

use super::super::claim::{Claim, ClaimRow, Paper, Starters, Subject, Transmission};
use super::super::formula::Case;
use super::super::parameters::Parameters;
use super::{FIGURE, MESSAGES, RESPONSE, TEN, TEXTBOOK, sizes, with_lists};

pub(super) const TABLE_1: Claim = Claim {
    paper: &Paper::PARK_2004,
    name: "table-1",
    place: "Table 1",
    about: "messages in one election",
    rows: &[
        ClaimRow {
            name: "bully-best",
            about: "Bully, best case",
            formula: "n-1",
            printed: Case::bully_best,
            described: Some(Subject {
                holds: |it| Some(it.textbook_best()),
                ..TEXTBOOK
            }),
            examples: &[TEN],
            sweep: || both_sides(false),
            ..MESSAGES
        },
        ClaimRow {
            name: "bully-worst",
            about: "Bully, worst case",
            formula: "(n-f)n",
            printed: Case::bully_worst,
            described: Some(Subject {
                starters: Starters::All,
                holds: |it| Some(it.textbook_worst()),
                reasons: Case::bully_worst_reasons,
                ..TEXTBOOK
            }),
            examples: &[TEN],
            sweep: || both_sides(false),
            ..MESSAGES
        },
        ClaimRow {
            name: "detector-best",
            about: "Bully_FD, best case",
            formula: "n-1-pf",
            printed: Case::detector_best,
            described: Some(Subject {
                holds: |it| Some(it.textbook_best()),
                ..TEXTBOOK_WITH_LIST
            }),
            figure: Some(Subject {
                holds: Case::figure_best,
                reasons: Case::figure_best_reasons,
                ..FIGURE
            }),
            examples: TEN_LISTED,
            sweep: || both_sides(true),
            ..MESSAGES
        },
        ClaimRow {
            name: "detector-worst",
            about: "Bully_FD, worst case",
            formula: "(n-f)(n-1-pf)",
            printed: Case::detector_worst,
            described: Some(Subject {
                starters: Starters::All,
                holds: |it| Some(it.textbook_worst()),
                reasons: Case::detector_worst_reasons,
                ..TEXTBOOK_WITH_LIST
            }),
            figure: Some(Subject {
                starters: Starters::All,
                holds: Case::figure_worst,
                reasons: Case::figure_worst_reasons,
                ..FIGURE
            }),
            examples: TEN_LISTED,
            sweep: || both_sides(true),
            ..MESSAGES
        },
    ],
};

pub(super) const FORMULA_2: Claim = Claim {
    paper: &Paper::PARK_2004,
    name: "formula-2",
    place: "(2)",
    about: "response time of Bully, one message after the other",
    rows: &[BULLY_ONE_BY_ONE],
};

pub(super) const FORMULA_3: Claim = Claim {
    paper: &Paper::PARK_2004,
    name: "formula-3",
    place: "(3)",
    about: "response time of Bully_FD, one message after the other",
    rows: &[DETECTOR_ONE_BY_ONE],
};

pub(super) const FORMULA_4: Claim = Claim {
    paper: &Paper::PARK_2004,
    name: "formula-4",
    place: "(4)",
    about: "response time of Bully with multicast",
    rows: &[BULLY_MULTICAST],
};

pub(super) const TABLE_2: Claim = Claim {
    paper: &Paper::PARK_2004,
    name: "table-2",
    place: "Table 2",
    about: "response time",
    rows: &[
        ClaimRow {
            name: "bully-one-by-one",
            about: "Bully, one message after the other",
            examples: FIFTY_UNLISTED,
            ..BULLY_ONE_BY_ONE
        },
        ClaimRow {
            name: "detector-one-by-one",
            about: "Bully_FD, one message after the other",
            examples: FIFTY,
            ..DETECTOR_ONE_BY_ONE
        },
        ClaimRow {
            name: "bully-multicast",
            about: "Bully, multicast",
            examples: FIFTY_UNLISTED,
            ..BULLY_MULTICAST
        },
        ClaimRow {
            name: "detector-multicast",
            about: "Bully_FD, multicast",
            formula: "4T_m",
            printed: Case::formula_4,
            described: Some(Subject {
                starters: Starters::Last,
                sending: Transmission::Multicast,
                holds: |it| Some(it.textbook_multicast()),
                reasons: Case::multicast_reasons,
                ..TEXTBOOK_WITH_LIST
            }),
            figure: Some(Subject {
                sending: Transmission::Multicast,
                holds: Case::figure_multicast,
                reasons: Case::figure_multicast_reasons,
                ..FIGURE
            }),
            examples: FIFTY,
            sweep: || with_lists(sizes(), 50.0),
            ..RESPONSE
        },
    ],
};

const TEN_LISTED: &[Parameters] = &[TEN, TEN.with_listed(3)];

/// Bully has no down list.
const FIFTY_UNLISTED: &[Parameters] = &[TEN.with_times(50.0, 0.0)];

const FIFTY: &[Parameters] = &[
    TEN.with_times(50.0, 0.0),
    TEN.with_listed(3).with_times(50.0, 0.0),
];

/// The textbook's algorithm, in which members skip all members on their down lists. Formula (3) and
/// the cells of Bully_FD in Table 1 count the messages of this algorithm.
const TEXTBOOK_WITH_LIST: Subject = Subject {
    has_list: true,
    ..TEXTBOOK
};

const BULLY_ONE_BY_ONE: ClaimRow = ClaimRow {
    name: "bully",
    about: "Bully",
    formula: "(2n-k)T_m + T_o",
    printed: Case::formula_2,
    described: Some(Subject {
        starters: Starters::Last,
        sending: Transmission::OneByOne,
        holds: |it| Some(it.textbook_one_by_one()),
        reasons: Case::one_by_one_reasons,
        ..TEXTBOOK
    }),
    examples: &[TEN.with_times(200.0, 0.0)],
    // The last timeout is too short for many members.
    sweep: || {
        let times = |it: Parameters| [200.0, 50.0, 10.0].map(|t_o| it.with_times(t_o, 0.0));
        sizes().into_iter().flat_map(times).collect()
    },
    ..RESPONSE
};

const DETECTOR_ONE_BY_ONE: ClaimRow = ClaimRow {
    name: "detector",
    about: "Bully_FD",
    formula: "(2n-k-l)T_m + T_o",
    printed: Case::formula_3,
    described: Some(Subject {
        starters: Starters::Last,
        sending: Transmission::OneByOne,
        holds: |it| Some(it.textbook_one_by_one()),
        reasons: Case::one_by_one_reasons,
        ..TEXTBOOK_WITH_LIST
    }),
    figure: Some(Subject {
        sending: Transmission::OneByOne,
        holds: Case::figure_one_by_one,
        reasons: Case::figure_one_by_one_reasons,
        ..FIGURE
    }),
    examples: &[
        TEN.with_times(200.0, 0.0),
        TEN.with_listed(1).with_times(200.0, 0.0),
        TEN.with_listed(3).with_times(200.0, 0.0),
    ],
    sweep: || with_lists(sizes(), 200.0),
    ..RESPONSE
};

const BULLY_MULTICAST: ClaimRow = ClaimRow {
    name: "bully",
    about: "Bully",
    formula: "4T_m",
    printed: Case::formula_4,
    described: Some(Subject {
        starters: Starters::Last,
        sending: Transmission::Multicast,
        holds: |it| Some(it.textbook_multicast()),
        reasons: Case::multicast_reasons,
        ..TEXTBOOK
    }),
    examples: &[TEN.with_times(50.0, 0.0)],
    sweep: || {
        let times = |it: Parameters| [10.0, 50.0].map(|t_o| it.with_times(t_o, 0.0));
        sizes().into_iter().flat_map(times).collect()
    },
    ..RESPONSE
};

/// Returns the sizes with failed members on both sides of the winner, listed or not.
fn both_sides(has_list: bool) -> Vec<Parameters> {
    if has_list {
        return with_lists(sizes(), 10.0);
    }
    let worse = |it: Parameters| [it, it.with_worse(1, 0)];
    sizes().into_iter().flat_map(worse).collect()
}
