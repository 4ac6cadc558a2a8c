//! After the faults the leader has the greatest epoch, so that receivers accept its writes.

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    if !history
        .iter()
        .any(|event| event.kind == HistoryEventKind::FaultsOver)
    {
        return Ok(());
    }
    let leader = history.iter().rev().find_map(|event| match event.kind {
        HistoryEventKind::Claims(Some(epoch), _) => Some((event.at, event.node, epoch)),
        _ => None,
    });
    let greatest = history.iter().filter_map(|event| match event.kind {
        HistoryEventKind::TaskStarted(epoch) => epoch,
        _ => None,
    });
    match (leader, greatest.max()) {
        (Some((at, node, epoch)), Some(greatest)) if epoch < greatest => {
            let what = format!("{node} leads at the end by epoch {epoch} after epoch {greatest}");
            Err((at, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, claims, epoch, history};
    use super::*;

    #[test]
    fn a_last_leader_with_a_smaller_epoch_is_found() {
        let ends_with = |number| {
            let started = |at, number| (at, 1, HistoryEventKind::TaskStarted(Some(epoch(number))));
            let last = (5, 2, claims(number, 90));
            let end = (9, 0, HistoryEventKind::FaultsOver);
            check(
                &history([started(1, 3), started(2, 9), last, end]),
                &PROMISES,
            )
        };
        assert_eq!(ends_with(9), Ok(()));
        assert!(ends_with(3).is_err());
    }
}
