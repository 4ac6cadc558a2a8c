//! After a server has taken over, no server of an earlier generation accepts a request.

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut newest = 0;
    for event in history {
        match event.kind {
            HistoryEventKind::TookOver(generation) => newest = newest.max(generation),
            HistoryEventKind::Accepted(generation) if generation < newest => {
                let what = format!(
                    "{} accepts a request as generation {generation}, and generation {newest} has \
                     begun",
                    event.node
                );
                return Err((event.at, what));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, history};
    use super::*;

    #[test]
    fn a_request_that_an_earlier_generation_accepts_is_found() {
        let took = |at, generation| (at, 0, HistoryEventKind::TookOver(generation));
        let accepted = |at, generation| (at, 101, HistoryEventKind::Accepted(generation));
        let in_turn = [took(1, 1), accepted(2, 1), took(3, 2), accepted(4, 2)];
        assert_eq!(check(&history(in_turn), &PROMISES), Ok(()));
        let late = [took(1, 1), accepted(2, 1), took(3, 2), accepted(4, 1)];
        assert!(check(&history(late), &PROMISES).is_err());
    }
}
