//! While only other members crash and start, the leader continues to lead.

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let faults = history
        .iter()
        .skip_while(|event| !matches!(event.kind, HistoryEventKind::Fault(_)));
    for event in faults.take_while(|event| event.kind != HistoryEventKind::FaultsOver) {
        if matches!(
            event.kind,
            HistoryEventKind::Yields | HistoryEventKind::TermEnded(_)
        ) {
            let what = format!("{} no longer leads, and had no fault", event.node);
            return Err((event.at, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, history};
    use super::*;

    #[test]
    fn a_leader_that_yields_to_a_restarted_member_is_found() {
        let fault = |secs| (secs, 0, HistoryEventKind::Fault("2 is killed".into()));
        let bullied = history([fault(3), (5, 1, HistoryEventKind::Yields)]);
        assert!(check(&bullied, &PROMISES).is_err());
        let before = history([
            (1, 1, HistoryEventKind::Yields),
            fault(3),
            (9, 0, HistoryEventKind::FaultsOver),
        ]);
        assert_eq!(check(&before, &PROMISES), Ok(()));
    }
}
