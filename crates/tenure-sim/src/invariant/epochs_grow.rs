//! Every term has a greater epoch than all terms before it.

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut greatest = None;
    for event in history {
        if let HistoryEventKind::TaskStarted(Some(epoch)) = event.kind {
            if greatest.is_some_and(|greatest| epoch <= greatest) {
                let before = greatest.map_or(0, tenure_core::Epoch::get);
                let what = format!("{} leads by epoch {epoch} after epoch {before}", event.node);
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
    fn an_epoch_that_is_repeated_or_smaller_is_found() {
        let terms = |numbers: &[u64]| {
            let acts = numbers
                .iter()
                .map(|&it| (it, 1, HistoryEventKind::TaskStarted(Some(epoch(it)))));
            check(&history(acts), &PROMISES)
        };
        assert_eq!(terms(&[3, 4, 9]), Ok(()));
        assert!(terms(&[3, 3]).is_err() && terms(&[3, 9, 4]).is_err());
    }
}
