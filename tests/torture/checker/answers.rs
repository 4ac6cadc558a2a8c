//! Every answer is one that the API documents, and not an internal error.

use tenure_core::wire::Code;

use super::{Evidence, Finding};
use crate::history::{Answer, Ask, History};

pub(super) fn check(history: &History) -> Option<Finding> {
    history.ops.iter().enumerate().find_map(|(number, op)| {
        let what = match op.answered()?.1 {
            Answer::Unexpected { status, body } => format!("{status} {body}"),
            // If the store's clock is behind, this epoch may be too far ahead for a candidate.
            Answer::Refused(problem)
                if problem.code == Code::OutOfRange && has_min_epoch(&op.ask) =>
            {
                return None;
            }
            Answer::Refused(problem) if is_wrong(problem.code) => problem.detail.clone(),
            _ => return None,
        };
        Some((format!("{}: {what}", op.ask), vec![Evidence::Op(number)]))
    })
}

const fn has_min_epoch(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Acquire {
            min_epoch: Some(_),
            ..
        }
    )
}

/// Whether no valid request may be refused with this code.
const fn is_wrong(code: Code) -> bool {
    matches!(
        code,
        Code::Internal
            | Code::Malformed
            | Code::UnknownField
            | Code::InvalidName
            | Code::OutOfRange
            | Code::TooLarge
            | Code::NotJson
            | Code::UnknownRoute
            | Code::MethodNotAllowed
            | Code::EpochsExhausted
            | Code::Other
    )
}
