//! A lease id holds the lease for one term only: a late copy of its request gets no grant.

use std::collections::BTreeMap;

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    let mut terms = BTreeMap::new();
    for event in history {
        if let HistoryEventKind::Granted { epoch, to, id, .. } = event.kind
            && let Some(before) = terms.insert(id, epoch)
        {
            let what = format!("the lease id of epoch {before} is granted {epoch}, for {to}");
            return Err((event.at, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, at, epoch, history};
    use super::*;
    use tenure_core::NodeId;

    #[test]
    fn a_lease_id_that_is_granted_again_is_found() {
        let granted = |number, id| HistoryEventKind::Granted {
            epoch: epoch(number),
            to: NodeId(1),
            id,
            at: at(number),
        };
        let again = history([(1, 0, granted(1, 7)), (9, 0, granted(2, 7))]);
        assert!(check(&again, &PROMISES).is_err());
        let fresh = history([(1, 0, granted(1, 7)), (9, 0, granted(2, 8))]);
        assert_eq!(check(&fresh, &PROMISES), Ok(()));
    }
}
