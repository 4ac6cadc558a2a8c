//! A server that takes over loads every change that was acknowledged before, and none that was
//! undone.

use std::collections::BTreeSet;

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut last = (0, 0);
    let mut undone = BTreeSet::new();
    for event in history {
        match event.kind {
            HistoryEventKind::Acknowledged { revision, change } => {
                last = last.max((revision, change));
            }
            HistoryEventKind::Undone(change) => {
                undone.insert(change);
            }
            HistoryEventKind::Loaded {
                generation,
                revision,
                change,
            } => {
                let is_older = revision < last.0;
                if is_older || revision == last.0 && change != last.1 {
                    let what = format!(
                        "generation {generation} loads revision {revision}, change {change:x}; \
                         revision {}, change {:x}, was acknowledged",
                        last.0, last.1
                    );
                    return Err((event.at, what));
                }
                if undone.contains(&change) {
                    let what = format!(
                        "generation {generation} loads change {change:x}, which was undone"
                    );
                    return Err((event.at, what));
                }
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

    fn loads(revision: u64, change: u64) -> Result<(), (Time, String)> {
        let acknowledged = HistoryEventKind::Acknowledged {
            revision: 7,
            change: 70,
        };
        let loaded = HistoryEventKind::Loaded {
            generation: 2,
            revision,
            change,
        };
        let undone = HistoryEventKind::Undone(80);
        let events = [(1, 101, acknowledged), (1, 101, undone), (2, 102, loaded)];
        check(&history(events), &PROMISES)
    }

    #[test]
    fn a_load_without_an_acknowledged_change_is_found() {
        assert_eq!(loads(7, 70), Ok(()));
        assert_eq!(loads(8, 81), Ok(()), "a change that nobody was told about");
        assert!(loads(6, 60).is_err());
        assert!(loads(7, 71).is_err(), "another change instead of it");
    }

    #[test]
    fn a_load_of_a_change_that_was_undone_is_found() {
        assert!(loads(8, 80).is_err());
    }
}
