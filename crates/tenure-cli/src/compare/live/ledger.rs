//! How much went over the network until when.

use std::time::Duration;

use tenure_lab::sim::TrafficSum;

use crate::processes::Carried;

/// Looks at the counters, each at some moment. They are looked at when somebody begins or ceases to
/// lead, and before anything is done: so there is a look near every end of an election.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<(Duration, Carried)>);

impl Ledger {
    pub(super) fn enter(&mut self, at: Duration, carried: Carried) {
        self.0.push((at, carried));
    }

    /// What was carried between the looks that are nearest to these moments.
    pub(super) fn between(&self, from: Duration, until: Duration) -> TrafficSum {
        let near = |moment: Duration| {
            let looks = self.0.iter();
            let nearest = looks.min_by_key(|(at, _)| at.abs_diff(moment));
            nearest.map_or_else(Carried::default, |(_, carried)| *carried)
        };
        let Carried { messages, bytes } = near(until) - near(from);
        TrafficSum {
            election: messages,
            election_bytes: bytes,
            messages,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_looks_count() {
        let mut ledger = Ledger::default();
        for at in [0, 10, 20] {
            let carried = Carried {
                messages: at,
                bytes: at * 100,
            };
            ledger.enter(Duration::from_secs(at), carried);
        }
        let secs = Duration::from_secs_f64;
        let sent = ledger.between(secs(9.8), secs(19.0));
        assert_eq!((sent.messages, sent.election_bytes), (10, 1_000));
        assert_eq!(ledger.between(secs(0.0), secs(1.0)), TrafficSum::default());
    }
}
