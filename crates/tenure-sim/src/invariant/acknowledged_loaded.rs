//! A server that takes over loads every change that a server before it acknowledges, and none that
//! was undone.
//!
//! A server that was frozen right after it took over loads the log late, and one that was frozen with
//! an append in flight acknowledges it late. So generations decide what comes before, and not times.

use std::collections::{BTreeMap, BTreeSet};

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

/// A revision and the change that has it.
type Numbered = (u64, u64);

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut generations = BTreeMap::new();
    let mut acknowledged: BTreeMap<u64, Numbered> = BTreeMap::new();
    let mut loads: BTreeMap<u64, Numbered> = BTreeMap::new();
    let mut undone = BTreeSet::new();
    for event in history {
        match event.kind {
            HistoryEventKind::Acknowledged { revision, change } => {
                let generation = *generations.entry(event.node).or_default();
                let last = acknowledged.entry(generation).or_default();
                *last = (*last).max((revision, change));
                for (&generation, &loaded) in loads.range(generation + 1..) {
                    has(generation, loaded, (revision, change)).map_err(|what| (event.at, what))?;
                }
            }
            HistoryEventKind::Undone(change) => {
                undone.insert(change);
            }
            HistoryEventKind::Loaded {
                generation,
                revision,
                change,
            } => {
                generations.insert(event.node, generation);
                loads.insert(generation, (revision, change));
                let before = acknowledged.range(..generation).map(|(_, last)| *last);
                let last = before.max().unwrap_or_default();
                has(generation, (revision, change), last).map_err(|what| (event.at, what))?;
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

/// Checks that what a generation has loaded contains this acknowledged change.
fn has(generation: u64, loaded: Numbered, acknowledged: Numbered) -> Result<(), String> {
    if loaded.0 > acknowledged.0 || loaded == acknowledged {
        return Ok(());
    }
    Err(format!(
        "generation {generation} loads revision {}, change {:x}; revision {}, change {:x}, was \
         acknowledged",
        loaded.0, loaded.1, acknowledged.0, acknowledged.1
    ))
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, history};
    use super::*;

    const fn acknowledged(revision: u64, change: u64) -> HistoryEventKind {
        HistoryEventKind::Acknowledged { revision, change }
    }

    const fn loaded(generation: u64, revision: u64, change: u64) -> HistoryEventKind {
        HistoryEventKind::Loaded {
            generation,
            revision,
            change,
        }
    }

    fn loads(revision: u64, change: u64) -> Result<(), (Time, String)> {
        let undone = HistoryEventKind::Undone(80);
        let events = [
            (1, 101, loaded(1, 0, 0)),
            (1, 101, acknowledged(7, 70)),
            (1, 101, undone),
            (2, 102, loaded(2, revision, change)),
        ];
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
    fn generations_decide_what_comes_before_a_load() {
        let begin = [(1, 101, loaded(1, 0, 0)), (2, 102, loaded(3, 6, 60))];
        let then = |event| {
            let events = begin.clone().into_iter().chain([event]);
            check(&history(events), &PROMISES)
        };
        assert_eq!(then((3, 101, acknowledged(6, 60))), Ok(()), "told late");
        assert!(then((3, 101, acknowledged(7, 70))).is_err());
        let later = begin
            .clone()
            .into_iter()
            .chain([(3, 102, acknowledged(7, 70)), (4, 103, loaded(2, 6, 60))]);
        assert_eq!(check(&history(later), &PROMISES), Ok(()), "a late load");
    }

    #[test]
    fn a_load_of_a_change_that_was_undone_is_found() {
        assert!(loads(8, 80).is_err());
    }
}
