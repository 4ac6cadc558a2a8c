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
            verdict: "Right.",
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
                ..TEXTBOOK
            }),
            verdict: "One too many, because the winner sends no Coordinator to itself. A member that \
                      failed and is worse than the winner sends no messages, so then there are fewer.",
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
                ..FIGURE
            }),
            verdict: "Right for the textbook's algorithm with a down list. The figure needs \
                      5(n-1-f) messages, and one for each better member that is not listed.",
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
                ..TEXTBOOK_WITH_LIST
            }),
            figure: Some(Subject {
                starters: Starters::All,
                holds: Case::figure_worst,
                ..FIGURE
            }),
            verdict: "n-f-1 too few for the textbook's algorithm with a down list: with an empty \
                      list it must equal the Bully algorithm, and it doesn't. The figure needs more.",
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
            examples: FIFTY,
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
            examples: FIFTY,
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
                ..TEXTBOOK_WITH_LIST
            }),
            figure: Some(Subject {
                sending: Transmission::Multicast,
                holds: Case::figure_multicast,
                ..FIGURE
            }),
            verdict: "T_o is missing, and it counts unless all better members are listed. So with \
                      multicast the two algorithms are not equally fast: if all are listed, Bully_FD \
                      is faster by T_o. The figure is two messages slower than Bully, for Halt and \
                      Ack.",
            examples: FIFTY,
            sweep: || with_lists(sizes(), 50.0),
            ..RESPONSE
        },
    ],
};

const TEN_LISTED: &[Parameters] = &[TEN, TEN.with_listed(3)];

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
        ..TEXTBOOK
    }),
    verdict: "Right, if T_o is above 2n T_m. With a shorter T_o, several members announce themselves before \
              the answers leave a busy sender.",
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
        ..TEXTBOOK_WITH_LIST
    }),
    figure: Some(Subject {
        sending: Transmission::OneByOne,
        holds: Case::figure_one_by_one,
        ..FIGURE
    }),
    verdict: "Right for the textbook's algorithm with a down list, but if all better members are listed it \
              does not wait for T_o. The figure has no Election that could wake k; from the moment at which \
              k begins it takes (k-1-l)T_m + (3(n-k)+1)T_m, and T_o if l < k-1.",
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
        ..TEXTBOOK
    }),
    verdict: "T_o is missing: the terms of the paper add up to 4T_m + T_o.",
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
