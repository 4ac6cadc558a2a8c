//! A receiver that checks epochs accepts no write of an earlier leader after one of a later leader.

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut greatest = None;
    for event in history {
        if let HistoryEventKind::Wrote {
            epoch: Some(epoch),
            taken: true,
        } = event.kind
        {
            if greatest > Some(epoch) {
                let what = format!("{} writes by epoch {epoch}, which is stale", event.node);
                return Err((event.at, what));
            }
            greatest = Some(epoch);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, epoch, history};
    use super::*;

    #[test]
    fn a_stale_write_that_is_taken_is_found() {
        let wrote = |number, taken| HistoryEventKind::Wrote {
            epoch: Some(epoch(number)),
            taken,
        };
        let writes = |last| history([(1, 1, wrote(1, true)), (2, 2, wrote(2, true)), (3, 1, last)]);
        assert!(check(&writes(wrote(1, true)), &PROMISES).is_err());
        assert_eq!(check(&writes(wrote(1, false)), &PROMISES), Ok(()));
    }
}
