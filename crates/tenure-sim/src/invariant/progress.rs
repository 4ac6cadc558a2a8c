//! Soon after the faults there is a leader, and it continues to lead.

use super::{Claims, Promises};
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], promises: &Promises) -> Result<(), (Time, String)> {
    if let Some(flood) = history
        .iter()
        .find(|event| event.kind == HistoryEventKind::MessageFlood)
    {
        return Err((flood.at, "messages that only cause more messages".into()));
    }
    let Some(calm) = history
        .iter()
        .find(|event| event.kind == HistoryEventKind::FaultsOver)
    else {
        return Ok(());
    };
    let settled = calm.at + promises.settles_within;
    let mut claims = Claims::default();
    for event in history {
        if event.at >= settled {
            // The current leader.
            let until = claims.0.values().max().copied().unwrap_or_default();
            if until < settled {
                let what = "no leader, long after the last fault".into();
                return Err((settled, what));
            }
            if until < event.at {
                return Err((until, "nobody leads any more, without a fault".into()));
            }
        }
        claims.update(event);
    }
    Ok(())
}

/// Checks that somebody leads whenever a quorum has been connected for the promised time, and
/// nothing has changed meanwhile.
pub(super) fn check_quorums(
    history: &[HistoryEvent],
    promises: &Promises,
) -> Result<(), (Time, String)> {
    let Some(within) = promises.leads_within else {
        return Ok(());
    };
    let mut claims = Claims::default();
    let mut due = None;
    for event in history {
        if let Some(due) = due.filter(|&due| event.at > due) {
            let until = claims.0.values().max().copied().unwrap_or_default();
            if until < event.at {
                let what = "nobody leads, although a quorum is connected and nothing changes";
                return Err((until.max(due), what.into()));
            }
        }
        match event.kind {
            // A fault may stop the leader. The state after it follows at the same time.
            HistoryEventKind::Fault(_) => due = None,
            HistoryEventKind::Connected(is_connected) => {
                due = is_connected.then(|| event.at + within);
            }
            _ => {}
        }
        claims.update(event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, claims, history};
    use super::*;

    #[test]
    fn a_flood_of_messages_is_found() {
        assert!(
            check(
                &history([(3, 0, HistoryEventKind::MessageFlood)]),
                &PROMISES
            )
            .is_err()
        );
    }

    #[test]
    fn a_connected_quorum_without_a_leader_is_found() {
        let connected = |at, is| (at, 0, HistoryEventKind::Connected(is));
        let end = (200, 0, HistoryEventKind::RunEnded);
        let find = |events: &[(u64, u32, HistoryEventKind)]| {
            check_quorums(&history(events.to_vec()), &PROMISES)
                .err()
                .map(|(at, _)| at)
        };
        let (on, off) = (connected(100, true), connected(150, false));
        let leads = |from, until| (from, 1, claims(1, until));
        assert_eq!(
            find(&[on.clone(), end.clone()]),
            Some(super::super::made_up::at(120))
        );
        assert!(find(&[on.clone(), leads(119, 130), off.clone(), end.clone()]).is_some());
        assert_eq!(find(&[on.clone(), leads(119, 151), off, end.clone()]), None);
        // Each change begins a new time.
        assert_eq!(
            find(&[on, connected(115, true), leads(134, 300), end]),
            None
        );
    }

    #[test]
    fn a_long_time_without_a_leader_after_the_last_fault_is_found() {
        let calm = (100, 0, HistoryEventKind::FaultsOver);
        let end = (200, 0, HistoryEventKind::RunEnded);
        let leads = |from, until| (from, 1, claims(1, until));
        let none = history([calm.clone(), end.clone()]);
        assert!(check(&none, &PROMISES).is_err());
        let late = history([calm.clone(), leads(140, 300), end.clone()]);
        assert!(check(&late, &PROMISES).is_err());
        let lost = history([calm.clone(), leads(110, 150), end.clone()]);
        assert!(check(&lost, &PROMISES).is_err());
        let well = history([calm, leads(120, 150), leads(149, 201), end]);
        assert_eq!(check(&well, &PROMISES), Ok(()));
    }
}
