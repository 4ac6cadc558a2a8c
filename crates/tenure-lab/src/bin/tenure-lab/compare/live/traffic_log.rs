//! The traffic of the network over time.

use std::time::Duration;

use tenure_sim::sim::Traffic;

/// Readings of the counters. The runner reads them when leadership begins or ends, and before each
/// fault, so there is a reading near the start and the end of every election.
#[derive(Debug, Default)]
pub(super) struct TrafficLog(Vec<(Duration, Traffic)>);

impl TrafficLog {
    pub(super) fn record(&mut self, at: Duration, total: Traffic) {
        self.0.push((at, total));
    }

    /// The traffic between the readings nearest to these times.
    pub(super) fn between(&self, from: Duration, until: Duration) -> Traffic {
        let near = |moment: Duration| {
            let readings = self.0.iter();
            let nearest = readings.min_by_key(|(at, _)| at.abs_diff(moment));
            nearest.map(|(_, total)| *total).unwrap_or_default()
        };
        near(until) - near(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_between_the_nearest_readings() {
        let mut log = TrafficLog::default();
        for at in [0, 10, 20] {
            let total = Traffic {
                messages: at,
                election_bytes: at * 100,
                ..Traffic::default()
            };
            log.record(Duration::from_secs(at), total);
        }
        let secs = Duration::from_secs_f64;
        let sent = log.between(secs(9.8), secs(19.0));
        assert_eq!((sent.messages, sent.election_bytes), (10, 1_000));
        assert_eq!(log.between(secs(0.0), secs(1.0)), Traffic::default());
    }
}
