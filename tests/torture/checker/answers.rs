//! Every answer is one that the API documents, and not an internal error.

use tenure_core::wire::Code;

use super::{Evidence, Finding};
use crate::history::{Answer, History};

pub(super) fn check(history: &History) -> Option<Finding> {
    history.ops.iter().enumerate().find_map(|(number, op)| {
        let what = match op.answered()?.1 {
            Answer::Unexpected { status, body } => format!("{status} {body}"),
            Answer::Refused(problem) if is_wrong(problem.code) => problem.detail.clone(),
            _ => return None,
        };
        Some((format!("{}: {what}", op.ask), vec![Evidence::Op(number)]))
    })
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
