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
