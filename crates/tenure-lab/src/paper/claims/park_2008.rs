//! The claims of the paper of 2008.

use super::super::claim::{Claim, ClaimRow, Paper, Quantity, Starters, Subject, Transmission};
use super::super::formula::Case;
use super::super::parameters::Parameters;
use super::{FIGURE, RESPONSE, TEN, TEXTBOOK, sizes, with_lists};
use crate::baseline::OlderAlgorithm;

pub(super) const FORMULA_3_2: Claim = Claim {
    paper: &Paper::PARK_2008,
    name: "formula-3.2",
    place: "(3.2)",
    about: "T_e, the time of a question and its answer",
    rows: &[
        ClaimRow {
            name: "arrives",
            about: "until the answer arrives",
            described: Some(Subject {
                sending: Transmission::AtOnceToTheAsker,
                holds: |it| Some(it.formula_3_2()),
                ..EXCHANGE
            }),
            ..ANSWER
        },
        ClaimRow {
            name: "handled",
            about: "until the asker has handled the answer",
            described: Some(Subject {
                holds: |it| Some(it.exchange()),
                reasons: Case::exchange_reasons,
                ..EXCHANGE
            }),
            ..ANSWER
        },
    ],
};

pub(super) const FORMULA_3_3: Claim = Claim {
    paper: &Paper::PARK_2008,
    name: "formula-3.3",
    place: "(3.3)",
    about: "Garcia-Molina's algorithm, one call after the other",
    rows: &[
        ClaimRow {
            name: "election-point",
            about: "until the winner knows that it leads",
            quantity: Quantity::ElectionPoint,
            described: Some(Subject {
                holds: |it| Some(it.election_point()),
                reasons: Case::election_point_reasons,
                ..CALLS
            }),
            ..GARCIA_MOLINA
        },
        ClaimRow {
            name: "all-know",
            about: "until the last member knows the leader",
            described: Some(Subject {
                holds: |it| Some(it.calls()),
                reasons: Case::calls_reasons,
                ..CALLS
            }),
            ..GARCIA_MOLINA
        },
    ],
};

pub(super) const FORMULA_3_4: Claim = Claim {
    paper: &Paper::PARK_2008,
    name: "formula-3.4",
    place: "(3.4)",
    about: "Bully_FD",
    rows: &[ClaimRow {
        name: "all-know",
        about: "until the last member knows the leader",
        formula: "2N T_s + p N_f T_p + (1-p)N_f T_o + (N-N_f)T_e",
        printed: Case::formula_3_4,
        figure: Some(AT_ONCE),
        examples: PROCESSING,
        sweep: processing,
        fixed: |it| it,
        ..RESPONSE
    }],
};

pub(super) const FORMULA_3_5: Claim = Claim {
    paper: &Paper::PARK_2008,
    name: "formula-3.5",
    place: "(3.5)",
    about: "how much faster Bully_FD is",
    rows: &[
        ClaimRow {
            name: "than-garcia-molina",
            about: "than Garcia-Molina's algorithm",
            quantity: Quantity::GainOver(OlderAlgorithm::GarciaMolina),
            figure: Some(Subject {
                holds: |it| Some(it.calls() - it.figure_at_once()?),
                reasons: Case::gain_reasons,
                ..AT_ONCE
            }),
            ..GAIN
        },
        ClaimRow {
            name: "than-calls-at-once",
            about: "than Garcia-Molina's algorithm with all calls at once",
            quantity: Quantity::GainOver(OlderAlgorithm::CallsAtOnce),
            figure: Some(Subject {
                holds: |it| Some(it.calls_at_once() - it.figure_at_once()?),
                reasons: Case::gain_over_calls_at_once_reasons,
                ..AT_ONCE
            }),
            ..GAIN
        },
    ],
};

const PROCESSING: &[Parameters] = &[
    TEN.with_times(10.0, 0.1),
    TEN.with_listed(3).with_times(10.0, 0.1),
];

const AT_ONCE: Subject = Subject {
    holds: Case::figure_at_once,
    reasons: Case::figure_at_once_reasons,
    ..FIGURE
};

const CALLS: Subject = Subject {
    algorithm: OlderAlgorithm::GarciaMolina,
    ..TEXTBOOK
};

const EXCHANGE: Subject = Subject {
    starters: Starters::Last,
    ..TEXTBOOK
};

const ANSWER: ClaimRow = ClaimRow {
    formula: "2T_m + T_p",
    printed: Case::formula_3_2,
    examples: &[Parameters::new(2, 0).with_times(10.0, 1.0)],
    sweep: || {
        let pair = Parameters::new(2, 0);
        [0.0, 0.1].map(|t_p| pair.with_times(10.0, t_p)).into()
    },
    fixed: |it| Parameters::new(2, 0).with_times(it.t_o.max(3.0 + 2.0 * it.t_p), it.t_p),
    ..RESPONSE
};

const GARCIA_MOLINA: ClaimRow = ClaimRow {
    formula: "N_f T_o + (N-N_f)T_e",
    printed: Case::formula_3_3,
    examples: &[TEN.with_times(10.0, 0.1)],
    sweep: || {
        let worse = |it: Parameters| [it, it.with_worse(1, 0)];
        let all = sizes().into_iter().flat_map(worse);
        all.map(|it| it.with_times(10.0, 0.1)).collect()
    },
    fixed: |it| it,
    ..RESPONSE
};

const GAIN: ClaimRow = ClaimRow {
    name: "",
    formula: "p N_f (T_o-T_p) - 2N T_s",
    printed: Case::formula_3_5,
    examples: PROCESSING,
    sweep: processing,
    fixed: |it| it,
    ..RESPONSE
};

fn processing() -> Vec<Parameters> {
    let all = with_lists(sizes(), 10.0).into_iter();
    all.map(|it| it.with_times(it.t_o, 0.1)).collect()
}
