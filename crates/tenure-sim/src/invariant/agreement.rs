//! Some time after the faults, all running members see the same leader, and it leads.

use std::collections::BTreeMap;

use tenure_core::NodeId;

use super::{Claims, Promises};
use crate::contestant::SERVERS;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    if !history
        .iter()
        .any(|event| event.kind == HistoryEventKind::FaultsOver)
    {
        return Ok(());
    }
    let mut opinions: BTreeMap<NodeId, Option<NodeId>> = BTreeMap::new();
    let mut claims = Claims::default();
    let mut end = Time::default();
    for event in history {
        end = event.at;
        claims.update(event);
        match event.kind {
            HistoryEventKind::Started
                if event.node != NodeId(0) && !SERVERS.contains(&event.node) =>
            {
                opinions.insert(event.node, None);
            }
            HistoryEventKind::SeesLeader(leader) => {
                opinions.insert(event.node, leader);
            }
            HistoryEventKind::Stopped => {
                opinions.remove(&event.node);
            }
            _ => {}
        }
    }
    let leaders: Vec<NodeId> = claims
        .0
        .iter()
        .filter(|(_, until)| end < **until)
        .map(|(node, _)| *node)
        .collect();
    match leaders[..] {
        [leader] if opinions.values().all(|sees| *sees == Some(leader)) => Ok(()),
        _ => {
            let see = opinions.iter().map(|(node, sees)| match sees {
                Some(sees) => format!("{node} sees {sees}"),
                None => format!("{node} sees no leader"),
            });
            let see: Vec<String> = see.collect();
            Err((end, format!("{leaders:?} lead, and {}", see.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, claims, history};
    use super::*;

    #[test]
    fn a_follower_of_another_one_and_a_second_leader_are_found() {
        let sees = |node, leader| {
            (
                102,
                node,
                HistoryEventKind::SeesLeader(Some(NodeId(leader))),
            )
        };
        let begin = [
            (1, 1, HistoryEventKind::Started),
            (1, 2, HistoryEventKind::Started),
            (100, 0, HistoryEventKind::FaultsOver),
            (101, 1, claims(1, 300)),
            sees(1, 1),
        ];
        let with = |more: &[(u64, u32, HistoryEventKind)]| {
            let end = (200, 0, HistoryEventKind::RunEnded);
            let all = begin.iter().chain(more).chain([&end]).cloned();
            check(&history(all), &PROMISES)
        };
        assert_eq!(with(&[sees(2, 1)]), Ok(()));
        assert!(with(&[sees(2, 2)]).is_err() && with(&[]).is_err());
        assert!(with(&[sees(2, 1), (103, 2, claims(2, 300))]).is_err());
    }
}
