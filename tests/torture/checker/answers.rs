//! Every answer is one that the API has, and no fault of the store's own.

use tenure_core::wire::Code;

use super::{Finding, Place};
use crate::history::{Answer, History};

pub(super) fn check(history: &History) -> Option<Finding> {
    history.ops.iter().enumerate().find_map(|(number, op)| {
        let what = match op.answered()?.1 {
            Answer::Strange { status, body } => format!("{status} {body}"),
            Answer::Refused(problem) if is_wrong(problem.code) => problem.detail.clone(),
            _ => return None,
        };
        Some((format!("{}: {what}", op.ask), vec![Place::Op(number)]))
    })
}

/// Whether no request of a client that keeps to the API may be refused so.
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
