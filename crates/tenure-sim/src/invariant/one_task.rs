//! At any instant at most one task runs. A task whose process was frozen during its term does not
//! count: receivers refuse its writes by their epochs.

use std::collections::BTreeMap;

use tenure_core::NodeId;

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    // The running tasks, and whether the process of each was frozen.
    let mut acting: BTreeMap<NodeId, bool> = BTreeMap::new();
    for event in history {
        match event.kind {
            HistoryEventKind::TaskStarted(_) => {
                let awake = acting.iter().find(|(_, stood_still)| !**stood_still);
                if let Some((other, _)) = awake {
                    let what = format!("the task of {} starts beside that of {other}", event.node);
                    return Err((event.at, what));
                }
                acting.insert(event.node, false);
            }
            HistoryEventKind::Paused(_) => {
                if let Some(stood_still) = acting.get_mut(&event.node) {
                    *stood_still = true;
                }
            }
            HistoryEventKind::TaskEnded(_) | HistoryEventKind::Stopped => {
                acting.remove(&event.node);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, at, epoch, history};
    use super::*;

    #[test]
    fn a_second_task_is_found_unless_the_process_of_the_first_was_frozen() {
        let acts = |number| HistoryEventKind::TaskStarted(Some(epoch(number)));
        let rests = |number| HistoryEventKind::TaskEnded(Some(epoch(number)));
        let beside = history([(1, 1, acts(1)), (20, 2, acts(2)), (21, 1, rests(1))]);
        assert!(check(&beside, &PROMISES).is_err());
        let after = history([(1, 1, acts(1)), (20, 1, rests(1)), (20, 2, acts(2))]);
        assert_eq!(check(&after, &PROMISES), Ok(()));
        let frozen = [
            (1, 1, acts(1)),
            (2, 1, HistoryEventKind::Paused(at(30))),
            (20, 2, acts(2)),
        ];
        assert_eq!(check(&history(frozen), &PROMISES), Ok(()));
    }
}
