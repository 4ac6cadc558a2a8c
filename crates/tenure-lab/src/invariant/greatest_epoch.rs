//! After the faults the leader has the greatest epoch, so that receivers take its writes.

use super::Promises;
use crate::sim::{EventKind, HistoryEvent, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    if !history
        .iter()
        .any(|event| event.kind == EventKind::FaultsOver)
    {
        return Ok(());
    }
    let tasks = history.iter().filter_map(|event| match event.kind {
        EventKind::TaskStarted(Some(epoch)) => Some((event.at, event.node, epoch)),
        _ => None,
    });
    let Some((at, node, last)) = tasks.clone().last() else {
        return Ok(());
    };
    match tasks.map(|(.., epoch)| epoch).max() {
        Some(greatest) if greatest > last => {
            let what = format!("{node} leads at the end by epoch {last} after epoch {greatest}");
            Err((at, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, epoch, history};
    use super::*;

    #[test]
    fn a_last_leader_with_a_smaller_epoch_is_found() {
        let terms = |numbers: &[u64]| {
            let tasks = numbers.iter();
            let tasks = tasks.map(|&it| (1, 1, EventKind::TaskStarted(Some(epoch(it)))));
            check(
                &history(tasks.chain([(9, 0, EventKind::FaultsOver)])),
                &PROMISES,
            )
        };
        assert_eq!(terms(&[3, 9, 4, 12]), Ok(()));
        assert!(terms(&[3, 9, 4]).is_err());
    }
}
