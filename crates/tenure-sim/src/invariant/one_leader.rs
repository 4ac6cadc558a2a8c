//! At any instant at most one process leads in its own opinion.

use super::{Claims, Promises};
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut claims = Claims::default();
    for event in history {
        claims.update(event);
        // If two claims overlap, one of them begins or is extended while the other is valid.
        if matches!(event.kind, HistoryEventKind::Claims(..)) {
            claims.0.retain(|_, until| event.at < *until);
            if let Some((other, until)) = claims.0.iter().find(|(node, _)| **node != event.node) {
                let what = format!("{} leads, and {other} until {until}", event.node);
                return Err((event.at, what));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, claims, history};
    use super::*;

    #[test]
    fn a_second_leader_is_found_and_one_after_the_other_is_not() {
        let one = (1, 1, claims(1, 10));
        let overlapping = history([one.clone(), (9, 2, claims(2, 19))]);
        assert!(check(&overlapping, &PROMISES).is_err());
        let prolonged = history([one.clone(), (10, 2, claims(2, 19)), (11, 1, claims(1, 21))]);
        assert!(check(&prolonged, &PROMISES).is_err());
        let in_turn = history([one, (3, 1, HistoryEventKind::Yields), (3, 2, claims(2, 19))]);
        assert_eq!(check(&in_turn, &PROMISES), Ok(()));
    }
}
