//! At any instant, all members that see a leader see the same one. This is the safety condition of
//! the papers: an election ends only when no member follows another leader.

use std::collections::BTreeMap;

use tenure_core::NodeId;

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut seen: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for event in history {
        match event.kind {
            HistoryEventKind::SeesLeader(Some(leader)) => {
                if let Some((other, before)) = seen
                    .iter()
                    .find(|&(&other, &before)| other != event.node && before != leader)
                {
                    let what = format!(
                        "{} sees leader {leader}, and {other} sees {before}",
                        event.node
                    );
                    return Err((event.at, what));
                }
                seen.insert(event.node, leader);
            }
            HistoryEventKind::SeesLeader(None) | HistoryEventKind::Stopped => {
                seen.remove(&event.node);
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
    fn a_follower_of_an_earlier_leader_is_found() {
        let sees = |leader| HistoryEventKind::SeesLeader(Some(NodeId(leader)));
        let apart = history([(1, 1, sees(1)), (2, 3, sees(1)), (9, 2, sees(2))]);
        assert!(check(&apart, &PROMISES).is_err());
        let stopped = [
            (1, 1, sees(1)),
            (2, 1, HistoryEventKind::Stopped),
            (9, 2, sees(2)),
        ];
        assert_eq!(check(&history(stopped), &PROMISES), Ok(()));
        let moved = [
            (1, 3, sees(1)),
            (2, 3, HistoryEventKind::SeesLeader(None)),
            (9, 3, sees(2)),
        ];
        assert_eq!(check(&history(moved), &PROMISES), Ok(()));
    }
}
