//! A task starts in a term that is valid at that moment.

use std::collections::BTreeMap;

use tenure_core::NodeId;

use super::{Claims, Promises};
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    // The tasks whose process has not claimed leadership yet. It must do so at the same instant.
    let mut started: BTreeMap<NodeId, Time> = BTreeMap::new();
    let mut claims = Claims::default();
    for event in history {
        if let Some((node, at)) = started.iter().find(|(_, at)| **at < event.at) {
            return Err((
                *at,
                format!("the task of {node} begins without a valid term"),
            ));
        }
        let valid_until = claims.0.get(&event.node);
        match event.kind {
            HistoryEventKind::TaskStarted(_)
                if valid_until.is_none_or(|until| *until <= event.at) =>
            {
                started.insert(event.node, event.at);
            }
            HistoryEventKind::Claims(_, until) if event.at < until => {
                started.remove(&event.node);
            }
            HistoryEventKind::Stopped => {
                started.remove(&event.node);
            }
            _ => {}
        }
        claims.update(event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, claims, epoch, history};
    use super::*;

    #[test]
    fn a_task_that_starts_without_a_claim_is_found() {
        let starts = (1, 1, HistoryEventKind::TaskStarted(Some(epoch(1))));
        let ends = (9, 0, HistoryEventKind::RunEnded);
        let in_term = history([starts.clone(), (1, 1, claims(1, 10)), ends.clone()]);
        assert_eq!(check(&in_term, &PROMISES), Ok(()));
        let late = history([starts.clone(), (2, 1, claims(1, 10)), ends.clone()]);
        assert!(check(&late, &PROMISES).is_err());
        let over = history([starts, (1, 1, claims(1, 1)), ends]);
        assert!(check(&over, &PROMISES).is_err());
    }
}
